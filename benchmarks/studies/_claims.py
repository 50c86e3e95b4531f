"""Claims of the five papers (claims.toml), and verdicts on them.

A claim is written down before the study that tests it is run. `judge` tests the claims of a study
on its table of evaluations, by a bootstrap over models. Claims with `test = "page"` are about
something else, such as a number of factors; the script of the study tests them and passes
`ClaimResult.of(…)`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import (
    BOOTSTRAP_STATISTICS,
    ERROR_STATISTICS,
    BootstrapReplicates,
    MeasureDifference,
    bootstrap_statistics,
    compare_two_measures,
    extrapolate_count,
    interval_verdict,
)

CLAIMS_FILE = Path(__file__).with_name("claims.toml")
# Verdict of a claim that a study could not test, because its truth is too unreliable or a measure is
# missing or undefined.
NO_VERDICT = "no verdict"
NOT_RUN = "not run"
VERDICTS = ("held", "refuted", "undecided", NO_VERDICT, NOT_RUN)
PAPERS = {
    "NI": "Ng et al., TMLR 2023",
    "MS": "Ng et al., 2022",
    "ATC": "Garg et al., ICLR 2022",
    "DG": "Vedantam et al., NeurIPS 2021",
    "AO": "Wenzel et al., NeurIPS 2022",
}
# A study whose true accuracies have a lower reliability (median over groups) gives no verdicts.
MIN_RELIABILITY = 0.5
REPLICATES = 2_000

Test = Literal["better", "above", "below", "near", "page"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Claim of a paper and how it is tested.

    Parameters
    ----------
    id : str
        Unique name, such as ``"ni-2c-ssmba-macro"``.
    paper : str
        One of `PAPERS`.
    place : str
        Table, figure or section of the paper.
    words : str
        The claim as a sentence without a full stop.
    study : str
        Name of the page and script that tests the claim.
    test : {"better", "above", "below", "near", "page"}
        ``better``: the statistic of `first` is better than that of `second`. ``above``, ``below``:
        the statistic of `first` is above or below `bound`. ``near``: it differs from 0 by less than
        `bound`. ``page``: the script of the study tests the claim.
    statistic, first, second : str
        Statistic (`BOOTSTRAP_STATISTICS`) and measures.
    shift : str
        If given, only evaluations with this text in the column `shift` are used.
    bound : float
        Bound of the tests above, below and near.
    paper_first, paper_second : float, optional
        The paper's figures for `first` and `second`.
    """

    id: str
    paper: str
    place: str
    words: str
    study: str
    test: Test
    statistic: str = ""
    first: str = ""
    second: str = ""
    shift: str = ""
    bound: float = 0.0
    paper_first: float | None = None
    paper_second: float | None = None

    @property
    def published(self) -> str:
        """The paper's figures, or an empty text."""
        figures = [one for one in (self.paper_first, self.paper_second) if one is not None]
        return " against ".join(f"{one:g}" for one in figures)


@cache
def all_claims() -> tuple[Claim, ...]:
    """Return the claims of claims.toml, in its order."""
    table = tomllib.loads(CLAIMS_FILE.read_text())
    return tuple(Claim(**entry) for entry in table["claim"])


def claims_of(study: str) -> list[Claim]:
    """Return the claims that a study tests."""
    return [claim for claim in all_claims() if claim.study == study]


