"""Estimates of files in pieces: what estimate() says of the same rows, whoever reads them."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oodometer
from oodometer import estimators
from oodometer.assessment import streaming
from oodometer.assessment.conformal_interval import History
from oodometer.assessment.result import Assessment
from oodometer.assessment.streaming import EstimateOptions, estimate_files
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.data import batch_reader
from oodometer.data.prediction_files import PredictionColumns
from oodometer.parallel.runners import distributed, processes, serial
from oodometer.testing import toy_predictions
from tests.support.partitioned_files import Dying, split, table_of, write

SUMMING = [
    member.name
    for member in estimators.MEMBERS
    if isinstance(member, StreamingEstimator)
    and member.is_mergeable
    and "second model" not in member.needs
]
FEW = ("doc", "atc-mc", "cot")


def plain(rows: Predictions, labelled: bool = False) -> Predictions:
    return Predictions.from_probs(rows.probs, labels=rows.labels if labelled else None)


SOURCE = plain(toy_predictions(), labelled=True)
TARGET = plain(toy_predictions(n=300, sharpness=1.5, seed=1), labelled=True)
SITES = np.array(["north", "south", "west"])[np.arange(300) % 3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source, and a target of four files with row groups of 25; every group is a part."""
    monkeypatch.setattr(batch_reader, "PARTITION_ROWS", 1)
    write(table_of(SOURCE, True), tmp_path / "source.parquet")
    split(table_of(TARGET, site=SITES), tmp_path / "target", [100, 110, 250], group=25)
    return tmp_path


def values(found: Assessment) -> dict[str, tuple[float, float | None, float | None]]:
    return {one.method: (one.value, one.low, one.high) for one in found.estimates}


def assert_same(found: Assessment, expected: Assessment) -> None:
    """All of it but the last bits of sums."""
    one, other = found.to_dict(), expected.to_dict()
    assert [e["method"] for e in one["estimates"]] == [e["method"] for e in other["estimates"]]
    assert_close(one, other)


def told_of(found: Assessment) -> dict[str, float]:
    """Without the intervals, whose draws hang on the order of classes."""
    return {one.method: one.value for one in found.estimates}


def assert_close(one: Any, other: Any, near: float = 1e-12) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_close(one[key], other[key], near)
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_close(a, b, near)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=near, abs=near)
    else:
        assert one == other


def in_memory(**asked: Any) -> Assessment:
    return oodometer.estimate(SOURCE, TARGET, **asked)


def test_a_target_of_files_is_judged_as_in_memory(folder: Path) -> None:
    found = estimate_files(
        folder / "source.parquet", folder / "target", options=EstimateOptions(segment_by="site")
    )
    expected = in_memory(segment_by=SITES)
    assert_same(found, expected)
    assert found.notes == ()
    # What needs all rows at once had them all, and says the same to the last bit.
    exact = {name: told for name, told in values(expected).items() if name not in SUMMING}
    assert {name: values(found)[name] for name in exact} == exact
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
def test_sums_are_those_of_the_whole_however_rows_are_parted(
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
    folder = tmp_path_factory.mktemp("parted")
    source = toy_predictions(n=90, k=k, seed=seed)
    target = toy_predictions(n=n, k=k, sharpness=1.0, seed=seed + 1)
    both = [Predictions.from_probs(rows.probs.astype(dtype), labels=rows.labels)
            for rows in (source, target)]  # fmt: skip
    write(table_of(both[0], True), folder / "source.parquet")
    split(table_of(both[1]), folder / "t", [min(end, n) for end in ends], group=group)
    asked = EstimateOptions(SUMMING, temperature, None, seed, 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_reader, "PARTITION_ROWS", 30)
        patch.setattr(batch_reader, "MAX_BATCH_ROWS", batch)
        found = estimate_files(folder / "source.parquet", folder / "t", options=asked)
    expected = oodometer.estimate(
        *both, methods=SUMMING, temperature=temperature, seed=seed, replicates=20
    )
    assert_same(found, expected)


def test_a_sample_does_not_hang_on_the_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 80)
    split(table_of(TARGET, site=SITES), folder / "other", [7], group=300)
    asked = EstimateOptions(segment_by="site")
    one, other = (
        estimate_files(folder / "source.parquet", folder / name, options=asked)
        for name in ("target", "other")
    )
    assert_same(one, other)
    again = estimate_files(
        folder / "source.parquet", folder / "target", options=EstimateOptions(seed=5)
    )
    assert values(again)["cot"] != values(one)["cot"]
    (note,) = one.notes
    assert "atc-class read all rows of the target; the other methods, the lights" in note
    assert note.endswith("a random sample of 80 of 300 rows.")
    for told in one.estimates:
        sampled = "from a random sample of 80 of 300 rows" in told.notes
        assert sampled == (told.method not in SUMMING)
    expected = values(in_memory())
    for name in SUMMING:
        assert values(one)[name] == pytest.approx(expected[name], rel=1e-9)
    assert (one.n_target, one.n_source) == (300, 400)


