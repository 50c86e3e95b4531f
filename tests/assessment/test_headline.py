"""Choice of the headline."""

from __future__ import annotations

import pytest

from oodometer import estimators
from oodometer.assessment.headline import (
    METHOD_ORDER,
    SIMILARITY_DIAGNOSTICS,
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
def test_first_method_with_a_result_is_chosen(first: int) -> None:
    name, why = select_headline(
        estimates(*reversed(METHOD_ORDER[first:])),
        toy_predictions(50),
        calibrated=True,
        statuses={},
    )
    assert name == METHOD_ORDER[first]
    assert why == f"the first of {', '.join(METHOD_ORDER)} with a result"


def test_uncalibrated_scores_exclude_cot() -> None:
    results = estimates("cot", "atc-mc")
    name, why = select_headline(results, toy_predictions(50), calibrated=False, statuses={})
    assert name == "atc-mc"
    assert why.endswith("; not cot: the scores were not calibrated")


def test_source_without_errors_excludes_atc() -> None:
    source = toy_predictions(50)
    perfect = Predictions.from_logits(source.scores, labels=source.classes)
    assert (
        select_headline(
            estimates("atc-mc", "atc-ne", "doc"), perfect, calibrated=True, statuses={}
        )[0]
        == "doc"
    )


@pytest.mark.parametrize(("r2", "name"), [(0.96, "aline-s"), (0.94, "bbse")])
def test_agreements_that_are_not_linear_exclude_aline(r2: float, name: str) -> None:
    results = estimates("gde", "bbse", "aline-s", r2=r2)
    assert select_headline(results, toy_predictions(50), calibrated=True, statuses={})[0] == name


def test_first_requested_method_if_the_rule_knows_none() -> None:
    results = estimates("pape", "cott")
    assert select_headline(results, toy_predictions(50), calibrated=True, statuses={}) == (
        "pape", "the first requested method",
    )  # fmt: skip
    assert select_headline(estimates("cott"), toy_predictions(50), calibrated=True, statuses={})[
        1
    ].startswith("the only")


def test_methods_of_the_rule_are_estimators() -> None:
    assert set(METHOD_ORDER) <= {member.name for member in estimators.available()}


@pytest.mark.parametrize(
    ("levels", "name"),
    [(("ok", "ok"), "doc"), (("ok", "warning"), "cot"), (("critical", "ok"), "cot"),
     (("ok",), "cot")],
)  # fmt: skip
def test_doc_is_chosen_if_source_and_target_look_alike(levels: tuple[str, ...], name: str) -> None:
    results = estimates("cot", "atc-mc", "doc")
    statuses = dict(zip(SIMILARITY_DIAGNOSTICS, levels, strict=False))
    assert (
        select_headline(results, toy_predictions(50), calibrated=True, statuses=statuses)[0] == name
    )


@pytest.mark.parametrize(
    ("calibrated", "gap", "name"),
    [(True, "ok", "ac"), (True, "warning", "doc"), (False, "ok", "doc")],
)
def test_ac_is_chosen_if_domains_look_alike_and_scores_are_calibrated(
    calibrated: bool, gap: str, name: str
) -> None:
    results = estimates("cot", "doc", "ac")
    statuses = {**dict.fromkeys(SIMILARITY_DIAGNOSTICS, "ok"), "calibration_gap": gap}
    source = toy_predictions(50)
    assert select_headline(results, source, calibrated=calibrated, statuses=statuses)[0] == name
