"""APGD in the ℓ₂ ball, an attack that sets its own steps. Croce & Hein, ICML 2020.

Cross-entropy is log(1 + exp u) with u = log Σ_{j≠y} exp z_j − z_y: both rise together, and their
gradients have one direction. The attack climbs u, because cross-entropy is flat to rounding where
the model is sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from oodometer.core.errors import NoAnswer
from oodometer.core.optional_imports import require

# How much of a new point is its step; the rest is the way that it was going.
STEP_SHARE = 0.75
# Where a smaller share of the steps rises, they are too long.
RISING = 0.75
# When the length of steps is looked at, in shares of all steps: at first, and how much sooner each
# time than the time before, and no sooner than.
FIRST, SOONER, SOONEST = 0.22, 0.03, 0.06

Logits = Callable[[Any], Any]
Box = tuple[float, float]


class _Rows(NamedTuple):
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

    def some(self, index: Any) -> _Rows:
        """Some of them."""
        return _Rows(*(part[index] for part in self))


def apgd(
    logits_of: Logits,
    inputs: Any,
    labels: Any,
    *,
    size: float,
    steps: int,
    box: Box | None = None,
) -> Any:
    """Points at most `size` from the inputs that the model errs on, where such are found.

    `logits_of` takes a tensor of inputs and gives logits (n, k), which can be differentiated. A row
    that is wrong from the start stays as it is; one that never goes wrong ends where its loss was
    largest. No value leaves the `box`, which inputs must be in. Nothing is random.

    >>> import torch
    >>> inputs, labels = torch.tensor([[0.25], [2.0]]), torch.tensor([0, 0])
    >>> apgd(lambda x: torch.cat([x, -x], dim=1), inputs, labels, size=0.5, steps=3)
    tensor([[-0.2500],
            [ 1.5000]])
    """
    found = inputs.detach().clone()
    rows, wrong = _begun(logits_of, found, labels, size)
    rows, looks, last = rows.some(~wrong), checkpoints(steps), 0
    for number in range(1, steps + 1):
        if not len(rows.place):
            break
        point = _next(rows, size, box, 1.0 if number == 1 else STEP_SHARE)
        loss, slope, wrong = _climbed(logits_of, point, rows.label)
        found[rows.place[wrong]] = point[wrong]
        rows = _moved(rows, point, loss, slope).some(~wrong)
        if number in looks:
            rows, last = _checked(rows, number - last), number
    found[rows.place] = rows.best
    return found


def checkpoints(steps: int) -> tuple[int, ...]:
    """After which steps their length is looked at.

    >>> checkpoints(100)
    (22, 41, 57, 70, 80, 87, 93, 99)
    """
    before, share, looks = 0.0, FIRST, []
    while share <= 1.0:
        # A share such as 0.57 is no binary fraction, and may come out a hair above.
        looks.append(math.ceil(round(share * steps, 9)))
        before, share = share, share + max(share - before - SOONER, SOONEST)
    return tuple(dict.fromkeys(looks))


def within(points: Any, start: Any, size: float, box: Box | None) -> Any:
    """The points drawn in to the box and towards the start, until none is farther than `size`."""
    inside = points if box is None else points.clamp(*box)
    way = inside - start
    drawn = start + way * (size / _norms(way).clamp(min=size))
    return drawn if box is None else drawn.clamp(*box)


def _norms(tensor: Any) -> Any:
    """The Euclidean norm of every row, of as many dimensions."""
    return tensor.flatten(1).norm(dim=1).view(-1, *(1 for _ in tensor.shape[1:]))


def _climbed(logits_of: Logits, points: Any, labels: Any) -> tuple[Any, Any, Any]:
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
        raise NoAnswer("what the model says can't be differentiated by its inputs")
    return loss.detach(), slope, logits.detach().argmax(dim=1) != labels


def _begun(logits_of: Logits, start: Any, labels: Any, size: float) -> tuple[_Rows, Any]:
    """All rows where they start, and which are wrong there."""
    torch = require("torch", extra="torch", purpose="Attacking a model")
    loss, slope, wrong = _climbed(logits_of, start, labels)
    start = start.clone()
    rows = _Rows(
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
        step=torch.full_like(_norms(start), 2 * size),
        rises=torch.zeros_like(labels),
        halved=torch.zeros_like(wrong),
        reached=loss,
    )
    return rows, wrong


def _next(rows: _Rows, size: float, box: Box | None, share: float) -> Any:
    """A step up the slope, and a part of the way that it came."""
    # A slope of 0 leads nowhere, and 0 / 1 does so too.
    norms = _norms(rows.slope)
    up = rows.slope / norms.where(norms > 0, 1)
    stepped = within(rows.point + rows.step * up, rows.start, size, box)
    way = share * (stepped - rows.point) + (1 - share) * (rows.point - rows.before)
    return within(rows.point + way, rows.start, size, box)


def _moved(rows: _Rows, point: Any, loss: Any, slope: Any) -> _Rows:
    """The rows at their new points."""
    better = loss > rows.best_loss
    each = better.view(_norms(point).shape)
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


def _checked(rows: _Rows, steps: int) -> _Rows:
    """Half the step, and back at the best point, where too few of the last steps rose.

    And where neither the best loss nor the step has changed since the last look.
    """
    stuck = ~rows.halved & (rows.best_loss == rows.reached)
    halved = (rows.rises < RISING * steps) | stuck
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
