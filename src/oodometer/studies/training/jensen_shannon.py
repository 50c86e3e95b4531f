"""Jensen–Shannon consistency loss of AugMix (Hendrycks et al., ICLR 2020, section 3)."""

from __future__ import annotations

import math
from typing import Any

# The image itself and two augmented copies.
N_VIEWS = 3


def jensen_shannon_loss(logits: Any) -> Any:
    """Return the mean Jensen–Shannon divergence between the predictions for several views.

    For views with the probabilities p₁, …, p_v and their mean M, the divergence of one row is
    (KL(p₁ ‖ M) + … + KL(p_v ‖ M)) / v, in nats. `logits` has the shape (views, rows, classes).

    >>> import torch
    >>> round(jensen_shannon_loss(torch.tensor([[[60.0, 0.0]], [[0.0, 60.0]]])).item(), 4)  # log 2
    0.6931
    """
    log_probs = logits.log_softmax(dim=2)
    log_mean = log_probs.logsumexp(dim=0) - math.log(len(logits))
    divergences = (log_probs.exp() * (log_probs - log_mean)).sum(dim=2)
    return divergences.mean()
