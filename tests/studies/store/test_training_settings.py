"""Training settings of stored models reach the analyses."""

from __future__ import annotations

from pathlib import Path

import pytest

from oodometer.studies.analysis import (
    EvaluationTable,
    best_configurations,
    training_strategy_gaps,
)
from oodometer.studies.store import EvaluationOutcome, ModelRecord, ResultRecord, Store
from oodometer.studies.training.config import TrainingConfig
from tests.support.store_records import dataset

# Accuracies on the ID and the OOD domain, and the error on the source.
VALUES = {"whole": (0.8, 0.5, 0.2), "head": (0.6, 0.6, 0.3)}


def test_part_of_a_stored_model_is_compared(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store:
        models, outcomes = [], []
        for part, (inside, outside, source_error) in VALUES.items():
            config = TrainingConfig("pacs", ("photo",), "mlp", part=part)  # type: ignore[arg-type]
            models.append(ModelRecord(config.id, config.id, "mlp", ("photo",), config.to_dict()))
            for domain, accuracy in (("photo", inside), ("sketch", outside)):
                values = {"accuracy": accuracy, "source-error": source_error}
                results = tuple(
                    ResultRecord(config.id, "", domain, domain, name, "", value)
                    for name, value in values.items()
                )
                outcomes.append(EvaluationOutcome(config.id, domain, None, results))
        store.add_models_and_datasets(models, [dataset("photo"), dataset("sketch")])
        store.add_outcomes(outcomes)
        table = EvaluationTable.read(store.to_table())
    inside_gap, outside_gap = training_strategy_gaps(table)
    assert (inside_gap.task, inside_gap.size) == ("pacs", "full")
    assert (inside_gap.gap, outside_gap.gap) == pytest.approx((0.25, -0.2))
    (best,) = best_configurations(table)
    assert dict(best.choices[0].settings) == {"part": "whole"}
    assert (best.id_error, best.ood_error) == pytest.approx((0.2, 0.5))
