"""Reviews: heads on MiniLM trained on one category, tested on sixteen. Ng et al. 2023 (NI), SA.

NI Tables 2c, 7, 8 and 28 for sentiment analysis; the errors of the estimators correspond to Garg et
al. 2022 (ATC), Table 1. SSMBA fills in words with the masked language model that `make masked-lm`
trains, and with bigram counts. Takes about two hours on two cores.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.masked_lm import PACKAGE
from benchmarks.studies._comparison_page import (
    StudyText,
    study_of,
    study_rows,
    write_comparison_page,
)
from benchmarks.studies._pages import Table
from benchmarks.studies._published_figures import NI_CROSS_DOMAIN, NI_DEVIATIONS
from benchmarks.studies._wide_rows import wide_rows
from oodometer.cli._runtime import error_console
from oodometer.report.terminal import progress_bar
from oodometer.studies.analysis._compare_measures import (
    STATISTIC_LABELS,
    MeasureComparison,
    compare_measures,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import bootstrap_statistics
from oodometer.studies.analysis.text_tables import MISSING_CELL

# Folder of the masked language model, relative to the current directory like that of the pool.
MASKED_LM = Path("pools", "masked_lm")
TASK = "SA, RoBERTa"
TEXT = StudyText(
    name="reviews",
    title="Reviews: measures compared over pairs of product categories",
    done=(
        "Heads (linear, or an MLP with 128 hidden units) on MiniLM in bfloat16 (at most 128 tokens), "
        "trained on reviews of one of sixteen categories: all training reviews, 200, 30 or 5 per class; "
        "half of the labels replaced by random ones or none; weight decay 0 or 0.01; four seeds. True "
        "accuracies and estimates use all 400 test reviews of each category (of the training category, "
        "the half that is not the source), neighborhoods 150 reviews with 10 draws. SSMBA replaces "
        "words by those of a masked language model (`ni-ssmba`) or of bigram counts of the category's "
        "test reviews (`filler=n-gram`). Transforms change up to 15 % of the words (EDA 10 %), or "
        "exactly as many (`strength=fixed`); `ms` has this strength and leaves out the review "
        "itself. Back-translation is to Spanish and back, by Apertium, of up to 70 % of the sentences."
    ),
    differs=(
        "The paper fine-tunes all of RoBERTa on 25,000 reviews of each of ten categories with five "
        "stars; ours are heads on a frozen encoder that was trained for another task, on at most 1,600 "
        "reviews of two classes. Its accuracies differ by a few points between domains and "
        "configurations; ours reach down to chance, since the configurations were chosen so that true "
        "accuracies differ more than their sampling errors. Its SSMBA uses RoBERTa, whose masked "
        "language model restores far more words than ours, and its back-translation a neural "
        "translator."
    ),
    task=TASK,
    heads=True,
)
TRANSFORMS = ("ssmba", "eda", "backtranslate", "random_replace")
STRENGTHS = ("ssmba", "eda", "random_replace")
NGRAM = "ssmba filler=n-gram"
OUTPUTS = ("atc-mc", "atc-ne", "ac", "doc", "im", "gde", "cot", "bbse", "mlls", "atc-mc (pre-T)",
           "atc-ne (pre-T)", "ac (pre-T)", "doc (pre-T)", "im (pre-T)", "cot (pre-T)")  # fmt: skip
MEASURES = (
    *(f"ni-{name}" for name in (*TRANSFORMS, NGRAM)),
    *(f"ne-{name}" for name in (*TRANSFORMS, NGRAM)),
    *(f"ni-{name} strength=fixed" for name in (*STRENGTHS, NGRAM)),
    "ms-ssmba", "ms-eda", "mse-ssmba", "pa-ssmba", *OUTPUTS,
)  # fmt: skip
# Own comparisons, which are not claims of a paper: first measure, second measure.
OWN_PAIRS = (
    ("ni-ssmba", f"ni-{NGRAM}"),
    *((f"ni-{name} strength=fixed", f"ni-{name}") for name in (*STRENGTHS, NGRAM)),
)
OWN_STATISTICS = ("macro_tau", "micro_tau", "id_tau")
DEVIATION_COLUMNS = ("r2_pearson", "macro_tau", "micro_tau", "id_tau")


def renamed(measure: str) -> str:
    """Name SSMBA with the masked language model without its filler, and that with bigrams with it.

    >>> renamed("ni-ssmba model=masked_lm strength=fixed"), renamed("ms-ssmba"), renamed("ni-eda")
    ('ni-ssmba strength=fixed', 'ms-ssmba filler=n-gram', 'ni-eda')
    """
    name, _, settings = measure.partition(" ")
    if not name.endswith("-ssmba"):
        return measure
    model = f"model={MASKED_LM.name}"
    parts = settings.split()
    kept = [part for part in parts if part != model]
    return " ".join([name, *([] if model in parts else ["filler=n-gram"]), *kept])


def rename_measures(rows: Any) -> Any:
    """Return the rows with renamed measures."""
    import pyarrow.compute as pc

    encoded = rows.column("measure").combine_chunks().dictionary_encode()
    names = [renamed(name) for name in encoded.dictionary.to_pylist()]
    column = pc.take(names, encoded.indices)
    return rows.set_column(rows.column_names.index("measure"), "measure", column)


def transforms() -> list[Any]:
    """Return the transforms of the study: those of its TOML file, and with the masked LM."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    model = str(MASKED_LM)
    return [
        *table["invariance"],
        {"transform": "ssmba", "model": model},
        {"transform": "ssmba", "model": model, "strength": "fixed"},
        {"transform": "MS-SSMBA", "model": model},
    ]