def get_claim(name: str) -> Claim:
    """Return the claim with an id; raise and name similar ids if there is none."""
    by_id = {claim.id: claim for claim in all_claims()}
    if name not in by_id:
        raise UnknownName("claim", name, list(by_id))
    return by_id[name]


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """Verdict on a claim with our figures.

    Parameters
    ----------
    id : str
        Id of the claim.
    verdict : str
        One of `VERDICTS`.
    figures : str
        Our figures in words.
    low, high : float, optional
        95 % interval of the quantity that the verdict is about, positive on the paper's side.
    models, configurations, evaluations : int, optional
        Scale of the test.
    needed : str
        How many configurations would decide an undecided claim.
    """

    id: str
    verdict: str
    figures: str
    low: float | None = None
    high: float | None = None
    models: int | None = None
    configurations: int | None = None
    evaluations: int | None = None
    needed: str = ""

    def __post_init__(self) -> None:
        get_claim(self.id)
        if self.verdict not in VERDICTS:
            raise UnknownName("verdict", self.verdict, VERDICTS)

    @classmethod
    def of(
        cls,
        name: str,
        figures: str,
        *,
        holds: bool | None = None,
        interval: tuple[float, float] | None = None,
        models: int | None = None,
        configurations: int | None = None,
        evaluations: int | None = None,
    ) -> ClaimResult:
        """Return the result of a claim that a page tests itself.

        Pass `interval`, positive on the paper's side, where there is one; pass `holds` only for a
        statement without sampling error (None: no verdict).
        """
        if interval is not None:
            verdict: str = interval_verdict(*interval)
        else:
            verdict = {True: "held", False: "refuted", None: NO_VERDICT}[holds]
        low, high = interval if interval is not None else (None, None)
        needed = ""
        if interval is not None and verdict == "undecided" and configurations:
            count = extrapolate_count(configurations, sum(interval) / 2, *interval)
            needed = needed_text(count, configurations)
        return cls(
            id=name,
            verdict=verdict,
            figures=figures,
            low=low,
            high=high,
            models=models,
            configurations=configurations,
            evaluations=evaluations,
            needed=needed,
        )

    @property
    def interval(self) -> str:
        """The interval as text."""
        if self.low is None or self.high is None:
            return ""
        return f"{self.low:+.3g} to {self.high:+.3g}"


def needed_text(count: int | None, configurations: int) -> str:
    """Describe the number of model configurations that would decide a claim.

    >>> needed_text(1234, 100), needed_text(None, 100)
    ('about 1,200 configurations', 'more than 10,000 configurations')
    """
    if count is None:
        return f"more than {100 * configurations:,} configurations"
    digits = 10 ** max(len(str(count)) - 2, 0)
    return f"about {-(-count // digits) * digits if count % digits else count:,} configurations"


def judge(
    table: EvaluationTable, study: str, *, reliability: float | None, replicates: int = REPLICATES
) -> list[ClaimResult]:
    """Test all claims of a study that a table of evaluations can test.

    Every claim gets a result. It is `NO_VERDICT`, with the reason, if a measure is missing, the
    statistic is undefined, or the reliability of the true accuracies is below `MIN_RELIABILITY`.
    `reliability` None means that it is not known (the numbers of rows are not known).
    """
    return [
        judge_claim(claim, table, reliability=reliability, replicates=replicates)
        for claim in claims_of(study)
        if claim.test != "page"
    ]


def judge_claim(
    claim: Claim,
    table: EvaluationTable,
    *,
    reliability: float | None,
    replicates: int = REPLICATES,
) -> ClaimResult:
    """Test one claim on a table of evaluations."""
    try:
        chosen = _shift_rows(claim, table)
        result = (
            _judge_difference(claim, chosen, replicates)
            if claim.test == "better"
            else _judge_value(claim, chosen, replicates)
        )
    except (NotApplicable, UnknownName, InputError) as error:
        return ClaimResult(id=claim.id, verdict=NO_VERDICT, figures=f"Not tested: {error}.")
    if reliability is None or reliability >= MIN_RELIABILITY:
        return result
    reason = (
        f"The reliability of the true accuracies is {reliability:.2f}, below {MIN_RELIABILITY}."
    )
    return ClaimResult(
        **{**asdict(result), "verdict": NO_VERDICT, "needed": "",
           "figures": f"{result.figures} {reason}"}
    )  # fmt: skip


