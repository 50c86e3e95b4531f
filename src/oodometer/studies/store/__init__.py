"""Store of a study: a folder with one SQLite file and one file per array, named by its hash.

folder/store.sqlite   models, datasets, predictions, results and failures
folder/arrays/…       scores and labels, one `.npy` file each
folder/.lock          held by the one writer

Any number of processes may read while one process writes. If the writer is killed, the store stays
consistent: arrays are written before the rows that name them, and all rows of a task are written in
one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.store.records import (
        DatasetRecord,
        EvaluationOutcome,
        FailureRecord,
        ModelRecord,
        PredictionReference,
        ResultKey,
        ResultRecord,
    )
    from oodometer.studies.store.store import Store

__all__ = [
    "DatasetRecord",
    "EvaluationOutcome",
    "FailureRecord",
    "ModelRecord",
    "PredictionReference",
    "ResultKey",
    "ResultRecord",
    "Store",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "DatasetRecord": "records",
            "EvaluationOutcome": "records",
            "FailureRecord": "records",
            "ModelRecord": "records",
            "PredictionReference": "records",
            "ResultKey": "records",
            "ResultRecord": "records",
            "Store": "store",
        },
    )
