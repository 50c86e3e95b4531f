"""Claims of the papers as data, and the verdicts on them."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.studies import _claims
from benchmarks.studies._claims import (
    NO_VERDICT,
    PAPERS,
    Claim,
    ClaimResult,
    all_claims,
    bound_side,
    judge_claim,
    needed_text,
)
from benchmarks.studies._line_estimates import with_line
from oodometer.core.errors import UnknownName
from oodometer.estimators import available as estimators
from oodometer.measures import available as measures
from oodometer.metrics import available as metrics
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import BOOTSTRAP_STATISTICS, LOWER_IS_BETTER
from oodometer.transforms import available as transforms

STUDIES = Path(_claims.__file__).parent
NEIGHBORHOOD = ("ni", "ne", "ei", "pa", "ms", "mse")
# Studies whose scripts are added with their pages.
PLANNED = ("reviews", "tiny_imagenet")


def known_measure(name: str) -> bool:
    """Return whether a name is a measure, an estimator, a metric of a domain, or NI of a transform."""
    base = name.removesuffix(" (pre-T)").removesuffix(" with line").partition(" ")[0]
    known = {member.name for member in estimators()} | {member.name for member in measures()}
    roles = ("ID corrupted ", "ID ", "held-out OOD ")
    role = next((one for one in roles if name.startswith(one)), "")
    prefix, _, transform = base.partition("-")
    return (
        base in known
        or (bool(role) and name.removeprefix(role) in {member.name for member in metrics()})
        or (
            prefix in NEIGHBORHOOD
            and transform.removesuffix("-aligned") in {member.name for member in transforms()}
        )
    )


def test_claims_have_unique_ids_and_a_place_in_a_paper() -> None:
    counts = Counter(claim.id for claim in all_claims())
    assert [name for name, count in counts.items() if count > 1] == []
    for claim in all_claims():
        assert claim.paper in PAPERS, claim.id
        assert any(word in claim.place for word in ("Table", "Fig", "§", "App")), claim.id
        assert claim.words.strip() == claim.words.rstrip("."), claim.id
    assert set(PAPERS) == {claim.paper for claim in all_claims()}


def test_claims_name_existing_measures_and_statistics() -> None:
    for claim in all_claims():
        if claim.test == "page":
            continue
        if claim.test != "drop":
            assert claim.statistic in BOOTSTRAP_STATISTICS, claim.id
        assert known_measure(claim.first), claim.id
        if claim.test not in ("shift",) and claim.second:
            assert known_measure(claim.second), claim.id
        if claim.test in ("better", "drop", "shift"):
            assert claim.second, claim.id
        if claim.test == "near":
            assert claim.bound > 0, claim.id


def test_every_claim_belongs_to_a_study() -> None:
    scripts = {path.stem for path in STUDIES.glob("[a-z]*.py")} | set(PLANNED)
    assert {claim.study for claim in all_claims()} <= scripts


def test_papers_figures_agree_with_the_direction_of_a_claim() -> None:
    for claim in all_claims():
        if claim.test in ("better", "drop") and None not in (claim.paper_first, claim.paper_second):
            lower = claim.statistic in LOWER_IS_BETTER or claim.test == "drop"
            first, second = claim.paper_first, claim.paper_second
            assert (first < second) if lower else (first > second), claim.id  # type: ignore[operator]


CLAIM = Claim(id="x", paper="NI", place="Table 2", words="x beats y", study="pacs", test="better",
              statistic="macro_tau", first="x", second="y")  # fmt: skip


def made_up(*, noise: float = 3.0, models: int = 40, seed: int = 0) -> EvaluationTable:
    """Return a study in which `x` follows accuracy, `y` hardly, and `doc` is off by two points."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for i in range(2):
        for m in range(models):
            skill = rng.normal()
            for o in range(3):
                accuracy = float(np.clip(0.6 + 0.1 * skill + 0.03 * rng.normal(), 0, 1))
                rows.append({"model": f"{i}-{m}", "trained_on": f"d{i}", "tested_on": f"d{o}",
                             "accuracy": accuracy, "shift": "new" if o == 2 else "old",
                             "x": skill, "y": skill + noise * rng.normal(),
                             "doc": accuracy + (0.1 if o == 2 else 0.02)})  # fmt: skip
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return EvaluationTable.read(columns, measures=("x", "y", "doc"))


@pytest.fixture
def one_claim(monkeypatch: pytest.MonkeyPatch) -> Claim:
    monkeypatch.setattr(_claims, "all_claims", lambda: (CLAIM,))
    return CLAIM


def judged(claim: Claim, table: EvaluationTable, reliability: float | None = 0.9) -> ClaimResult:
    return judge_claim(claim, table, reliability=reliability, replicates=1_000)


