"""APGD against a naive implementation, a closed form and a fixed-step attack; constraints."""

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
    """Return a small network trained on digits, with held-out digits."""
    torch.manual_seed(0)
    result = load_digits()
    images = torch.tensor(result.images / 16, dtype=torch.float32).flatten(1)
    labels = torch.tensor(result.target)
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
    result: Tensor = way.flatten(1).norm(dim=1)
    return result


# Naive implementation ------------------------------------------------------------------------


def naive_checkpoints(steps: int) -> set[int]:
    shares = [0.0, 0.22]
    while shares[-1] <= 1:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
    return {math.ceil(share * steps - 1e-9) for share in shares[1:-1]}


def is_wrong(net: nn.Module, x: Tensor, label: Tensor) -> bool:
    return int(net(x[None]).argmax()) != int(label)


def loss_and_gradient(net: nn.Module, x: Tensor, label: Tensor) -> tuple[float, Tensor]:
    x = x.detach().requires_grad_()
    loss = cross_entropy(net(x[None]), label[None])
    return loss.item(), torch.autograd.grad(loss, x)[0]


def projected(x: Tensor, start: Tensor, size: float, box: Box) -> Tensor:
    x = x if box is None else x.clamp(*box)
    far = float((x - start).norm())
    return x if far <= size else start + (x - start) * size / far


def naive_apgd(
    net: nn.Module, start: Tensor, label: Tensor, size: float, steps: int, box: Box
) -> Tensor:
    """Return the result of the algorithm as in the paper, for one row and cross-entropy."""
    loss, gradient = loss_and_gradient(net, start, label)
    points, losses, used, eta = [start], [loss], [], 2 * size
    best, last, checkpoint_loss = (loss, start, gradient), 0, loss
    for k in range(steps):
        if is_wrong(net, points[k], label):
            return points[k]
        used.append(eta)
        new = projected(points[k] + eta * gradient / gradient.norm(), start, size, box)
        if k > 0:
            way = 0.75 * (new - points[k]) + 0.25 * (points[k] - points[k - 1])
            new = projected(points[k] + way, start, size, box)
        loss, gradient = loss_and_gradient(net, new, label)
        points.append(new)
        losses.append(loss)
        best = max(best, (loss, new, gradient), key=lambda first: first[0])
        if k + 1 not in naive_checkpoints(steps) or is_wrong(net, new, label):
            continue
        few = sum(b > a for a, b in itertools.pairwise(losses[last:])) < 0.75 * (k + 1 - last)
        if few or (used[max(last - 1, 0)] == used[k] and checkpoint_loss == best[0]):
            eta /= 2
            losses[-1], points[-1], gradient = best
        last, checkpoint_loss = k + 1, best[0]
    return points[-1] if is_wrong(net, points[-1], label) else best[1]


@pytest.mark.parametrize("box", [None, PIXELS])
@pytest.mark.parametrize("size", [0.05, 0.3, 0.8])
def test_batched_attack_matches_naive_attack(
    digits: tuple[nn.Module, Tensor, Tensor], size: float, box: Box
) -> None:
    net, images, labels = digits
    # In float64, because a rounding error at a checkpoint can change the path of a row.
    net, images = copy.deepcopy(net).double(), images[:25].double()
    result = apgd(net, images, labels[:25], radius=size, steps=20, box=box)
    expected = torch.stack(
        [naive_apgd(net, x, y, size, 20, box) for x, y in zip(images, labels[:25], strict=True)]
    )
    # The loss is flat at its maximum, so rounding decides between close points.
    assert norms(result - expected).max() < 1e-4 * size


@pytest.mark.parametrize("steps", [1, 3, 10, 20, 33, 100])
def test_checkpoints_match_the_paper(steps: int) -> None:
    assert set(checkpoints(steps)) == naive_checkpoints(steps)


