"""Predictions: row statistics, memory sharing, derived predictions."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Array, ScoreType
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions

DTYPES = [np.float16, np.float32, np.float64]
NAMES = ("cat", "dog", "emu")
Door = Callable[..., Predictions]


def probs_of(n: int = 30, k: int = 3, seed: int = 0, dtype: npt.DTypeLike = np.float64) -> Array:
    return np.random.default_rng(seed).dirichlet(np.ones(k), size=n).astype(dtype)


def full(n: int = 30, seed: int = 0) -> Predictions:
    """Return predictions with labels, features, ids and class names."""
    rng = np.random.default_rng(seed)
    return Predictions.from_probs(
        probs_of(n, seed=seed),
        labels=rng.integers(3, size=n),
        features=rng.normal(size=(n, 4)),
        ids=np.arange(n) + 100,
        class_names=NAMES,
    )


# What they hold -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["probs", "logits"])
def test_row_statistics_match_the_kernels(form: ScoreType) -> None:
    scores = probs_of() if form == "probs" else np.random.default_rng(0).normal(size=(30, 3))
    door: Door = Predictions.from_probs if form == "probs" else Predictions.from_logits
    labels = np.random.default_rng(1).integers(3, size=30)
    found = door(scores, labels=labels)
    confidence, classes = softmax_kernels.confidence_and_class(scores, form)
    np.testing.assert_array_equal(found.confidence, confidence)
    np.testing.assert_array_equal(found.classes, classes)
    np.testing.assert_array_equal(
        found.negative_entropy, softmax_kernels.negative_entropy(scores, form)
    )
    np.testing.assert_allclose(found.probs, softmax_kernels.softmax(scores, form), rtol=1e-12)
    np.testing.assert_allclose(found.log_probs, np.log(found.probs), rtol=1e-9)
    np.testing.assert_array_equal(found.correct, scores.argmax(axis=1) == labels)
    assert (found.n, found.k, len(found), found.score_type) == (30, 3, 30, form)
    assert (found.is_labelled, found.has_probs) == (True, True)


def test_row_statistics_are_computed_once() -> None:
    found = full()
    for name in ("confidence", "classes", "negative_entropy", "correct"):
        assert getattr(found, name) is getattr(found, name)


def test_repr_names_rows_classes_and_score_type() -> None:
    assert repr(full(7)) == "Predictions(7 labelled rows, 3 classes, from probs)"
    logits = Predictions.from_logits([[1.0, -2.0]])
    assert repr(logits) == "Predictions(1 unlabelled rows, 2 classes, from logits)"


# No needless copies ---------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_are_not_copied(dtype: npt.DTypeLike, order: str) -> None:
    given = probs_of(dtype=dtype)
    given = np.asfortranarray(given) if order == "F" else given
    assert np.shares_memory(Predictions.from_probs(given).scores, given)
    logits = given * 9
    assert np.shares_memory(Predictions.from_logits(logits).scores, logits)


def test_labels_features_and_ids_are_not_copied() -> None:
    labels, features = np.zeros(30, dtype=np.int64), np.ones((30, 2), dtype=np.float32)
    ids = np.arange(30)
    found = Predictions.from_probs(probs_of(), labels=labels, features=features, ids=ids)
    assert np.shares_memory(found.labels, labels)
    assert np.shares_memory(found.features, features)
    assert np.shares_memory(found.ids, ids)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stored_probabilities_are_not_copied(dtype: npt.DTypeLike) -> None:
    given = probs_of(dtype=dtype)
    found = Predictions.from_probs(given)
    assert np.shares_memory(found.probs, given)
    assert not np.shares_memory(found.at_temperature(2.0).probs, given)


def test_a_slice_of_rows_is_a_view() -> None:
    found = full()
    part = found.rows(slice(5, 20, 3))
    assert np.shares_memory(part.scores, found.scores)
    assert np.shares_memory(part.labels, found.labels)


def peak_memory_of(work: Callable[[], object]) -> int:
    """Return the peak number of bytes allocated while working."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("form", ["probs", "logits"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_large_arrays_are_not_converted_as_a_whole(
    dtype: npt.DTypeLike, form: str, order: str
) -> None:
    scores = np.full((200_000, 10), 0.1, dtype=dtype)
    scores[:, 3] += 1e-4 if form == "probs" else 5.0
    scores[:, 4] -= 1e-4 if form == "probs" else 0.0
    scores = np.asfortranarray(scores) if order == "F" else scores
    door: Door = Predictions.from_probs if form == "probs" else Predictions.from_logits

    def work() -> None:
        found = door(scores)
        assert found.confidence.dtype == np.float32
        assert (found.classes == 3).all()
        assert found.negative_entropy.dtype == np.float32

    # One float32 copy: as much as a float32 input, twice as much as a float16 one.
    assert peak_memory_of(work) < 4 * scores.size


