"""estimate_files(): the same results as estimate() on the same rows, whichever worker reads them."""

from __future__ import annotations

import importlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oodometer
from oodometer import estimators
from oodometer.assessment import estimate_files, source_files, streaming
from oodometer.assessment.bootstrap import LearnedSource, make_runs
from oodometer.assessment.conformal_interval import History
from oodometer.assessment.partial_sums import PartialResult
from oodometer.assessment.reference import EstimateOptions, Reference
from oodometer.assessment.result import Assessment
from oodometer.assessment.source_files import RowProgress, load_source
from oodometer.assessment.streaming import (
    PREVIEW_ROWS,
    StreamedTarget,
    assess_streamed,
    scan,
)
from oodometer.core.calibration import Calibration
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.data import batch_reader
from oodometer.data.batch_reader import FilePartition
from oodometer.data.prediction_files import PredictionColumns
from oodometer.parallel.runners import distributed, processes, serial
from oodometer.testing import toy_pair, toy_predictions
from tests.support.partitioned_files import WorkerKillingEstimator, split, table_of, write

MERGEABLE = [
    member.name
    for member in estimators.MEMBERS
    if isinstance(member, StreamingEstimator)
    and member.is_mergeable
    and "second model" not in member.needs
]
FEW = ("doc", "atc-mc", "cot")


def probabilities_only(rows: Predictions, labelled: bool = False) -> Predictions:
    return Predictions.from_probs(rows.probs, labels=rows.labels if labelled else None)


