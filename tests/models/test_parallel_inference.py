"""What models say of whole datasets by many workers; and rankings made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.predictions import Predictions
from oodometer.data import as_dataset
from oodometer.models.inference import BatchPredictor
from oodometer.neighborhood.ranking import rank
from oodometer.parallel import runners
from oodometer.parallel.runners import distributed, processes, serial
from oodometer.testing import toy_inputs
from tests.neighborhood.test_invariance import vectors
from tests.support.distributed_work import Bright, Columns, Words, mailed
from tests.support.stub_models import ByContent

MODELS: dict[InputKind, dict[str, Any]] = {
    "images": {"one": Bright(), "other": Bright("wild", 0.7)},
    "text": {"words": Words(), "hashed": ByContent()},
    "table": {"columns": Columns(), "hard": ByContent(hard=True)},
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are many of them."""
    monkeypatch.setattr(runners, "MAX_TASK_ROWS", 40)


def bits(found: dict[str, Predictions]) -> list[Any]:
    return [
        (name, one.n, one.k, one.classes.tobytes(), np.asarray(one.scores).tobytes(),
         None if one.labels is None else one.labels.tobytes())
        for name, one in found.items()
    ]  # fmt: skip


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("batch", [None, 1, 7])
@pytest.mark.parametrize("kind", MODELS)
def test_blocks_in_any_order_are_as_all_rows(
    kind: InputKind, batch: int | None, labelled: bool
) -> None:
    dataset = as_dataset(toy_inputs(kind, n=45), labels=np.arange(45) % 2)
    expected = bits(BatchPredictor(MODELS[kind], batch).predict(dataset, labelled=labelled))
    for runner in (serial, mailed(3)):
        found = BatchPredictor(MODELS[kind], batch, runner).predict(dataset, labelled=labelled)
        assert bits(found) == expected


def test_progress_counts_rows_to_the_last() -> None:
    told: list[tuple[int, int, str]] = []
    asking = BatchPredictor(MODELS["text"], 10, mailed(0), lambda *news: told.append(news))
    asking.predict(as_dataset(toy_inputs("text", n=45)), labelled=False)
    assert told == [(done, 45, "classifying text") for done in (10, 20, 30, 40, 45)]


def sides() -> tuple[Any, Any]:
    data = vectors(90)
    return as_dataset(data[:60], labels=(data[:60, 0] > 0).astype(int)), as_dataset(data[60:])


def test_rankings_by_processes_and_a_cluster_are_the_same(two_workers: str) -> None:
    source, target = sides()
    models = {"two": ByContent(k=2), "salted": ByContent(k=2, salt=5)}
    wishes: list[dict[str, Any]] = [
        {"score": "atc-mc", "source": source},
        {"score": "pa", "transform": "gaussian", "draws": 2},
        {"score": sure},
    ]
    for wish in wishes:
        expected = rank(models, target, batch_size=8, **wish)
        for runner in (serial, mailed(1)):
            assert rank(models, target, batch_size=8, runner=runner, **wish) == expected
    expected = rank(models, target, batch_size=8, **wishes[0])
    for runner in (processes(2), distributed(two_workers)):
        assert rank(models, target, batch_size=8, runner=runner, **wishes[0]) == expected


def sure(rows: Predictions) -> Any:
    return rows.confidence


def test_a_model_that_can_not_be_sent_is_named() -> None:
    source, target = sides()
    models = {"fine": ByContent(k=2), "mine": lambda x: np.tile([0.5, 0.5], (len(x), 1))}
    with pytest.raises(InputError, match="The model 'mine' can't be sent to workers"):
        rank(models, target, score="ac", source=source, runner=processes(2))
