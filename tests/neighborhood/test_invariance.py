"""invariance() against a naive loop, for all batch sizes, row orders and numbers of threads."""

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
from oodometer.models import as_model
from oodometer.neighborhood import _invariance
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.results import MEASURES, InvarianceResult
from oodometer.testing import toy_inputs
from oodometer.transforms import BackTranslation, RandomReplacement, available_for_kind
from tests.support.stub_models import ByContent, naive_measures

KINDS: tuple[InputKind, ...] = ("images", "text", "pairs", "vectors", "table")
SWAPPED = BackTranslation(translator=lambda texts: [text.swapcase() for text in texts])
CASES = [
    (kind, SWAPPED if member.name == "backtranslate" else member)
    for kind in KINDS
    for member in available_for_kind(kind)
]


@dataclass(frozen=True)
class Noise(Transform):
    """Uniform noise; a fast transform of vectors."""

    name: ClassVar[str] = "noise"
    label: ClassVar[str] = "Noise"
    kinds: ClassVar[tuple[InputKind, ...]] = ("vectors",)
    assumes: ClassVar[str] = "a little noise does not change the class"
    magnitude: float = 1.0

    def apply(self, inputs: Any, draws: RowStreams) -> Any:
        return inputs + self.magnitude * (draws.uniforms(inputs.shape[1]) - 0.5)


def vectors(n: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2))


@dataclass
class Linear:
    """Model of two classes: the sign of the first column."""

    name: str = "linear"
    bias: float = 0.0

    def classify(self, inputs: Any) -> Predictions:
        gap = 4 * (inputs[:, 0] - self.bias)
        return Predictions.from_logits(np.stack([np.zeros(len(gap)), gap], axis=1))


def values(result: InvarianceResult) -> list[tuple[float, ...]]:
    return [tuple(mean.value for _, mean in model.all_measures()) for model in result]


@pytest.mark.parametrize(("kind", "member"), CASES, ids=lambda v: getattr(v, "name", v))
def test_measures_match_a_naive_loop(kind: InputKind, member: Transform) -> None:
    dataset = as_dataset(toy_inputs(kind, n=7))
    model = ByContent()
    result = invariance(model, dataset, transform=member, draws=4, seed=5, batch_size=9)[0]
    transform = member.learn(dataset.take(np.arange(7)))
    naive = [naive_measures(model, dataset, transform, i, draws=4, seed=5) for i in range(7)]
    for measure in MEASURES:
        expected = [getattr(example, measure) for example in naive]
        assert result.by_example(measure) == pytest.approx(expected, abs=1e-9), measure
        mean = result.mean_with_interval(measure)
        assert mean.value == pytest.approx(np.mean(expected), abs=1e-9)
    increases = [example.rise for example in naive]
    assert result.entropy_difference == pytest.approx(np.mean(increases), abs=1e-9)


def test_identity_false_excludes_the_example() -> None:
    dataset = as_dataset(vectors(20))
    model = ByContent()
    result = invariance(model, dataset, transform=Noise(), draws=3, identity=False)[0]
    for i in range(20):
        naive = naive_measures(model, dataset, Noise(), i, draws=3, seed=0, identity=False)
        for measure in MEASURES:
            assert result.by_example(measure)[i] == pytest.approx(getattr(naive, measure), abs=1e-9)


@pytest.mark.parametrize("batch", [1, 7, 512])
@pytest.mark.parametrize("threads", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"max_inputs": 150}, {"precision": 0.08}])
def test_result_does_not_depend_on_batch_size_or_threads(
    batch: int, threads: int, options: dict[str, Any]
) -> None:
    data = vectors(230)
    expected = invariance(ByContent(), data, transform=Noise(), seed=2, **options)
    result = invariance(
        ByContent(), data, transform=Noise(), seed=2, batch_size=batch, threads=threads, **options
    )
    assert values(result) == values(expected)
    assert np.array_equal(result[0].counts.classes, expected[0].counts.classes)
    assert result.sampling_cost == expected.sampling_cost


@pytest.mark.parametrize("options", [{}, {"max_inputs": 150}])
def test_result_does_not_depend_on_row_order(options: dict[str, Any]) -> None:
    data = vectors(100)
    order = np.random.default_rng(3).permutation(100)
    straight = invariance(ByContent(), data, transform=Noise(), draws=4, **options)[0]
    mixed = invariance(ByContent(), data[order], transform=Noise(), draws=4, **options)[0]
    for measure in ("ni", "pa") if straight.complete else ("pa",):
        expected = dict(zip(straight.positions, straight.by_example(measure), strict=True))
        by_row = dict(zip(order[mixed.positions], mixed.by_example(measure), strict=True))
        assert by_row == expected


def test_seeds_give_different_draws() -> None:
    data = vectors(40)
    first, second = (invariance(ByContent(), data, transform=Noise(), seed=s) for s in (0, 1))
    assert values(first) != values(second)


