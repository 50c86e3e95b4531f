"""Decisions of an ImageNet model are less invariant on sketches than on photos."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks._digit_classifiers import one_thread
from benchmarks.quality_invariance_pacs import SHARED, Merged, is_installed, lite0, measured
from tests.support.research_data import require_data


def test_shared_classes_are_disjoint_sets_of_imagenet_classes() -> None:
    members = [number for group in SHARED.values() for number in group]
    assert len(members) == len(set(members))
    assert max(members) < 1000


def test_uniform_logits_give_uniform_merged_logits() -> None:
    logits = Merged(torch.nn.Identity())(torch.zeros(1, 1000))
    assert logits.tolist() == [pytest.approx([0.0] * len(SHARED), abs=1e-6)]


def test_merged_class_is_the_mean_of_its_members() -> None:
    given = torch.zeros(1, 1000)
    given[0, 402] = math.log(3.0)
    merged = Merged(torch.nn.Identity())(given)[0]
    assert merged[list(SHARED).index("guitar")].item() == pytest.approx(math.log(2.0))


@pytest.mark.realdata
def test_invariance_decreases_with_accuracy_from_photos_to_sketches() -> None:
    path = require_data("pacs/pacs32.npz")
    if not is_installed():
        pytest.skip("the packages of EfficientNet-Lite0 are not installed")
    with one_thread():
        found = measured(lite0(), path, ("photo", "sketch"), a_class=12, draws=5)
    assert found["photo"].accuracy > found["sketch"].accuracy + 0.2
    assert found["photo"].ni.value > found["sketch"].ni.value