SOURCE = probabilities_only(toy_predictions(), labelled=True)
TARGET = probabilities_only(toy_predictions(n=300, sharpness=1.5, seed=1), labelled=True)
SITES = np.array(["north", "south", "west"])[np.arange(300) % 3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source, and a target of four files with row groups of 25; every group is a partition."""
    monkeypatch.setattr(batch_reader, "PARTITION_ROWS", 1)
    write(table_of(SOURCE, True), tmp_path / "source.parquet")
    split(table_of(TARGET, site=SITES), tmp_path / "target", [100, 110, 250], group=25)
    return tmp_path


def values(result: Assessment) -> dict[str, tuple[float, float | None, float | None]]:
    return {e.method: (e.value, e.low, e.high) for e in result.estimates}


def assert_same(result: Assessment, expected: Assessment) -> None:
    """Assert that two assessments are equal up to the last bits of sums."""
    actual, reference = result.to_dict(), expected.to_dict()
    assert [e["method"] for e in actual["estimates"]] == [
        e["method"] for e in reference["estimates"]
    ]
    assert_close(actual, reference)


def point_estimates(result: Assessment) -> dict[str, float]:
    """Return values without intervals, whose random draws depend on the order of the classes."""
    return {e.method: e.value for e in result.estimates}


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-12) -> None:
    assert type(actual) is type(expected)
    if isinstance(actual, dict):
        assert actual.keys() == expected.keys()
        for key in actual:
            assert_close(actual[key], expected[key], tolerance)
    elif isinstance(actual, list):
        assert len(actual) == len(expected)
        for item, expected_item in zip(actual, expected, strict=True):
            assert_close(item, expected_item, tolerance)
    elif isinstance(actual, float):
        assert actual == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert actual == expected


def in_memory(
    *, segment_by: Any = None, target_labels: Any = None, history: Any = None, **options: Any
) -> Assessment:
    return Reference(SOURCE, **options).estimate(
        TARGET, segment_by=segment_by, target_labels=target_labels, history=history
    )


def test_files_give_the_assessment_of_arrays(folder: Path) -> None:
    result = estimate_files(
        folder / "source.parquet", folder / "target", options=EstimateOptions(segment_by="site")
    )
    expected = in_memory(segment_by=SITES)
    assert_same(result, expected)
    assert result.notes == ()
    # Methods that need all rows at once had all of them: they are equal to the last bit.
    exact = {name: value for name, value in values(expected).items() if name not in MERGEABLE}
    assert {name: values(result)[name] for name in exact} == exact
    assert len(exact) >= 5


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 120),
    k=st.sampled_from([2, 3, 5]),
    ends=st.lists(st.integers(0, 120), max_size=4),
    group=st.integers(1, 50),
    batch=st.sampled_from([64, 128]),
    dtype=st.sampled_from([np.float32, np.float64]),
    temperature=st.sampled_from(["fit", None, 2.0]),
)
def test_sums_do_not_depend_on_the_partitions(
    seed: int,
    n: int,
    k: int,
    ends: list[int],
    group: int,
    batch: int,
    dtype: Any,
    temperature: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("partitioned")
    source = toy_predictions(n=90, k=k, seed=seed)
    target = toy_predictions(n=n, k=k, sharpness=1.0, seed=seed + 1)
    both = [Predictions.from_probs(rows.probs.astype(dtype), labels=rows.labels)
            for rows in (source, target)]  # fmt: skip
    write(table_of(both[0], True), folder / "source.parquet")
    split(table_of(both[1]), folder / "t", [min(end, n) for end in ends], group=group)
    options = EstimateOptions(MERGEABLE, temperature, seed=seed, replicates=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_reader, "PARTITION_ROWS", 30)
        patch.setattr(batch_reader, "MAX_BATCH_ROWS", batch)
        result = estimate_files(folder / "source.parquet", folder / "t", options=options)
    expected = oodometer.estimate(
        *both, methods=MERGEABLE, temperature=temperature, seed=seed, replicates=20
    )
    assert_same(result, expected)


def test_sample_does_not_depend_on_the_partitions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 80)
    split(table_of(TARGET, site=SITES), folder / "other", [7], group=300)
    options = EstimateOptions(segment_by="site")
    result, other = (
        estimate_files(folder / "source.parquet", folder / name, options=options)
        for name in ("target", "other")
    )
    assert_same(result, other)
    again = estimate_files(
        folder / "source.parquet", folder / "target", options=EstimateOptions(seed=5)
    )
    assert values(again)["cot"] != values(result)["cot"]
    (note,) = result.notes
    assert "atc-class read all rows of the target; the other methods, the diagnostics" in note
    assert note.endswith("a random sample of 80 of 300 rows.")
    for estimate in result.estimates:
        sampled = "from a random sample of 80 of 300 rows" in estimate.notes
        assert sampled == (estimate.method not in MERGEABLE)
    expected = values(in_memory())
    for name in MERGEABLE:
        assert values(result)[name][0] == pytest.approx(expected[name][0], rel=1e-9)
        # The width of the interval is computed from the sample.
        assert values(result)[name][1:] == pytest.approx(expected[name][1:], abs=0.02)
    assert (result.n_target, result.n_source) == (300, 400)


def test_segments_read_all_rows_also_if_the_headline_reads_a_sample(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = EstimateOptions(["cot"], segment_by="site")
    whole = estimate_files(folder / "source.parquet", folder / "target", options=options)
    assert_same(whole, in_memory(methods=["cot"], segment_by=SITES))
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 60)
    part = estimate_files(folder / "source.parquet", folder / "target", options=options)
    assert sum(segment.n for segment in part.segments) == 300
    total = sum(segment.n * segment.estimate.value for segment in part.segments if segment.estimate)
    assert total / 300 == pytest.approx(part.headline.estimate.value, abs=1e-12)


@pytest.mark.parametrize("kind", ["numbers", "days"])
def test_segments_are_sorted_by_number_and_by_day(folder: Path, kind: str) -> None:
    by: Any = np.arange(300) // 25
    if kind == "days":
        by = np.datetime64("2026-01-30T05:00:00") + by * np.timedelta64(9, "h")
    split(table_of(TARGET, at=by), folder / "timed", [50, 150], group=40)
    options = EstimateOptions(["atc-mc"], segment_by="at", replicates=20)
    result = estimate_files(folder / "source.parquet", folder / "timed", options=options)
    assert_same(result, in_memory(methods=["atc-mc"], segment_by=by, replicates=20))


# Formats and columns ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".feather", ".arrow"])
def test_all_file_formats_give_the_same_estimates(folder: Path, ending: str) -> None:
    table, source = table_of(TARGET), folder / "source.parquet"
    write(table.slice(0, 120), folder / f"more/a{ending}", 50)
    write(table.slice(120), folder / f"more/b{ending}", 50)
    result = estimate_files(source, f"{folder}/more/*", options=EstimateOptions(FEW))
    for name, expected in values(in_memory(methods=FEW)).items():
        assert values(result)[name] == pytest.approx(expected, abs=1e-9)


def test_csv_column_may_start_with_integers_and_continue_with_fractions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_reader, "CSV_BLOCK_BYTES", 200)
    one_hot = "\n".join(["1,0", "0,1"] * 40)
    (folder / "two.csv").write_text(f"prob_0,prob_1\n{one_hot}\n0.25,0.75\n")
    rows = probabilities_only(toy_predictions(k=2), labelled=True)
    write(table_of(rows, True), folder / "two.parquet")
    result = estimate_files(
        folder / "two.parquet",
        folder / "two.csv",
        options=EstimateOptions(["ac"], None, calibration="temperature"),
    )
    # Zeros are replaced by 1/(2 · 400), because the source has 400 rows.
    certain = 1 / (1 + 1 / 800)
    assert result["ac"].value == pytest.approx((80 * certain + 0.75) / 81)
    assert result.n_target == 81


def test_classes_are_matched_by_name_in_columns_and_in_lists(folder: Path) -> None:
    names = ("cat", "dog", "eel", "fox")
    probs, labels = np.asarray(TARGET.probs), np.asarray(SOURCE.labels)
    columns_of_source = {f"s_{names[j]}": SOURCE.probs[:, j] for j in range(4)}
    columns_of_source["truth"] = np.array(names)[labels]
    write(pa.table(columns_of_source), folder / "a.parquet")
    write(
        pa.table({f"s_{names[j]}": probs[:, j] for j in (2, 0, 3, 1)}), folder / "b/b.parquet", 50
    )
    columns = PredictionColumns(label_column="truth", prob_columns="s_")
    options = EstimateOptions(FEW)
    result = estimate_files(folder / "a.parquet", folder / "b", columns=columns, options=options)
    expected = in_memory(methods=FEW)
    assert_close(point_estimates(result), point_estimates(expected))
    # The class names of list columns come from the caller.
    write(pa.table({"probs": probs[:, [2, 0, 3, 1]].tolist()}), folder / "c/c.parquet", 50)
    listed = PredictionColumns(
        label_column="truth", prob_columns="probs", class_names=("eel", "cat", "fox", "dog")
    )
    rows = estimate_lists(folder, listed)
    assert_close(point_estimates(rows), point_estimates(expected), 1e-5)


def estimate_lists(folder: Path, columns: PredictionColumns) -> Assessment:
    """Write the source as lists in another class order, and return the estimates."""
    names = ("cat", "dog", "eel", "fox")
    order = [2, 0, 3, 1]
    table = {"probs": np.asarray(SOURCE.probs)[:, order].tolist(),
             "truth": np.array(names)[np.asarray(SOURCE.labels)]}  # fmt: skip
    write(pa.table(table), folder / "d.parquet")
    return estimate_files(
        folder / "d.parquet", folder / "c", columns=columns, options=EstimateOptions(FEW)
    )


def test_logits_and_a_single_column_for_two_classes(folder: Path) -> None:
    rows = toy_predictions(k=2, n=200)
    logits = np.asarray(rows.scores)
    both = {f"logit_{j}": logits[:, j] for j in range(2)}
    write(pa.table(both | {"label": rows.labels}), folder / "l.parquet")
    write(pa.table(both), folder / "ll/l.parquet", 30)
    result = estimate_files(folder / "l.parquet", folder / "ll", options=EstimateOptions(FEW))
    expected = Predictions.from_logits(logits, labels=rows.labels)
    assert_same(result, oodometer.estimate(expected, expected, methods=FEW))
    second = probabilities_only(rows).probs[:, 1]
    write(pa.table({"prob": second, "label": rows.labels}), folder / "p.parquet")
    write(pa.table({"prob": second}), folder / "pp/p.parquet", 30)
    alone = estimate_files(folder / "p.parquet", folder / "pp", options=EstimateOptions(FEW))
    assert_close(point_estimates(alone), point_estimates(result), 1e-5)


def test_float32_scores_are_not_converted(folder: Path) -> None:
    single = [Predictions.from_probs(rows.probs.astype(np.float32), labels=rows.labels)
              for rows in (SOURCE, TARGET)]  # fmt: skip
    write(table_of(single[0], True), folder / "s.parquet")
    split(table_of(single[1]), folder / "f", [40], group=35)
    reference = Reference(folder / "s.parquet", methods=FEW)
    result = assess_streamed(reference, folder / "f", PredictionColumns())
    assert result.assessment.inputs is not None
    assert result.assessment.inputs.target.scores is not None
    assert result.assessment.inputs.target.scores.dtype == np.float32
    assert_same(result.assessment, oodometer.estimate(*single, methods=FEW))


# Few labels, history ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize("named", [False, True])
def test_labels_of_a_few_target_rows_are_used(folder: Path, named: bool, ending: str) -> None:
    labels: list[Any] = [None] * 300
    for row in range(120, 300, 4):
        label = int(np.asarray(TARGET.labels)[row])
        labels[row] = f"c{label}" if named else label
    kind = pa.string() if named else pa.int64()
    table = table_of(TARGET).append_column("label", pa.array(labels, kind))
    if named:
        table = table.rename_columns([*(f"prob_c{j}" for j in range(4)), "label"])
        source = table_of(SOURCE, True)
        texts = pa.array([f"c{value}" for value in np.asarray(SOURCE.labels)])
        source = source.set_column(4, "label", texts).rename_columns(table.column_names)
        write(source, folder / "source.parquet")
    write(table.slice(0, 100), folder / f"some/a{ending}", 60)
    write(table.slice(100), folder / f"some/b{ending}", 60)
    result = estimate_files(
        folder / "source.parquet", folder / "some", options=EstimateOptions(FEW)
    )
    numbers = [None if value is None else int(str(value)[-1]) for value in labels]
    expected = in_memory(methods=FEW, target_labels=numbers)
    assert result.headline.estimate.method == "ppi++"
    for name, value in values(expected).items():
        assert values(result)[name] == pytest.approx(value, abs=1e-9)
    assert result["ppi++"].facts == pytest.approx(expected["ppi++"].facts)
    assert result.headline.why == expected.headline.why


def test_many_labels_are_sampled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MAX_LABELS", 50)
    labels = [None if row % 3 else int(np.asarray(TARGET.labels)[row]) for row in range(300)]
    table = table_of(TARGET).append_column("label", pa.array(labels, pa.int64()))
    split(table, folder / "some", [90], group=20)
    result = estimate_files(
        folder / "source.parquet", folder / "some", options=EstimateOptions(FEW)
    )
    assert result["ppi++"].facts["labels"] == 50
    assert result.notes == ("A random sample of 50 of 100 target labels was used.",)


def test_labels_of_all_target_rows_are_ignored(folder: Path) -> None:
    split(table_of(TARGET, True), folder / "all", [120], group=50)
    reference = Reference(folder / "source.parquet", methods=FEW)
    result = assess_streamed(reference, folder / "all", PredictionColumns())
    assert_same(result.assessment, in_memory(methods=FEW))
    assert result.n_labels == 300


@pytest.mark.parametrize("kind", ["table", "rows"])
def test_history_gives_the_typical_range(folder: Path, kind: str) -> None:
    past: Any = History(np.linspace(0.6, 0.9, 8), np.linspace(0.55, 0.95, 8))
    if kind == "rows":
        past = [
            probabilities_only(toy_predictions(n=80, sharpness=s, seed=9), True)
            for s in (1, 2, 3, 4, 5)
        ]
    options = EstimateOptions(("doc", "ac"))
    result = estimate_files(
        folder / "source.parquet", folder / "target", options=options, history=past
    )
    assert result.shift is not None
    assert_same(result, in_memory(methods=["doc", "ac"], history=past))


# Workers ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    cluster: Any = importlib.import_module("distributed").LocalCluster
    with cluster(
        n_workers=2, threads_per_worker=2, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as result:
        yield result.scheduler_address


def assessed_by(runner: Any, folder: Path, methods: Any = (*MERGEABLE, "cot")) -> dict[str, Any]:
    options = EstimateOptions(methods, segment_by="site", replicates=20)
    result = estimate_files(folder / "shared", folder / "target", options=options, runner=runner)
    return result.to_dict()


@pytest.fixture
def shared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source of several files, and a sample that is smaller than the target."""
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 90)
    split(table_of(SOURCE, True), folder / "shared", [150], group=70)
    return folder


