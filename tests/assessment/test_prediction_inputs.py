"""estimate() on files, data frames and arrays: the same result as on Predictions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import oodometer
from oodometer.assessment import streaming
from oodometer.assessment.optional_analyses import AdditionalRequests, run_additional
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.predictions import Predictions
from oodometer.data import batch_reader
from oodometer.testing import toy_pair

SOURCE, TARGET = (Predictions.from_probs(rows.probs, labels=rows.labels) for rows in toy_pair())
OPTIONS: dict[str, Any] = {"methods": ["doc", "atc-mc"], "replicates": 20}


def columns_of(rows: Predictions, *, labelled: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {f"prob_{j}": rows.probs[:, j] for j in range(rows.k)}
    return {**columns, "label": rows.labels} if labelled else columns


SOURCE_COLUMNS = columns_of(SOURCE, labelled=True)
TARGET_COLUMNS = columns_of(TARGET, labelled=False)


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return oodometer.estimate(SOURCE, TARGET, **OPTIONS).to_dict()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(pa.table(SOURCE_COLUMNS), tmp_path / "source.parquet")
    pd.DataFrame(TARGET_COLUMNS).to_parquet(tmp_path / "target.parquet")
    pd.DataFrame(TARGET_COLUMNS).to_csv(tmp_path / "target.csv", index=False)
    feather.write_feather(pa.table(TARGET_COLUMNS), str(tmp_path / "target.feather"))
    np.savez(tmp_path / "source.npz", probs=SOURCE.probs, labels=np.asarray(SOURCE.labels))
    return tmp_path


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pd.DataFrame(SOURCE_COLUMNS), pl.DataFrame(TARGET_COLUMNS)),
        (pa.table(SOURCE_COLUMNS), pd.DataFrame(TARGET_COLUMNS)),
        (pl.DataFrame(SOURCE_COLUMNS), pa.table(TARGET_COLUMNS)),
        ((SOURCE.probs, SOURCE.labels), TARGET.probs),
        ((SOURCE.probs.tolist(), list(np.asarray(SOURCE.labels))), TARGET.probs.tolist()),
        ((SOURCE.probs, SOURCE.labels), (TARGET.probs, None)),
        ((SOURCE.probs, SOURCE.labels), (TARGET.probs, TARGET.labels)),
        (SOURCE, pd.DataFrame({**TARGET_COLUMNS, "label": TARGET.labels})),
    ],
    ids=["pandas", "pyarrow", "polars", "arrays", "lists", "no-labels", "labels", "labelled-frame"],
)
def test_frames_and_arrays_give_the_result_of_predictions(
    source: Any, target: Any, expected: dict[str, Any]
) -> None:
    assert oodometer.estimate(source, target, **OPTIONS).to_dict() == expected
    assert oodometer.Reference(source, **OPTIONS).estimate(target).to_dict() == expected


@pytest.mark.parametrize("source", ["source.parquet", "source.npz"])
@pytest.mark.parametrize("target", ["target.parquet", "target.csv", "target.feather"])
def test_files_give_the_result_of_predictions(
    folder: Path, source: str, target: str, expected: dict[str, Any]
) -> None:
    result = oodometer.estimate(folder / source, str(folder / target), **OPTIONS)
    assert result.to_dict() == expected
    assert result.inputs is not None
    assert result.inputs.name == target


def test_index_of_a_pandas_frame_is_not_a_column(expected: dict[str, Any]) -> None:
    frame = pd.DataFrame(SOURCE_COLUMNS)
    shuffled = frame.set_index(np.arange(len(frame))[::-1] + 7)
    assert oodometer.estimate(shuffled, TARGET, **OPTIONS).to_dict() == expected


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (
            (3 * np.log(SOURCE.probs), SOURCE.labels),
            TARGET,
            "source: probs must be between 0 and 1",
        ),
        (SOURCE, TARGET.probs * 3, "target: probs must be between 0 and 1"),
        (SOURCE, TARGET.probs * 0.5, "target: probs must sum to 1"),
    ],
)
def test_arrays_are_never_read_as_logits(source: Any, target: Any, words: str) -> None:
    with pytest.raises(InputError, match=rf"{words}.*Predictions\.from_logits"):
        oodometer.estimate(source, target)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": SOURCE.probs}, "The source has no labels"),
        ({"source": pd.DataFrame(TARGET_COLUMNS)}, "label"),
        ({"target": pd.DataFrame({"score": [0.5]})}, "target: .*column"),
        ({"target": 3.0}, "target must be Predictions, the path of a file, a data frame"),
        ({"target": None}, "got NoneType"),
        ({"target": "missing.parquet"}, "missing.parquet"),
        ({"segment_by": "site"}, "segment_by names the column 'site', but the target is not"),
        ({"source_segment_by": "site"}, "The source has no column 'site'"),
        ({"source_segment_by": ["site", "sex"]}, "no column 'site' or no column 'sex'"),
        (
            {"target": pd.DataFrame(TARGET_COLUMNS), "segment_by": ["prob_0", "sex"]},
            "target: .*'sex'",
        ),
        ({"metrics": "f2"}, "No expected metric is called 'f2'"),
    ],
)
def test_errors_name_the_argument_and_the_remedy(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"source": SOURCE, "target": TARGET, **change}
    with pytest.raises(InputError, match=words):
        oodometer.estimate(**arguments)


# Columns of tables --------------------------------------------------------------------------------


def test_segments_are_read_from_a_column_of_target_and_source() -> None:
    sites = [np.where(np.arange(rows.n) % 2, "new", "old") for rows in (SOURCE, TARGET)]
    arrays = oodometer.estimate(
        SOURCE, TARGET, segment_by=sites[1], source_segment_by=sites[0], **OPTIONS
    )
    frames = [
        pd.DataFrame({**columns, "site": site})
        for columns, site in zip((SOURCE_COLUMNS, TARGET_COLUMNS), sites, strict=True)
    ]
    assert oodometer.estimate(*frames, segment_by="site", **OPTIONS).segments == arrays.segments
    reference = oodometer.Reference(frames[0], segment_by="site", **OPTIONS)
    assert reference.estimate(frames[1], segment_by="site").segments == arrays.segments
    alone = oodometer.estimate(SOURCE, frames[1], segment_by="site", **OPTIONS)
    assert {segment.n_source for segment in alone.segments} == {0}


def test_segments_of_several_columns_are_combined(tmp_path: Path) -> None:
    paths = []
    for name, columns in (("source", SOURCE_COLUMNS), ("target", TARGET_COLUMNS)):
        rows = np.arange(len(columns["prob_0"]))
        folder = tmp_path / name
        folder.mkdir()
        frame = pd.DataFrame({**columns, "site": rows % 2, "sex": np.where(rows % 3, "f", "m")})
        frame.to_parquet(folder / f"{name}.parquet")
        paths.append(folder / f"{name}.parquet")
    names = ["site", "sex"]
    whole = oodometer.estimate(*paths, segment_by=names, **OPTIONS)
    assert [segment.value for segment in whole.segments] == ["0, f", "0, m", "1, f", "1, m"]
    assert all(segment.n_source > 0 for segment in whole.segments)
    reference = oodometer.Reference(paths[0], segment_by=tuple(names), **OPTIONS)
    assert reference.estimate(paths[1], segment_by=names).segments == whole.segments
    frames = [pd.read_parquet(path) for path in paths]
    values = oodometer.estimate(
        SOURCE,
        TARGET,
        segment_by=frames[1][names],
        source_segment_by=frames[0][names],
        **OPTIONS,
    )
    assert values.segments == whole.segments
    # Folders are read in batches.
    batches = oodometer.estimate(paths[0].parent, paths[1].parent, segment_by=names, **OPTIONS)
    for segment, expected in zip(batches.segments, whole.segments, strict=True):
        assert (segment.value, segment.n) == (expected.value, expected.n)
        assert segment.n_source == expected.n_source


def test_list_with_one_text_per_row_gives_segments() -> None:
    sites = ["new" if row % 2 else "old" for row in range(TARGET.n)]
    expected = oodometer.estimate(SOURCE, TARGET, segment_by=np.array(sites), **OPTIONS)
    result = oodometer.estimate(SOURCE, pd.DataFrame(TARGET_COLUMNS), segment_by=sites, **OPTIONS)
    assert result.segments == expected.segments


def test_predicted_classes_are_numbered_as_in_the_source() -> None:
    # The target lacks the class a, so that b would be the first class without the source.
    source = pd.DataFrame({"pred": list("abcabcabca"), "label": list("abcabcabcc")})
    target = pd.DataFrame({"pred": list("bcbcbb")})
    options: dict[str, Any] = {"methods": ["bbse", "gde"], "replicates": 20}
    result = oodometer.estimate(source, target, other_models=target, **options)
    assert result["gde"].value == 1.0
    assert result.inputs is not None
    assert result.inputs.target.classes.tolist() == [1, 2, 1, 2, 1, 1]
    with pytest.raises(InputError, match="If the source lacks this class, name all classes"):
        oodometer.estimate(source, pd.DataFrame({"pred": list("bd")}), **options)


def test_labels_of_some_rows_are_used() -> None:
    labels: list[Any] = np.asarray(TARGET.labels).tolist()
    some = [label if row < 150 else None for row, label in enumerate(labels)]
    expected = oodometer.estimate(SOURCE, TARGET, target_labels=some, **OPTIONS)
    assert expected.uses_target_labels
    frame = pd.DataFrame(TARGET_COLUMNS).assign(label=pd.array(some, dtype="Int64"))
    for target in (frame, (TARGET.probs, some)):
        result = oodometer.estimate(SOURCE, target, **OPTIONS)
        assert result.to_dict() == expected.to_dict()


def test_filled_in_plan_is_a_path_or_a_frame(folder: Path) -> None:
    plan = oodometer.plan_labels(folder / "target.csv", source=folder / "source.npz", n_labels=80)
    plan.to_csv(folder / "to_label.csv")
    filled = pd.read_csv(folder / "to_label.csv")
    assert filled.columns.tolist() == ["row", "confidence", "label"]
    assert filled["label"].isna().all()
    truth = np.asarray(TARGET.labels)
    filled["label"] = filled["label"].astype(object)
    filled.loc[:59, "label"] = truth[filled["row"][:60]]
    filled.to_csv(folder / "done.csv", index=False)
    expected = oodometer.estimate(
        SOURCE, TARGET, target_labels=(plan.rows[:60], truth[plan.rows[:60]]), **OPTIONS
    )
    assert expected.headline.estimate.method == "ppi++"
    frame = plan.to_frame().assign(label=filled["label"])
    for labels in (folder / "done.csv", str(folder / "done.csv"), frame, pl.from_pandas(frame)):
        for target in (TARGET, TARGET.probs, folder / "target.csv"):
            result = oodometer.estimate(SOURCE, target, target_labels=labels, **OPTIONS)
            assert "20 of 80 rows of the plan have no label" in result.notes[0]
            assert result.to_dict() | {"notes": []} == expected.to_dict()


def test_polars_series_with_one_label_per_row_is_not_a_table() -> None:
    labels = [int(label) for label in np.asarray(TARGET.labels)[:60]] + [None] * (TARGET.n - 60)
    expected = oodometer.estimate(SOURCE, TARGET, target_labels=labels, **OPTIONS)
    result = oodometer.estimate(SOURCE, TARGET, target_labels=pl.Series(labels), **OPTIONS)
    assert result.to_dict() == expected.to_dict()


def test_labels_that_do_not_fit_the_target_are_an_error(tmp_path: Path) -> None:
    for table, words in (
        ({"row": [0, 1], "label": [None, None]}, "target_labels: no row has a label"),
        ({"label": [0, 1]}, "target_labels has neither a column row nor a column id"),
        ({"row": [0, TARGET.n], "label": [0, 1]}, f"there is no row {TARGET.n}"),
        ({"row": [3, 3], "label": [0, 1]}, "row 3 is listed more than once"),
    ):
        with pytest.raises(InputError, match=words):
            oodometer.estimate(SOURCE, TARGET, target_labels=pd.DataFrame(table), **OPTIONS)
    with pytest.raises(InputError, match=r"There is no file .*nowhere.csv"):
        oodometer.estimate(SOURCE, TARGET, target_labels=tmp_path / "nowhere.csv", **OPTIONS)


def test_other_models_can_be_arrays_or_files(folder: Path) -> None:
    other = np.roll(TARGET.probs, 1, axis=0)
    expected = oodometer.estimate(
        SOURCE, TARGET, methods="gde", replicates=20, other_models=Predictions.from_probs(other)
    )
    pd.DataFrame(columns_of(Predictions.from_probs(other), labelled=False)).to_parquet(
        folder / "other.parquet"
    )
    for models in (other, [other], folder / "other.parquet"):
        result = oodometer.estimate(
            SOURCE, TARGET, methods="gde", replicates=20, other_models=models
        )
        assert result["gde"] == expected["gde"]


# History ------------------------------------------------------------------------------------------


def test_history_can_be_a_frame_a_path_or_labelled_arrays(tmp_path: Path) -> None:
    estimates, truths = np.linspace(0.7, 0.9, 8), np.linspace(0.65, 0.92, 8)
    past = oodometer.History(estimates, truths)
    expected = oodometer.estimate(SOURCE, TARGET, history=past, **OPTIONS).shift
    assert expected is not None
    assert expected.n_domains == 8
    frame = pd.DataFrame({"estimate": estimates, "truth": truths})
    frame.to_parquet(tmp_path / "history.parquet")
    for history in (frame, tmp_path / "history.parquet", [str(tmp_path / "history.parquet")]):
        assert oodometer.estimate(SOURCE, TARGET, history=history, **OPTIONS).shift == expected
    parts = [SOURCE.rows(np.arange(j, SOURCE.n, 6)) for j in range(6)]
    domains = oodometer.estimate(SOURCE, TARGET, history=parts, **OPTIONS).shift
    pairs = [(part.probs, part.labels) for part in parts]
    assert oodometer.estimate(SOURCE, TARGET, history=pairs, **OPTIONS).shift == domains


def test_table_of_estimates_and_files_of_predictions_are_not_mixed(folder: Path) -> None:
    frame = pd.DataFrame({"estimate": [0.5], "truth": [0.5]})
    with pytest.raises(InputError, match=r"history was given 2 files\. Give one such table"):
        oodometer.estimate(SOURCE, TARGET, history=[frame, folder / "source.parquet"])


def test_history_can_be_a_folder_or_a_pattern(tmp_path: Path) -> None:
    parts = [SOURCE.rows(np.arange(j, SOURCE.n, 6)) for j in range(6)]
    for number, part in enumerate(parts):
        frame = pd.DataFrame(columns_of(part, labelled=True))
        frame.to_parquet(tmp_path / f"{number}.parquet")
    expected = oodometer.estimate(SOURCE, TARGET, history=parts, **OPTIONS).shift
    for history in (tmp_path, str(tmp_path / "*.parquet"), [tmp_path]):
        assert oodometer.estimate(SOURCE, TARGET, history=history, **OPTIONS).shift == expected
    pd.DataFrame(TARGET_COLUMNS).to_parquet(tmp_path / "unlabelled.parquet")
    with pytest.raises(InputError, match=r"history unlabelled\.parquet has no labels\. Give past"):
        oodometer.estimate(SOURCE, TARGET, history=tmp_path, **OPTIONS)


# Files larger than memory ---------------------------------------------------------------------------


def test_large_files_are_read_in_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = folder / "source.parquet", folder / "target.parquet"
    whole = oodometer.estimate(*paths, **OPTIONS)
    monkeypatch.setattr(batch_reader, "MAX_WHOLE_FILE_BYTES", 1000)
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 100)
    with mock.patch.object(streaming, "scan", wraps=streaming.scan) as scan:
        result = oodometer.estimate(*paths, metrics="f1", **OPTIONS)
    assert scan.call_count == 1
    assert result["doc"].value == pytest.approx(whole["doc"].value)
    assert result.n_target == TARGET.n
    assert result.inputs is not None
    assert (result.inputs.target.n, result.inputs.name) == (100, "target.parquet")
    assert "random sample of 100 target rows" in result.to_dict()["additional"]["reasons"][-1]
    assert oodometer.estimate_files(*paths)["doc"].value == result["doc"].value
    result.to_html(folder / "report.html")
    assert "target.parquet" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"segment_by": np.zeros(TARGET.n)}, "segment_by must be the name of a column"),
        ({"target_labels": [0] * TARGET.n}, "target_labels cannot be used"),
        ({"other_models": TARGET}, "other_models cannot be used"),
    ],
)
def test_options_that_need_all_rows_are_rejected_for_large_files(
    folder: Path, option: dict[str, Any], words: str
) -> None:
    parts = folder / "parts"
    parts.mkdir()
    (folder / "target.parquet").rename(parts / "a.parquet")
    with pytest.raises(InputError, match=words):
        oodometer.estimate(folder / "source.parquet", parts, **option)


# Optional analyses ------------------------------------------------------------------------------------


def test_metrics_bound_and_margin_are_attributes() -> None:
    sites = np.arange(TARGET.n) % 2
    result = oodometer.estimate(
        SOURCE,
        TARGET,
        metrics=["f1", "Average-Precision"],
        bound=True,
        margin=0.05,
        segment_by=sites,
        **OPTIONS,
    )
    requests = AdditionalRequests(metrics=("f1", "average_precision"), bound=True, margin=0.05)
    reference = oodometer.Reference(SOURCE, **OPTIONS)
    expected = run_additional(requests, reference, TARGET, segment_by=sites)
    assert result.additional == expected
    assert (result.metrics, result.bound) == (expected.metrics, expected.bound)
    assert result.noninferiority == expected.verdict
    assert {metric.metric for metric in result.metrics} == {"f1", "average_precision"}
    assert result.bound is not None
    assert result.to_dict()["additional"] == expected.to_dict()
    assert len(result.to_frame("metrics")) == len(result.metrics)


def test_margin_that_applies_is_tested() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 2000)
    logits = rng.normal(size=(2000, 2)) + 1.5 * np.eye(2)[labels]
    rows = Predictions.from_logits(logits, labels=labels)
    result = oodometer.estimate(
        rows.rows(np.arange(1000)), rows.rows(np.arange(1000, 2000)), margin=0.1, methods="doc"
    )
    assert result.noninferiority is not None
    assert result.noninferiority.decision == "SUITABLE"
    assert result.to_dict()["additional"]["suitability"] == result.noninferiority.to_dict()
    assert (result.metrics, result.bound) == ((), None)


def test_unknown_metric_is_reported_before_the_estimation() -> None:
    with (
        mock.patch.object(oodometer.Reference, "prepare") as prepare,
        pytest.raises(UnknownName, match="There are: accuracy, precision"),
    ):
        oodometer.estimate(SOURCE, TARGET, metrics=["f2"])
    assert prepare.call_count == 0


def test_nothing_additional_is_computed_by_default(expected: dict[str, Any]) -> None:
    assert "additional" not in expected
    result = oodometer.estimate(SOURCE, TARGET, **OPTIONS)
    assert (result.additional, result.metrics, result.bound, result.noninferiority) == (
        None, (), None, None,
    )  # fmt: skip


# Names of columns -------------------------------------------------------------------------------


def renamed_tables() -> tuple[pd.DataFrame, pa.Table]:
    """Return source and target with the columns score_…, truth and site."""
    source = {f"score_{j}": SOURCE.probs[:, j] for j in range(SOURCE.k)}
    target = {f"score_{j}": TARGET.probs[:, j] for j in range(TARGET.k)}
    sites = [np.where(np.arange(rows.n) % 2, "a", "b") for rows in (SOURCE, TARGET)]
    return (
        pd.DataFrame({**source, "truth": SOURCE.labels, "site": sites[0]}),
        pa.table({**target, "site": sites[1]}),
    )


def test_columns_with_other_names_give_the_same_result(expected: dict[str, Any]) -> None:
    names = {"prob_columns": "score_", "label_column": "truth"}
    source, target = renamed_tables()
    assert oodometer.estimate(source, target, columns=names, **OPTIONS).to_dict() == expected
    reference = oodometer.Reference(source, columns=names, **OPTIONS)
    assert reference.estimate(target).to_dict() == expected
    segmented = oodometer.estimate(source, target, columns=names, segment_by="site", **OPTIONS)
    assert [segment.value for segment in segmented.segments] == ["a", "b"]
    assert all(segment.n_source == SOURCE.n // 2 for segment in segmented.segments)


def test_columns_apply_to_files_other_models_and_history(tmp_path: Path) -> None:
    names = {"prob_columns": "score_", "label_column": "truth"}
    source, target = renamed_tables()
    source.to_csv(tmp_path / "source.csv", index=False)
    result = oodometer.estimate(
        tmp_path / "source.csv",
        target,
        other_models=[target],
        history=[source] * 5,
        columns=names,
        replicates=20,
    )
    assert result.shift is not None
    assert result.shift.n_domains == 5
    assert result["gde"].value == 1.0


def test_thresholds_in_columns_decide_the_classes() -> None:
    frame = pa.table({"score": [0.4, 0.2, 0.9, 0.1], "label": [1, 0, 1, 0]})
    accuracies = [
        oodometer.Reference(frame, columns={"prob_columns": "score", "thresholds": threshold})
        .rows.correct.mean()
        for threshold in (0.3, 0.5)
    ]  # fmt: skip
    assert accuracies == [1.0, 0.75]


def test_error_for_unknown_score_column_names_the_parameter_columns() -> None:
    frame = pd.DataFrame({"employed": [0, 1], "predicted_probability": [0.2, 0.7]})
    with pytest.raises(InputError) as caught:
        oodometer.estimate(frame, frame)
    message = str(caught.value)
    assert "columns={'prob_columns': 'predicted_probability'}" in message
    assert "--" not in message


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"label": "employed"},
            "No key of columns is called 'label'. Did you mean 'label_column'?",
        ),
        ({"label_column": 3}, "columns: 'label_column' must be the name of a column; got 3."),
        ({"class_names": "cat,dog"}, "'class_names' must be a list of texts, one per class"),
        ({"thresholds": "0.3"}, "'thresholds' must be a number, or one number per class"),
        ({"pred_column": "p", "thresholds": 0.3}, "both pred_column and thresholds"),
        ("employed", "columns must be a mapping from the kind of column to its name"),
    ],
)
def test_invalid_columns_are_reported(columns: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        oodometer.estimate(SOURCE, TARGET, columns=columns)


# Source without labels --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (TARGET.without_labels(), SOURCE),
        (TARGET.probs, (SOURCE.probs, SOURCE.labels)),
        (pd.DataFrame(TARGET_COLUMNS), pa.table(SOURCE_COLUMNS)),
    ],
    ids=["predictions", "arrays", "tables"],
)
def test_swapped_source_and_target_are_reported(source: Any, target: Any) -> None:
    with pytest.raises(InputError, match="source and target seem to be swapped") as caught:
        oodometer.estimate(source, target)
    assert "labels=…" not in str(caught.value)


def test_error_for_unlabelled_source_names_the_likely_column() -> None:
    source = pd.DataFrame({**TARGET_COLUMNS, "y_true": TARGET.labels})
    with pytest.raises(InputError, match=r"pass columns=\{'label_column': 'y_true'\}"):
        oodometer.estimate(source, TARGET.probs)
    with pytest.raises(InputError, match=r"a pair \(probs, labels\), or a table with a column"):
        oodometer.estimate(SOURCE.probs, TARGET.probs)
