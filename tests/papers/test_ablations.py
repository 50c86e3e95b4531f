"""Ablations of neighborhood invariance: arithmetic, and two of them on real digits.

Ng et al., TMLR 2023, §5.4; all ablations are in benchmarks/studies/ablations.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks._digit_classifiers import (
    CLASSES,
    Recipe,
    handwritten,
    noisy,
    one_thread,
    trained,
    training_digits,
)
from benchmarks.quality_invariance_digits import RECIPES, taus
from benchmarks.studies import ablations
from benchmarks.studies._ablation_runs import (
    MARGIN,
    Judged,
    block_values,
    by_draws,
    by_size,
    changed_copies,
    judged,
    trained_on_copies,
)
from oodometer.core.protocols import Dataset, Model
from oodometer.data import as_dataset
from oodometer.models import FunctionModel
from oodometer.models.inference import predict_dataset
from tests.support.research_data import require_data

# Fast ones: small and larger perceptrons with two epochs of training.
CHOSEN = tuple(recipe for recipe in RECIPES if recipe.kind == "mlp" and recipe.epochs == 2)


def toy_model(cells: int) -> FunctionModel:
    """Return a model that compares the mean of the first cells with that of the whole image."""

    def light(images: np.ndarray) -> np.ndarray:
        flat = images.reshape(len(images), -1).astype(float)
        share = 1 / (1 + np.exp(flat.mean(axis=1) - flat[:, :cells].mean(axis=1)))
        return np.stack([1 - share, share], axis=1)

    return FunctionModel(light, name=f"first {cells}")


@pytest.fixture(scope="module")
def toys() -> Judged:
    return judged([toy_model(cells) for cells in (4, 16, 40)], toy_data(), "translate", draws=12)


def toy_data() -> Dataset:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (30, 8, 8)).astype(np.uint8)
    return as_dataset(images, labels=rng.integers(0, 2, 30))


def test_correct_rows_match_the_models_predictions(toys: Judged) -> None:
    predictions = [predict_dataset(toy_model(cells), toy_data()) for cells in (4, 16, 40)]
    assert np.array_equal(toys.right, np.stack([rows.correct for rows in predictions]))


def test_first_block_of_draws_equals_a_shorter_run(toys: Judged) -> None:
    short = judged([toy_model(cells) for cells in (4, 16, 40)], toy_data(), "translate", draws=5)
    first = block_values(toys, range(6))
    assert np.allclose(first["ni"], short.values("ni"))
    assert np.allclose(first["pa"], short.values("pa"))


def test_every_draw_is_used_once(toys: Judged) -> None:
    found, values = by_draws(toys, (2, 4, 5, 12), model=1)
    assert {count: len(one["ni"]) for count, one in found.items()} == {2: 6, 4: 3, 5: 2, 12: 1}
    assert values[12]["pa"] == pytest.approx([toys.values("pa")[1]])


def test_full_size_gives_one_sample(toys: Judged) -> None:
    found = by_size(toys, (30, 10), samples=4)
    assert found[30]["ni"] == pytest.approx([toys.tau("ni")])
    assert found[30]["labels"] == pytest.approx([1.0])
    assert len(found[10]["ni"]) == 4


def with_models(scores: np.ndarray, truth: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> Judged:
    monkeypatch.setattr(Judged, "values", lambda self, measure: scores)
    monkeypatch.setattr(Judged, "truth", truth)
    return Judged(None, None)  # type: ignore[arg-type]


def test_error_of_tau_is_the_jackknife(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, truth = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.1, 0.3, 0.2, 0.4])
    one = with_models(scores, truth, monkeypatch)
    # Without the 2nd or 3rd model no pair is discordant and τ is 1; otherwise one of three is, and
    # τ is 1/3.
    left = np.array([1 / 3, 1.0, 1.0, 1 / 3])
    assert one.tau_error("ni") == pytest.approx(np.sqrt(3 / 4 * ((left - left.mean()) ** 2).sum()))


def test_line_of_some_models_predicts_others(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, truth = np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.1, 0.3, 0.3, 0.5])
    one = with_models(scores, truth, monkeypatch)
    assert one.excess("ni", slice(0, 2), slice(2, 4)) == pytest.approx((0.5 + 0.7 - 0.8) / 2)


def test_copies_differ_and_keep_their_wrong_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(1).integers(0, 256, (40, 16, 16)).astype(np.uint8)
    labels, recipe = np.arange(40) % CLASSES, Recipe("mlp", 4, 0.5, 2, seed=3)
    copies = changed_copies(images, 3)
    assert not np.array_equal(copies[0], copies[1])
    seen: list[tuple[Recipe, np.ndarray, np.ndarray]] = []
    monkeypatch.setattr(
        "benchmarks.studies._ablation_runs.trained", lambda *given: seen.append(given)
    )
    trained_on_copies(recipe, copies, labels)
    ((short, shown, wanted),) = seen
    assert (short.noise, short.epochs) == (0.0, 1)
    assert np.array_equal(shown, np.concatenate(copies[:2]))
    assert np.array_equal(wanted[:40], wanted[40:])
    assert np.array_equal(wanted[:40], noisy(labels, 0.5, np.random.default_rng([3, 4, 2])))


def test_unknown_ablation_raises(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        ablations.main(["sizes"])
    assert "invalid choice: 'sizes'" in capsys.readouterr().err


def test_single_ablation_prints_and_writes_no_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ablations, "data_folder", lambda: Path("data"))
    monkeypatch.setitem(ablations.ABLATIONS, "size", ("Size", lambda folder: ("a table",)))
    monkeypatch.setattr(ablations, "write", lambda *_: pytest.fail("written"))
    assert ablations.main(["size"]) == 0
    assert capsys.readouterr().out == "a table\n"


@pytest.fixture(scope="module")
def models() -> Iterator[list[Model]]:
    """Networks trained without, and then with RandAugment."""
    images, labels = training_digits(require_data("digits/mnist.npz"), margin=MARGIN)
    with one_thread():
        copies = changed_copies(images, 2)
        plain = [trained(recipe, images, labels) for recipe in CHOSEN]
        yield [*plain, *(trained_on_copies(recipe, copies, labels) for recipe in CHOSEN)]


@pytest.fixture(scope="module")
def digits(models: list[Model]) -> Judged:
    usps = handwritten(require_data("digits/usps.npz"), n=1000)
    return judged(models, usps, "randaugment", draws=20)


@pytest.mark.realdata
def test_small_sets_rank_worse(digits: Judged) -> None:
    found = by_size(digits, (500, 10), samples=20)
    assert found[10]["ni"].mean() < found[500]["ni"].mean() - 0.1
    assert found[10]["ni"].std() > found[500]["ni"].std()
    assert found[10]["labels"].mean() < found[500]["labels"].mean()


@pytest.mark.realdata
def test_few_draws_rank_similarly_with_higher_ni(digits: Judged) -> None:
    found, values = by_draws(digits, (2, 20), model=0)
    assert found[2]["ni"].mean() > found[20]["ni"].mean() - 0.1
    assert values[2]["ni"].mean() > values[20]["ni"].mean() + 0.01
    alone = "pa, draws alone"
    assert values[2][alone].mean() == pytest.approx(values[20][alone].mean(), abs=0.003)


@pytest.mark.realdata
def test_models_trained_with_the_transform_are_ranked(digits: Judged) -> None:
    m = len(CHOSEN)
    parts = slice(0, m), slice(m, 2 * m), slice(0, 2 * m)
    assert all(digits.tau("ni", part) > 0.3 for part in parts)
    assert taus({"": digits.values("ni")}, digits.truth)[""] == digits.tau("ni", parts[2])