def test_segments_of_a_method_that_needs_all_rows_are_of_the_sample(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = EstimateOptions(["cot"], segment_by="site")
    whole = estimate_files(folder / "source.parquet", folder / "target", options=asked)
    assert_same(whole, in_memory(methods=["cot"], segment_by=SITES))
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 60)
    part = estimate_files(folder / "source.parquet", folder / "target", options=asked)
    assert sum(segment.n for segment in part.segments) == 60


@pytest.mark.parametrize("kind", ["numbers", "days"])
def test_segments_are_in_the_order_of_numbers_and_days(folder: Path, kind: str) -> None:
    by: Any = np.arange(300) // 25
    if kind == "days":
        by = np.datetime64("2026-01-30T05:00:00") + by * np.timedelta64(9, "h")
    split(table_of(TARGET, at=by), folder / "timed", [50, 150], group=40)
    asked = EstimateOptions(["atc-mc"], segment_by="at", replicates=20)
    found = estimate_files(folder / "source.parquet", folder / "timed", options=asked)
    assert_same(found, in_memory(methods=["atc-mc"], segment_by=by, replicates=20))


# Formats and columns ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".feather", ".arrow"])
def test_every_format(folder: Path, ending: str) -> None:
    table, source = table_of(TARGET), folder / "source.parquet"
    write(table.slice(0, 120), folder / f"more/a{ending}", 50)
    write(table.slice(120), folder / f"more/b{ending}", 50)
    found = estimate_files(source, f"{folder}/more/*", options=EstimateOptions(FEW))
    for name, told in values(in_memory(methods=FEW)).items():
        assert values(found)[name] == pytest.approx(told, abs=1e-9)


def test_whole_numbers_first_and_fractions_later_in_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(batch_reader, "CSV_BLOCK_BYTES", 200)
    sure = "\n".join(["1,0", "0,1"] * 40)
    (folder / "two.csv").write_text(f"prob_0,prob_1\n{sure}\n0.25,0.75\n")
    rows = plain(toy_predictions(k=2), labelled=True)
    write(table_of(rows, True), folder / "two.parquet")
    found = estimate_files(
        folder / "two.parquet", folder / "two.csv", options=EstimateOptions(["ac"], None)
    )
    assert found["ac"].value == pytest.approx((80 + 0.75) / 81)
    assert found.n_target == 81


def test_named_classes_in_another_order_other_names_and_lists(folder: Path) -> None:
    names = ("cat", "dog", "eel", "fox")
    probs, labels = np.asarray(TARGET.probs), np.asarray(SOURCE.labels)
    one = {f"s_{names[j]}": SOURCE.probs[:, j] for j in range(4)}
    one["truth"] = np.array(names)[labels]
    write(pa.table(one), folder / "a.parquet")
    write(
        pa.table({f"s_{names[j]}": probs[:, j] for j in (2, 0, 3, 1)}), folder / "b/b.parquet", 50
    )
    columns = PredictionColumns(label_column="truth", prob_columns="s_")
    asked = EstimateOptions(FEW)
    found = estimate_files(folder / "a.parquet", folder / "b", columns=columns, options=asked)
    expected = in_memory(methods=FEW)
    assert_close(told_of(found), told_of(expected))
    # Lists: their names come from the caller, in the order of the lists.
    write(pa.table({"probs": probs[:, [2, 0, 3, 1]].tolist()}), folder / "c/c.parquet", 50)
    listed = PredictionColumns(
        label_column="truth", prob_columns="probs", class_names=("eel", "cat", "fox", "dog")
    )
    rows = estimate_lists(folder, listed)
    assert_close(told_of(rows), told_of(expected), 1e-5)


