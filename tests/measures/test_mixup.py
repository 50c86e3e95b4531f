"""Mixup against a naive loop and closed forms; pairs depend on row content only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, kstest

from oodometer.core.array_types import Array, Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.measures import mixup
from oodometer.measures._difference_and_ratio import COMPARISON_FORMS, compare
from oodometer.measures.mixup import (
    Mixup,
    mix_rows,
    mixing_partners,
    mixing_shares,
    mixup_distances,
)
from oodometer.measures.subject import Subject, measure_one
from oodometer.models import FunctionModel, as_model
from oodometer.models.model_view import ModelView, ViewSource

RNG = np.random.default_rng(0)
ROWS = RNG.uniform(size=(40, 3))
IMAGES = RNG.integers(0, 256, size=(30, 4, 5, 3), dtype=np.uint8)


class Waves:
    """Strongly nonlinear model that counts the rows it classifies."""

    name = "waves"

    def __init__(self) -> None:
        self.n_rows = 0

    def classify(self, inputs: Array) -> Predictions:
        self.n_rows += len(inputs)
        flat = inputs.reshape(len(inputs), -1).astype(float)
        sums = (flat / (255 if inputs.dtype == np.uint8 else 1)).sum(axis=1)
        return Predictions.from_logits(np.sin(np.outer(sums, [1.0, 2.0, 3.0])))


def view(rows: Any = ROWS, model: Any = None, **settings: Any) -> ModelView:
    chosen = FunctionModel(model) if callable(model) else model or Waves()
    return ModelView(ViewSource("data", as_dataset(rows), chosen, **settings))


def draws(n: int, seed: int = 0) -> RowStreams:
    return RowStreams(seed, np.arange(n, dtype=np.uint64), np.zeros(n, dtype=np.int64))


def naive_distances(data: ModelView, alpha: float) -> Floats:
    """Return the distances pair by pair, as in the algorithm."""
    streams = data.row_streams("mixup")
    order = sorted(range(data.n), key=lambda row: int(streams.initial_states[row]))
    result = np.empty(data.n)
    for place, row in enumerate(order):
        partner = order[(place + 1) % data.n]
        share = beta.ppf(streams.uniforms(1)[row, 0], alpha, alpha)
        first, second = (data.inputs(np.array([r]))[0] for r in (row, partner))
        mixed = share * first.astype(float) + (1 - share) * second.astype(float)
        if first.dtype == np.uint8:
            mixed = np.round(mixed)
        n_rows = mixed.astype(first.dtype)[None]
        interpolated = share * data.outputs.probs[row] + (1 - share) * data.outputs.probs[partner]
        result[row] = ((interpolated - data.classify_inputs(n_rows).probs[0]) ** 2).sum()
    return result


@pytest.mark.parametrize("rows", [ROWS, IMAGES], ids=["vectors", "images"])
@pytest.mark.parametrize("alpha", [0.1, 0.3, 2.0])
def test_distances_match_naive_loop(rows: Array, alpha: float) -> None:
    data = view(rows)
    expected = naive_distances(data, alpha)
    assert expected.max() > 1e-4
    assert np.allclose(mixup_distances(data, alpha=alpha), expected, rtol=1e-9, atol=1e-12)


def test_linear_model_has_zero_distance() -> None:
    simplex = np.random.default_rng(1).dirichlet([1, 1, 1], size=50)
    assert np.abs(mixup_distances(view(simplex, lambda rows: rows), alpha=0.3)).max() < 1e-25


def test_quadratic_model_matches_closed_form() -> None:
    """c = (x², 1 − x²) deviates by λ(1−λ)(x₁ − x₂)² in both classes."""
    rows = np.random.default_rng(1).uniform(size=(60, 1))
    data = view(rows, lambda x: np.concatenate([x**2, 1 - x**2], axis=1))
    streams = data.row_streams("mixup")
    share, partner = mixing_shares(streams, alpha=0.3), mixing_partners(streams)
    deviation = share * (1 - share) * (rows[:, 0] - rows[partner, 0]) ** 2
    assert np.allclose(mixup_distances(data, alpha=0.3), 2 * deviation**2, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0])
def test_shares_follow_the_beta_distribution(alpha: float) -> None:
    result = mixing_shares(draws(20_000), alpha=alpha)
    assert result.min() >= 0
    assert result.max() <= 1
    assert kstest(result, beta(alpha, alpha).cdf).pvalue > 1e-3


def test_extreme_uniforms_give_valid_shares() -> None:
    class Extreme(RowStreams):
        def uniforms(self, count: int) -> Floats:
            return np.array([[0.0], [2.0**-53], [0.5], [1 - 2.0**-53]])

    result = mixing_shares(Extreme(0, *(draws(4).row_keys, draws(4).draw_index)), alpha=0.1)
    assert np.isfinite(result).all()
    assert result[0] == 0
    assert result[2] == pytest.approx(0.5)
    assert result[3] == pytest.approx(1)


@given(n=st.integers(2, 200), seed=st.integers(0, 2**32))
def test_partners_form_a_permutation_without_fixed_points(n: int, seed: int) -> None:
    result = mixing_partners(draws(n, seed))
    assert sorted(result) == list(range(n))
    assert not (result == np.arange(n)).any()


@given(share=st.floats(0, 1), seed=st.integers(0, 100))
def test_images_are_rounded_to_the_nearest_level(share: float, seed: int) -> None:
    first, second = np.random.default_rng(seed).integers(0, 256, (2, 3, 4, 4), dtype=np.uint8)
    result = mix_rows(first, second, np.full(3, share))
    exact = share * first.astype(float) + (1 - share) * second.astype(float)
    assert result.dtype == np.uint8
    assert np.abs(result - exact).max() <= 0.5 + 1e-9
    assert np.array_equal(mix_rows(first, first, np.full(3, share)), first)


def test_images_and_vectors_agree_up_to_rounding() -> None:
    weights = np.random.default_rng(1).normal(size=(60, 3))

    def model(rows: Array) -> Array:
        scale = 255 if rows.dtype == np.uint8 else 1
        shown = np.exp((rows.reshape(len(rows), -1) / scale) @ weights)
        return np.asarray(shown / shown.sum(axis=1, keepdims=True))

    partner = mixing_partners(draws(30))
    share = mixing_shares(draws(30), alpha=0.3)
    levels = mix_rows(IMAGES, IMAGES[partner], share)
    vectors = IMAGES.reshape(30, -1) / 255.0
    assert np.abs(model(levels) - model(mix_rows(vectors, vectors[partner], share))).max() < 0.02
    assert (
        mix_rows(vectors.astype(np.float32), vectors.astype(np.float32), share).dtype == np.float32
    )


def test_row_order_does_not_matter() -> None:
    order = np.random.default_rng(1).permutation(40)
    plain, permuted = (mixup_distances(view(rows), alpha=0.3) for rows in (ROWS, ROWS[order]))
    assert np.allclose(permuted, plain[order], rtol=1e-12)


def test_duplicates_are_not_mixed_with_their_copies_only() -> None:
    """Twenty copies of each of three rows: two thirds of the pairs have different rows."""
    rows = np.repeat(ROWS[:3], 20, axis=0)
    result = mixup_distances(view(rows), alpha=0.3)
    assert np.count_nonzero(result) > 20
    assert len(np.unique(result)) > 20
    permuted = mixup_distances(view(rows[np.random.default_rng(1).permutation(60)]), alpha=0.3)
    assert np.allclose(np.sort(permuted), np.sort(result), rtol=1e-12)


def test_value_of_a_row_does_not_depend_on_the_subset() -> None:
    index = np.array([3, 17, 30, 31])
    whole, partial = view(), view()
    first = mixup_distances(partial.rows(index), alpha=0.1)
    assert np.array_equal(first, mixup_distances(whole, alpha=0.1)[index])
    assert np.array_equal(mixup_distances(partial, alpha=0.1), mixup_distances(whole, alpha=0.1))


def test_forms_and_subsamples_share_one_pass_per_side() -> None:
    model = Waves()
    subject = Subject(view(ROWS, model), view(ROWS[:30] + 1, model))
    for form in COMPARISON_FORMS:
        measure_one(Mixup(form), subject)
    for _ in range(3):
        measure_one(Mixup("diff"), subject.subsample(0.8, np.random.default_rng(1)))
    assert model.n_rows == 2 * (40 + 30)


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mixup_distances(view(), alpha=0.3)
    monkeypatch.setattr(mixup, "MAX_MIXED_CELLS", 20)
    reports: list[tuple[int, int, str]] = []
    data = view(progress=lambda *report: reports.append(report))
    assert np.allclose(mixup_distances(data, alpha=0.3), whole, rtol=1e-12)
    assert reports[-1] == (40, 40, "mixing data")
    assert len(reports) >= 7


@pytest.mark.parametrize("form", COMPARISON_FORMS)
def test_forms_compare_target_with_reference(form: Any) -> None:
    reference, target = view(ROWS), view(ROWS[:30] + 1)
    result = measure_one(Mixup(form, 0.3), Subject(view(ROWS + 3), target, reference))
    means = [float(mixup_distances(side, alpha=0.3).mean()) for side in (target, reference)]
    assert result.value == pytest.approx(compare(means[0], means[1], form))
    assert result.facts["target"] == pytest.approx(means[0])
    assert result.facts["target_rows"] == 30
    assert result.facts.get("source") == (None if form == "plain" else pytest.approx(means[1]))
    assert result.notes == ()


def test_row_limit_is_noted() -> None:
    model = Waves()
    subject = Subject(view(ROWS[:5], model), view(ROWS, model))
    result = measure_one(Mixup("diff", rows=10), subject)
    assert result.notes == ("only 10 of 40 rows of 'data' were used, drawn at random",)
    assert (result.facts["target_rows"], result.facts["source_rows"]) == (10, 5)
    assert model.n_rows == 45 + 15
    permuted = Subject(view(ROWS[:5]), view(ROWS[::-1].copy()))
    assert measure_one(Mixup("diff", rows=10), permuted).value == pytest.approx(result.value)


def test_scikit_learn_models_are_supported() -> None:
    from sklearn.linear_model import LogisticRegression

    labels = (ROWS[:, 0] > 0.5).astype(int)
    fitted = LogisticRegression().fit(ROWS, labels)
    data = view(ROWS, as_model(fitted))
    result = measure_one(Mixup(), Subject(data, data)).value
    assert result == pytest.approx(naive_distances(data, 0.1).mean(), rel=1e-6)


def test_class_order_does_not_matter() -> None:
    def model(names: list[str]) -> FunctionModel:
        return FunctionModel(lambda rows: rows / rows.sum(axis=1, keepdims=True), class_names=names)

    plain = view(ROWS, model(["a", "b", "c"]))
    permuted = plain.outputs.reorder_classes(("c", "a", "b"))
    data = view(ROWS, model(["a", "b", "c"]), outputs=permuted)
    assert np.allclose(mixup_distances(data, alpha=0.3), mixup_distances(plain, alpha=0.3))


def test_names_are_those_of_the_paper() -> None:
    members = [Mixup(form, alpha) for alpha in (0.1, 0.3) for form in COMPARISON_FORMS]
    assert [member.name for member in members] == [
        "mixup",
        "mixup-diff",
        "mixup-ratio",
        "mixup-log-diff",
        "mixup-0.3",
        "mixup-diff-0.3",
        "mixup-ratio-0.3",
        "mixup-log-diff-0.3",
    ]
    assert [member.label for member in members[3:5]] == ["Mixup-Log-Diff", "Mixup-Alpha-0.3"]


def not_applicable_reason(data: ModelView) -> str:
    with pytest.raises(NotApplicable) as caught:
        measure_one(Mixup(), Subject(data, data))
    return str(caught.value)


def test_unsuitable_data_are_not_applicable() -> None:
    assert not_applicable_reason(view(ROWS[:1])) == "'data' has a single row, and mixing needs two"
    assert "contains text, which cannot be interpolated" in not_applicable_reason(view(["a", "b"]))
    classes = FunctionModel(lambda rows: (rows[:, 0] > 0.5).astype(int), outputs="classes")
    assert "cannot be computed from classes alone" in not_applicable_reason(view(ROWS, classes))
    bare = ModelView(ViewSource("bare", outputs=view().outputs))
    assert "no model was given with its inputs" in not_applicable_reason(bare)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"form": "sum"}, "form must be one of plain, diff, ratio, log-diff; got 'sum'."),
        ({"alpha": 0.0}, "alpha must be above 0; got 0.0."),
        ({"rows": 0}, "rows must be at least 1; got 0."),
    ],
)
def test_invalid_settings_raise(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Mixup(**settings)
    assert str(caught.value) == message