# Tables -----------------------------------------------------------------------------------------


def deviations_table(compared: MeasureComparison) -> dict[str, Table]:
    """Return NI Table 28: standard deviations over training and test domains."""
    rows = []
    for measure, theirs in NI_DEVIATIONS[TASK].items():
        cells = []
        for statistic, figure in zip(DEVIATION_COLUMNS, theirs, strict=True):
            summary = compared.summaries.get((measure, statistic, None))
            sd = None if summary is None else summary.sd
            cells.append(f"{MISSING_CELL if sd is None else f'{sd:.3f}'} ({figure:.3f})")
        rows.append((measure, *cells))
    caption = "Standard deviations over pairs of categories; in brackets the paper's (NI Table 28c)"
    return {caption: (("measure", *(STATISTIC_LABELS[name] for name in DEVIATION_COLUMNS)), rows)}


def cross_domain_table(compared: MeasureComparison) -> dict[str, Table]:
    """Return NI Table 7: τ of one model over its test domains, averaged over models."""
    rows = []
    for measure, theirs in NI_CROSS_DOMAIN[TASK].items():
        summary = compared.summaries.get((measure, "cross_domain_tau", None))
        mean = None if summary is None else summary.mean
        ours = MISSING_CELL if mean is None else f"{mean:.3f}"
        rows.append((measure, ours, f"{theirs:.3f}"))
    caption = "τ of one model across test categories (NI Table 7)"
    return {caption: (("measure", "here", "in the paper"), rows)}


def pairs_table(table: EvaluationTable) -> dict[str, Table]:
    """Return differences between fillers and between strengths, with bootstrap intervals."""
    pairs = [pair for pair in OWN_PAIRS if all(name in table.measures for name in pair)]
    if not pairs:
        return {}
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    drawn = bootstrap_statistics(table, OWN_STATISTICS, measures=names)
    rows = [
        (first, second, *(_difference(drawn[name], first, second) for name in OWN_STATISTICS))
        for first, second in pairs
    ]
    head = ("first", "second", *(STATISTIC_LABELS[name] for name in OWN_STATISTICS))
    return {"Fillers and strengths: first minus second, 95 % interval": (head, rows)}


def _difference(drawn: Any, first: str, second: str) -> str:
    result = drawn.difference(first, second)
    return f"{result.value:+.3f} ({result.low:+.3f} to {result.high:+.3f})"


def write_page(rows: Any) -> None:
    """Compare the measures of a study's rows and write the page."""
    rows = rename_measures(rows)
    available = set(rows.column("measure").unique().to_pylist())
    measures = [name for name in MEASURES if name in available]
    table = EvaluationTable.read(rows, measures=measures)
    compared = compare_measures(table)
    write_comparison_page(
        TEXT,
        rows,
        measures=measures,
        pair=("ni-ssmba", "atc-mc"),
        tables={
            **pairs_table(table),
            **cross_domain_table(compared),
            **deviations_table(compared),
        },
        stored=wide_rows(rows_of(rows, measures)),
    )


def rows_of(rows: Any, measures: Sequence[str]) -> Any:
    """Return the rows of some measures, and of the metrics."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array([*measures, "nll", "ece"])
    return rows.filter(pc.is_in(rows.column("measure"), wanted))


def is_ready() -> bool:
    """Return whether the encoder and the masked language model exist; if not, print what to do."""
    if find_spec(PACKAGE) is None:
        print("The encoder is missing (make standins); nothing was measured.")
        return False
    if not (MASKED_LM / "model.safetensors").is_file():
        print(f"The masked language model {MASKED_LM} is missing (make masked-lm).")
        return False
    return True


def main() -> int:
    changes: Mapping[str, Any] = {"invariance": transforms()}
    if not is_ready() or (study := study_of(__file__, **changes)) is None:
        return 0
    with progress_bar(error_console()) as progress:
        rows = study_rows(study, progress=progress)
    write_page(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