def test_processes_give_the_same_result_to_the_last_bit(shared: Path) -> None:
    assert assessed_by(processes(2), shared) == assessed_by(serial, shared)


def test_cluster_gives_the_same_result_to_the_last_bit(shared: Path, cluster: str) -> None:
    assert assessed_by(distributed(cluster), shared) == assessed_by(serial, shared)


@pytest.mark.parametrize("kind", ["processes", "cluster"])
def test_lost_worker_changes_nothing(shared: Path, cluster: str, kind: str) -> None:
    runner = processes(2) if kind == "processes" else distributed(cluster)
    trace = shared / "died"
    members = [WorkerKillingEstimator(str(trace), os.getpid()), "atc-mc"]
    result = assessed_by(runner, shared, members)
    assert trace.exists()
    assert result == assessed_by(serial, shared, members)


def test_sums_are_added_in_partition_order(shared: Path) -> None:
    def backwards(work: Any, tasks: Any) -> Any:
        return reversed(list(serial(work, tasks)))

    assert assessed_by(backwards, shared) == assessed_by(serial, shared)


def test_error_of_a_worker_is_raised(shared: Path) -> None:
    probs = np.asarray(TARGET.probs).copy()
    probs[60, 2] = np.nan
    odd = Predictions(n=300, k=4, score_type="probs", scores=probs)
    split(table_of(odd, site=SITES), shared / "target", [100, 110, 250], group=25)
    with pytest.raises(InputError, match=r"^part-000.parquet \(rows counted from row 50\): "):
        assessed_by(processes(1), shared, ["ac"])


