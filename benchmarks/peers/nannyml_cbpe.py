"""NannyML's CBPE: multiclass accuracy, fitted on the source, estimated on the whole target."""

from __future__ import annotations

import os
import sys
from typing import Any

# NannyML would send usage statistics.
os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"

import nannyml
import pandas as pd

from benchmarks.peers._timing import Arrays, load_arrays, report_run


def frame(probs: Any, k: int) -> pd.DataFrame:
    table = pd.DataFrame({f"prob_{j}": probs[:, j] for j in range(k)})
    table["predicted"] = probs.argmax(axis=1)
    return table


def estimate_accuracy(frames: Arrays) -> float:
    reference, target = frames["reference"], frames["target"]
    k = len(reference.columns) - 2
    estimator = nannyml.CBPE(
        problem_type="classification_multiclass",
        y_pred_proba={j: f"prob_{j}" for j in range(k)},
        y_pred="predicted",
        y_true="label",
        metrics=["accuracy"],
        chunk_number=1,
    )
    estimator.fit(reference)
    table = estimator.estimate(target).filter(period="analysis").to_df()
    return float(table[("accuracy", "value")].iloc[0])


if __name__ == "__main__":
    arrays = load_arrays(sys.argv[1])
    k = arrays["source"].shape[1]
    # NannyML takes data frames, so creating them is not timed.
    reference = frame(arrays["source"], k).assign(label=arrays["labels"])
    report_run(
        estimate_accuracy,
        {"reference": reference, "target": frame(arrays["target"], k)},
        nannyml.__version__,
    )
