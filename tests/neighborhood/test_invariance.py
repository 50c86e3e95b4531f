"""invariance(): against one input at a time, in any batches, orders and numbers of threads."""

from __future__ import annotations

import threading
import tracemalloc
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from oodometer.core import inputs as batches
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.inputs import InputKind
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.data.dataset import BaseDataset
from oodometer.neighborhood import _invariance
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.results import MEASURES, InvarianceResult, ModelInvariance
from oodometer.testing import toy_inputs
from oodometer.transforms import BackTranslation, available_for_kind
from tests.support.stub_models import ByContent, literal

KINDS: tuple[InputKind, ...] = ("images", "text", "pairs", "vectors", "table")
SWAPPED = BackTranslation(translator=lambda texts: [text.swapcase() for text in texts])
CASES = [
    (kind, SWAPPED if member.name == "backtranslate" else member)
    for kind in KINDS
    for member in available_for_kind(kind)
]


@dataclass(frozen=True)
class Noise(Transform):
    """Adds noise; vectors only, quick."""

    name: ClassVar[str] = "noise"
    label: ClassVar[str] = "Noise"
    kinds: ClassVar[tuple[InputKind, ...]] = ("vectors",)
    assumes: ClassVar[str] = "a little noise changes nothing"
    magnitude: float = 1.0

    def apply(self, inputs: Any, draws: RowStreams) -> Any:
        return inputs + self.magnitude * (draws.uniforms(inputs.shape[1]) - 0.5)


def vectors(n: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2))


@dataclass
class Linear:
    """Two classes, by the sign of the first column."""

    name: str = "linear"
    bias: float = 0.0

    def classify(self, inputs: Any) -> Predictions:
        gap = 4 * (inputs[:, 0] - self.bias)
        return Predictions.from_logits(np.stack([np.zeros(len(gap)), gap], axis=1))


def values(found: InvarianceResult) -> list[tuple[float, ...]]:
    return [tuple(r.value for _, r in one.all_measures()) for one in found]


@pytest.mark.parametrize(("kind", "member"), CASES, ids=lambda v: getattr(v, "name", v))
def test_measures_are_those_of_a_literal_loop(kind: InputKind, member: Transform) -> None:
    dataset = as_dataset(toy_inputs(kind, n=7))
    model = ByContent()
    found = invariance(model, dataset, transform=member, draws=4, seed=5, batch_size=9)[0]
    ready = member.learn(dataset.take(np.arange(7)))
    twins = [literal(model, dataset, ready, i, draws=4, seed=5) for i in range(7)]
    for measure in MEASURES:
        expected = [getattr(twin, measure) for twin in twins]
        assert found.by_example(measure) == pytest.approx(expected, abs=1e-9), measure
        assert found.mean_with_interval(measure).value == pytest.approx(np.mean(expected), abs=1e-9)
    assert found.entropy_difference == pytest.approx(np.mean([t.rise for t in twins]), abs=1e-9)


def test_without_the_identity_it_has_no_vote() -> None:
    dataset, model = as_dataset(vectors(20)), ByContent()
    found = invariance(model, dataset, transform=Noise(), draws=3, identity=False)[0]
    for i in range(20):
        twin = literal(model, dataset, Noise(), i, draws=3, seed=0, identity=False)
        for measure in MEASURES:
            assert found.by_example(measure)[i] == pytest.approx(getattr(twin, measure), abs=1e-9)


@pytest.mark.parametrize("batch", [1, 7, 512])
@pytest.mark.parametrize("threads", [0, 1, 2])
@pytest.mark.parametrize("wish", [{}, {"max_inputs": 150}, {"precision": 0.08}])
def test_batches_and_threads_change_nothing(batch: int, threads: int, wish: dict[str, Any]) -> None:
    data = vectors(230)
    expected = invariance(ByContent(), data, transform=Noise(), seed=2, **wish)
    found = invariance(
        ByContent(), data, transform=Noise(), seed=2, batch_size=batch, threads=threads, **wish
    )
    assert values(found) == values(expected)
    assert np.array_equal(found[0].counts.classes, expected[0].counts.classes)
    assert found.sampling_cost == expected.sampling_cost


@pytest.mark.parametrize("wish", [{}, {"max_inputs": 150}])
def test_the_order_of_the_data_changes_nothing(wish: dict[str, Any]) -> None:
    data = vectors(100)
    order = np.random.default_rng(3).permutation(100)
    straight = invariance(ByContent(), data, transform=Noise(), draws=4, **wish)[0]
    mixed = invariance(ByContent(), data[order], transform=Noise(), draws=4, **wish)[0]
    for one in ("ni", "pa") if straight.complete else ("pa",):
        there = dict(zip(straight.positions, straight.by_example(one), strict=True))
        here = dict(zip(order[mixed.positions], mixed.by_example(one), strict=True))
        assert here == there