def test_progress_reports_rows(folder: Path) -> None:
    reported: list[tuple[int, int, str]] = []
    estimate_files(
        folder / "source.parquet",
        folder / "target",
        options=EstimateOptions(["ac"]),
        progress=lambda *event: reported.append(event),
    )
    assert reported[-1] == (300, 300, "rows")
    assert [event[0] for event in reported] == sorted(event[0] for event in reported)
    write(table_of(TARGET), folder / "t.csv")
    estimate_files(
        folder / "source.parquet",
        folder / "t.csv",
        options=EstimateOptions(["ac"]),
        progress=lambda *event: reported.append(event),
    )
    assert reported[-1] == (300, 0, "300 rows")


# Invalid input ---------------------------------------------------------------------------------


def error_of(folder: Path, target: str | Path, **options: Any) -> str:
    with pytest.raises((InputError, NotApplicable)) as error:
        estimate_files(
            folder / "source.parquet", folder / target, options=EstimateOptions(**options)
        )
    return str(error.value)


def test_errors_name_the_file(folder: Path) -> None:
    good, target = table_of(TARGET), folder / "target"
    assert "'region'" in error_of(folder, "target", segment_by="region")
    three = good.drop_columns(["prob_3"])
    write(three, target / "zz.parquet")
    message = error_of(folder, "target")
    assert message.startswith(
        "zz.parquet and part-000.parquet have different columns: only part-000.parquet"
    )
    assert "has the column 'prob_3'" in message
    write(good.append_column("prob_4", [[0.0] * 300]), target / "zz.parquet")
    assert "only zz.parquet has the column 'prob_4'" in error_of(folder, "target")
    texts = pa.array(["0.5"] * 300)
    write(good.set_column(1, "prob_1", texts), target / "zz.parquet")
    assert "The column 'prob_1' of zz.parquet holds string" in error_of(folder, "target")
    write(good.rename_columns(list("abcd")), target / "zz.parquet")
    assert error_of(folder, "target").startswith("zz.parquet: There are no scores")
    write(table_of(TARGET, True), target / "zz.parquet")
    assert "Only one of zz.parquet and part-000.parquet has labels" in error_of(folder, "target")
    (target / "zz.parquet").write_bytes(b"PAR1")
    assert error_of(folder, "target").startswith("zz.parquet cannot be read as Parquet")


