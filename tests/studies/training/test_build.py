"""Seeded torch state and network construction."""

from __future__ import annotations

import pytest
import torch

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.build import build_network, seeded_torch
from tests.support.training_problems import recipe

SHAPE = InputShape("vectors", 2, (4,))


def test_threads_and_random_state_are_restored() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()

    def failed() -> None:
        with seeded_torch(3):
            assert torch.get_num_threads() == 1
            torch.rand(5)
            raise KeyError

    with pytest.raises(KeyError):
        failed()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("seed", [0, 7, -1, 2**80])
def test_draws_depend_on_the_seed(seed: int) -> None:
    with seeded_torch(seed):
        found = torch.rand(3)
    torch.rand(1)
    with seeded_torch(seed):
        assert torch.equal(torch.rand(3), found)
    with seeded_torch(seed + 1):
        assert not torch.equal(torch.rand(3), found)


def test_seed_draws_as_torch_does() -> None:
    with seeded_torch(11):
        found = torch.rand(3)
    with torch.random.fork_rng():
        torch.manual_seed(11)
        assert torch.equal(torch.rand(3), found)


def test_only_the_head_is_trainable() -> None:
    module = build_network(recipe(part="head"), SHAPE)
    learns = [name for name, weight in module.named_parameters() if weight.requires_grad]
    assert learns == ["4.weight", "4.bias"]
    assert all(weight.requires_grad for weight in build_network(recipe(), SHAPE).parameters())


def test_unsuitable_architectures_are_rejected() -> None:
    with pytest.raises(
        InputError, match="'small-cnn' accepts images, and the group 'toy' holds vectors"
    ):
        build_network(recipe("small-cnn"), SHAPE)
    with pytest.raises(UnknownName, match="Did you mean 'mlp'"):
        build_network(recipe("mlpp"), SHAPE)
    with pytest.raises(UnknownName, match="Did you mean 'width'"):
        build_network(recipe(settings={"widht": 3}), SHAPE)
