"""Claims of the five papers (claims.toml), and verdicts on them.

A claim is written down before the study that tests it is run. `judge` tests the claims of a study
on its table of evaluations, by a bootstrap over models. Claims with `test = "page"` are about
something else, such as a number of factors; the script of the study tests them and passes
`ClaimResult.of(…)`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable, UnknownName
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import (
    LOWER_IS_BETTER,
    BootstrapReplicates,
    bootstrap_statistics,
    extrapolate_count,
    interval_verdict,
    percentile_interval,
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

Test = Literal["better", "drop", "shift", "above", "below", "near", "page"]


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
    test : {"better", "drop", "shift", "above", "below", "near", "page"}
        ``better``: the statistic of `first` is better than that of `second`. ``drop``: `first` loses
        less than `second` from ID τ to Macro τ. ``shift``: the statistic of `first` is larger on the
        type of shift `shift` than on the type of shift `second`. ``above``, ``below``: the statistic
        of `first` is above or below `bound`. ``near``: it differs from that of `second` (or from 0)
        by less than `bound`. ``page``: the script of the study tests the claim.
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
    table: EvaluationTable,
    study: str,
    *,
    reliability: float | None,
    replicates: int = REPLICATES,
    tested: Collection[str] = (),
) -> list[ClaimResult]:
    """Test all claims of a study that a table of evaluations can test, except those in `tested`.

    Every claim gets a result. It is `NO_VERDICT`, with the reason, if a measure is missing, the
    statistic is undefined, or the reliability of the true accuracies is below `MIN_RELIABILITY`.
    `reliability` None means that it is not known (the numbers of rows are not known).
    """
    return [
        judge_claim(claim, table, reliability=reliability, replicates=replicates)
        for claim in claims_of(study)
        if claim.test != "page" and claim.id not in tested
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
        result = _judge_quantity(claim, _measure_quantity(claim, table, replicates))
    except (NotApplicable, UnknownName, InputError) as error:
        return ClaimResult(
            id=claim.id, verdict=NO_VERDICT, figures=f"Not tested: {str(error).rstrip('.')}."
        )
    if reliability is None or reliability >= MIN_RELIABILITY:
        return result
    reason = (
        f"The reliability of the true accuracies is {reliability:.2f}, below {MIN_RELIABILITY}."
    )
    return ClaimResult(
        **{**asdict(result), "verdict": NO_VERDICT, "needed": "",
           "figures": f"{result.figures} {reason}"}
    )  # fmt: skip


def _shift_rows(table: EvaluationTable, shift: str) -> EvaluationTable:
    if not shift:
        return table
    cells = table.columns.get("shift", ("",) * len(table))
    mask = np.array([cell == shift for cell in cells], dtype=np.bool_)
    if not mask.any():
        raise NotApplicable(f"no evaluation has the shift {shift!r}")
    # Rows in distribution belong to every type of shift.
    return table.select_rows(mask | table.in_distribution)


@dataclass(frozen=True, eq=False)
class _Quantity:
    """Quantity with its replicates, and the figures behind it."""

    value: float
    replicates: Floats
    figures: str
    scale: BootstrapReplicates


def _measure_quantity(claim: Claim, table: EvaluationTable, replicates: int) -> _Quantity:
    """Return the quantity that a claim is about, in the direction in which the claim is stated."""
    chosen = _shift_rows(table, "" if claim.test == "shift" else claim.shift)
    statistics = ["id_tau", "macro_tau"] if claim.test == "drop" else [claim.statistic]
    names = (
        [claim.first] if claim.test == "shift" or not claim.second else [claim.first, claim.second]
    )
    for name in names:
        if name not in table.measures:
            raise NotApplicable(f"the measure {name!r} is not in the table")
        chosen = chosen.select_rows(~np.isnan(chosen.measures[name]))

    def draw(part: EvaluationTable) -> dict[str, BootstrapReplicates]:
        if not len(part):
            raise NotApplicable("no evaluation has a value of every measure")
        return bootstrap_statistics(part, statistics, measures=names, replicates=replicates)

    if claim.test == "shift":
        there, here = (draw(_shift_rows(chosen, name)) for name in (claim.shift, claim.second))
        return _difference(claim, there[claim.statistic], here[claim.statistic], (0, 0))
    drawn = draw(chosen)
    if claim.test == "drop":
        return _drop_difference(claim, drawn["id_tau"], drawn["macro_tau"])
    result = drawn[claim.statistic]
    if len(names) == 2:
        return _difference(claim, result, result, (0, 1))
    figures = f"{result.values[0]:.3g}"
    return _Quantity(float(result.values[0]), result.replicates[0], figures, result)


def _difference(
    claim: Claim, one: BootstrapReplicates, other: BootstrapReplicates, at: tuple[int, int]
) -> _Quantity:
    i, j = at
    error = claim.test == "better" and claim.statistic in LOWER_IS_BETTER
    sign = -1.0 if error else 1.0
    return _Quantity(
        value=float(sign * (one.values[i] - other.values[j])),
        replicates=sign * (one.replicates[i] - other.replicates[j]),
        figures=f"{one.values[i]:.3f} against {other.values[j]:.3f}",
        scale=one,
    )


def _drop_difference(
    claim: Claim, inside: BootstrapReplicates, outside: BootstrapReplicates
) -> _Quantity:
    drops = inside.values - outside.values
    replicates = inside.replicates - outside.replicates
    return _Quantity(
        value=float(drops[1] - drops[0]),
        replicates=replicates[1] - replicates[0],
        figures=f"{drops[0]:.3f} against {drops[1]:.3f}",
        scale=outside,
    )


def _judge_quantity(claim: Claim, quantity: _Quantity) -> ClaimResult:
    """Compare the interval of a quantity with the bound of its claim."""
    if np.isnan(quantity.value):
        raise NotApplicable(f"{claim.statistic or 'τ'} is undefined here")
    low, high = percentile_interval(quantity.replicates)
    side = bound_side(claim, low, high)
    verdict = interval_verdict(*side)
    scale = quantity.scale
    needed = ""
    if verdict == "undecided":
        distance = bound_side(claim, quantity.value, quantity.value)[0]
        count = extrapolate_count(scale.n_clusters, distance, low, high)
        needed = needed_text(count, scale.n_clusters)
    figures = quantity.figures
    if claim.test in ("above", "below", "near"):
        figures += f", 95 % interval {low:.3g} to {high:.3g}"
    return ClaimResult(
        id=claim.id,
        verdict=verdict,
        figures=figures,
        low=side[0],
        high=side[1],
        models=scale.n_models,
        configurations=scale.n_clusters,
        evaluations=scale.n_evaluations,
        needed=needed,
    )


def bound_side(claim: Claim, low: float, high: float) -> tuple[float, float]:
    """Return an interval relative to the bound of its claim, positive where the claim holds."""
    if claim.test == "near":
        nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return claim.bound - max(abs(low), abs(high)), claim.bound - nearest
    if claim.test == "below":
        return claim.bound - high, claim.bound - low
    return low - claim.bound, high - claim.bound


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the machine-readable results beside the pages in a folder, by name of the page."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def results_to_json(results: Sequence[ClaimResult], facts: Mapping[str, Any]) -> str:
    """Return the text of the JSON file beside a page."""
    claims = [asdict(result) for result in results]
    return json.dumps({"schema": 1, **facts, "claims": claims}, indent=1, ensure_ascii=False) + "\n"