def test_empty_targets_different_class_counts_and_missing_labels_are_rejected(folder: Path) -> None:
    empty = table_of(TARGET).slice(0, 0)
    write(empty, folder / "empty/a.parquet")
    assert "has no rows; at least one was expected" in error_of(folder, "empty")
    write(table_of(TARGET), folder / "empty/b.parquet")  # one empty file among others is accepted
    result = estimate_files(
        folder / "source.parquet", folder / "empty", options=EstimateOptions(["ac"])
    )
    assert result.n_target == 300
    write(table_of(toy_predictions(k=3)), folder / "three/a.parquet")
    assert "the source has 4 classes, the target has 3" in error_of(folder, "three")
    write(table_of(TARGET), folder / "bare.parquet")
    with pytest.raises(InputError, match="The source has no labels"):
        estimate_files(folder / "bare.parquet", folder / "target")
    with pytest.raises(InputError, match="The source has no labels"):
        estimate_files(f"{folder}/bare*", folder / "target")


def test_invalid_sums_null_scores_and_null_segments_are_rejected(folder: Path) -> None:
    table = table_of(TARGET, site=SITES)
    probs = np.asarray(TARGET.probs)[:, 0].copy()
    probs[290] += 0.5
    write(table.set_column(0, "prob_0", [probs]), folder / "sum/a.parquet", 100)
    assert "(rows counted from row 200): probs must sum to 1" in error_of(folder, "sum")
    gaps = pa.array([None if row == 3 else 0.1 for row in range(300)])
    write(table.set_column(0, "prob_0", gaps), folder / "gap/a.parquet")
    assert error_of(folder, "gap") == "a.parquet: The column 'prob_0' has no value in row 3."
    sites = pa.array([None if row == 130 else "north" for row in range(300)])
    write(table.set_column(4, "site", sites), folder / "site/a.parquet", 100)
    message = error_of(folder, "site", segment_by="site")
    assert message.endswith(
        "(rows counted from row 100): The column 'site' has no value in row 30."
    )


