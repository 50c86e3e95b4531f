"""NannyML's CBPE on batches of a table: accuracy, F1 and AUROC of each batch, and CPU time.

Arguments: an .npz file with the arrays source_probs, source_decisions, source_labels, probs,
decisions (probabilities are those of the second class) and ends, the end of each batch.
"""

from __future__ import annotations

import json
import os
import sys
import time

# NannyML would send usage statistics.
os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"

import nannyml
import numpy as np
import pandas as pd

from benchmarks.peers._timing import Arrays, load_arrays

METRICS = {"accuracy": "accuracy", "f1": "f1", "auroc": "roc_auc"}


def estimate_batches(arrays: Arrays) -> dict[str, list[float]]:
    """Return the estimates of each metric, one per batch."""
    ends = arrays["ends"]
    sizes = np.diff(ends, prepend=0)
    reference = pd.DataFrame({"prob": arrays["source_probs"], "pred": arrays["source_decisions"]})
    reference["label"] = arrays["source_labels"]
    target = pd.DataFrame({"prob": arrays["probs"], "pred": arrays["decisions"]})
    have_equal_sizes = len(np.unique(sizes)) == 1
    chunks = {"chunk_size": int(sizes[0])} if have_equal_sizes else {"chunk_number": 1}
    estimator = nannyml.CBPE(
        problem_type="classification_binary",
        y_pred_proba="prob",
        y_pred="pred",
        y_true="label",
        metrics=list(METRICS.values()),
        **chunks,
    )
    estimator.fit(reference)
    # Batches of equal sizes are NannyML's chunks; others are estimated by one call each.
    parts = (
        [target]
        if have_equal_sizes
        else [target.iloc[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    )
    values: dict[str, list[float]] = {name: [] for name in METRICS}
    for part in parts:
        result = estimator.estimate(part.reset_index(drop=True))
        table = result.filter(period="analysis").to_df()
        for name, column in METRICS.items():
            values[name] += table[(column, "value")].astype(float).tolist()
    return values


if __name__ == "__main__":
    loaded = load_arrays(sys.argv[1])
    begin = time.process_time()
    estimates = estimate_batches(loaded)
    seconds = time.process_time() - begin
    print(json.dumps({"cpu": seconds, "version": nannyml.__version__, **estimates}))