def test_peak_memory_helper_measures_allocations() -> None:
    scores = np.zeros((200_000, 10), dtype=np.float32)
    assert peak_memory_of(lambda: scores.astype(np.float64)) >= 2 * scores.nbytes


# Classes only, signals only -------------------------------------------------------------------


@pytest.mark.parametrize("classes", [[0, 2, 1], ["cat", "emu", "dog"], [0.0, 2.0, 1.0]])
def test_classes_are_given_by_number_or_name(classes: list[Any]) -> None:
    found = Predictions.from_classes(classes, class_names=NAMES, labels=["cat", "emu", "emu"])
    np.testing.assert_array_equal(found.classes, [0, 2, 1])
    np.testing.assert_array_equal(found.correct, [True, True, False])
    assert (found.n, found.k, found.score_type) == (3, 3, "classes")
    assert (found.is_labelled, found.has_probs) == (True, False)


@pytest.mark.parametrize("what", ["confidence", "negative_entropy", "probs", "log_probs"])
def test_classes_alone_have_no_probabilities(what: str) -> None:
    found = Predictions.from_classes([0, 1], k=3)
    with pytest.raises(
        NotApplicable, match="cannot be computed from classes alone; it needs probabilities"
    ):
        getattr(found, what)


def test_confidence_entropy_and_correctness_are_stored() -> None:
    confidence = np.array([0.9, 0.5], dtype=np.float32)
    found = Predictions.from_confidence(
        confidence, k=3, negative_entropy=[-0.3, -1.0], correct=[1, 0]
    )
    assert np.shares_memory(found.confidence, confidence)
    np.testing.assert_array_equal(found.negative_entropy, [-0.3, -1.0])
    np.testing.assert_array_equal(found.correct, [True, False])
    assert found.correct.dtype == np.bool_
    assert (found.n, found.k, found.score_type, found.is_labelled) == (2, 3, "signals", True)


@pytest.mark.parametrize("what", ["classes", "negative_entropy", "probs", "log_probs"])
def test_unavailable_statistics_are_not_applicable(what: str) -> None:
    with pytest.raises(NotApplicable, match="cannot be computed from signals alone"):
        getattr(Predictions.from_confidence([0.9, 0.5], k=3), what)


