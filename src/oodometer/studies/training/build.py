"""The network of a recipe, and the state of torch that it is built and trained in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.studies.training import architectures
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.config import TrainingConfig


@contextmanager
def seeded_torch(seed: int) -> Iterator[Any]:
    """Torch with one thread and with draws that hang on the seed alone; as before, afterwards.

    One thread, for sums by several differ in their last bits from one run to the next; many models
    at once use the cores better anyway.
    """
    torch = torch_package()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            # torch.manual_seed would note the stack of callers, every time, for devices not in use.
            torch.default_generator.manual_seed(seed % 2**63)
            if torch.cuda.is_available():
                torch.cuda.manual_seed_all(seed % 2**63)
            yield torch
    finally:
        torch.set_num_threads(threads)


def get_architecture(config: TrainingConfig, kind: InputKind) -> Any:
    """The architecture that a recipe names, which must take inputs of the kind."""
    found = architectures.get(config.architecture, config.settings)
    if kind not in found.kinds:
        raise InputError(
            f"The architecture {found.name!r} takes {' or '.join(found.kinds)}, and the group "
            f"{config.group!r} holds {kind}. Choose another architecture, or another domain group."
        )
    return found


def build_network(config: TrainingConfig, shape: InputShape) -> Any:
    """A fresh network, drawn from torch's random state; if the head alone learns, the rest frozen."""
    module = get_architecture(config, shape.kind).build(shape)
    if config.part == "head":
        learning = architectures.head_parameters(module)
        for name, weight in module.named_parameters():
            weight.requires_grad_(name in learning)
    return module


def frozen_body_fingerprint(config: TrainingConfig, kind: InputKind) -> str | None:
    """The fingerprint of a body that lies elsewhere and does not learn; None where there is none."""
    ask = getattr(get_architecture(config, kind), "fingerprint", None)
    return None if config.part != "head" or ask is None else str(ask())
