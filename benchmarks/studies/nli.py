"""Natural language inference by genre with real back-translations. Ng et al. 2023 (NI), NLI.

XNLI's test pairs were machine-translated to Burmese, Swahili and Urdu and back: three other wordings
of every pair, so no translator is needed here. The models are heads on MiniLM features of both
sides. Takes about an hour on two cores.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import data_folder
from benchmarks.studies._aligned_translations import Aligned, Pair
from benchmarks.studies._claims import ClaimResult, claims_of, judge_claim
from benchmarks.studies._comparison_page import (
    OUTPUTS,
    StudyText,
    study_of,
    study_rows,
    with_shift,
    write_comparison_page,
)
from benchmarks.studies._pages import Table, reliability_of, with_interval
from benchmarks.studies._wide_rows import wide_rows
from oodometer.cli._runtime import error_console
from oodometer.report.terminal import progress_bar
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import bootstrap_statistics

LANGUAGES = ("my", "sw", "ur")
MATCHED = ("fiction", "government", "slate", "telephone", "travel")
MISMATCHED = ("facetoface", "letters", "nineeleven", "oup", "verbatim")
# Genres that each training set contains. MNLI's file has no genres, but its matched development set
# consists of the five matched ones.
GENRES = {"mnli": MATCHED, "matched": MATCHED, "mismatched": MISMATCHED}
EXTREME = "breaking"
BACK_TRANSLATION = "ni-backtranslate-aligned draws=3"
TEXT = StudyText(
    name="nli",
    title="Natural language inference by genre, with back-translations as neighborhoods",
    done=(
        "Heads (linear, or an MLP with 128 hidden units) on MiniLM features of both sides of a pair, "
        "[a, b, |a − b|, a·b], trained on MNLI (7,876 pairs), on five matched or on five other genres "
        "of XNLI's development set (787 and 716 pairs): all pairs, 100, 50, 20 or 10 per class; label "
        "noise 0, 0.3 or 0.6; two learning rates and weight decays; four seeds. They are tested on all "
        "501 test pairs of each of XNLI's ten genres. Genres that the training set contains are "
        "in-distribution: the five matched genres for MNLI, whose file has no genres but consists of "
        "them. Breaking-NLI is the extreme domain (1,000 of 8,193 pairs). Neighborhoods are the three "
        "back-translations of each pair, and ten draws of EDA, random replacement and SSMBA (with "
        "bigram counts instead of a masked language model) of 60 pairs per domain, each at both "
        "strengths: ni is up to the magnitude with the pair itself, ms at fixed strength without it."
    ),
    differs=(
        "The paper fine-tunes RoBERTa on about 77,000 pairs of one genre of MNLI's training set; this "
        "data has only MNLI's matched development set (9,815 pairs) without genres, and XNLI. A head on "
        "embeddings of single sentences does not see which words of the two sides correspond, so "
        "accuracies are 15 to 30 points lower than RoBERTa's. MedNLI, the paper's extreme domain, is "
        "not available. Since most pairs of Breaking-NLI are contradictions, accuracies there depend "
        "mostly on how often a model predicts this class."
    ),
    task="NLI, RoBERTa",
    heads=True,
)
TRANSFORMS = ("eda", "MS-EDA", "random_replace", "MS-RandRep", "ssmba", "MS-SSMBA")
MEASURES = (
    "ni-eda", "ms-eda", "ne-eda", "ni-random_replace", "ms-random_replace", "ni-ssmba", "ms-ssmba",
    BACK_TRANSLATION, *OUTPUTS,
)  # fmt: skip


def wordings(path: Path) -> dict[Pair, tuple[Pair, ...]]:
    """Return the three other wordings of every pair of XNLI's test split."""
    import pyarrow.parquet as pq

    frame = pq.read_table(path).to_pandas()

    def pairs(source: str) -> list[Pair]:
        part = frame[(frame["source"] == source) & (frame["split"] == "test")]
        return list(zip(part["premise"], part["hypothesis"], strict=True))

    others = zip(*(pairs(f"xnli_en_backtrans_{one}") for one in LANGUAGES), strict=True)
    return dict(zip(pairs("xnli_en"), others, strict=True))


def with_genres(rows: Any) -> Any:
    """Name the genres of each training set in the column `trained_on`.

    >>> import pyarrow as pa
    >>> with_genres(pa.table({"trained_on": ["mismatched"]})).column("trained_on")[0].as_py()
    'facetoface + letters + mismatched + nineeleven + oup + verbatim'
    """
    import pyarrow as pa

    names = {name: " + ".join(sorted((name, *genres))) for name, genres in GENRES.items()}
    place = rows.column_names.index("trained_on")
    cells = [names[cell] for cell in rows.column("trained_on").to_pylist()]
    return rows.set_column(place, "trained_on", pa.array(cells))


def shift(trained_on: str, tested_on: str) -> str:
    return "extreme" if tested_on == EXTREME else "genre"


def rows_on(rows: Any, *, extreme: bool) -> Any:
    """Return the rows on the extreme domain, or on all others."""
    cells = np.array(rows.column("tested_on").to_pylist())
    return rows.filter((cells == EXTREME) == extreme)


def extreme_results(table: EvaluationTable) -> list[ClaimResult]:
    """Return the verdicts on the claims about the extreme domain."""
    reliability = reliability_of(table)
    median = None if reliability is None else reliability.median
    return [
        judge_claim(claim, table, reliability=median)
        for claim in claims_of(TEXT.name)
        if claim.shift == "extreme"
    ]


def extreme_table(table: EvaluationTable) -> dict[str, Table]:
    """Return Micro τ and errors on the extreme domain, with 95 % intervals."""
    found = bootstrap_statistics(table, ["micro_tau", "macro_tau", "estimation_error"])
    rows = []
    for name in table.measures:
        is_estimate = not name.startswith(("ni-", "ms-", "ne-"))
        taus = (with_interval(found[one], name) for one in ("micro_tau", "macro_tau"))
        error = with_interval(found["estimation_error"], name, signed=False) if is_estimate else "–"
        rows.append((name, *taus, error))
    reliability = reliability_of(table)
    told = "" if reliability is None else f"; reliability {reliability.median:.2f}"
    caption = f"Breaking-NLI, the extreme domain, with 95 % intervals{told}"
    return {caption: (("measure", "Micro τ", "Macro τ", "error of the estimate"), rows)}


def measured_rows(data: Path) -> Any:
    """Train, evaluate, and return the rows of the study."""
    path = data / "text" / "nli_multi.parquet"
    aligned = Aligned("XNLI by Burmese, Swahili and Urdu", wordings(path))
    invariance = [{"transform": aligned, "draws": len(LANGUAGES)}, *TRANSFORMS]
    study = study_of(__file__, invariance=invariance)
    assert study is not None, "the data exist"
    with progress_bar(error_console()) as progress:
        return study_rows(study, progress=progress)


def main() -> int:
    data = data_folder()
    if data is None:
        print("The research data are not available on this machine; nothing was measured.")
        return 0
    rows = with_shift(with_genres(measured_rows(data)), shift)
    shown = [name for name in MEASURES if name != BACK_TRANSLATION]
    extreme = EvaluationTable.read(rows_on(rows, extreme=True), measures=shown)
    write_comparison_page(
        TEXT,
        rows_on(rows, extreme=False),
        measures=MEASURES,
        pair=("ni-eda", "atc-mc"),
        tables=extreme_table(extreme),
        results=extreme_results(extreme),
        stored=wide_rows(rows),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
