"""Build the network of a training configuration, with seeded weights and thread settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.studies.training import architectures
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.timm import TimmNetwork
from oodometer.studies.training.config import TrainingConfig

# Values of the key `part` with which the body of a network is not trained.
FROZEN_BODY_PARTS = ("head", "none")


@contextmanager
def seeded_torch(seed: int) -> Iterator[Any]:
    """Run the enclosed code with one torch thread and a seeded random state, then restore both.

    With several threads, the last bits of sums differ between runs. To use several cores, train
    several models at the same time.
    """
    torch = torch_package()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            # torch.manual_seed is not used, because it also records the call stack for devices that
            # are not in use.
            torch.default_generator.manual_seed(seed % 2**63)
            if torch.cuda.is_available():
                torch.cuda.manual_seed_all(seed % 2**63)
            yield torch
    finally:
        torch.set_num_threads(threads)


def get_architecture(config: TrainingConfig, kind: InputKind) -> Any:
    """Return the architecture of a configuration; raise if it does not accept the inputs."""
    architecture: Any = architectures.get(config.architecture, config.settings)
    if kind not in architecture.kinds:
        raise InputError(
            f"The architecture {architecture.name!r} accepts {' or '.join(architecture.kinds)}, and "
            f"the group {config.group!r} holds {kind}. Choose another architecture or domain group."
        )
    return architecture


def build_network(config: TrainingConfig, shape: InputShape, *, load: bool = True) -> Any:
    """Return a new network, initialized from torch's random state.

    If only the head is to be trained, all other weights are frozen. If `load` is false, the caller
    sets all weights, and an architecture that can do without its pretrained weights does not read
    them.
    """
    architecture = get_architecture(config, shape.kind)
    if load or not isinstance(architecture, TimmNetwork):
        module = architecture.build(shape)
    else:
        module = architecture.build(shape, load=False)
    if config.part in FROZEN_BODY_PARTS:
        _check_coral(config, module)
        trainable = architectures.head_parameters(module)
        for name, weight in module.named_parameters():
            weight.requires_grad_(name in trainable)
    return module


def _check_coral(config: TrainingConfig, module: Any) -> None:
    """Raise if CORAL would have no effect, because the features are not trained."""
    if not config.coral:
        return
    if architectures.head_name(module) == architectures.last_linear_name(module):
        raise InputError(
            f'coral = {config.coral:g} has no effect with part = "head", because the inputs of the '
            'only trained layer are fixed. Set part = "whole" or coral = 0.'
        )


def frozen_body_fingerprint(config: TrainingConfig, kind: InputKind) -> str | None:
    """Return the fingerprint of the pretrained body if at most the head is trained, else None.

    The weights of such a body are not saved with the model. The result is also None if the
    architecture has no pretrained body.
    """
    architecture = get_architecture(config, kind)
    if config.part not in FROZEN_BODY_PARTS or not hasattr(architecture, "fingerprint"):
        return None
    fingerprint: str | None = architecture.fingerprint()
    return fingerprint
