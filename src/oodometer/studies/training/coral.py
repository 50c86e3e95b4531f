"""Deep CORAL: align the features of the training domains (Sun & Saenko, ECCV workshops 2016).

The features are the inputs of the last linear layer. As in DomainBed (Gulrajani & Lopez-Paz, ICLR
2021), the loss compares the means of the features as well as their covariances.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oodometer.studies.training.architectures import last_linear_name


def coral_loss(features: Any) -> Any:
    """Return the distance of the feature means and covariances, averaged over pairs of domains.

    The distance of two domains with means m, m′ and covariances C, C′ of d features is
    ‖m − m′‖² / d + ‖C − C′‖² / d², where the norm of a matrix is the Frobenius norm. The covariance
    of n rows is a sum divided by n − 1.

    `features` has the shape (domains, rows, d), with at least two domains and two rows of each.

    >>> import torch
    >>> coral_loss(torch.tensor([[[0.0], [2.0]], [[3.0], [7.0]]]))  # (1 − 5)² + (2 − 8)²
    tensor(52.)
    """
    n_rows = features.shape[1]
    means = features.mean(dim=1)
    centered = features - means.unsqueeze(1)
    covariances = centered.transpose(1, 2) @ centered / (n_rows - 1)
    # The mean of (x − x′)² over all pairs of k numbers is twice their variance with divisor k − 1.
    return 2 * (means.var(dim=0).mean() + covariances.var(dim=0).mean())


@contextmanager
def record_features(module: Any) -> Iterator[list[Any]]:
    """Collect the features of each forward pass of a network inside the context."""
    features: list[Any] = []

    def record(_: Any, arguments: tuple[Any, ...]) -> None:
        features.append(arguments[0])

    hook = module.get_submodule(last_linear_name(module)).register_forward_pre_hook(record)
    try:
        yield features
    finally:
        hook.remove()