def test_too_many_segments_are_rejected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oodometer.assessment.partial_sums.MAX_SEGMENTS", 2)
    message = error_of(folder, "target", segment_by="site")
    assert "The column 'site' has more than 2 values" in message


def test_requested_methods_must_be_applicable(folder: Path) -> None:
    message = error_of(folder, "target", methods=["ac", "gde"])
    assert message == ("Not applicable: gde: it requires the predictions of a second model.")
    with pytest.raises(InputError, match="replicates must be at least 20; got 3"):
        EstimateOptions(replicates=3)


def test_large_source_is_sampled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split(table_of(SOURCE, True), folder / "sources", [150], group=70)
    options = EstimateOptions(FEW)
    whole = estimate_files(folder / "sources", folder / "target", options=options)
    assert_same(whole, in_memory(methods=FEW))
    monkeypatch.setattr("oodometer.assessment.source_files.MAX_SOURCE_ROWS", 120)
    part = estimate_files(folder / "sources", folder / "target", options=options)
    assert part.n_source == 120
    assert part.notes == ("The source is a random sample of 120 of 400 rows.",)
    assert part.source_accuracy == pytest.approx(whole.source_accuracy, abs=0.12)


# Source -----------------------------------------------------------------------------------------


def load(location: Path, *, seed: int = 0, report: Any = lambda n: None) -> Any:
    return load_source(location, PredictionColumns(), seed, serial, report)


def test_source_files_are_read_in_row_order(tmp_path: Path) -> None:
    split(table_of(SOURCE, True), tmp_path, [20, 90], group=30)
    reported: list[int] = []
    source = load(tmp_path, report=reported.append)
    np.testing.assert_array_equal(source.predictions.probs, SOURCE.probs)
    np.testing.assert_array_equal(source.predictions.labels, SOURCE.labels)
    assert (source.n_rows, source.sampling_note, sum(reported)) == (400, None, 400)


@pytest.mark.parametrize("bound", ["MAX_SOURCE_ROWS", "MAX_SOURCE_CELLS"])
def test_source_sample_does_not_depend_on_the_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(source_files, bound, 50 if bound == "MAX_SOURCE_ROWS" else 50 * SOURCE.k)
    split(table_of(SOURCE, True), tmp_path / "a", [20, 90], group=30)
    split(table_of(SOURCE, True), tmp_path / "b", [130], group=400)
    source, other = (load(tmp_path / name, seed=3) for name in "ab")
    np.testing.assert_array_equal(source.predictions.probs, other.predictions.probs)
    assert (source.predictions.n, source.n_rows) == (50, 400)
    assert source.sampling_note == "The source is a random sample of 50 of 400 rows."