def estimate_lists(folder: Path, columns: PredictionColumns) -> Assessment:
    """The source as lists in their own order too."""
    names = ("cat", "dog", "eel", "fox")
    order = [2, 0, 3, 1]
    table = {"probs": np.asarray(SOURCE.probs)[:, order].tolist(),
             "truth": np.array(names)[np.asarray(SOURCE.labels)]}  # fmt: skip
    write(pa.table(table), folder / "d.parquet")
    return estimate_files(
        folder / "d.parquet", folder / "c", columns=columns, options=EstimateOptions(FEW)
    )


def test_logits_and_a_single_column_of_two_classes(folder: Path) -> None:
    rows = toy_predictions(k=2, n=200)
    logits = np.asarray(rows.scores)
    both = {f"logit_{j}": logits[:, j] for j in range(2)}
    write(pa.table(both | {"label": rows.labels}), folder / "l.parquet")
    write(pa.table(both), folder / "ll/l.parquet", 30)
    found = estimate_files(folder / "l.parquet", folder / "ll", options=EstimateOptions(FEW))
    given = Predictions.from_logits(logits, labels=rows.labels)
    assert_same(found, oodometer.estimate(given, given, methods=FEW))
    second = plain(rows).probs[:, 1]
    write(pa.table({"prob": second, "label": rows.labels}), folder / "p.parquet")
    write(pa.table({"prob": second}), folder / "pp/p.parquet", 30)
    alone = estimate_files(folder / "p.parquet", folder / "pp", options=EstimateOptions(FEW))
    assert_close(told_of(alone), told_of(found), 1e-5)


def test_float32_stays_as_it_is(folder: Path) -> None:
    single = [Predictions.from_probs(rows.probs.astype(np.float32), labels=rows.labels)
              for rows in (SOURCE, TARGET)]  # fmt: skip
    write(table_of(single[0], True), folder / "s.parquet")
    split(table_of(single[1]), folder / "f", [40], group=35)
    found = streaming.assess_streamed(
        folder / "s.parquet", folder / "f", PredictionColumns(), EstimateOptions(FEW)
    )
    assert found.sample.scores is not None
    assert found.sample.scores.dtype == np.float32
    assert_same(found.assessment, oodometer.estimate(*single, methods=FEW))


# Few labels, history ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize("named", [False, True])
def test_few_labels_of_the_target_are_used(folder: Path, named: bool, ending: str) -> None:
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
    found = estimate_files(folder / "source.parquet", folder / "some", options=EstimateOptions(FEW))
    numbers = [None if value is None else int(str(value)[-1]) for value in labels]
    expected = in_memory(methods=FEW, target_labels=numbers)
    assert found.headline.estimate.method == "ppi++"
    for name, told in values(expected).items():
        assert values(found)[name] == pytest.approx(told, abs=1e-9)
    assert found["ppi++"].facts == pytest.approx(expected["ppi++"].facts)
    assert found.headline.why == expected.headline.why


def test_of_many_labels_a_sample_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MAX_LABELS", 50)
    labels = [None if row % 3 else int(np.asarray(TARGET.labels)[row]) for row in range(300)]
    table = table_of(TARGET).append_column("label", pa.array(labels, pa.int64()))
    split(table, folder / "some", [90], group=20)
    found = estimate_files(folder / "source.parquet", folder / "some", options=EstimateOptions(FEW))
    assert found["ppi++"].facts["labels"] == 50
    assert found.notes == ("Of 100 labels of the target a random sample of 50 was used.",)


def test_labels_of_every_row_are_not_looked_at(folder: Path) -> None:
    split(table_of(TARGET, True), folder / "all", [120], group=50)
    found = streaming.assess_streamed(
        folder / "source.parquet", folder / "all", PredictionColumns(), EstimateOptions(FEW)
    )
    assert_same(found.assessment, in_memory(methods=FEW))
    assert found.n_labels == 300


