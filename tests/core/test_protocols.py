from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator
from oodometer.core.results import Estimate
from oodometer.estimators import available


def test_value_in_range_has_no_note() -> None:
    assert Estimate(0.25) == Estimate(0.25, notes=())
    assert Estimate(1.0 + 1e-12).notes == ()
    assert Estimate(1.0 + 1e-12).value == 1.0


@pytest.mark.parametrize(("raw", "kept"), [(1.3, 1.0), (-0.2, 0.0)])
def test_value_out_of_range_is_clipped_with_a_note(raw: float, kept: float) -> None:
    found = Estimate(raw, notes=("first",))
    assert found.value == kept
    assert found.notes == ("first", f"the raw value {raw:.3f} was clipped to [0, 1]")


@pytest.mark.parametrize("raw", [float("nan"), float("inf")])
def test_non_finite_value_is_not_applicable(raw: float) -> None:
    with pytest.raises(NotApplicable, match="the estimate is"):
        Estimate(raw)


def test_to_dict_is_plain_json() -> None:
    found = Estimate(0.5, method="m", low=0.4, high=0.6, notes=("n",), facts={"threshold": 0.7})
    assert json.loads(json.dumps(found.to_dict()))["facts"] == {"threshold": 0.7}


def test_plain_class_satisfies_the_estimator_protocol() -> None:
    @dataclass(frozen=True)
    class Mine:
        name: ClassVar[str] = "mine"
        assumes: ClassVar[str] = "nothing"

        def estimate(self, source: Predictions, target: Predictions) -> Estimate:
            return Estimate(0.5)

    assert isinstance(Mine(), Estimator)
    assert not isinstance(object(), Estimator)


def test_members_are_hashable_by_settings() -> None:
    assert len(set(available())) == len(available())
    assert set(available()) == {replace(member) for member in available()}  # type: ignore[type-var]