def test_seeds_differ_and_examples_have_draws_of_their_own() -> None:
    data = vectors(40)
    first, second = (invariance(ByContent(), data, transform=Noise(), seed=s) for s in (0, 1))
    assert values(first) != values(second)


def test_all_models_see_the_same_draws_and_each_is_judged_alone() -> None:
    data, models = vectors(50), [ByContent("a"), ByContent("b", salt=9), Linear()]
    together = invariance(models, data, transform=Noise())
    alone = [invariance(model, data, transform=Noise()) for model in models]
    assert values(together) == [values(one)[0] for one in alone]
    assert together.models == ("a", "b", "linear")
    assert together["b"] is together[1]


def test_models_of_one_name_are_told_apart_and_mappings_name_them() -> None:
    data = vectors(10)
    three = invariance([Linear(), Linear(), Linear()], data, transform=Noise())
    assert three.models == ("linear", "linear (2)", "linear (3)")
    named = invariance({"old": Linear(), "new": Linear(bias=1.0)}, data, transform=Noise())
    assert named.models == ("old", "new")
    with pytest.raises(InputError, match="The model 'odd' gave what can't be used"):
        invariance({"odd": lambda x: np.full((len(x), 2), np.nan)}, data, transform=Noise())


def test_identical_draws_are_classified_once() -> None:
    """At 8×8 many whole-image draws are alike; and a still transform gives only the example."""
    data, model = vectors(30), ByContent()
    found = invariance(model, data, transform=Noise(magnitude=0.0), draws=9)
    assert sum(model.shown) == found.sampling_cost.classified == 30
    assert found.sampling_cost.drawn == 300
    assert found[0].mean_with_interval("ni").value == 1.0


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_no_model_is_shown_more_than_a_batch(batch: int) -> None:
    model = ByContent()
    invariance(model, vectors(60), transform=Noise(), draws=4, batch_size=batch)
    assert max(model.shown) <= batch


@dataclass(frozen=True, eq=False)
class Endless(BaseDataset):
    """Images made when they are asked for; notes how many that is at a time."""

    kind: ClassVar[InputKind] = "images"
    name: ClassVar[str] = "endless"
    labels: ClassVar[None] = None
    keys: Any
    asked: list[int]

    @property
    def fingerprint(self) -> str:
        return "endless"

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, index: Any) -> Endless:
        return Endless(self.keys[index], self.asked)

    def take(self, index: Any) -> Any:
        chosen = self.keys[index]
        self.asked.append(len(chosen))
        made = (chosen[:, None] + np.arange(48 * 48, dtype=np.uint64)) % np.uint64(251)
        return made.astype(np.uint8).reshape(-1, 48, 48)


@pytest.mark.parametrize("threads", [0, 2])
def test_memory_is_bounded_by_a_few_batches(threads: int) -> None:
    """All 11,000 inputs are 25 MB, a batch of them is a quarter of one."""
    data = Endless(np.arange(1000, dtype=np.uint64), [])
    constant = {"constant": lambda x: np.tile([0.9, 0.1], (len(x), 1))}
    invariance(
        constant, data.rows(slice(0, 20)), transform="translate", batch_size=110
    )  # what is imported once
    tracemalloc.start()
    try:
        invariance(constant, data, transform="translate", batch_size=110, threads=threads)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert max(data.asked) <= 10
    assert sum(data.asked) == 20 + 1000  # each was read once
    assert peak < 12 * 110 * 48 * 48


def test_what_a_transform_learns_from_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_invariance, "MAX_LEARN_ROWS", 10)

    @dataclass(frozen=True)
    class Learner(Noise):
        def learn(self, inputs: Any) -> Any:
            seen.append(inputs)
            return self

    seen: list[Any] = []
    data = vectors(40)
    invariance(Linear(), data, transform=Learner())
    invariance(Linear(), data[::-1], transform=Learner())
    assert [len(some) for some in seen] == [10, 10]
    assert np.array_equal(*seen)  # and is the same wherever rows stand


def test_hard_labels_are_a_legal_model() -> None:
    found = invariance(ByContent(hard=True), vectors(30), transform=Noise())[0]
    soft = invariance(ByContent(), vectors(30), transform=Noise())[0]
    for measure in ("ni", "ne", "pa"):
        assert found.mean_with_interval(measure) == soft.mean_with_interval(measure)
    with pytest.raises(NotApplicable, match="ei needs probabilities"):
        found.mean_with_interval("ei")
    assert found.entropy_difference is None
    assert "can't be told" in found.warnings()[0]


def test_a_transform_of_another_kind_is_refused_with_those_that_fit() -> None:
    with pytest.raises(InputError, match=r"'eda' changes text and pairs; .* are vectors. For vec"):
        invariance(Linear(), vectors(5), transform="eda")


