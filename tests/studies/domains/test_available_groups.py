"""Built-in groups on the mirrored research data: counts, classes and shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oodometer.studies.domains.group import get
from tests.support.research_data import require_data

# Group, file, domain, training rows, test rows.
FOUND = [
    ("ci10", "cifar/cifar10_jpeg.npz", "cifar-10-jpeg", 20_000, 10_000),
    ("ci10", "cifar/tinyimagenet_as_cifar10.npz", "tiny-imagenet", 4797, 503),
    ("numbers", "digits/mnist.npz", "mnist", 60_000, 10_000),
    ("numbers", "digits/mnist.npz", "colored-mnist", 60_000, 10_000),
    ("numbers", "digits/usps.npz", "usps", 7291, 2007),
    ("sentiment", "text/fdu_mtl_16domain_sentiment.parquet", "books", 1600, 400),
    ("sentiment", "text/fdu_mtl_16domain_sentiment.parquet", "software", 1515, 400),
]
# Groups with a held-out fraction of the rows.
SHARED = [
    ("numbers", "digits/street_digits.npz", "street", 446),
    ("pacs", "pacs/pacs32.npz", "photo", 1670),
    ("pacs", "pacs/pacs32.npz", "art_painting", 2048),
    ("pacs-112", "pacs/pacs112_jpeg.npz", "sketch", 3929),
    ("pacs-112", "pacs/pacs112_jpeg.npz", "art_painting", 2048),
    ("nli", "text/nli_multi.parquet", "slate", 750),
    ("nli", "text/nli_multi.parquet", "matched", 9815),
    ("adult-race", "tables/adult.parquet", "Black", 3124),
    ("adult-country", "tables/adult.parquet", "europe", 521),
    ("acs-year", "tables/acs_employment_MA_2015_2018.parquet", "2018", 70_131),
    ("acs-race", "tables/acs_employment_MA_2015_2018.parquet", "black", 16_793),
]
# Groups in which a larger share than the default is held out.
LARGER_SHARES = {"pacs-112": 0.4}


def root_of(file: str) -> Path:
    return require_data(file).parent.parent


@pytest.mark.realdata
@pytest.mark.parametrize(("group", "file", "domain", "train", "test"), FOUND)
def test_groups_with_published_test_files(
    group: str, file: str, domain: str, train: int, test: int
) -> None:
    found = get(group, root=root_of(file))
    assert [len(found.domain(domain, split)) for split in ("train", "test")] == [train, test]


@pytest.mark.realdata
@pytest.mark.parametrize(("group", "file", "domain", "n"), SHARED)
def test_groups_with_a_held_out_share(group: str, file: str, domain: str, n: int) -> None:
    found = get(group, root=root_of(file))
    train, test = (found.domain(domain, split) for split in ("train", "test"))
    assert len(train) + len(test) == n
    share = LARGER_SHARES.get(group, 0.2)
    assert len(test) / n == pytest.approx(share, abs=0.06)
    assert train.labels is not None
    assert np.unique(train.labels).tolist() == list(range(len(found.classes)))


@pytest.mark.realdata
def test_images_of_a_group_have_one_shape() -> None:
    for name, file in (("numbers", "digits/mnist.npz"), ("ci10", "cifar/cifar10_jpeg.npz")):
        group = get(name, root=root_of(file))
        shapes = {
            group.domain(one, "test").take(slice(0, 2)).shape for one in group.available_domains
        }
        assert shapes == {(2, 32, 32, 3)}


@pytest.mark.realdata
def test_parts_of_derived_groups_cover_all_digits() -> None:
    root = root_of("digits/mnist.npz")
    for name in ("rotated-mnist", "colored-mnist"):
        group = get(name, root=root)
        assert sum(len(group.domain(one, "train")) for one in group.domains) == 60_000