@pytest.mark.parametrize("kind", ["table", "rows"])
def test_a_history_gives_the_interval_for_shift(folder: Path, kind: str) -> None:
    past: Any = History(np.linspace(0.6, 0.9, 8), np.linspace(0.55, 0.95, 8))
    if kind == "rows":
        past = [plain(toy_predictions(n=80, sharpness=s, seed=9), True) for s in (1, 2, 3, 4, 5)]
    asked = EstimateOptions(("doc", "ac"))
    found = estimate_files(
        folder / "source.parquet", folder / "target", options=asked, history=past
    )
    assert found.shift is not None
    assert_same(found, in_memory(methods=["doc", "ac"], history=past))


# Workers ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    cluster: Any = importlib.import_module("distributed").LocalCluster
    with cluster(
        n_workers=2, threads_per_worker=2, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as found:
        yield found.scheduler_address


def told(folder: Path, runner: Any, methods: Any = (*SUMMING, "cot")) -> dict[str, Any]:
    asked = EstimateOptions(methods, segment_by="site", replicates=20)
    found = estimate_files(folder / "shared", folder / "target", options=asked, runner=runner)
    return found.to_dict()


@pytest.fixture
def shared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source of several files too, and a sample that is smaller than the target."""
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 90)
    split(table_of(SOURCE, True), folder / "shared", [150], group=70)
    return folder


def test_processes_say_the_same_to_the_last_bit(shared: Path) -> None:
    assert told(shared, processes(2)) == told(shared, serial)


def test_a_cluster_says_the_same_to_the_last_bit(shared: Path, cluster: str) -> None:
    assert told(shared, distributed(cluster)) == told(shared, serial)


@pytest.mark.parametrize("kind", ["processes", "cluster"])
def test_a_lost_worker_changes_nothing(shared: Path, cluster: str, kind: str) -> None:
    runner = processes(2) if kind == "processes" else distributed(cluster)
    trace = shared / "died"
    members = [Dying(str(trace), os.getpid()), "atc-mc"]
    found = told(shared, runner, members)
    assert trace.exists()
    assert found == told(shared, serial, members)


def test_sums_are_added_in_the_order_of_parts_whoever_is_first(shared: Path) -> None:
    def backwards(work: Any, tasks: Any) -> Any:
        return reversed(list(serial(work, tasks)))

    assert told(shared, backwards) == told(shared, serial)


def test_an_error_of_a_worker_is_the_error(shared: Path) -> None:
    probs = np.asarray(TARGET.probs).copy()
    probs[60, 2] = np.nan
    odd = Predictions(n=300, k=4, score_type="probs", scores=probs)
    split(table_of(odd, site=SITES), shared / "target", [100, 110, 250], group=25)
    with pytest.raises(InputError, match=r"^part-000.parquet \(rows counted from row 50 on\): "):
        told(shared, processes(1), ["ac"])


def test_progress_counts_rows(folder: Path) -> None:
    heard: list[tuple[int, int, str]] = []
    estimate_files(
        folder / "source.parquet",
        folder / "target",
        options=EstimateOptions(["ac"]),
        progress=lambda *news: heard.append(news),
    )
    assert heard[-1] == (300, 300, "rows")
    assert [news[0] for news in heard] == sorted(news[0] for news in heard)
    write(table_of(TARGET), folder / "t.csv")
    estimate_files(
        folder / "source.parquet",
        folder / "t.csv",
        options=EstimateOptions(["ac"]),
        progress=lambda *news: heard.append(news),
    )
    assert heard[-1] == (300, 0, "300 rows")


# What is refused --------------------------------------------------------------------------------


def refused(folder: Path, target: str | Path, **asked: Any) -> str:
    with pytest.raises((InputError, NotApplicable)) as found:
        estimate_files(folder / "source.parquet", folder / target, options=EstimateOptions(**asked))
    return str(found.value)


def test_bad_input_is_one_line_that_names_the_file(folder: Path) -> None:
    good, target = table_of(TARGET), folder / "target"
    assert "'region'" in refused(folder, "target", segment_by="region")
    three = good.drop_columns(["prob_3"])
    write(three, target / "zz.parquet")
    said = refused(folder, "target")
    assert said.startswith("zz.parquet and part-000.parquet have different columns: the column")
    assert "'prob_3' is in part-000.parquet alone" in said
    write(good.append_column("prob_4", [[0.0] * 300]), target / "zz.parquet")
    assert "'prob_4' is in zz.parquet alone" in refused(folder, "target")
    texts = pa.array(["0.5"] * 300)
    write(good.set_column(1, "prob_1", texts), target / "zz.parquet")
    assert "The column 'prob_1' of zz.parquet holds string" in refused(folder, "target")
    write(good.rename_columns(list("abcd")), target / "zz.parquet")
    assert refused(folder, "target").startswith("zz.parquet: No scores were found")
    write(table_of(TARGET, True), target / "zz.parquet")
    assert "one has labels and the other has none" in refused(folder, "target")
    (target / "zz.parquet").write_bytes(b"PAR1")
    assert refused(folder, "target").startswith("zz.parquet can't be read as Parquet")


def test_rows_that_are_none_and_classes_that_differ(folder: Path) -> None:
    empty = table_of(TARGET).slice(0, 0)
    write(empty, folder / "empty/a.parquet")
    assert "has no rows; at least one was expected" in refused(folder, "empty")
    write(table_of(TARGET), folder / "empty/b.parquet")  # an empty file among others is no matter
    found = estimate_files(
        folder / "source.parquet", folder / "empty", options=EstimateOptions(["ac"])
    )
    assert found.n_target == 300
    write(table_of(toy_predictions(k=3)), folder / "three/a.parquet")
    assert "the source has 4 classes, the target has 3" in refused(folder, "three")
    write(table_of(TARGET), folder / "bare.parquet")
    with pytest.raises(InputError, match="The source has no labels"):
        estimate_files(folder / "bare.parquet", folder / "target")
    with pytest.raises(InputError, match="The source has no labels"):
        estimate_files(f"{folder}/bare*", folder / "target")


def test_rows_of_wrong_sums_gaps_and_segments_without_a_value(folder: Path) -> None:
    table = table_of(TARGET, site=SITES)
    probs = np.asarray(TARGET.probs)[:, 0].copy()
    probs[290] += 0.5
    write(table.set_column(0, "prob_0", [probs]), folder / "sum/a.parquet", 100)
    assert "(rows counted from row 200 on): probs must sum to 1" in refused(folder, "sum")
    gaps = pa.array([None if row == 3 else 0.1 for row in range(300)])
    write(table.set_column(0, "prob_0", gaps), folder / "gap/a.parquet")
    assert refused(folder, "gap") == "a.parquet: The column 'prob_0' has no value in row 3."
    sites = pa.array([None if row == 130 else "north" for row in range(300)])
    write(table.set_column(4, "site", sites), folder / "site/a.parquet", 100)
    said = refused(folder, "site", segment_by="site")
    assert said.endswith(
        "(rows counted from row 100 on): The column 'site' has no value in row 30."
    )


def test_too_many_segments_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oodometer.assessment.partial_sums.MAX_SEGMENTS", 2)
    said = refused(folder, "target", segment_by="site")
    assert "The column 'site' has more than 2 values" in said


def test_methods_that_are_asked_for_must_answer(folder: Path) -> None:
    said = refused(folder, "target", methods=["ac", "gde"])
    assert said == (
        "Not applicable: gde: it compares two models; give the second one's predictions."
    )
    with pytest.raises(InputError, match="replicates must be at least 20; got 3"):
        EstimateOptions(replicates=3)


def test_a_large_source_is_a_sample(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split(table_of(SOURCE, True), folder / "sources", [150], group=70)
    asked = EstimateOptions(FEW)
    whole = estimate_files(folder / "sources", folder / "target", options=asked)
    assert_same(whole, in_memory(methods=FEW))
    monkeypatch.setattr("oodometer.assessment.streaming.MAX_SOURCE_ROWS", 120)
    part = estimate_files(folder / "sources", folder / "target", options=asked)
    assert part.n_source == 120
    assert part.notes == ("The source is a random sample of 120 of 400 rows.",)
    assert part.source_accuracy == pytest.approx(whole.source_accuracy, abs=0.12)