def test_large_single_file_is_read_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(table_of(SOURCE, True), tmp_path / "a.parquet", 30)
    whole = load(path)
    monkeypatch.setattr(batch_reader, "MAX_WHOLE_FILE_BYTES", 10)
    reported: list[int] = []
    source = load(path, report=reported.append)
    np.testing.assert_array_equal(source.predictions.probs, whole.predictions.probs)
    assert sum(reported) == 400


def test_empty_and_missing_sources_are_rejected(tmp_path: Path) -> None:
    write(table_of(SOURCE, True).slice(0, 0), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="no rows; at least one was expected"):
        load(tmp_path)
    with pytest.raises(InputError, match=r"b\.parquet"):
        load(tmp_path / "b.parquet")


# Target -----------------------------------------------------------------------------------------

LONG = probabilities_only(toy_predictions(n=PREVIEW_ROWS + 500))


def open_target(location: Path) -> StreamedTarget:
    return StreamedTarget.open(location, PredictionColumns(), ())


def test_opening_a_target_reads_the_first_rows_and_counts_all(tmp_path: Path) -> None:
    split(table_of(LONG), tmp_path, [0, 700])
    target = open_target(tmp_path)
    assert (target.n_rows, target.k, len(target.files)) == (PREVIEW_ROWS + 500, 4, 3)
    np.testing.assert_array_equal(target.preview.probs, LONG.probs[:700])


def test_logits_that_look_like_probabilities_cause_a_warning(tmp_path: Path) -> None:
    names = [f"logit_{j}" for j in range(4)]
    write(table_of(LONG).rename_columns(names), tmp_path / "a.parquet")
    with pytest.warns(UserWarning, match="they look like probabilities"):
        open_target(tmp_path)


def test_target_labels_may_be_numbers_or_digits_as_text(tmp_path: Path) -> None:
    write(table_of(LONG), tmp_path / "a.parquet")
    target = open_target(tmp_path)
    assert target.encode_labels(np.array([0, 3], dtype=object)).tolist() == [0, 3]
    assert target.encode_labels(np.array(["0", "3"], dtype=object)).tolist() == [0, 3]
    with pytest.raises(
        InputError, match="labels of the target must be between 0 and 3; row 1 is 4"
    ):
        target.encode_labels(np.array([0, 4], dtype=object))


def test_target_without_rows_is_rejected(tmp_path: Path) -> None:
    empty = pa.array([], pa.float64())
    write(pa.table({"prob_0": empty, "prob_1": empty}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="has no rows; at least one was expected"):
        open_target(tmp_path)


# Totals -----------------------------------------------------------------------------------------


def test_estimate_from_total_equals_estimate_from_rows() -> None:
    source, target = toy_pair()
    tested = 0
    for estimator in estimators.MEMBERS:
        if not isinstance(estimator, StreamingEstimator) or not estimator.is_mergeable:
            continue
        learned = LearnedSource(source, None, Calibration("temperature", None, source))
        run = make_runs([estimator], learned, seed=0, replicates=20)[estimator.name]
        total = estimator.summarize(estimator.learn(source), target)
        result = run.from_total(total, target, target.n)
        assert result == run.run(target), estimator.name
        assert result.value == estimator.estimate(source, target).value, estimator.name
        assert (result.method, result.assumes) == (estimator.name, estimator.assumes)
        tested += 1
    assert tested > len(MERGEABLE)


def test_failed_partition_stops_the_other_readers(tmp_path: Path) -> None:
    """Reading on would be wasted work, possibly for hours."""
    path = write(table_of(toy_predictions(n=400)), tmp_path / "a.parquet", 10)
    plan = FailingPlan()
    partitions = [FilePartition(number, path, None, 0, 0, None) for number in range(40)]
    with pytest.raises(InputError, match="the third partition"):
        scan(plan, partitions, serial, RowProgress(None, None, "rows"))  # type: ignore[arg-type]
    time.sleep(0.2)
    assert plan.started < 40


class FailingPlan:
    """Plan whose third partition fails."""

    sample_size = 10
    max_labels = 10
    started = 0

    def __call__(
        self, partition: FilePartition, report_rows: Callable[[int], None]
    ) -> PartialResult:
        self.started += 1
        if partition.number == 2:
            raise InputError("the third partition")
        for _ in range(50):
            time.sleep(0.002)
            report_rows(1)
        return PartialResult(n=50)
