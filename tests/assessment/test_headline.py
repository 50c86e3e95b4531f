"""Choice of the headline."""

from __future__ import annotations

import pytest

from oodometer import estimators
from oodometer.assessment.diagnostics import COMPARED_METHODS
from oodometer.assessment.headline import (
    METHOD_ORDER,
    NEEDED_METHODS,
    SIMILARITY_DIAGNOSTICS,
    describe_regime,
    select_headline,
)
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.estimators.aline import MIN_AGREEMENT_R2
from oodometer.testing import toy_predictions


def regime_facts(*weights: float, deviations: float = 9.0, misfit: float = 0.0) -> dict[str, float]:
    names = ("weight_confidence", "weight_label_shift", "weight_transport")
    return {
        **dict(zip(names, weights, strict=True)),
        "regime_auc": 0.71,
        "regime_auc_deviations": deviations,
        "regime_auc_reweighted": 0.69,
        "label_shift_misfit": misfit,
    }


def estimates(*names: str, r2: float = 1.0) -> dict[str, Estimate]:
    facts = {
        "agreement_r2": r2,
        "agreement_is_linear": float(r2 >= MIN_AGREEMENT_R2),
        **regime_facts(0.0, 0.02, 0.98),
    }
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
    if name == "regime":
        assert why == describe_regime(estimates("regime")["regime"])
    else:
        assert why == f"the first of {', '.join(METHOD_ORDER)} with a result"


def test_uncalibrated_scores_exclude_regime_and_cot() -> None:
    results = estimates("regime", "cot", "atc-mc")
    name, why = select_headline(results, toy_predictions(50), calibrated=False, statuses={})
    assert name == "atc-mc"
    reason = "the scores were not calibrated"
    assert why.endswith(f"; not regime: {reason}; not cot: {reason}")


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
    known = {member.name for member in estimators.available()}
    assert set(METHOD_ORDER) | set(NEEDED_METHODS) <= known


def test_methods_that_diagnostics_compare_are_always_run() -> None:
    assert set(COMPARED_METHODS) <= set(NEEDED_METHODS)
    assert METHOD_ORDER[0] in NEEDED_METHODS


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


@pytest.mark.parametrize("levels", [("ok", "ok"), ("ok", "warning"), ("critical", "critical")])
def test_regime_is_chosen_for_similar_and_for_different_domains(levels: tuple[str, ...]) -> None:
    statuses = dict(zip(SIMILARITY_DIAGNOSTICS, levels, strict=True)) | {"calibration_gap": "ok"}
    results = estimates("ac", "doc", "cot", "atc-mc", "regime")
    for source in (toy_predictions(50), toy_predictions(50, k=2)):
        assert select_headline(results, source, calibrated=True, statuses=statuses)[0] == "regime"


@pytest.mark.parametrize(
    ("calibrated", "gap", "name"),
    [(True, "ok", "regime"), (True, "warning", "doc"), (False, "ok", "doc")],
)
def test_doc_is_chosen_if_domains_look_alike_and_scores_are_not_calibrated(
    calibrated: bool, gap: str, name: str
) -> None:
    results = estimates("cot", "doc", "ac", "regime")
    statuses = {**dict.fromkeys(SIMILARITY_DIAGNOSTICS, "ok"), "calibration_gap": gap}
    source = toy_predictions(50)
    assert select_headline(results, source, calibrated=calibrated, statuses=statuses)[0] == name


@pytest.mark.parametrize(
    ("weights", "deviations", "misfit", "start"),
    [
        ((0.97, 0.02, 0.01), 0.3, 0.0, "source and target look alike: "),
        ((0.02, 0.98, 0.0), 9.0, 2.0, "class frequencies changed, and little else did: "),
        ((0.0, 0.02, 0.98), 9.0, 2.0, "more than the class frequencies changed: "),
        # With few rows per class, the weight of label shift is small.
        ((0.9, 0.1, 0.0), 9.0, 2.0, "class frequencies changed, and little else did: "),
        # With two classes, transport has no weight.
        ((1.0, 0.0, 0.0), 9.0, 30.0, "more than the class frequencies changed: "),
    ],
)
def test_description_names_the_shift_that_was_found(
    weights: tuple[float, ...], deviations: float, misfit: float, start: str
) -> None:
    facts = regime_facts(*weights, deviations=deviations, misfit=misfit)
    text = describe_regime(Estimate(0.5, "regime", facts=facts))
    assert text.startswith(start)
    assert "0.71" in text
    # The AUROC of the reweighted source says nothing if source and target look alike.
    assert ("0.69" in text) == (deviations > 2.5)