@pytest.mark.parametrize("dtype", DTYPES)
def test_entropy_of_two_classes_is_computed_from_confidence(dtype: npt.DTypeLike) -> None:
    confidence = np.array([0.5, 0.75, 1.0], dtype=dtype)
    found = Predictions.from_confidence(confidence, k=2).negative_entropy
    half, quarter = np.log(0.5), 0.25 * np.log(0.25) + 0.75 * np.log(0.75)
    np.testing.assert_allclose(found, [half, quarter, 0.0], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_rounded_confidence_of_a_uniform_row_is_accepted(k: int) -> None:
    even = 1.0 / k
    confidence = [float(np.float16(even)), round(even, 3), even, 1.0]
    found = Predictions.from_confidence(confidence, k=k)
    np.testing.assert_array_equal(found.confidence, confidence)
    if k == 2:
        assert np.isfinite(found.negative_entropy).all()


def test_correct_needs_labels() -> None:
    for found in (
        Predictions.from_probs(probs_of()),
        Predictions.from_classes([0, 1], k=2),
        Predictions.from_confidence([0.9], k=2),
    ):
        assert not found.is_labelled
        with pytest.raises(InputError, match=r"^These predictions have no labels\. Pass labels"):
            _ = found.correct


# Rows -----------------------------------------------------------------------------------------

EVERY_SECOND = np.arange(30) % 2 == 0


@pytest.mark.parametrize(
    "index",
    [slice(3, 17, 2), slice(None), np.array([4, 4, 0, 29]), EVERY_SECOND, np.array([-1, -2])],
    ids=["slice", "all", "numbers", "mask", "from the end"],
)
@pytest.mark.parametrize("computed_before", [False, True])
def test_rows_selects_from_all_arrays(index: Any, computed_before: bool) -> None:
    whole = full().with_other_models(full(seed=1))
    parts = ("confidence", "classes", "negative_entropy", "correct")
    if computed_before:
        for name in parts:
            getattr(whole, name)
    some = whole.rows(index)
    expected = np.arange(30)[index]
    assert some.n == len(some) == len(expected)
    for name in ("scores", "labels", "features", "ids", "probs", "log_probs", *parts):
        np.testing.assert_array_equal(getattr(some, name), getattr(whole, name)[expected])
    np.testing.assert_array_equal(
        some.other_models[0].classes, whole.other_models[0].classes[expected]
    )
    assert (some.k, some.class_names) == (3, NAMES)


@pytest.mark.parametrize("labels", [None, np.arange(30) % 3])
def test_rows_keeps_computed_statistics(monkeypatch: pytest.MonkeyPatch, labels: Any) -> None:
    plain = Predictions.from_probs(probs_of(), labels=labels)
    classes, whole = plain.classes, plain.at_temperature(2.0)
    expected = (whole.confidence, whole.negative_entropy, classes)

    def never(*_: object) -> None:
        raise AssertionError("computed twice")

    for name in ("confidence_and_class", "confidence", "negative_entropy"):
        monkeypatch.setattr(softmax_kernels, name, never)
    some = whole.rows(slice(10)).rows(np.array([0, 9]))
    found = (some.confidence, some.negative_entropy, some.classes)
    for part, was in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part, was[[0, 9]])


def test_rows_of_signals_and_of_classes() -> None:
    signals = Predictions.from_confidence(
        [0.9, 0.8, 0.7], k=3, negative_entropy=[-0.1, -0.2, -0.3], correct=[1, 0, 1]
    ).rows(np.array([2, 1]))
    np.testing.assert_array_equal(signals.confidence, [0.7, 0.8])
    np.testing.assert_array_equal(signals.negative_entropy, [-0.3, -0.2])
    np.testing.assert_array_equal(signals.correct, [True, False])
    decided = Predictions.from_classes([0, 1, 1], k=2, labels=[0, 0, 1]).rows(slice(1, None))
    np.testing.assert_array_equal(decided.classes, [1, 1])
    np.testing.assert_array_equal(decided.correct, [False, True])


@given(st.lists(st.integers(0, 29), min_size=1, max_size=10), st.data())
@settings(max_examples=30)
def test_rows_can_be_selected_repeatedly(first: list[int], data: st.DataObject) -> None:
    places = st.lists(st.integers(0, len(first) - 1), min_size=1, max_size=10)
    second = data.draw(places)
    whole = full()
    twice = whole.rows(np.array(first)).rows(np.array(second))
    np.testing.assert_array_equal(twice.ids, np.array(first)[second] + 100)
    np.testing.assert_array_equal(twice.confidence, whole.confidence[np.array(first)[second]])


# Temperature ----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 3.0])
@pytest.mark.parametrize("form", ["probs", "logits"])
def test_temperature_keeps_classes_and_changes_confidence(
    form: ScoreType, temperature: float
) -> None:
    door: Door = Predictions.from_probs if form == "probs" else Predictions.from_logits
    scores = probs_of() if form == "probs" else probs_of() * 9
    plain = door(scores, labels=np.zeros(30, dtype=int))
    found = plain.at_temperature(temperature)
    np.testing.assert_array_equal(found.classes, plain.classes)
    np.testing.assert_array_equal(found.correct, plain.correct)
    confidence = softmax_kernels.confidence_and_class(scores, form, temperature)[0]
    entropy = softmax_kernels.negative_entropy(scores, form, temperature)
    np.testing.assert_array_equal(found.confidence, confidence)
    np.testing.assert_array_equal(found.negative_entropy, entropy)
    np.testing.assert_array_equal(found.probs, softmax_kernels.softmax(scores, form, temperature))
    assert (found.confidence < plain.confidence).all() == (temperature > 1)
    assert found.temperature == temperature