def test_a_model_that_gives_too_few_rows_is_named() -> None:
    @dataclass
    class Short:
        name: str = "short"

        def classify(self, inputs: Any) -> Predictions:
            return Predictions.from_classes([0] * (len(inputs) - 1), k=2)

    with pytest.raises(InputError, match=r"'short' returned \d+ rows for \d+ inputs"):
        invariance(Short(), vectors(20), transform=Noise())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_who_stops_a_run_leaves_no_thread_behind(error: Any, threads: int) -> None:
    @dataclass
    class Stopping(ByContent):
        def classify(self, inputs: Any) -> Predictions:
            if len(self.shown) == 3:
                raise error("stop")
            return super().classify(inputs)

    before = threading.active_count()
    with pytest.raises(error, match="stop"):
        invariance(Stopping(), vectors(300), transform=Noise(), batch_size=22, threads=threads)
    assert threading.active_count() == before


def test_the_entropy_rise_warns_of_a_transform_that_destroys_classes() -> None:
    """Sure predictions far from the border become unsure near it."""
    data = np.array([[1.5, 0.0], [-1.5, 0.0]] * 30) + vectors(60) * 0.01
    gentle = invariance(Linear(), data, transform=Noise(magnitude=0.1))[0]
    rough = invariance(Linear(), data, transform=Noise(magnitude=4.0))[0]
    assert gentle.warnings() == ()
    assert rough.entropy_difference is not None
    assert rough.entropy_difference > 0.1
    assert "unsuitable" in rough.warnings()[0]


def test_the_constant_classifier_is_found_out() -> None:
    def constant(inputs: Any) -> Any:
        return np.tile([0.9, 0.1], (len(inputs), 1))

    found = invariance(constant, vectors(80), transform=Noise())[0]
    assert found.mean_with_interval("ni").value == 1.0
    assert found.degenerate
    assert found.top_class == (0, 1.0)
    assert any("means nothing" in note for note in found.warnings())
    assert not invariance(Linear(), vectors(80), transform=Noise(magnitude=0.0))[0].degenerate


def test_transforms_learn_from_the_reference_where_there_is_one() -> None:
    narrow, wide = vectors(50), 100 * vectors(50)
    own = invariance(Linear(), narrow, transform="gaussian")[0]
    other = invariance(Linear(), narrow, transform="gaussian", transform_data=wide)[0]
    assert other.mean_with_interval("ni").value < own.mean_with_interval("ni").value - 0.1
    with pytest.raises(InputError, match="reference data are text, the data vectors"):
        invariance(Linear(), narrow, transform="gaussian", transform_data=["a text"])


def test_progress_ends_at_the_total() -> None:
    seen: list[tuple[int, int]] = []
    invariance(
        Linear(), vectors(50), transform=Noise(), progress=lambda a, b, _: seen.append((a, b))
    )
    assert seen[-1] == (550, 550)
    assert seen == sorted(seen)


def test_what_comes_out_can_be_read_as_text_and_as_json() -> None:
    import json

    found = invariance(Linear(), vectors(50), transform="gaussian")
    assert "NI-Gaussian" in str(found)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["models"][0]["ni"]["value"] == found[0].mean_with_interval("ni").value
    assert plain["sampling_cost"]["drawn"] == 550


def test_no_models_and_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="no models"):
        invariance([], vectors(5), transform=Noise())
    with pytest.raises(InputError, match="no models"):
        invariance({}, vectors(5), transform=Noise())
    with pytest.raises(InputError, match="transform must be a name or a Transform; got <class"):
        invariance(Linear(), vectors(5), transform=Noise)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="No transform is called 'nois'"):
        invariance(Linear(), vectors(5), transform="nois")
    with pytest.raises(InputError, match="No model is called 'x'"):
        invariance(Linear(), vectors(5), transform=Noise())["x"]


def test_batches_of_inputs_are_left_as_they_were() -> None:
    data = vectors(30)
    kept = data.copy()
    invariance(Linear(), data, transform=Noise())
    assert batches.batches_equal(data, kept)


def test_rows_of_a_tally_are_those_asked_for() -> None:
    found: ModelInvariance = invariance(ByContent(), vectors(10), transform=Noise())[0]
    some = found.counts.rows(np.array([3, 1]))
    assert np.array_equal(some.classes, found.counts.classes[[3, 1]])
    assert np.array_equal(some.effective_invariance, found.counts.effective_invariance[[3, 1]])


def test_what_is_no_earlier_run_cant_be_gone_on_with() -> None:
    with pytest.raises(InputError, match="resume must be what invariance gave before; got 5"):
        invariance(Linear(), vectors(5), transform=Noise(), resume=5)  # type: ignore[arg-type]


def test_a_transform_that_changes_the_shape_is_named() -> None:
    @dataclass(frozen=True)
    class Wider(Noise):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return np.concatenate([inputs, inputs], axis=1)

    with pytest.raises(InputError, match=r"'noise' made inputs of shape \(4,\) of those of \(2,\)"):
        invariance(Linear(), vectors(5), transform=Wider())
