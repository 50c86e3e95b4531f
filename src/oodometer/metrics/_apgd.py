"""APGD in the ℓ₂ ball, an attack that sets its own steps. Croce & Hein, ICML 2020.

Cross-entropy is log(1 + exp u) with u = log Σ_{j≠y} exp z_j − z_y: both rise together, and their
gradients have one direction. The attack climbs u, because cross-entropy is flat to rounding where
the model is sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from oodometer.core.errors import NotApplicable
from oodometer.core.optional_imports import require

# How much of a new point is its step; the rest is the way that it was going.
STEP_SHARE = 0.75
# Where a smaller share of the steps rises, they are too long.
MIN_RISING_SHARE = 0.75
# When the length of steps is looked at, in shares of all steps: at first, and how much sooner each
# time than the time before, and no sooner than.
FIRST_CHECKPOINT_SHARE, CHECKPOINT_GAP_DECREMENT, MIN_CHECKPOINT_GAP = 0.22, 0.03, 0.06

LogitFunction = Callable[[Any], Any]
Box = tuple[float, float]


class _AttackState(NamedTuple):
    """The rows that are still right; every part has a row each.

    place    which of the inputs it is; `start` and `label` are those of the input
    point    where it is, after `before`; `loss` and `slope` are those there
    best     the point with the largest loss so far
    step     how long its steps are; `rises` how many of them rose since the last look at that
    halved   whether that look halved it; `reached` the best loss then
    """

    place: Any
    start: Any
    label: Any
    before: Any
    point: Any
    loss: Any
    slope: Any
    best: Any
    best_loss: Any
    best_slope: Any
    step: Any
    rises: Any
    halved: Any
    reached: Any

    def select(self, index: Any) -> _AttackState:
        """Some of them."""
        return _AttackState(*(part[index] for part in self))


def apgd(
    logits_of: LogitFunction,
    inputs: Any,
    labels: Any,
    *,
    radius: float,
    steps: int,
    box: Box | None = None,
) -> Any:
    """Points at most `radius` from the inputs that the model errs on, where such are found.

    `logits_of` takes a tensor of inputs and gives logits (n, k), which can be differentiated. A row
    that is wrong from the start stays as it is; one that never goes wrong ends where its loss was
    largest. No value leaves the `box`, which inputs must be in. Nothing is random.

    >>> import torch
    >>> inputs, labels = torch.tensor([[0.25], [2.0]]), torch.tensor([0, 0])
    >>> apgd(lambda x: torch.cat([x, -x], dim=1), inputs, labels, radius=0.5, steps=3)
    tensor([[-0.2500],
            [ 1.5000]])
    """
    found = inputs.detach().clone()
    rows, wrong = _initial_state(logits_of, found, labels, radius)
    rows, looks, last = rows.select(~wrong), checkpoints(steps), 0
    for number in range(1, steps + 1):
        if not len(rows.place):
            break
        point = _next_point(rows, radius, box, 1.0 if number == 1 else STEP_SHARE)
        loss, slope, wrong = _loss_and_gradient(logits_of, point, rows.label)
        found[rows.place[wrong]] = point[wrong]
        rows = _advance(rows, point, loss, slope).select(~wrong)
        if number in looks:
            rows, last = _adjust_step_size(rows, number - last), number
    found[rows.place] = rows.best
    return found


def checkpoints(steps: int) -> tuple[int, ...]:
    """After which steps their length is looked at.

    >>> checkpoints(100)
    (22, 41, 57, 70, 80, 87, 93, 99)
    """
    before, share, looks = 0.0, FIRST_CHECKPOINT_SHARE, []
    while share <= 1.0:
        # A share such as 0.57 is no binary fraction, and may come out a hair above.
        looks.append(math.ceil(round(share * steps, 9)))
        before, share = (
            share,
            share + max(share - before - CHECKPOINT_GAP_DECREMENT, MIN_CHECKPOINT_GAP),
        )
    return tuple(dict.fromkeys(looks))


def project_onto_ball(points: Any, start: Any, radius: float, box: Box | None) -> Any:
    """The points drawn in to the box and towards the start, until none is farther than `radius`."""
    inside = points if box is None else points.clamp(*box)
    way = inside - start
    drawn = start + way * (radius / _row_norms(way).clamp(min=radius))
    return drawn if box is None else drawn.clamp(*box)


def _row_norms(tensor: Any) -> Any:
    """The Euclidean norm of every row, of as many dimensions."""
    return tensor.flatten(1).norm(dim=1).view(-1, *(1 for _ in tensor.shape[1:]))


def _loss_and_gradient(logits_of: LogitFunction, points: Any, labels: Any) -> tuple[Any, Any, Any]:
    """The loss u, its gradient, and which rows are wrong."""
    torch = require("torch", extra="torch", purpose="Attacking a model")
    slope, own = None, labels[:, None]
    with torch.enable_grad():
        inputs = points.detach().requires_grad_()
        logits = logits_of(inputs)
        others = logits.scatter(1, own, -math.inf).logsumexp(dim=1)
        loss = others - logits.gather(1, own)[:, 0]
        if loss.requires_grad:
            # By the inputs alone: nothing is left at the weights.
            (slope,) = torch.autograd.grad(loss.sum(), inputs, allow_unused=True)
    if slope is None:
        raise NotApplicable("what the model says can't be differentiated by its inputs")
    return loss.detach(), slope, logits.detach().argmax(dim=1) != labels


def _initial_state(
    logits_of: LogitFunction, start: Any, labels: Any, radius: float
) -> tuple[_AttackState, Any]:
    """All rows where they start, and which are wrong there."""
    torch = require("torch", extra="torch", purpose="Attacking a model")
    loss, slope, wrong = _loss_and_gradient(logits_of, start, labels)
    start = start.clone()
    rows = _AttackState(
        place=torch.arange(len(start), device=start.device),
        start=start,
        label=labels,
        before=start,
        point=start,
        loss=loss,
        slope=slope,
        best=start,
        best_loss=loss,
        best_slope=slope,
        step=torch.full_like(_row_norms(start), 2 * radius),
        rises=torch.zeros_like(labels),
        halved=torch.zeros_like(wrong),
        reached=loss,
    )
    return rows, wrong


def _next_point(rows: _AttackState, radius: float, box: Box | None, share: float) -> Any:
    """A step up the slope, and a part of the way that it came."""
    # A slope of 0 leads nowhere, and 0 / 1 does so too.
    norms = _row_norms(rows.slope)
    up = rows.slope / norms.where(norms > 0, 1)
    stepped = project_onto_ball(rows.point + rows.step * up, rows.start, radius, box)
    way = share * (stepped - rows.point) + (1 - share) * (rows.point - rows.before)
    return project_onto_ball(rows.point + way, rows.start, radius, box)


def _advance(rows: _AttackState, point: Any, loss: Any, slope: Any) -> _AttackState:
    """The rows at their new points."""
    better = loss > rows.best_loss
    each = better.view(_row_norms(point).shape)
    return rows._replace(
        before=rows.point,
        point=point,
        loss=loss,
        slope=slope,
        best=point.where(each, rows.best),
        best_loss=loss.where(better, rows.best_loss),
        best_slope=slope.where(each, rows.best_slope),
        rises=rows.rises + (loss > rows.loss),
    )


def _adjust_step_size(rows: _AttackState, steps: int) -> _AttackState:
    """Half the step, and back at the best point, where too few of the last steps rose.

    And where neither the best loss nor the step has changed since the last look.
    """
    stuck = ~rows.halved & (rows.best_loss == rows.reached)
    halved = (rows.rises < MIN_RISING_SHARE * steps) | stuck
    each = halved.view(rows.step.shape)
    return rows._replace(
        point=rows.best.where(each, rows.point),
        loss=rows.best_loss.where(halved, rows.loss),
        slope=rows.best_slope.where(each, rows.slope),
        step=(rows.step / 2).where(each, rows.step),
        rises=rows.rises * 0,
        halved=halved,
        reached=rows.best_loss,
    )