def test_clear_differences_are_held_or_refuted(one_claim: Claim) -> None:
    table = made_up()
    result = judged(one_claim, table)
    assert (result.verdict, result.models, result.configurations) == ("held", 80, 80)
    assert result.low is not None
    assert result.low > 0
    turned = replace(one_claim, first="y", second="x")
    assert judged(turned, table).verdict == "refuted"


def test_undecided_claims_tell_how_many_configurations_would_decide(one_claim: Claim) -> None:
    table = made_up(noise=0.05, models=5)
    result = judged(one_claim, table)
    assert result.verdict == "undecided"
    assert "configurations" in result.needed
    assert needed_text(None, 10) == "more than 1,000 configurations"


def test_unreliable_truth_gives_no_verdict(one_claim: Claim) -> None:
    result = judged(one_claim, made_up(), reliability=0.49)
    assert result.verdict == NO_VERDICT
    assert result.figures.endswith("The reliability of the true accuracies is 0.49, below 0.5.")


def test_missing_measures_give_no_verdict(one_claim: Claim) -> None:
    result = judged(replace(one_claim, second="z"), made_up())
    assert (result.verdict, result.figures) == (
        NO_VERDICT, "Not tested: the measure 'z' is not in the table.",
    )  # fmt: skip
    absent = judged(replace(one_claim, shift="odd"), made_up())
    assert absent.figures == "Not tested: no evaluation has the shift 'odd'."


@pytest.mark.parametrize(("changes", "verdict"), [
    ({"test": "above", "statistic": "macro_tau", "second": "", "bound": 0.5}, "held"),
    ({"test": "below", "statistic": "macro_tau", "second": "", "bound": 0.5}, "refuted"),
    ({"test": "near", "statistic": "macro_tau", "second": "x", "bound": 0.1}, "held"),
    ({"test": "near", "statistic": "macro_tau", "second": "y", "bound": 0.1}, "refuted"),
    ({"test": "shift", "statistic": "estimation_error", "first": "doc", "shift": "new",
      "second": "old"}, "held"),
    ({"test": "below", "statistic": "estimation_error", "first": "doc", "second": "", "bound": 5,
      "shift": "old"}, "held"),
    ({"test": "drop"}, "undecided"),
])  # fmt: skip
def test_other_tests(one_claim: Claim, changes: dict[str, Any], verdict: str) -> None:
    assert judged(replace(one_claim, **changes), made_up()).verdict == verdict


def test_side_of_the_bound_is_positive_where_the_claim_holds() -> None:
    near = replace(CLAIM, test="near", bound=0.2)
    assert bound_side(near, -0.1, 0.15) == pytest.approx((0.05, 0.2))
    assert bound_side(near, 0.3, 0.4) == pytest.approx((-0.2, -0.1))
    assert bound_side(replace(CLAIM, test="below", bound=1), 0.5, 2.0) == (-1.0, 0.5)


def test_unknown_ids_and_verdicts_are_refused() -> None:
    with pytest.raises(UnknownName, match="claim"):
        ClaimResult(id="toys-sphere", verdict="held", figures="")
    with pytest.raises(UnknownName, match="verdict"):
        ClaimResult(id="toys-sphere-alike", verdict="true", figures="")


def test_interval_of_a_page_decides_its_claim() -> None:
    results = [
        ClaimResult.of("toys-sphere-alike", "", interval=interval, configurations=50)
        for interval in ((0.1, 0.3), (-0.3, -0.1), (-0.1, 0.3))
    ]
    assert [one.verdict for one in results] == ["held", "refuted", "undecided"]
    assert results[2].needed == "about 210 configurations"
    assert ClaimResult.of("toys-sphere-alike", "not measured").verdict == NO_VERDICT


def test_results_survive_their_file(tmp_path: Path) -> None:
    result = ClaimResult.of("toys-sphere-alike", "0.1", interval=(0.1, 0.2))
    text = _claims.results_to_json([result], {"name": "toys"})
    (tmp_path / "toys.json").write_text(text)
    stored = _claims.read_results(tmp_path)["toys"]
    assert ClaimResult(**stored["claims"][0]) == result
    assert json.loads(text)["schema"] == 1


def test_estimates_with_a_line_are_fitted_on_one_shift_only() -> None:
    import pyarrow as pa

    values = np.linspace(0.4, 0.9, 20)
    rows = pa.table({
        "model": [f"m{j}" for j in range(20)] * 2, "trained_on": ["a"] * 40,
        "tested_on": ["s"] * 20 + ["t"] * 20, "shift": ["same"] * 20 + ["novel"] * 20,
        "accuracy": [*(values - 0.1), *(values - 0.3)], "measure": ["doc"] * 40, "value": [*values] * 2,
    })  # fmt: skip
    added = with_line(rows, "doc", shift="same", name="doc with line")
    table = EvaluationTable.read(added)
    assert np.allclose(table.measures["doc with line"], table.measures["doc"] - 0.1)
    assert math.isclose(table.measures["doc with line"].min(), 0.3)
