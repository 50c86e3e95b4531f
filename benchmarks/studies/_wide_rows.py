"""Wide tables of evaluations, for the Parquet files of large studies.

The rows of a study have one row per model, test domain and measure. A wide table has one row per
model and test domain, and one column per measure, so that it is several times smaller.
`EvaluationTable.read` accepts both forms.
"""

from __future__ import annotations

from typing import Any

# Columns that describe a value, and not an evaluation.
VALUE_COLUMNS = ("measure", "value", "low", "high", "reason", "facts")
# Columns that name an evaluation.
KEY_COLUMNS = ["model", "tested_on"]
ACCURACY = "accuracy"
# GDE reads only decisions, so temperature scaling does not change it.
REPEATED = ("gde (pre-T)",)
# Values are rounded to this number of decimals: far below their sampling errors.
DECIMALS = 4


def wide_rows(rows: Any, *, decimals: int = DECIMALS) -> Any:
    """Return an Arrow table with one row per evaluation and one float32 column per measure.

    Columns that are empty or constant in a study, such as the optimizer, are kept; they take no
    space. Intervals, reasons and facts are left out.
    """
    import pyarrow as pa

    frame = rows.to_pandas()
    own = [name for name in frame.columns if name not in VALUE_COLUMNS]
    evaluations = frame[own].drop_duplicates(KEY_COLUMNS).set_index(KEY_COLUMNS)
    measured = frame[~frame["measure"].isin((ACCURACY, *REPEATED))]
    values = measured.set_index([*KEY_COLUMNS, "measure"])["value"].unstack("measure")
    values = values.round(decimals).astype("float32")
    wide = evaluations.join(values).reset_index().sort_values(KEY_COLUMNS)
    return pa.Table.from_pandas(wide, preserve_index=False).replace_schema_metadata(None)