def _shift_rows(claim: Claim, table: EvaluationTable) -> EvaluationTable:
    if not claim.shift:
        return table
    cells = table.columns.get("shift", ("",) * len(table))
    mask = np.array([cell == claim.shift for cell in cells], dtype=np.bool_)
    # Rows in distribution belong to every type of shift.
    chosen = table.select_rows(mask | table.in_distribution)
    if not mask.any():
        raise NotApplicable(f"no evaluation has the shift {claim.shift!r}")
    return chosen


def _judge_difference(claim: Claim, table: EvaluationTable, replicates: int) -> ClaimResult:
    difference = compare_two_measures(
        table, claim.first, claim.second, statistic=claim.statistic, replicates=replicates
    )
    if np.isnan(difference.value):
        raise NotApplicable(f"{claim.statistic} is undefined here")
    sign = -1 if claim.statistic in ERROR_STATISTICS else 1
    low, high = sorted((sign * difference.low, sign * difference.high))
    verdict = difference.verdict
    needed = needed_text(difference.configurations_needed, difference.configurations)
    return ClaimResult(
        id=claim.id,
        verdict=verdict,
        figures=_difference_figures(difference),
        low=low,
        high=high,
        models=difference.models,
        configurations=difference.configurations,
        evaluations=difference.evaluations,
        needed=needed if verdict == "undecided" else "",
    )


def _difference_figures(difference: MeasureDifference) -> str:
    return (
        f"{difference.first_value:.3f} against {difference.second_value:.3f} "
        f"({BOOTSTRAP_STATISTICS[difference.statistic]})"
    )


def _judge_value(claim: Claim, table: EvaluationTable, replicates: int) -> ClaimResult:
    result = bootstrap_statistics(
        table, [claim.statistic], measures=(claim.first,), replicates=replicates
    )[claim.statistic]
    value = result.value(claim.first)
    if np.isnan(value):
        raise NotApplicable(f"{claim.statistic} is undefined here")
    low, high = result.interval(claim.first)
    return bound_result(claim, value, low, high, result)


def bound_result(
    claim: Claim, value: float, low: float, high: float, scale: BootstrapReplicates | None = None
) -> ClaimResult:
    """Compare a value and its interval with the bound of a claim (tests above, below, near)."""
    bound = claim.bound
    if claim.test == "near":
        # The distance from the bound: positive where |value| < bound in the whole interval.
        inner, outer = bound - max(abs(low), abs(high)), bound
        crosses = low <= 0 <= high
        outer = bound - (0.0 if crosses else min(abs(low), abs(high)))
        side = (inner, outer)
    else:
        sign = 1 if claim.test == "above" else -1
        edges = sorted((sign * (low - bound), sign * (high - bound)))
        side = (edges[0], edges[1])
    verdict = interval_verdict(*side)
    needed = ""
    if verdict == "undecided" and scale is not None:
        count = extrapolate_count(scale.n_clusters, sum(side) / 2, *side)
        needed = needed_text(count, scale.n_clusters)
    words = {"above": "above", "below": "below", "near": "within ±"}[claim.test]
    figures = f"{value:+.3f} (95 % interval {low:+.3f} to {high:+.3f}; claimed: {words} {bound:g})"
    return ClaimResult(
        id=claim.id,
        verdict=verdict,
        figures=figures,
        low=side[0],
        high=side[1],
        models=None if scale is None else scale.n_models,
        configurations=None if scale is None else scale.n_clusters,
        evaluations=None if scale is None else scale.n_evaluations,
        needed=needed,
    )


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the machine-readable results beside the pages in a folder, by name of the page."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def results_to_json(results: Sequence[ClaimResult], facts: Mapping[str, Any]) -> str:
    """Return the text of the JSON file beside a page."""
    claims = [{key: value for key, value in asdict(one).items()} for one in results]
    return json.dumps({"schema": 1, **facts, "claims": claims}, indent=1, ensure_ascii=False) + "\n"
