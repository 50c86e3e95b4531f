"""Estimates that are corrected by a robust line, such as DOC in Table 5 of Garg et al. (2022)."""

from __future__ import annotations

from typing import Any

import numpy as np

from oodometer.core.stats import repeated_median_line

# The repeated median compares all pairs of points, so it is fitted to at most this many.
MAX_LINE_POINTS = 2_000


def with_line(rows: Any, estimator: str, *, shift: str, name: str, by: str = "trained_on") -> Any:
    """Add an estimate to long rows: true accuracy on a robust line of the estimator's values.

    The line predicts accuracy from the estimate. It is fitted to the rows whose column `shift` is
    `shift`, by Siegel's repeated median, separately for each training set or, if `by` is "model",
    for each model.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    own = rows.filter(pc.equal(rows["measure"], estimator))
    frame = own.to_pandas()
    values = np.full(len(frame), np.nan)
    for cell in frame[by].unique():
        chosen = (frame[by] == cell).to_numpy()
        known = chosen & frame[["value", "accuracy"]].notna().all(axis=1).to_numpy()
        fit = frame[known & (frame["shift"] == shift).to_numpy()]
        fit = fit.sample(min(len(fit), MAX_LINE_POINTS), random_state=0)
        line = repeated_median_line(fit["value"], fit["accuracy"])
        predicted = line.intercept + line.slope * frame["value"].to_numpy()
        values[chosen] = np.clip(predicted, 0.0, 1.0)[chosen]
    added = own.set_column(own.column_names.index("value"), "value", pa.array(values))
    names = pa.array([name] * len(frame))
    added = added.set_column(added.column_names.index("measure"), "measure", names)
    return pa.concat_tables([rows, added], promote_options="permissive")
