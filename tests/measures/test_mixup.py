"""Mixup against a literal loop and closed forms; its pairs hang on content alone."""

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
    """A model that is far from linear, and counts the rows it is asked of."""

    name = "waves"

    def __init__(self) -> None:
        self.asked = 0

    def classify(self, inputs: Array) -> Predictions:
        self.asked += len(inputs)
        flat = inputs.reshape(len(inputs), -1).astype(float)
        sums = (flat / (255 if inputs.dtype == np.uint8 else 1)).sum(axis=1)
        return Predictions.from_logits(np.sin(np.outer(sums, [1.0, 2.0, 3.0])))


def view(rows: Any = ROWS, model: Any = None, **settings: Any) -> ModelView:
    chosen = FunctionModel(model) if callable(model) else model or Waves()
    return ModelView(ViewSource("data", as_dataset(rows), chosen, **settings))


def draws(n: int, seed: int = 0) -> RowStreams:
    return RowStreams(seed, np.arange(n, dtype=np.uint64), np.zeros(n, dtype=np.int64))


def literal(data: ModelView, alpha: float) -> Floats:
    """One pair after the other, as the algorithm prints it."""
    streams = data.row_streams("mixup")
    order = sorted(range(data.n), key=lambda row: int(streams.initial_states[row]))
    found = np.empty(data.n)
    for place, row in enumerate(order):
        partner = order[(place + 1) % data.n]
        share = beta.ppf(streams.uniforms(1)[row, 0], alpha, alpha)
        one, other = (data.inputs(np.array([r]))[0] for r in (row, partner))
        between = share * one.astype(float) + (1 - share) * other.astype(float)
        if one.dtype == np.uint8:
            between = np.round(between)
        asked = between.astype(one.dtype)[None]
        chords = share * data.outputs.probs[row] + (1 - share) * data.outputs.probs[partner]
        found[row] = ((chords - data.classify_inputs(asked).probs[0]) ** 2).sum()
    return found


@pytest.mark.parametrize("rows", [ROWS, IMAGES], ids=["vectors", "images"])
@pytest.mark.parametrize("alpha", [0.1, 0.3, 2.0])
def test_it_is_what_a_loop_over_pairs_gives(rows: Array, alpha: float) -> None:
    data = view(rows)
    expected = literal(data, alpha)
    assert expected.max() > 1e-4
    assert np.allclose(mixup_distances(data, alpha=alpha), expected, rtol=1e-9, atol=1e-12)


def test_of_a_linear_model_it_is_0() -> None:
    simplex = np.random.default_rng(1).dirichlet([1, 1, 1], size=50)
    assert np.abs(mixup_distances(view(simplex, lambda rows: rows), alpha=0.3)).max() < 1e-25


def test_of_a_quadratic_model_it_is_the_closed_form() -> None:
    """c = (x², 1 − x²) is off by λ(1−λ)(x₁ − x₂)², in both classes."""
    rows = np.random.default_rng(1).uniform(size=(60, 1))
    data = view(rows, lambda x: np.concatenate([x**2, 1 - x**2], axis=1))
    streams = data.row_streams("mixup")
    share, partner = mixing_shares(streams, alpha=0.3), mixing_partners(streams)
    off = share * (1 - share) * (rows[:, 0] - rows[partner, 0]) ** 2
    assert np.allclose(mixup_distances(data, alpha=0.3), 2 * off**2, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0])
def test_shares_are_beta(alpha: float) -> None:
    found = mixing_shares(draws(20_000), alpha=alpha)
    assert found.min() >= 0
    assert found.max() <= 1
    assert kstest(found, beta(alpha, alpha).cdf).pvalue > 1e-3


def test_shares_of_the_extremes_are_shares() -> None:
    class Extreme(RowStreams):
        def uniforms(self, count: int) -> Floats:
            return np.array([[0.0], [2.0**-53], [0.5], [1 - 2.0**-53]])

    found = mixing_shares(Extreme(0, *(draws(4).row_keys, draws(4).draw_index)), alpha=0.1)
    assert np.isfinite(found).all()
    assert found[0] == 0
    assert found[2] == pytest.approx(0.5)
    assert found[3] == pytest.approx(1)


@given(n=st.integers(2, 200), seed=st.integers(0, 2**32))
def test_everyone_has_one_partner_and_none_himself(n: int, seed: int) -> None:
    found = mixing_partners(draws(n, seed))
    assert sorted(found) == list(range(n))
    assert not (found == np.arange(n)).any()


@given(share=st.floats(0, 1), seed=st.integers(0, 100))
def test_images_are_half_a_level_off_at_most(share: float, seed: int) -> None:
    one, other = np.random.default_rng(seed).integers(0, 256, (2, 3, 4, 4), dtype=np.uint8)
    found = mix_rows(one, other, np.full(3, share))
    exact = share * one.astype(float) + (1 - share) * other.astype(float)
    assert found.dtype == np.uint8
    assert np.abs(found - exact).max() <= 0.5 + 1e-9
    assert np.array_equal(mix_rows(one, one, np.full(3, share)), one)


def test_images_give_what_their_vectors_do_up_to_the_rounding() -> None:
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


def test_the_order_of_rows_changes_nothing() -> None:
    order = np.random.default_rng(1).permutation(40)
    plain, turned = (mixup_distances(view(rows), alpha=0.3) for rows in (ROWS, ROWS[order]))
    assert np.allclose(turned, plain[order], rtol=1e-12)