def test_models_share_draws_and_are_measured_independently() -> None:
    data, models = vectors(50), [ByContent("a"), ByContent("b", salt=9), Linear()]
    together = invariance(models, data, transform=Noise())
    alone = [invariance(model, data, transform=Noise()) for model in models]
    assert values(together) == [values(result)[0] for result in alone]
    assert together.models == ("a", "b", "linear")
    assert together["b"] is together[1]


def test_equal_model_names_get_numbers_and_mappings_set_names() -> None:
    data = vectors(10)
    three = invariance([Linear(), Linear(), Linear()], data, transform=Noise())
    assert three.models == ("linear", "linear (2)", "linear (3)")
    named = invariance({"old": Linear(), "new": Linear(bias=1.0)}, data, transform=Noise())
    assert named.models == ("old", "new")
    with pytest.raises(InputError, match="The model 'odd' returned invalid outputs"):
        invariance({"odd": lambda x: np.full((len(x), 2), np.nan)}, data, transform=Noise())


def test_identical_draws_are_classified_once() -> None:
    """Many draws of 8×8 images are equal; a transform without effect returns the example."""
    data, model = vectors(30), ByContent()
    result = invariance(model, data, transform=Noise(magnitude=0.0), draws=9)
    assert sum(model.shown) == result.sampling_cost.classified == 30
    assert result.sampling_cost.drawn == 300
    assert result[0].mean_with_interval("ni").value == 1.0


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_models_get_at_most_one_batch_at_a_time(batch: int) -> None:
    model = ByContent()
    invariance(model, vectors(60), transform=Noise(), draws=4, batch_size=batch)
    assert max(model.shown) <= batch


@dataclass(frozen=True, eq=False)
class Endless(BaseDataset):
    """Images computed when taken; records the number of rows taken at a time."""

    kind: ClassVar[InputKind] = "images"
    name: ClassVar[str] = "endless"
    labels: ClassVar[None] = None
    keys: Any
    taken: list[int]

    @property
    def fingerprint(self) -> str:
        return "endless"

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, index: Any) -> Endless:
        return Endless(self.keys[index], self.taken)

    def take(self, index: Any) -> Any:
        chosen = self.keys[index]
        self.taken.append(len(chosen))
        made = (chosen[:, None] + np.arange(48 * 48, dtype=np.uint64)) % np.uint64(251)
        return made.astype(np.uint8).reshape(-1, 48, 48)


@pytest.mark.parametrize("threads", [0, 2])
def test_memory_is_bounded_by_a_few_batches(threads: int) -> None:
    """All 11,000 inputs have 25 MB, a batch a quarter of a megabyte."""
    data = Endless(np.arange(1000, dtype=np.uint64), [])
    constant = {"constant": lambda x: np.tile([0.9, 0.1], (len(x), 1))}
    # Lazy imports happen here, before memory is traced.
    invariance(constant, data.rows(slice(0, 20)), transform="translate", batch_size=110)
    tracemalloc.start()
    try:
        invariance(constant, data, transform="translate", batch_size=110, threads=threads)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert max(data.taken) <= 10
    assert sum(data.taken) == 20 + 1000  # each row was read once
    assert peak < 12 * 110 * 48 * 48


