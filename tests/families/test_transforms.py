"""The rules of the family, run on every transform, including those not written yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest

from oodometer import transforms
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import INPUT_KINDS, InputKind
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.testing import TRANSFORM_RULES, check_transform, toy_inputs
from oodometer.testing._transform_magnitude import MAGNITUDE_METERS


def _member(member: Transform) -> Transform:
    """Back-translation by a stand-in: the rules must hold whatever is installed."""
    if isinstance(member, transforms.BackTranslation):
        return replace(member, translator=lambda texts: [text.swapcase() for text in texts])
    return member


MEMBERS = [_member(member) for member in transforms.available()]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("rule", TRANSFORM_RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_every_transform_keeps_the_rules(member: Transform, rule: Any, seed: int) -> None:
    rule(member, seed)


@pytest.mark.parametrize("kind", INPUT_KINDS)
def test_every_kind_has_its_transforms_and_a_usual_one(kind: InputKind) -> None:
    fitting = transforms.available_for_kind(kind)
    assert all(kind in member.kinds for member in fitting)
    assert transforms.DEFAULT_TRANSFORMS[kind] in [member.name for member in fitting]


def test_names_and_labels_are_each_ones_own() -> None:
    for what in ("name", "label"):
        assert len({getattr(member, what).lower() for member in MEMBERS}) == len(MEMBERS)


@pytest.mark.parametrize("prefix", ["NI", "MS", "ne", "EI", "PA"])
def test_a_measures_name_names_its_transform(prefix: str) -> None:
    published = {"RandAug": "randaugment", "Translate": "translate", "Erase": "erase",
                 "FC": "flip_crop", "SSMBA": "ssmba", "EDA": "eda", "BT": "backtranslate",
                 "RandRep": "random_replace"}  # fmt: skip
    for label, name in published.items():
        assert transforms.get(f"{prefix}-{label}").name == name


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'randaugment'"):
        transforms.get("randaug-ment")


@dataclass(frozen=True)
class Upside(Transform):
    """Turns images over."""

    name: ClassVar[str] = "upside"
    label: ClassVar[str] = "Upside"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)
    assumes: ClassVar[str] = "nothing has an upper side"
    magnitude: float = 1.0

    def apply(self, inputs: Any, draws: RowStreams) -> Any:
        turned = draws.uniforms(1)[:, 0] < self.magnitude / 2
        return np.where(turned[:, None, None, None], inputs[:, ::-1], inputs)


def test_another_package_can_add_its_own() -> None:
    entry = mock.Mock(load=lambda: Upside)
    with mock.patch("importlib.metadata.entry_points", return_value=[entry]):
        assert transforms.get("upside") == Upside()
        assert Upside() in transforms.available_for_kind("images")
    wrong = mock.Mock(load=lambda: dict)
    wrong.name = "theirs"
    with (
        mock.patch("importlib.metadata.entry_points", return_value=[wrong]),
        pytest.raises(InputError, match="'theirs' returns a dict, which is not a valid transform"),
    ):
        transforms.available()


@dataclass(frozen=True)
class Broken(Upside):
    """Breaks one rule, by name."""

    fault: str = ""

    def apply(self, inputs: Any, draws: RowStreams) -> Any:
        return _FAULTS[self.fault](self, inputs, draws)


def _rolled(images: Any, by: Any, magnitude: float) -> Any:
    steps = by.astype(np.int64) % 24 * int(magnitude)
    return np.stack([np.roll(one, step, axis=0) for one, step in zip(images, steps, strict=True)])


_FAULTS: dict[str, Any] = {
    "type": lambda self, x, d: x.astype(np.float32) * (self.magnitude > 0),
    "rows": lambda self, x, d: x[: len(x) - (self.magnitude > 0)],
    "impure": lambda self, x, d: np.add(x, np.uint8(self.magnitude), out=x),
    "one draw": lambda self, x, d: np.roll(
        x, int(6 * self.magnitude * d.uniforms(1)[0, 0]), axis=1
    ),
    "by the clock": lambda self, x, d: (
        x
        + np.uint8(self.magnitude)
        * np.random.default_rng().integers(0, 200, x.shape, dtype=np.uint8)
    ),
    "shape": lambda self, x, d: x[:, : len(x[0]) - (self.magnitude > 0)],
    "by the batch": lambda self, x, d: np.roll(x, int(self.magnitude) * len(x) % 5, axis=1),
    "still": lambda self, x, d: x.copy(),
    "by the example": lambda self, x, d: _rolled(x, d.row_keys, self.magnitude),
    "by the number": lambda self, x, d: _rolled(x, d.draw_index, self.magnitude),
    "not 0": lambda self, x, d: x // 2,
}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("type", "no batch of inputs|changes the type|dtype"),
        ("rows", "changes the number of rows"),
        ("impure", "changes its input|differs when asked twice"),
        ("one draw", "depends on the other rows"),
        ("by the clock", "differs when asked twice"),
        ("shape", "changes the shape or dtype of images"),
        ("by the batch", "depends on the other rows"),
        ("still", "40 draws of one input give 1 results"),
        ("by the example", "40 draws of one input give 1 results"),
        ("by the number", "40 examples of one input give 1 results"),
        ("not 0", "at magnitude 0"),
    ],
)
def test_who_breaks_a_rule_is_caught(fault: str, message: str) -> None:
    with pytest.raises((AssertionError, InputError), match=message):
        check_transform(Broken(fault=fault))


def test_who_goes_beyond_the_bound_is_caught() -> None:
    @dataclass(frozen=True)
    class TooFar(transforms.Translate):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return replace(transforms.Translate(), magnitude=2 * self.magnitude).apply(
                inputs, draws
            )

    with pytest.raises(AssertionError, match=r"translate moved an input by 0.[12]"):
        check_transform(TooFar())


def test_who_changes_the_columns_types_is_caught() -> None:
    @dataclass(frozen=True)
    class Rounding(Upside):
        kinds: ClassVar[tuple[InputKind, ...]] = ("table",)

        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            place = inputs.column_names.index("age")
            return inputs.set_column(place, "age", inputs.column("age").cast("float64"))

    with pytest.raises(AssertionError, match="changes the columns' types"):
        check_transform(Rounding())


def test_who_keeps_to_the_usual_bound_alone_is_caught() -> None:
    @dataclass(frozen=True)
    class Stubborn(transforms.Translate):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return transforms.Translate(0.1 * (self.magnitude > 0)).apply(inputs, draws)

    with pytest.raises(AssertionError, match=r"translate moved .* beyond 0.052"):
        check_transform(Stubborn())


def test_a_meter_of_ones_own_is_read() -> None:
    @dataclass(frozen=True)
    class Shove(transforms.Translate):
        name: ClassVar[str] = "shove"

        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return transforms.Translate(2 * self.magnitude).apply(inputs, draws)

    check_transform(Shove())  # how far a name that is not known may go is not known either
    with pytest.raises(AssertionError, match=r"shove moved an input by 0.1\d+, beyond 0.1"):
        check_transform(Shove(), meter=MAGNITUDE_METERS["translate"])


def test_who_never_comes_near_the_bound_is_caught() -> None:
    @dataclass(frozen=True)
    class Timid(transforms.Translate):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return replace(transforms.Translate(), magnitude=0.4 * self.magnitude).apply(
                inputs, draws
            )

    with pytest.raises(AssertionError, match="translate never goes half as far as it may"):
        check_transform(Timid())


def test_toy_inputs_differ_by_seed() -> None:
    assert toy_inputs("text", seed=1) != toy_inputs("text", seed=2)