def test_a_row_is_not_mixed_with_its_own_copies_alone() -> None:
    """Twenty copies of each of three rows: two in three pairs are of different rows."""
    rows = np.repeat(ROWS[:3], 20, axis=0)
    found = mixup_distances(view(rows), alpha=0.3)
    assert np.count_nonzero(found) > 20
    assert len(np.unique(found)) > 20
    turned = mixup_distances(view(rows[np.random.default_rng(1).permutation(60)]), alpha=0.3)
    assert np.allclose(np.sort(turned), np.sort(found), rtol=1e-12)


def test_a_row_has_one_value_in_whatever_subset_it_is_looked_at() -> None:
    some = np.array([3, 17, 30, 31])
    whole, part = view(), view()
    first = mixup_distances(part.rows(some), alpha=0.1)
    assert np.array_equal(first, mixup_distances(whole, alpha=0.1)[some])
    assert np.array_equal(mixup_distances(part, alpha=0.1), mixup_distances(whole, alpha=0.1))


def test_all_forms_and_bootstraps_share_one_pass_a_side() -> None:
    model = Waves()
    subject = Subject(view(ROWS, model), view(ROWS[:30] + 1, model))
    for form in COMPARISON_FORMS:
        measure_one(Mixup(form), subject)
    for _ in range(3):
        measure_one(Mixup("diff"), subject.subsample(0.8, np.random.default_rng(1)))
    assert model.asked == 2 * (40 + 30)


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mixup_distances(view(), alpha=0.3)
    monkeypatch.setattr(mixup, "MAX_MIXED_CELLS", 20)
    told: list[tuple[int, int, str]] = []
    data = view(progress=lambda *said: told.append(said))
    assert np.allclose(mixup_distances(data, alpha=0.3), whole, rtol=1e-12)
    assert told[-1] == (40, 40, "mixing data")
    assert len(told) >= 7


@pytest.mark.parametrize("form", COMPARISON_FORMS)
def test_forms_compare_the_target_with_the_source(form: Any) -> None:
    known, target = view(ROWS), view(ROWS[:30] + 1)
    found = measure_one(Mixup(form, 0.3), Subject(view(ROWS + 3), target, known))
    means = [float(mixup_distances(side, alpha=0.3).mean()) for side in (target, known)]
    assert found.value == pytest.approx(compare(means[0], means[1], form))
    assert found.facts["target"] == pytest.approx(means[0])
    assert found.facts["target_rows"] == 30
    assert found.facts.get("source") == (None if form == "plain" else pytest.approx(means[1]))
    assert found.notes == ()


def test_the_cap_is_reported() -> None:
    model = Waves()
    subject = Subject(view(ROWS[:5], model), view(ROWS, model))
    found = measure_one(Mixup("diff", rows=10), subject)
    assert found.notes == ("only 10 of 40 rows of 'data' were used, drawn at random",)
    assert (found.facts["target_rows"], found.facts["source_rows"]) == (10, 5)
    assert model.asked == 45 + 15
    turned = Subject(view(ROWS[:5]), view(ROWS[::-1].copy()))
    assert measure_one(Mixup("diff", rows=10), turned).value == pytest.approx(found.value)


def test_any_model_can_be_mixed() -> None:
    from sklearn.linear_model import LogisticRegression

    labels = (ROWS[:, 0] > 0.5).astype(int)
    fitted = LogisticRegression().fit(ROWS, labels)
    data = view(ROWS, as_model(fitted))
    found = measure_one(Mixup(), Subject(data, data)).value
    assert found == pytest.approx(literal(data, 0.1).mean(), rel=1e-6)


def test_classes_in_another_order_are_put_right() -> None:
    def model(names: list[str]) -> FunctionModel:
        return FunctionModel(lambda rows: rows / rows.sum(axis=1, keepdims=True), class_names=names)

    plain = view(ROWS, model(["a", "b", "c"]))
    turned = plain.outputs.reorder_classes(("c", "a", "b"))
    data = view(ROWS, model(["a", "b", "c"]), outputs=turned)
    assert np.allclose(mixup_distances(data, alpha=0.3), mixup_distances(plain, alpha=0.3))


def test_names_are_the_papers() -> None:
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


def refusal(data: ModelView) -> str:
    with pytest.raises(NotApplicable) as caught:
        measure_one(Mixup(), Subject(data, data))
    return str(caught.value)


def test_what_can_not_be_mixed_is_refused() -> None:
    assert refusal(view(ROWS[:1])) == "'data' has a single row, and two are mixed"
    assert "contains text, which cannot be interpolated" in refusal(view(["a", "b"]))
    classes = FunctionModel(lambda rows: (rows[:, 0] > 0.5).astype(int), outputs="classes")
    assert "can't be computed from classes alone" in refusal(view(ROWS, classes))
    bare = ModelView(ViewSource("bare", outputs=view().outputs))
    assert "no model was given with its inputs" in refusal(bare)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"form": "sum"}, "form must be one of plain, diff, ratio, log-diff; got 'sum'."),
        ({"alpha": 0.0}, "alpha must be above 0; got 0. The paper has 0.1 and 0.3."),
        ({"rows": 0}, "rows must be 1 or more; got 0. 5000 is usual."),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Mixup(**settings)
    assert str(caught.value) == words
