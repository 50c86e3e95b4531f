"""Construction of networks, and the torch state in which they are built and trained."""

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
    """Run torch with one thread and seeded draws; restore its state afterwards.

    With several threads, sums differ in their last bits between runs; several models at once use
    the cores better anyway.
    """
    torch = torch_package()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            # torch.manual_seed would record the call stack each time, for devices not in use.
            torch.default_generator.manual_seed(seed % 2**63)
            if torch.cuda.is_available():
                torch.cuda.manual_seed_all(seed % 2**63)
            yield torch
    finally:
        torch.set_num_threads(threads)


def get_architecture(config: TrainingConfig, kind: InputKind) -> Any:
    """Return the architecture of a configuration; raise if it does not accept the kind of input."""
    architecture: Any = architectures.get(config.architecture, config.settings)
    if kind not in architecture.kinds:
        raise InputError(
            f"The architecture {architecture.name!r} accepts {' or '.join(architecture.kinds)}, and "
            f"the group {config.group!r} holds {kind}. Choose another architecture or domain group."
        )
    return architecture


def build_network(config: TrainingConfig, shape: InputShape) -> Any:
    """Return a new network, initialized from torch's random state; frozen except its trained part."""
    module = get_architecture(config, shape.kind).build(shape)
    if config.part == "head":
        trainable = architectures.head_parameters(module)
        for name, weight in module.named_parameters():
            weight.requires_grad_(name in trainable)
    return module


def frozen_body_fingerprint(config: TrainingConfig, kind: InputKind) -> str | None:
    """Return the fingerprint of a frozen pretrained body that is stored elsewhere, if any."""
    fingerprint = getattr(get_architecture(config, kind), "fingerprint", None)
    return None if config.part != "head" or fingerprint is None else str(fingerprint())