def test_ties_are_broken_equally_at_every_temperature() -> None:
    tied = Predictions.from_probs([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])
    for temperature in (0.05, 0.7, 3.0, 20.0):
        np.testing.assert_array_equal(tied.at_temperature(temperature).classes, [0, 1])


def test_temperature_replaces_the_previous_one() -> None:
    plain = full()
    back = plain.at_temperature(3.0).at_temperature(1.0)
    np.testing.assert_array_equal(back.confidence, plain.confidence)
    assert plain.at_temperature(1.0) is plain
    assert (hot := plain.at_temperature(3.0)).at_temperature(3.0) is hot


def test_statistics_are_not_shared_between_temperatures() -> None:
    plain = full()
    _ = plain.confidence, plain.negative_entropy
    some, whole = plain.rows(slice(5)).at_temperature(3.0), full().at_temperature(3.0)
    np.testing.assert_array_equal(some.confidence, whole.confidence[:5])
    np.testing.assert_array_equal(some.negative_entropy, whole.negative_entropy[:5])


def test_temperature_keeps_other_models_labels_and_names() -> None:
    found = full().with_other_models(full(seed=1)).at_temperature(2.0)
    assert len(found.other_models) == 1
    assert found.class_names == NAMES
    np.testing.assert_array_equal(found.labels, full().labels)


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf])
def test_temperature_must_be_above_0(temperature: float) -> None:
    message = f"^temperature must be above 0; got {temperature}.$"
    with pytest.raises(InputError, match=message):
        full().at_temperature(temperature)
    with pytest.raises(InputError, match=message):
        Predictions.from_classes([0], k=2).at_temperature(temperature)


def test_temperature_does_not_change_classes_and_signals() -> None:
    for found in (Predictions.from_classes([0], k=2), Predictions.from_confidence([0.9], k=2)):
        assert found.at_temperature(2.0) is found


# Without labels -------------------------------------------------------------------------------


def has_no_label(found: Predictions) -> bool:
    """Return whether neither fields nor computed values reveal labels or correctness."""
    held = {**vars(found.precomputed), **{k: v for k, v in vars(found).items() if k != "known"}}
    return held["labels"] is None and held["correct"] is None and not found.is_labelled


@pytest.mark.parametrize("computed_before", [False, True])
def test_without_labels_removes_labels_and_correctness(computed_before: bool) -> None:
    whole = full()
    peers = whole.with_other_models(full(seed=1), full(seed=2))
    if computed_before:
        _ = whole.correct, peers.correct
    for made in (
        whole,
        peers,
        whole.rows(slice(10)),
        whole.at_temperature(2.0),
        whole.reorder_classes(NAMES[::-1]),
        Predictions.from_classes([0, 1], k=2, labels=[0, 0]),
        Predictions.from_confidence([0.9, 0.8], k=2, correct=[1, 0]),
    ):
        blind = made.without_labels()
        for found in (blind, blind.rows(slice(2)), blind.at_temperature(3.0), *blind.other_models):
            assert has_no_label(found)
            with pytest.raises(InputError, match="have no labels"):
                _ = found.correct


def test_without_labels_keeps_everything_else() -> None:
    whole = full()
    confidence = whole.confidence
    blind = whole.without_labels()
    assert blind.confidence is confidence
    for name in ("scores", "features", "ids", "class_names", "n", "k", "score_type"):
        assert getattr(blind, name) is getattr(whole, name)
    assert blind.without_labels() is blind
    assert whole.is_labelled


# Class order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("computed_before", [False, True])
@pytest.mark.parametrize("order", [("emu", "cat", "dog"), ("dog", "emu", "cat"), NAMES[::-1]])
def test_reordering_permutes_scores_labels_and_classes(
    order: tuple[str, ...], computed_before: bool
) -> None:
    whole = full()
    if computed_before:
        _ = whole.confidence
        whole = whole.rows(slice(None))
        assert whole.precomputed.classes is not None
    moved = whole.reorder_classes(order)
    assert moved.class_names == order
    assert whole.labels is not None
    assert moved.labels is not None
    for j, name in enumerate(order):
        np.testing.assert_array_equal(moved.probs[:, j], whole.probs[:, NAMES.index(name)])
    named = [order[j] for j in moved.labels], [order[j] for j in moved.classes]
    assert named[0] == [NAMES[j] for j in whole.labels]
    assert named[1] == [NAMES[j] for j in whole.classes]
    np.testing.assert_array_equal(moved.correct, whole.correct)
    np.testing.assert_array_equal(moved.confidence, whole.confidence)
    np.testing.assert_allclose(moved.negative_entropy, whole.negative_entropy, rtol=1e-12)
    np.testing.assert_array_equal(moved.reorder_classes(NAMES).scores, whole.scores)
    np.testing.assert_array_equal(moved.reorder_classes(NAMES).labels, whole.labels)


