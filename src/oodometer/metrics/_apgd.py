"""APGD: adversarial attack in the ℓ₂ ball with an adaptive step size (Croce & Hein, ICML 2020).

The cross-entropy of a row with logits z and label y is log(1 + exp u), where
u = log Σ_{j≠y} exp z_j − z_y. It increases with u, so the cross-entropy and u have gradients of the
same direction. The attack maximizes u, because the cross-entropy of confident predictions is
constant up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from oodometer.core.errors import NotApplicable
from oodometer.core.optional_imports import require

# Weight of the gradient step in the move to a new point. The remaining weight is for the momentum.
STEP_SHARE = 0.75
# The step size is halved if the share of steps that increased the loss is smaller than this.
MIN_RISING_SHARE = 0.75
# At checkpoints, the step size may be halved. Their positions are given as shares of all steps: the
# first checkpoint, the decrease of the gap between checkpoints from one gap to the next, and the
# smallest gap.
FIRST_CHECKPOINT_SHARE = 0.22
CHECKPOINT_GAP_DECREMENT = 0.03
MIN_CHECKPOINT_GAP = 0.06

LogitFunction = Callable[[Any], Any]
Box = tuple[float, float]


class _AttackState(NamedTuple):
    """State of the attack on the rows that are still classified correctly.

    Every field is a tensor with one entry per row:

    - `index` is the number of the input, `start` is the input itself, and `label` is its label.
    - `point` and `previous` are the current and the previous point. `loss` and `gradient` are the
      loss and its gradient at the current point.
    - `best` is the point with the largest loss so far. `best_loss` and `best_gradient` are the loss
      and its gradient there.
    - `step` is the step size. `n_increases` is the number of steps since the last checkpoint that
      increased the loss.
    - `halved` is whether the step size was halved at the last checkpoint. `checkpoint_loss` is the
      largest loss up to that checkpoint.
    """

    index: Any
    start: Any
    label: Any
    previous: Any
    point: Any
    loss: Any
    gradient: Any
    best: Any
    best_loss: Any
    best_gradient: Any
    step: Any
    n_increases: Any
    halved: Any
    checkpoint_loss: Any

    def select(self, rows: Any) -> _AttackState:
        return _AttackState(*(tensor[rows] for tensor in self))


def apgd(
    logits_of: LogitFunction,
    inputs: Any,
    labels: Any,
    *,
    radius: float,
    steps: int,
    box: Box | None = None,
) -> Any:
    """Search for points within `radius` of the inputs that the model misclassifies.

    One point per row is returned. It is the input itself if it is already misclassified, else the
    first misclassified point that the attack finds. If the attack finds none, it is the point with
    the largest loss. `logits_of` maps a tensor of inputs to differentiable logits (n, k). The
    values of all points stay within `box`, which must contain the inputs. The attack is
    deterministic.

    >>> import torch
    >>> inputs, labels = torch.tensor([[0.25], [2.0]]), torch.tensor([0, 0])
    >>> apgd(lambda x: torch.cat([x, -x], dim=1), inputs, labels, radius=0.5, steps=3)
    tensor([[-0.2500],
            [ 1.5000]])
    """
    results = inputs.detach().clone()
    state, misclassified = _initial_state(logits_of, results, labels, radius)
    state = state.select(~misclassified)
    checkpoint_steps = checkpoints(steps)
    last_checkpoint = 0
    for number in range(1, steps + 1):
        if not len(state.index):
            break
        point = _next_point(state, radius, box, 1.0 if number == 1 else STEP_SHARE)
        loss, gradient, misclassified = _loss_and_gradient(logits_of, point, state.label)
        results[state.index[misclassified]] = point[misclassified]
        state = _advance(state, point, loss, gradient).select(~misclassified)
        if number in checkpoint_steps:
            state = _adjust_step_size(state, number - last_checkpoint)
            last_checkpoint = number
    results[state.index] = state.best
    return results


def checkpoints(steps: int) -> tuple[int, ...]:
    """Return the step numbers after which the step size is adjusted.

    >>> checkpoints(100)
    (22, 41, 57, 70, 80, 87, 93, 99)
    """
    share = FIRST_CHECKPOINT_SHARE
    gap = FIRST_CHECKPOINT_SHARE
    numbers = []
    while share <= 1.0:
        # The product is rounded first, because the binary value of a share such as 0.57 may be
        # slightly too large.
        numbers.append(math.ceil(round(share * steps, 9)))
        gap = max(gap - CHECKPOINT_GAP_DECREMENT, MIN_CHECKPOINT_GAP)
        share += gap
    return tuple(dict.fromkeys(numbers))


def project_onto_ball(points: Any, start: Any, radius: float, box: Box | None) -> Any:
    """Project points into the box, and then into the ball of `radius` around `start`."""
    inside = points if box is None else points.clamp(*box)
    difference = inside - start
    projected = start + difference * (radius / _row_norms(difference).clamp(min=radius))
    return projected if box is None else projected.clamp(*box)


def _row_norms(tensor: Any) -> Any:
    """Return the Euclidean norm of each row, in a shape that broadcasts with the tensor."""
    return tensor.flatten(1).norm(dim=1).view(-1, *(1 for _ in tensor.shape[1:]))


def _loss_and_gradient(logits_of: LogitFunction, points: Any, labels: Any) -> tuple[Any, Any, Any]:
    """Return the loss u, its gradient, and which rows are misclassified."""
    torch = require("torch", extra="torch", purpose="Attacking a model")
    gradient = None
    label_columns = labels[:, None]
    with torch.enable_grad():
        inputs = points.detach().requires_grad_()
        logits = logits_of(inputs)
        others = logits.scatter(1, label_columns, -math.inf).logsumexp(dim=1)
        loss = others - logits.gather(1, label_columns)[:, 0]
        if loss.requires_grad:
            # Only the gradient with respect to the inputs is computed, so that no gradients
            # accumulate in the weights.
            (gradient,) = torch.autograd.grad(loss.sum(), inputs, allow_unused=True)
    if gradient is None:
        raise NotApplicable("the outputs of the model have no gradient with respect to its inputs")
    return loss.detach(), gradient, logits.detach().argmax(dim=1) != labels


def _initial_state(
    logits_of: LogitFunction, start: Any, labels: Any, radius: float
) -> tuple[_AttackState, Any]:
    """Return the state of all rows before the first step, and which rows are misclassified."""
    torch = require("torch", extra="torch", purpose="Attacking a model")
    loss, gradient, misclassified = _loss_and_gradient(logits_of, start, labels)
    start = start.clone()
    state = _AttackState(
        index=torch.arange(len(start), device=start.device),
        start=start,
        label=labels,
        previous=start,
        point=start,
        loss=loss,
        gradient=gradient,
        best=start,
        best_loss=loss,
        best_gradient=gradient,
        step=torch.full_like(_row_norms(start), 2 * radius),
        n_increases=torch.zeros_like(labels),
        halved=torch.zeros_like(misclassified),
        checkpoint_loss=loss,
    )
    return state, misclassified


def _next_point(state: _AttackState, radius: float, box: Box | None, share: float) -> Any:
    """Return the next point of each row, after a normalized gradient step with momentum."""
    # A gradient of zero is divided by 1, not by its norm, and stays zero.
    norms = _row_norms(state.gradient)
    direction = state.gradient / norms.where(norms > 0, 1)
    stepped = project_onto_ball(state.point + state.step * direction, state.start, radius, box)
    momentum = state.point - state.previous
    move = share * (stepped - state.point) + (1 - share) * momentum
    return project_onto_ball(state.point + move, state.start, radius, box)


def _advance(state: _AttackState, point: Any, loss: Any, gradient: Any) -> _AttackState:
    """Return the state after a move to new points with the given loss and gradient."""
    is_better = loss > state.best_loss
    is_better_row = is_better.view(_row_norms(point).shape)
    return state._replace(
        previous=state.point,
        point=point,
        loss=loss,
        gradient=gradient,
        best=point.where(is_better_row, state.best),
        best_loss=loss.where(is_better, state.best_loss),
        best_gradient=gradient.where(is_better_row, state.best_gradient),
        n_increases=state.n_increases + (loss > state.loss),
    )


def _adjust_step_size(state: _AttackState, steps: int) -> _AttackState:
    """Halve the step size of some rows, and move these rows back to their best point.

    This is done for rows on which too few of the last `steps` steps increased the loss. It is also
    done for rows whose best loss has not increased since the last checkpoint, if their step size
    was not halved there.
    """
    is_stuck = ~state.halved & (state.best_loss == state.checkpoint_loss)
    halved = (state.n_increases < MIN_RISING_SHARE * steps) | is_stuck
    halved_row = halved.view(state.step.shape)
    return state._replace(
        point=state.best.where(halved_row, state.point),
        loss=state.best_loss.where(halved, state.loss),
        gradient=state.best_gradient.where(halved_row, state.gradient),
        step=(state.step / 2).where(halved_row, state.step),
        n_increases=state.n_increases * 0,
        halved=halved,
        checkpoint_loss=state.best_loss,
    )
