"""The attack: against a literal twin, a closed form and a plain one; in the ball, in the box."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from oodometer.core.errors import NotApplicable
from oodometer.metrics import _apgd as attack
from oodometer.metrics._apgd import apgd, checkpoints, project_onto_ball

Box = tuple[float, float] | None
PIXELS = 0.0, 1.0


@pytest.fixture(scope="module")
def digits() -> tuple[nn.Module, Tensor, Tensor]:
    """A small network trained on digits, and digits that it was not trained on."""
    torch.manual_seed(0)
    found = load_digits()
    images = torch.tensor(found.images / 16, dtype=torch.float32).flatten(1)
    labels = torch.tensor(found.target)
    net = nn.Sequential(
        nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10)
    )
    adam = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(60):
        adam.zero_grad()
        cross_entropy(net(images[:1200]), labels[:1200]).backward()  # type: ignore[no-untyped-call]
        adam.step()
    net.eval()
    return net, images[1200:1400], labels[1200:1400]


def errors(net: Callable[[Tensor], Tensor], points: Tensor, labels: Tensor) -> int:
    with torch.no_grad():
        return int((net(points).argmax(dim=1) != labels).sum())


def norms(way: Tensor) -> Tensor:
    found: Tensor = way.flatten(1).norm(dim=1)
    return found


# The literal twin ----------------------------------------------------------------------------


def literal_looks(steps: int) -> set[int]:
    shares = [0.0, 0.22]
    while shares[-1] <= 1:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
    return {math.ceil(share * steps - 1e-9) for share in shares[1:-1]}


def is_wrong(net: nn.Module, x: Tensor, label: Tensor) -> bool:
    return int(net(x[None]).argmax()) != int(label)


def loss_and_slope(net: nn.Module, x: Tensor, label: Tensor) -> tuple[float, Tensor]:
    x = x.detach().requires_grad_()
    loss = cross_entropy(net(x[None]), label[None])
    return loss.item(), torch.autograd.grad(loss, x)[0]


def projected(x: Tensor, start: Tensor, size: float, box: Box) -> Tensor:
    x = x if box is None else x.clamp(*box)
    far = float((x - start).norm())
    return x if far <= size else start + (x - start) * size / far


def literal(
    net: nn.Module, start: Tensor, label: Tensor, size: float, steps: int, box: Box
) -> Tensor:
    """One row, cross-entropy, every iterate kept: the algorithm as it is printed."""
    loss, slope = loss_and_slope(net, start, label)
    points, losses, used, eta = [start], [loss], [], 2 * size
    best, last, reached = (loss, start, slope), 0, loss
    for k in range(steps):
        if is_wrong(net, points[k], label):
            return points[k]
        used.append(eta)
        new = projected(points[k] + eta * slope / slope.norm(), start, size, box)
        if k > 0:
            way = 0.75 * (new - points[k]) + 0.25 * (points[k] - points[k - 1])
            new = projected(points[k] + way, start, size, box)
        loss, slope = loss_and_slope(net, new, label)
        points.append(new)
        losses.append(loss)
        best = max(best, (loss, new, slope), key=lambda one: one[0])
        if k + 1 not in literal_looks(steps) or is_wrong(net, new, label):
            continue
        few = sum(b > a for a, b in itertools.pairwise(losses[last:])) < 0.75 * (k + 1 - last)
        if few or (used[max(last - 1, 0)] == used[k] and reached == best[0]):
            eta /= 2
            losses[-1], points[-1], slope = best
        last, reached = k + 1, best[0]
    return points[-1] if is_wrong(net, points[-1], label) else best[1]


@pytest.mark.parametrize("box", [None, PIXELS])
@pytest.mark.parametrize("size", [0.05, 0.3, 0.8])
def test_rows_at_once_go_where_each_goes_by_itself(
    digits: tuple[nn.Module, Tensor, Tensor], size: float, box: Box
) -> None:
    net, images, labels = digits
    # In double precision, for a hair at a look turns the way that a row goes.
    net, images = copy.deepcopy(net).double(), images[:25].double()
    found = apgd(net, images, labels[:25], radius=size, steps=20, box=box)
    twin = torch.stack(
        [literal(net, x, y, size, 20, box) for x, y in zip(images, labels[:25], strict=True)]
    )
    # Where the loss is largest it is flat, and rounding decides between points that are near.
    assert norms(found - twin).max() < 1e-4 * size


@pytest.mark.parametrize("steps", [1, 3, 10, 20, 33, 100])
def test_looks_are_where_the_paper_has_them(steps: int) -> None:
    assert set(checkpoints(steps)) == literal_looks(steps)


# Strength ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 5])
def test_a_linear_model_flips_where_its_margin_is_smaller_than_the_ball(k: int) -> None:
    rng = np.random.default_rng(k)
    weights, offsets = torch.tensor(rng.normal(size=(10, k))), torch.tensor(rng.normal(size=k))
    points = torch.tensor(rng.normal(size=(300, 10)))
    logits = points @ weights + offsets
    labels = logits.argmax(dim=1)
    own = logits.gather(1, labels[:, None])
    between = (weights[:, labels].T[:, :, None] - weights[None]).norm(dim=1)
    # The margin to the class itself is 0 / 0.
    margins = ((own - logits) / between).nan_to_num(math.inf).min(dim=1).values
    for size in (0.1, 0.5, 1.5):
        found = apgd(lambda x: x @ weights + offsets, points, labels, radius=size, steps=50)
        flipped = (found @ weights + offsets).argmax(dim=1) != labels
        assert not flipped[margins > size].any()
        # Of more classes than two, the largest cross-entropy is not quite at the nearest boundary.
        assert flipped[margins < (1 if k == 2 else 0.9) * size].all()
        assert flipped.any()
        assert not flipped.all()


def plain(net: nn.Module, start: Tensor, labels: Tensor, size: float, steps: int) -> Tensor:
    """Projected gradient ascent with one fixed step, that of common practice."""
    points = start
    for _ in range(steps):
        points = points.detach().requires_grad_()
        loss = cross_entropy(net(points), labels, reduction="sum")
        (slope,) = torch.autograd.grad(loss, points)
        up = slope / norms(slope).clamp(min=1e-12)[:, None]
        points = project_onto_ball(points + 2.5 * size / steps * up, start, size, PIXELS)
    return points.detach()


@pytest.mark.parametrize("size", [0.1, 0.3, 0.6, 1.0])
def test_it_is_as_strong_as_a_plain_attack(
    digits: tuple[nn.Module, Tensor, Tensor], size: float
) -> None:
    net, images, labels = digits
    found = apgd(net, images, labels, radius=size, steps=20, box=PIXELS)
    theirs = plain(net, images, labels, size, 20)
    assert errors(net, found, labels) >= errors(net, theirs, labels)


def test_more_room_fools_more(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    net, images, labels = digits
    counts = [
        errors(net, apgd(net, images, labels, radius=size, steps=20, box=PIXELS), labels)
        for size in (1e-6, 0.2, 0.5, 1.0, 2.0)
    ]
    assert counts == sorted(counts)
    assert counts[0] == errors(net, images, labels) < counts[2]
    assert counts[-1] == len(labels)


def test_a_model_that_is_sure_to_rounding_is_attacked_too(
    digits: tuple[nn.Module, Tensor, Tensor],
) -> None:
    """A thousandfold of the logits has the same boundaries, and cross-entropy has no slope left."""
    net, images, labels = digits
    point = images.clone().requires_grad_()
    cross_entropy(1000 * net(point), labels, reduction="sum").backward()  # type: ignore[no-untyped-call]
    assert point.grad is not None
    assert (norms(point.grad) == 0).float().mean() > 0.5
    found = apgd(lambda x: 1000 * net(x), images, labels, radius=0.5, steps=20, box=PIXELS)
    same = apgd(net, images, labels, radius=0.5, steps=20, box=PIXELS)
    assert errors(net, found, labels) >= 0.9 * errors(net, same, labels)


# Laws ----------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 3.0), st.integers(1, 12))
@settings(max_examples=40)
def test_points_stay_in_the_ball_and_in_the_box(seed: int, size: float, steps: int) -> None:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3))
    images, labels = torch.rand(6, 2, 5, 5).round(decimals=1), torch.randint(3, (6,))
    found = apgd(net, images, labels, radius=size, steps=steps, box=PIXELS)
    assert found.shape == images.shape
    assert norms(found - images).max() <= size + 1e-5
    assert found.min() >= 0
    assert found.max() <= 1


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 2.0))
def test_drawing_in_leaves_what_is_inside(seed: int, size: float) -> None:
    torch.manual_seed(seed)
    start, points = torch.rand(5, 4).double(), torch.rand(5, 4).double() * 3 - 1
    drawn = project_onto_ball(points, start, size, PIXELS)
    assert norms(drawn - start).max() <= size + 1e-12
    assert torch.allclose(project_onto_ball(drawn, start, size, PIXELS), drawn)
    inside = (points.clamp(*PIXELS) == points).all(dim=1) & (norms(points - start) <= size)
    assert torch.allclose(drawn[inside], points[inside])


def test_rounding_takes_nothing_out_of_the_box() -> None:
    torch.manual_seed(0)
    box = 0.1, 0.7
    start = (torch.rand(5000, 4) * 0.6 + 0.1).clamp(*box)
    for end in (-1.0, 2.0):
        drawn = project_onto_ball(torch.full_like(start, end), start, 10.0, box)
        assert torch.equal(drawn, drawn.clamp(*box))


def test_a_step_is_halved_where_too_few_rose_or_nothing_came_of_it() -> None:
    """Four rows at a look after four steps: two rose; three did; none better; the same, once more."""
    n, best_loss = 4, torch.tensor([2.0, 2.0, 1.0, 1.0])
    at, best = torch.zeros(n, 1), torch.ones(n, 1)
    rows = attack._AttackState(
        place=torch.arange(n), start=at, label=torch.zeros(n).long(), before=at, point=at,
        loss=torch.zeros(n), slope=at, best=best, best_loss=best_loss, best_slope=best,
        step=torch.full((n, 1), 8.0), rises=torch.tensor([2, 3, 3, 3]),
        halved=torch.tensor([False, False, False, True]), reached=torch.ones(n),
    )  # fmt: skip
    found = attack._adjust_step_size(rows, 4)
    assert found.step[:, 0].tolist() == [4.0, 8.0, 4.0, 8.0]
    assert found.point[:, 0].tolist() == found.slope[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert found.loss.tolist() == [2.0, 0.0, 1.0, 0.0]
    assert found.halved.tolist() == [True, False, True, False]
    assert found.rises.tolist() == [0] * n
    assert found.reached.tolist() == best_loss.tolist()


def test_what_is_wrong_already_stays_where_it_is(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    net, images, labels = digits
    other = (labels + 1) % 10
    wrong = net(images).argmax(dim=1) != other
    found = apgd(net, images, other, radius=0.5, steps=5)
    assert wrong.sum() > 100
    assert torch.equal(found[wrong], images[wrong])


def test_it_is_the_same_twice_and_in_any_order(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    net, images, labels = digits
    before = images.clone()
    one, two = (apgd(net, images, labels, radius=0.3, steps=15, box=PIXELS) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(images, before)
    order = torch.randperm(len(labels))
    mixed = apgd(net, images[order], labels[order], radius=0.3, steps=15, box=PIXELS)
    # Sums may be rounded otherwise in another batch, and a hair may turn a row at a look.
    near = norms(mixed - one[order]) < 1e-3
    assert near.float().mean() > 0.95
    assert errors(net, mixed, labels[order]) == errors(net, one, labels)


def test_nothing_is_left_at_the_weights(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    net = copy.deepcopy(digits[0])
    net.zero_grad(set_to_none=True)
    with torch.no_grad():
        found = apgd(net, *digits[1:], radius=0.3, steps=3)
    assert all(part.grad is None and part.requires_grad for part in net.parameters())
    assert not found.requires_grad


def test_a_flat_model_leaves_points_where_they_are() -> None:
    inputs, labels = torch.rand(3, 4), torch.zeros(3, dtype=torch.long)
    flat = torch.tensor([1.0, 0.0])
    found = apgd(lambda x: flat + 0 * x[:, :2], inputs, labels, radius=0.5, steps=5)
    assert torch.equal(found, inputs)


@pytest.mark.parametrize("cut", [lambda x: x.detach()[:, :2], lambda x: torch.ones(len(x), 2)])
def test_what_has_no_derivative_has_no_answer(cut: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(NotApplicable, match="can't be differentiated by its inputs"):
        apgd(cut, torch.rand(3, 4), torch.zeros(3, dtype=torch.long), radius=0.5, steps=2)
    # Neither where the weights have one and the inputs have none.
    weights = torch.ones(2, requires_grad=True)
    with pytest.raises(NotApplicable, match="can't be differentiated by its inputs"):
        apgd(
            lambda x: cut(x) * weights, torch.rand(3, 4), torch.zeros(3).long(), radius=1.0, steps=1
        )