# Strength ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 5])
def test_linear_model_flips_within_its_margin(k: int) -> None:
    rng = np.random.default_rng(k)
    weights, offsets = torch.tensor(rng.normal(size=(10, k))), torch.tensor(rng.normal(size=k))
    points = torch.tensor(rng.normal(size=(300, 10)))
    logits = points @ weights + offsets
    labels = logits.argmax(dim=1)
    own = logits.gather(1, labels[:, None])
    between = (weights[:, labels].T[:, :, None] - weights[None]).norm(dim=1)
    # The margin of a class to itself is 0 / 0.
    margins = ((own - logits) / between).nan_to_num(math.inf).min(dim=1).values
    for size in (0.1, 0.5, 1.5):
        result = apgd(lambda x: x @ weights + offsets, points, labels, radius=size, steps=50)
        flipped = (result @ weights + offsets).argmax(dim=1) != labels
        assert not flipped[margins > size].any()
        # With more than two classes, the maximum is not exactly at the nearest boundary.
        assert flipped[margins < (1 if k == 2 else 0.9) * size].all()
        assert flipped.any()
        assert not flipped.all()


def fixed_step_attack(
    net: nn.Module, start: Tensor, labels: Tensor, size: float, steps: int
) -> Tensor:
    """Return the points of projected gradient ascent with a fixed step size."""
    points = start
    for _ in range(steps):
        points = points.detach().requires_grad_()
        loss = cross_entropy(net(points), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, points)
        up = gradient / norms(gradient).clamp(min=1e-12)[:, None]
        points = project_onto_ball(points + 2.5 * size / steps * up, start, size, PIXELS)
    return points.detach()


@pytest.mark.parametrize("size", [0.1, 0.3, 0.6, 1.0])
def test_attack_is_at_least_as_strong_as_a_fixed_step(
    digits: tuple[nn.Module, Tensor, Tensor], size: float
) -> None:
    net, images, labels = digits
    result = apgd(net, images, labels, radius=size, steps=20, box=PIXELS)
    baseline = fixed_step_attack(net, images, labels, size, 20)
    assert errors(net, result, labels) >= errors(net, baseline, labels)


def test_larger_radius_misclassifies_more_rows(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    net, images, labels = digits
    counts = [
        errors(net, apgd(net, images, labels, radius=size, steps=20, box=PIXELS), labels)
        for size in (1e-6, 0.2, 0.5, 1.0, 2.0)
    ]
    assert counts == sorted(counts)
    assert counts[0] == errors(net, images, labels) < counts[2]
    assert counts[-1] == len(labels)


def test_saturated_models_can_be_attacked(
    digits: tuple[nn.Module, Tensor, Tensor],
) -> None:
    """Logits times 1000 keep the boundaries, but cross-entropy has no gradient left."""
    net, images, labels = digits
    point = images.clone().requires_grad_()
    cross_entropy(1000 * net(point), labels, reduction="sum").backward()  # type: ignore[no-untyped-call]
    assert point.grad is not None
    assert (norms(point.grad) == 0).float().mean() > 0.5
    result = apgd(lambda x: 1000 * net(x), images, labels, radius=0.5, steps=20, box=PIXELS)
    same = apgd(net, images, labels, radius=0.5, steps=20, box=PIXELS)
    assert errors(net, result, labels) >= 0.9 * errors(net, same, labels)


# Constraints ---------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 3.0), st.integers(1, 12))
@settings(max_examples=40)
def test_points_stay_in_ball_and_box(seed: int, size: float, steps: int) -> None:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3))
    images, labels = torch.rand(6, 2, 5, 5).round(decimals=1), torch.randint(3, (6,))
    result = apgd(net, images, labels, radius=size, steps=steps, box=PIXELS)
    assert result.shape == images.shape
    assert norms(result - images).max() <= size + 1e-5
    assert result.min() >= 0
    assert result.max() <= 1


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 2.0))
def test_projection_keeps_points_inside(seed: int, size: float) -> None:
    torch.manual_seed(seed)
    start, points = torch.rand(5, 4).double(), torch.rand(5, 4).double() * 3 - 1
    drawn = project_onto_ball(points, start, size, PIXELS)
    assert norms(drawn - start).max() <= size + 1e-12
    assert torch.allclose(project_onto_ball(drawn, start, size, PIXELS), drawn)
    inside = (points.clamp(*PIXELS) == points).all(dim=1) & (norms(points - start) <= size)
    assert torch.allclose(drawn[inside], points[inside])