def test_reordering_permutes_classes_without_scores() -> None:
    decided = Predictions.from_classes(["cat", "emu", "dog"], class_names=NAMES, labels=[0, 1, 1])
    moved = decided.reorder_classes(("dog", "emu", "cat"))
    np.testing.assert_array_equal(moved.classes, [2, 1, 0])
    np.testing.assert_array_equal(moved.labels, [2, 0, 0])
    np.testing.assert_array_equal(moved.correct, decided.correct)


def test_reordering_permutes_other_models() -> None:
    whole = full().with_other_models(full(seed=1))
    agree = whole.classes == whole.other_models[0].classes
    moved = whole.reorder_classes(NAMES[::-1])
    np.testing.assert_array_equal(moved.classes == moved.other_models[0].classes, agree)
    np.testing.assert_array_equal(moved.other_models[0].classes, 2 - whole.other_models[0].classes)


def test_reordering_permutes_unnamed_other_models_by_position() -> None:
    whole = full().with_other_models(Predictions.from_classes(np.arange(30) % 3, k=3))
    moved = whole.reorder_classes(NAMES[::-1])
    np.testing.assert_array_equal(moved.other_models[0].classes, 2 - np.arange(30) % 3)


def test_reordering_without_names_or_change_returns_self() -> None:
    unnamed = Predictions.from_probs(probs_of())
    assert unnamed.reorder_classes(NAMES) is unnamed
    named = full()
    assert named.reorder_classes(None) is named
    assert named.reorder_classes(NAMES) is named


@pytest.mark.parametrize(
    ("order", "odd"),
    [
        (("cat", "dog", "fox"), "fox"),
        (("cat", "dog"), "emu"),
        (("cat", "dog", "emu", "fox"), "fox"),
    ],
)
def test_class_of_one_side_only_is_reported(order: tuple[str, ...], odd: str) -> None:
    with pytest.raises(InputError) as caught:
        full().reorder_classes(order)
    assert str(caught.value) == (
        f"Only one side has the class '{odd}'. Source and target must have the same classes."
    )


# Peers ----------------------------------------------------------------------------------------


def test_other_models_have_no_labels() -> None:
    one, two = full(seed=1), full(seed=2)
    found = full().with_other_models(one, two)
    assert [peer.is_labelled for peer in found.other_models] == [False, False]
    np.testing.assert_array_equal(found.other_models[1].classes, two.classes)
    assert found.is_labelled


def test_other_model_with_different_rows_raises() -> None:
    with pytest.raises(InputError) as caught:
        full().with_other_models(full(29))
    assert str(caught.value) == (
        "The second model has 29 rows, the target 30. "
        "Both must be predictions of the same rows in the same order."
    )


def test_other_model_with_different_class_count_raises() -> None:
    with pytest.raises(InputError, match=r"^the target has 3 classes, the second model has 4"):
        full().with_other_models(Predictions.from_probs(probs_of(k=4)))


def test_other_model_with_different_ids_raises() -> None:
    peer = Predictions.from_probs(probs_of(), ids=np.arange(30) + 101)
    with pytest.raises(InputError, match="row 0 is 100 in one and 101 in the other"):
        full().with_other_models(peer)
    assert full().with_other_models(Predictions.from_probs(probs_of())).other_models[0].ids is None


def test_other_model_is_reordered_to_our_classes() -> None:
    peer = full(seed=1)
    turned = full().with_other_models(peer.reorder_classes(NAMES[::-1]))
    np.testing.assert_array_equal(turned.other_models[0].classes, peer.classes)
    assert turned.other_models[0].class_names == NAMES


def test_other_model_with_different_class_names_raises() -> None:
    peer = Predictions.from_probs(probs_of(), class_names=["cat", "dog", "fox"])
    with pytest.raises(InputError, match="Only one side has the class 'emu'"):
        full().with_other_models(peer)