def test_transforms_learn_from_a_bounded_sample(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert [len(inputs) for inputs in seen] == [10, 10]
    assert np.array_equal(*seen)  # the sample does not depend on the order of rows


def test_models_without_probabilities_have_no_ei() -> None:
    hard = invariance(ByContent(hard=True), vectors(30), transform=Noise())[0]
    soft = invariance(ByContent(), vectors(30), transform=Noise())[0]
    for measure in ("ni", "ne", "pa"):
        assert hard.mean_with_interval(measure) == soft.mean_with_interval(measure)
    with pytest.raises(NotApplicable, match="ei needs probabilities"):
        hard.mean_with_interval("ei")
    assert hard.entropy_difference is None
    assert "cannot check" in hard.warnings()[0]


def test_unsuitable_kind_of_transform_lists_suitable_ones() -> None:
    message = r"'eda' applies to text and pairs; .* are vectors. Transforms for vectors: .*gaussian"
    with pytest.raises(InputError, match=message):
        invariance(Linear(), vectors(5), transform="eda")


def test_model_with_too_few_rows_is_named() -> None:
    @dataclass
    class Short:
        name: str = "short"

        def classify(self, inputs: Any) -> Predictions:
            return Predictions.from_classes([0] * (len(inputs) - 1), k=2)

    with pytest.raises(InputError, match=r"'short' returned \d+ rows for \d+ inputs"):
        invariance(Short(), vectors(20), transform=Noise())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_interrupted_run_ends_its_threads(error: Any, threads: int) -> None:
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


def test_entropy_increase_gives_a_warning() -> None:
    """Predictions far from the decision boundary lose confidence near it."""
    data = np.array([[1.5, 0.0], [-1.5, 0.0]] * 30) + vectors(60) * 0.01
    weak = invariance(Linear(), data, transform=Noise(magnitude=0.1))[0]
    strong = invariance(Linear(), data, transform=Noise(magnitude=4.0))[0]
    assert weak.warnings() == ()
    assert strong.entropy_difference is not None
    assert strong.entropy_difference > 0.1
    assert "unsuitable" in strong.warnings()[0]


def test_constant_classifier_is_degenerate() -> None:
    def constant(inputs: Any) -> Any:
        return np.tile([0.9, 0.1], (len(inputs), 1))

    result = invariance(constant, vectors(80), transform=Noise())[0]
    assert result.mean_with_interval("ni").value == 1.0
    assert result.degenerate
    assert result.top_class == (0, 1.0)
    assert any("meaningless" in warning for warning in result.warnings())
    assert not invariance(Linear(), vectors(80), transform=Noise(magnitude=0.0))[0].degenerate


def test_transforms_learn_from_transform_data() -> None:
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


def test_result_as_text_and_json() -> None:
    import json

    result = invariance(Linear(), vectors(50), transform="gaussian")
    assert "NI-Gaussian" in str(result)
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["models"][0]["ni"]["value"] == result[0].mean_with_interval("ni").value
    assert plain["sampling_cost"]["drawn"] == 550
    assert list(plain) == [
        "data", "fingerprint", "n", "transform", "label", "magnitude", "draws", "identity",
        "seed", "skipped", "settings", "strength", "sampling_cost", "models",
    ]  # fmt: skip


def test_missing_models_and_unknown_names_are_rejected() -> None:
    with pytest.raises(InputError, match="no models"):
        invariance([], vectors(5), transform=Noise())
    with pytest.raises(InputError, match="no models"):
        invariance({}, vectors(5), transform=Noise())
    with pytest.raises(
        InputError, match="transform must be a name, a Transform or a function; got <class"
    ):
        invariance(Linear(), vectors(5), transform=Noise)
    with pytest.raises(InputError, match="No transform is called 'nois'"):
        invariance(Linear(), vectors(5), transform="nois")
    with pytest.raises(InputError, match="No model is called 'x'"):
        invariance(Linear(), vectors(5), transform=Noise())["x"]


def test_inputs_are_not_modified() -> None:
    data = vectors(30)
    copy = data.copy()
    invariance(Linear(), data, transform=Noise())
    assert batches.batches_equal(data, copy)


def test_rows_selects_counts_of_examples() -> None:
    counts = invariance(ByContent(), vectors(10), transform=Noise())[0].counts
    selected = counts.rows(np.array([3, 1]))
    assert np.array_equal(selected.classes, counts.classes[[3, 1]])
    assert np.array_equal(selected.effective_invariance, counts.effective_invariance[[3, 1]])


def test_resume_must_be_a_result() -> None:
    with pytest.raises(InputError, match=r"resume must be a result of invariance\(\); got 5"):
        invariance(Linear(), vectors(5), transform=Noise(), resume=5)  # type: ignore[arg-type]


def test_transform_that_changes_the_shape_is_named() -> None:
    @dataclass(frozen=True)
    class Wider(Noise):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return np.concatenate([inputs, inputs], axis=1)

    message = r"'noise' returned inputs of shape \(4,\) for inputs of shape \(2,\)"
    with pytest.raises(InputError, match=message):
        invariance(Linear(), vectors(5), transform=Wider())


def test_smoothness_names_use_fixed_strength_without_the_identity() -> None:
    """MS-SSMBA equals ten draws at fixed strength without the identity; NI-SSMBA has both."""
    texts = [f"a {word} book about {word} houses and good roads" for word in ("good", "bad", "old")]
    model = as_model(lambda rows: [text.count("good") % 2 for text in rows], name="count")
    smooth = invariance(model, texts, transform="MS-RandRep")
    literal = invariance(
        model, texts, transform=RandomReplacement(strength="fixed"), draws=10, identity=False
    )
    assert (smooth.draws, smooth.identity, smooth.strength) == (10, False, "fixed")
    assert smooth.settings == literal.settings
    assert np.array_equal(smooth[0].by_example("ni"), literal[0].by_example("ni"))
    assert "count: MS-RandRep" in str(smooth)
    assert "MSE-RandRep" in str(smooth)
    assert "PA-RandRep" in str(smooth)
    plain = invariance(model, texts, transform="NI-RandRep")
    assert (plain.identity, plain.strength, plain.measure_label("ni")) == (
        True, "up_to", "NI-RandRep",
    )  # fmt: skip
    with_identity = invariance(model, texts, transform="MS-RandRep", identity=True)
    assert with_identity.identity
    assert with_identity.measure_label("ni") == "NI-RandRep"


def test_fixed_strength_cannot_resume_a_result_of_another_strength() -> None:
    texts, model = ["good book", "bad book"], as_model(lambda rows: [0] * len(rows), name="zero")
    first = invariance(model, texts, transform="random_replace", draws=2, identity=False)
    with pytest.raises(InputError, match="strength='fixed'"):
        invariance(model, texts, transform="MS-RandRep", draws=2, resume=first)