def test_projection_never_leaves_the_box() -> None:
    torch.manual_seed(0)
    box = 0.1, 0.7
    start = (torch.rand(5000, 4) * 0.6 + 0.1).clamp(*box)
    for end in (-1.0, 2.0):
        drawn = project_onto_ball(torch.full_like(start, end), start, 10.0, box)
        assert torch.equal(drawn, drawn.clamp(*box))


def test_step_is_halved_after_few_increases_or_no_progress() -> None:
    """Four rows after four steps: two increases; three; three without a better loss; the same again."""
    n, best_loss = 4, torch.tensor([2.0, 2.0, 1.0, 1.0])
    at, best = torch.zeros(n, 1), torch.ones(n, 1)
    rows = attack._AttackState(
        index=torch.arange(n), start=at, label=torch.zeros(n).long(), previous=at, point=at,
        loss=torch.zeros(n), gradient=at, best=best, best_loss=best_loss, best_gradient=best,
        step=torch.full((n, 1), 8.0), n_increases=torch.tensor([2, 3, 3, 3]),
        halved=torch.tensor([False, False, False, True]), checkpoint_loss=torch.ones(n),
    )  # fmt: skip
    result = attack._adjust_step_size(rows, 4)
    assert result.step[:, 0].tolist() == [4.0, 8.0, 4.0, 8.0]
    assert result.point[:, 0].tolist() == result.gradient[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert result.loss.tolist() == [2.0, 0.0, 1.0, 0.0]
    assert result.halved.tolist() == [True, False, True, False]
    assert result.n_increases.tolist() == [0] * n
    assert result.checkpoint_loss.tolist() == best_loss.tolist()


def test_misclassified_rows_are_unchanged(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    net, images, labels = digits
    other = (labels + 1) % 10
    wrong = net(images).argmax(dim=1) != other
    result = apgd(net, images, other, radius=0.5, steps=5)
    assert wrong.sum() > 100
    assert torch.equal(result[wrong], images[wrong])


def test_repetition_and_row_order_do_not_matter(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    net, images, labels = digits
    previous = images.clone()
    first, second = (apgd(net, images, labels, radius=0.3, steps=15, box=PIXELS) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(images, previous)
    order = torch.randperm(len(labels))
    permuted = apgd(net, images[order], labels[order], radius=0.3, steps=15, box=PIXELS)
    # Rounding differs between batches and can change the path of a row at a checkpoint.
    near = norms(permuted - first[order]) < 1e-3
    assert near.float().mean() > 0.95
    assert errors(net, permuted, labels[order]) == errors(net, first, labels)


def test_weights_keep_no_gradient(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    net = copy.deepcopy(digits[0])
    net.zero_grad(set_to_none=True)
    with torch.no_grad():
        result = apgd(net, *digits[1:], radius=0.3, steps=3)
    assert all(part.grad is None and part.requires_grad for part in net.parameters())
    assert not result.requires_grad


def test_zero_gradient_leaves_points_unchanged() -> None:
    inputs, labels = torch.rand(3, 4), torch.zeros(3, dtype=torch.long)
    flat = torch.tensor([1.0, 0.0])
    result = apgd(lambda x: flat + 0 * x[:, :2], inputs, labels, radius=0.5, steps=5)
    assert torch.equal(result, inputs)


@pytest.mark.parametrize("constant", [lambda x: x.detach()[:, :2], lambda x: torch.ones(len(x), 2)])
def test_models_without_input_gradient_are_not_applicable(
    constant: Callable[[Tensor], Tensor],
) -> None:
    with pytest.raises(NotApplicable, match="have no gradient with respect to its inputs"):
        apgd(constant, torch.rand(3, 4), torch.zeros(3, dtype=torch.long), radius=0.5, steps=2)
    # The same if only the weights have a gradient.
    weights = torch.ones(2, requires_grad=True)
    with pytest.raises(NotApplicable, match="have no gradient with respect to its inputs"):
        apgd(
            lambda x: constant(x) * weights,
            torch.rand(3, 4),
            torch.zeros(3).long(),
            radius=1.0,
            steps=1,
        )
