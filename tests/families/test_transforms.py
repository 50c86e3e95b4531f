"""Conformance rules on every transform, the registry, and violations that the checks detect."""

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
from oodometer.transforms.strength import at_fixed_strength
from tests.support.cases import assert_conformance


def _without_translator(member: Transform) -> Transform:
    """Replace the translator of back-translation, which may not be installed."""
    if isinstance(member, transforms.BackTranslation):
        return replace(member, translator=lambda texts: [text.swapcase() for text in texts])
    return member


MEMBERS = [_without_translator(member) for member in transforms.available()]
FIXED = [
    at_fixed_strength(member)
    for member in transforms.available()
    if at_fixed_strength(member) != member
]


def test_every_transform_keeps_the_rules() -> None:
    assert_conformance(TRANSFORM_RULES, MEMBERS, [0, 1])


def test_every_transform_keeps_the_rules_at_fixed_strength() -> None:
    assert [member.name for member in FIXED] == ["randaugment", "ssmba", "eda", "random_replace"]
    assert_conformance(TRANSFORM_RULES, FIXED, [0, 1])


def test_every_kind_has_transforms_and_a_default() -> None:
    for kind in INPUT_KINDS:
        members = transforms.available_for_kind(kind)
        assert all(kind in member.kinds for member in members), kind
        assert transforms.DEFAULT_TRANSFORMS[kind] in [member.name for member in members]


def test_names_and_labels_are_unique() -> None:
    for attribute in ("name", "label"):
        assert len({getattr(member, attribute).lower() for member in MEMBERS}) == len(MEMBERS)


def test_measure_names_contain_the_transform() -> None:
    published = {"RandAug": "randaugment", "Translate": "translate", "Erase": "erase",
                 "FC": "flip_crop", "SSMBA": "ssmba", "EDA": "eda", "BT": "backtranslate",
                 "RandRep": "random_replace"}  # fmt: skip
    names = {
        f"{prefix}-{label}": name
        for prefix in ("NI", "MS", "ne", "EI", "PA")
        for label, name in published.items()
    }
    assert {full: transforms.get(full).name for full in names} == names


def test_unknown_name_suggests_the_closest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'randaugment'"):
        transforms.get("randaug-ment")


@dataclass(frozen=True)
class FlipVertically(Transform):
    """Flip images vertically at random."""

    name: ClassVar[str] = "flip_vertically"
    label: ClassVar[str] = "Flip-Vertically"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)
    assumes: ClassVar[str] = "orientation does not matter"
    magnitude: float = 1.0

    def apply(self, inputs: Any, draws: RowStreams) -> Any:
        is_flipped = draws.uniforms(1)[:, 0] < self.magnitude / 2
        return np.where(is_flipped[:, None, None, None], inputs[:, ::-1], inputs)


def test_entry_points_add_transforms_and_reject_others() -> None:
    entry = mock.Mock(load=lambda: FlipVertically)
    with mock.patch("importlib.metadata.entry_points", return_value=[entry]):
        assert transforms.get("flip_vertically") == FlipVertically()
        assert FlipVertically() in transforms.available_for_kind("images")
    invalid = mock.Mock(load=lambda: dict)
    invalid.name = "theirs"
    with (
        mock.patch("importlib.metadata.entry_points", return_value=[invalid]),
        pytest.raises(InputError, match="'theirs' returns a dict, which is not a valid transform"),
    ):
        transforms.available()


@dataclass(frozen=True)
class RuleBreaker(FlipVertically):
    """Transform that violates one rule, by name."""

    fault: str = ""

    def apply(self, inputs: Any, draws: RowStreams) -> Any:
        return _FAULTS[self.fault](self, inputs, draws)


def _roll_images(images: Any, amounts: Any, magnitude: float) -> Any:
    steps = amounts.astype(np.int64) % 24 * int(magnitude)
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
    "by the example": lambda self, x, d: _roll_images(x, d.row_keys, self.magnitude),
    "by the number": lambda self, x, d: _roll_images(x, d.draw_index, self.magnitude),
    "not 0": lambda self, x, d: x // 2,
}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("type", "no batch of inputs|changes the type|dtype"),
        ("rows", "changes the number of rows"),
        ("impure", "changes its input|differs between two calls"),
        ("one draw", "depends on the other rows"),
        ("by the clock", "differs between two calls"),
        ("shape", "changes the shape or dtype of images"),
        ("by the batch", "depends on the other rows"),
        ("still", "40 draws of one input give 1 results"),
        ("by the example", "40 draws of one input give 1 results"),
        ("by the number", "40 examples of one input give 1 results"),
        ("not 0", "at magnitude 0"),
    ],
)
def test_violated_rules_are_detected(fault: str, message: str) -> None:
    with pytest.raises((AssertionError, InputError), match=message):
        check_transform(RuleBreaker(fault=fault))


def test_exceeded_magnitude_is_detected() -> None:
    @dataclass(frozen=True)
    class TooFar(transforms.Translate):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return replace(transforms.Translate(), magnitude=2 * self.magnitude).apply(
                inputs, draws
            )

    with pytest.raises(AssertionError, match=r"translate changed an input by 0.[12]"):
        check_transform(TooFar())


def test_changed_column_types_are_detected() -> None:
    @dataclass(frozen=True)
    class Rounding(FlipVertically):
        kinds: ClassVar[tuple[InputKind, ...]] = ("table",)

        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            position = inputs.column_names.index("age")
            return inputs.set_column(position, "age", inputs.column("age").cast("float64"))

    with pytest.raises(AssertionError, match="changes the column types"):
        check_transform(Rounding())


def test_ignored_magnitude_is_detected() -> None:
    @dataclass(frozen=True)
    class FixedMagnitude(transforms.Translate):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return transforms.Translate(0.1 * (self.magnitude > 0)).apply(inputs, draws)

    with pytest.raises(AssertionError, match=r"translate changed .* more than 0.052"):
        check_transform(FixedMagnitude())


def test_custom_meter_is_used() -> None:
    @dataclass(frozen=True)
    class CustomTranslate(transforms.Translate):
        name: ClassVar[str] = "custom_translate"

        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return transforms.Translate(2 * self.magnitude).apply(inputs, draws)

    check_transform(CustomTranslate())  # an unknown name has no meter, so the bound is not checked
    with pytest.raises(
        AssertionError, match=r"custom_translate changed an input by 0.1\d+, more than 0.1"
    ):
        check_transform(CustomTranslate(), meter=MAGNITUDE_METERS["translate"])


def test_unused_magnitude_is_detected() -> None:
    @dataclass(frozen=True)
    class TooSmall(transforms.Translate):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return replace(transforms.Translate(), magnitude=0.4 * self.magnitude).apply(
                inputs, draws
            )

    with pytest.raises(AssertionError, match="translate never reaches half of its magnitude"):
        check_transform(TooSmall())


def test_toy_inputs_differ_by_seed() -> None:
    assert toy_inputs("text", seed=1) != toy_inputs("text", seed=2)
