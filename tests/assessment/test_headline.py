from __future__ import annotations

import pytest

from oodometer import estimators
from oodometer.assessment.headline import (
    METHOD_ORDER,
    SIMILARITY_DIAGNOSTICS,
    select_for_segments,
    select_headline,
)
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.estimators.aline import MIN_AGREEMENT_R2
from oodometer.testing import toy_predictions


def estimates(*names: str, r2: float = 1.0) -> dict[str, Estimate]:
    facts = {"agreement_r2": r2, "agreement_is_linear": float(r2 >= MIN_AGREEMENT_R2)}
    return {name: Estimate(0.5, name, facts=facts) for name in names}


@pytest.mark.parametrize("first", range(len(METHOD_ORDER) - 1))
def test_the_first_with_an_answer_is_picked(first: int) -> None:
    name, why = select_headline(
        estimates(*reversed(METHOD_ORDER[first:])),
        toy_predictions(50),
        calibrated=True,
        statuses={},
    )
    assert name == METHOD_ORDER[first]
    assert why == f"the first of {', '.join(METHOD_ORDER)} with an answer"


def test_scores_that_are_no_chances_speak_against_transport() -> None:
    found = estimates("cot", "atc-mc")
    name, why = select_headline(found, toy_predictions(50), calibrated=False, statuses={})
    assert name == "atc-mc"
    assert why.endswith("; not cot: the scores were not calibrated")


def test_a_source_without_an_error_sets_no_threshold() -> None:
    source = toy_predictions(50)
    perfect = Predictions.from_logits(source.scores, labels=source.classes)
    assert (
        select_headline(
            estimates("atc-mc", "atc-ne", "doc"), perfect, calibrated=True, statuses={}
        )[0]
        == "doc"
    )


@pytest.mark.parametrize(("r2", "name"), [(0.96, "aline-s"), (0.94, "bbse")])
def test_agreements_off_the_line_are_passed_over(r2: float, name: str) -> None:
    found = estimates("gde", "bbse", "aline-s", r2=r2)
    assert select_headline(found, toy_predictions(50), calibrated=True, statuses={})[0] == name


def test_what_the_rule_does_not_know_is_as_it_was_asked_for() -> None:
    found = estimates("pape", "cott")
    assert select_headline(found, toy_predictions(50), calibrated=True, statuses={}) == (
        "pape", "the first method asked for",
    )  # fmt: skip
    assert select_headline(estimates("cott"), toy_predictions(50), calibrated=True, statuses={})[
        1
    ].startswith("the only")


def test_all_of_the_rule_are_estimators() -> None:
    assert set(METHOD_ORDER) <= {one.name for one in estimators.available()}


@pytest.mark.parametrize(
    ("lights", "name"),
    [(("green", "green"), "doc"), (("green", "amber"), "cot"), (("red", "green"), "cot"),
     (("green",), "cot")],
)  # fmt: skip
def test_where_both_sides_look_alike_differences_are_believed(
    lights: tuple[str, ...], name: str
) -> None:
    found = estimates("cot", "atc-mc", "doc")
    seen = dict(zip(SIMILARITY_DIAGNOSTICS, lights, strict=False))
    assert select_headline(found, toy_predictions(50), calibrated=True, statuses=seen)[0] == name


def test_parts_are_not_held_to_the_class_shares_of_the_source() -> None:
    source = toy_predictions(50)
    assert select_for_segments(["cot", "doc", "atc-mc"], source) == "atc-mc"
    assert select_for_segments(["cot"], source) == "cot"
    assert select_for_segments(["cot", "aline-s"], source) == "cot"
    assert select_for_segments(["mine"], source) == "mine"


def test_parts_have_no_threshold_where_the_source_sets_none() -> None:
    sure = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]], labels=[0, 0])
    assert select_for_segments(["cot", "atc-mc", "atc-ne", "doc"], sure) == "doc"
