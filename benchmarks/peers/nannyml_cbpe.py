"""NannyML's CBPE: accuracy of many classes, fitted on the source, estimated on the target at once."""

from __future__ import annotations

import os
import sys
from typing import Any

# It would send word of its use to its makers.
os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"

import nannyml
import pandas as pd

from benchmarks.peers._took import Arrays, arrays_of, told


def frame(probs: Any, k: int) -> pd.DataFrame:
    found = pd.DataFrame({f"prob_{j}": probs[:, j] for j in range(k)})
    found["said"] = probs.argmax(axis=1)
    return found


def estimated(frames: Arrays) -> float:
    reference, target = frames["reference"], frames["target"]
    k = len(reference.columns) - 2
    estimator = nannyml.CBPE(
        problem_type="classification_multiclass",
        y_pred_proba={j: f"prob_{j}" for j in range(k)},
        y_pred="said",
        y_true="label",
        metrics=["accuracy"],
        chunk_number=1,
    )
    estimator.fit(reference)
    found = estimator.estimate(target).filter(period="analysis").to_df()
    return float(found[("accuracy", "value")].iloc[0])


if __name__ == "__main__":
    given = arrays_of(sys.argv[1])
    k = given["source"].shape[1]
    # A frame is how NannyML takes its data, so making it is not counted.
    reference = frame(given["source"], k).assign(label=given["labels"])
    told(
        estimated,
        {"reference": reference, "target": frame(given["target"], k)},
        nannyml.__version__,
    )
