"""Estimates without shift: coverage, headline, segments, and batches beside NannyML's CBPE.

Run `python -m benchmarks.quality_no_shift`, or only some parts, for example
`python -m benchmarks.quality_no_shift coverage segments`. Finished computations are JSON files in a
work folder, so an interrupted run continues; the page is written from everything that is finished.
Remove the work folder after a change of the library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _no_shift_own_target as own_target
from benchmarks import _no_shift_simulation as simulation
from benchmarks._no_shift_batches import BATCH_ROWS, cached_json, measure_batches, measure_segments
from benchmarks._no_shift_data import DATASETS, SEGMENTED_DATASETS, SOURCE_ROWS
from benchmarks._no_shift_peers import ADULT_SPLITS, METRICS, TABLES, finished_tables, measure_table
from benchmarks._no_shift_simulation import Cell, Chunk, Tally, chunks_of
from benchmarks._peer_comparison import PEER_PYTHON
from benchmarks._results import (
    Bound,
    Section,
    data_folder,
    machine_facts,
    markdown_table,
    write_results,
)
from oodometer.assessment.cbpe import METRIC_NAMES
from oodometer.core.array_types import Floats
from oodometer.core.stats import Z95
from oodometer.parallel.runners import limit_to_one_thread

NAME = "quality_no_shift"
PARTS = ("coverage", "batches", "segments", "own_target", "peers")
MIN_COVERAGE, MAX_COVERAGE = 0.93, 0.97
# Cells with at least this many expected errors also have an upper bound on the coverage.
MIN_EXPECTED_ERRORS = 5
MAX_ERROR = 1.5
MIN_SEGMENT_COVERAGE = 0.9
MIN_SEGMENT_ROWS = 200
MAX_TOTAL_DIFFERENCE = 1e-9
MAX_ERROR_RATIO = 1.05
# Cells in which fewer runs than this have an interval are shown, but have no bound: their coverage
# has a standard error above one point.
MIN_INTERVALS = 400
# Cells with more rows are pooled over the numbers of classes.
MAX_UNPOOLED_ROWS = 1000
MANY_CLASSES = max(simulation.CLASS_COUNTS)

Measurement = Callable[[str, Path, int], list[dict[str, Any]]]


# Coverage ------------------------------------------------------------------------------------


def is_pooled(cell: Cell) -> bool:
    """Return whether the runs of a cell are added to those with other numbers of classes."""
    return cell.group != "fast" or cell.n > MAX_UNPOOLED_ROWS


def planned_cells(runs: int) -> dict[Cell, int]:
    """Return the number of runs of each cell.

    Every unpooled cell has `runs` runs. Pooled cells have as many in total, of which at most a tenth
    are those of 50 classes, which take the most time; a twentieth with 10,000 rows.
    """
    cells: dict[Cell, int] = {}
    for group in simulation.METHODS:
        for n in simulation.ROW_COUNTS:
            for accuracy in simulation.ACCURACIES:
                row = [Cell(n, k, accuracy, group) for k in simulation.CLASS_COUNTS]
                row = [cell for cell in row if cell.methods]
                few, *many = sorted(row, key=lambda cell: -cell.k)
                if not is_pooled(few):
                    cells |= dict.fromkeys(row, runs)
                elif few.k != MANY_CLASSES:
                    cells |= dict.fromkeys(row, -(-runs // len(row)))
                else:
                    n_few = runs // (20 if n > MAX_UNPOOLED_ROWS else 10)
                    cells |= {few: n_few}
                    cells |= dict.fromkeys(many, -(-(runs - n_few) // len(many)))
    return cells


def planned_chunks(runs: int) -> list[Chunk]:
    """Return the chunks of runs of all cells, those with few rows first."""
    cells = sorted(planned_cells(runs).items(), key=lambda item: item[0].n * item[0].k)
    return [chunk for cell, count in cells for chunk in chunks_of(cell, count)]


def pooled(tallies: dict[tuple[Cell, str], Tally]) -> dict[tuple[str, int, str, float], Tally]:
    """Return the tallies by method, rows, classes and accuracy; pooled cells over all classes."""
    result: dict[tuple[str, int, str, float], Tally] = {}
    for (cell, method), tally in tallies.items():
        classes = "all" if is_pooled(cell) else str(cell.k)
        result.setdefault((method, cell.n, classes, cell.accuracy), Tally()).add(tally)
    return result


def coverage_section(chunks: Sequence[Chunk], folder: Path) -> Section:
    """Return the section of the simulation: bounds over all cells, and tables of all cells."""
    tallies = simulation.load_tallies(chunks, folder)
    cells = pooled(tallies)
    judged = {key: tally for key, tally in cells.items() if tally.intervals >= MIN_INTERVALS}
    two_sided = {key: tally for key, tally in judged.items() if _has_upper_bound(key)}
    bounds = []
    if judged:
        lowest = min(judged, key=lambda key: judged[key].coverage or 0.0)
        bounds.append(
            Bound(f"lowest coverage in %: {_describe(lowest)}", 100 * (judged[lowest].coverage or 0.0),
                  100 * MIN_COVERAGE)
        )  # fmt: skip
    if two_sided:
        highest = max(two_sided, key=lambda key: two_sided[key].coverage or 0.0)
        bounds.append(
            Bound(f"highest coverage in %, n (1 − accuracy) ≥ {MIN_EXPECTED_ERRORS}: "
                  f"{_describe(highest)}", 100 * (two_sided[highest].coverage or 0.0),
                  100 * MAX_COVERAGE, least=False)
        )  # fmt: skip
    missed = [(key, tally) for key, tally in judged.items() if not _is_kept(key, tally)]
    finished = sum(chunk.path(folder).exists() for chunk in chunks)
    slower = [
        method for method in simulation.ALL_METHODS if method not in simulation.METHODS["fast"]
    ]
    text = [
        "Source and target are n independent rows each of one distribution with calibrated scores. "
        "The interval is to contain the share of correct rows among those very target rows. "
        "Bounds: at least 93 % in every cell, and at most 97 % in cells with "
        f"n (1 − accuracy) ≥ {MIN_EXPECTED_ERRORS}; the bounds are compared with the measured "
        "coverage, without an allowance for the Monte-Carlo error, whose standard error is given. "
        f"Cells of the slower methods ({', '.join(slower)}), and those with more than "
        f"{MAX_UNPOOLED_ROWS:,} rows, are pooled over k = 2, 5, 50, with a tenth of the runs at "
        f"k = 50, a twentieth above {MAX_UNPOOLED_ROWS:,} rows. Runs without an interval, such as those of cot with few rows per class, are left "
        f"out of the coverage; cells with fewer than {MIN_INTERVALS} intervals have no bound and are "
        "in brackets. "
        f"Finished: {finished} of {len(chunks)} chunks of runs.",
        f"{len(judged) - len(missed)} of {len(judged)} cells keep their bounds.",
        "### Coverage by method and rows, pooled over classes and accuracies",
        markdown_table(
            ("method", *(f"n = {n:,}" for n in simulation.ROW_COUNTS)), _summary_rows(cells)
        ),
        "After / before: interval of this version / percentile interval of the bootstrap replicates, "
        "as in earlier versions; share of runs with an interval in brackets if below 100 %.",
        "### All cells",
        markdown_table(
            ("method", "n", "k", "accuracy", "before, %", "after, %", "standard error", "runs",
             "with interval", "bias, points", "mean width, points", "kept"),
            [_cell_row(key, tally) for key, tally in sorted(cells.items(), key=_cell_order)],
        ),
    ]  # fmt: skip
    return Section("Coverage in a simulation", bounds, "\n\n".join(text))


def _has_upper_bound(key: tuple[str, int, str, float]) -> bool:
    return key[1] * (1 - key[3]) >= MIN_EXPECTED_ERRORS - 1e-9


def _is_kept(key: tuple[str, int, str, float], tally: Tally) -> bool:
    coverage = tally.coverage or 0.0
    return coverage >= MIN_COVERAGE and (coverage <= MAX_COVERAGE or not _has_upper_bound(key))


def _describe(key: tuple[str, int, str, float]) -> str:
    method, n, classes, accuracy = key
    return f"{method}, n = {n:,}, k = {classes}, accuracy {accuracy:g}"


def _cell_order(item: tuple[tuple[str, int, str, float], Tally]) -> tuple[int, int, int, float]:
    method, n, classes, accuracy = item[0]
    return (
        simulation.ALL_METHODS.index(method),
        n,
        0 if classes == "all" else int(classes),
        accuracy,
    )


def _summary_rows(cells: dict[tuple[str, int, str, float], Tally]) -> list[tuple[str, ...]]:
    rows = []
    for method in simulation.ALL_METHODS:
        row = [method]
        for n in simulation.ROW_COUNTS:
            total = Tally()
            for key, tally in cells.items():
                if key[:2] == (method, n):
                    total.add(tally)
            row.append(_format_pair(total))
        rows.append(tuple(row))
    return rows


def _format_pair(tally: Tally) -> str:
    if not tally.runs:
        return "–"
    after = "–" if tally.coverage is None else f"{100 * tally.coverage:.1f}"
    share = tally.intervals / tally.runs
    suffix = "" if share == 1 else f" ({share:.0%})"
    return f"{after} / {100 * (tally.coverage_before or 0.0):.1f}{suffix}"


def _cell_row(key: tuple[str, int, str, float], tally: Tally) -> tuple[str, ...]:
    method, n, classes, accuracy = key
    coverage = "–"
    kept = "–"
    if tally.coverage is not None:
        coverage = f"{100 * tally.coverage:.1f}"
        if tally.intervals >= MIN_INTERVALS:
            kept = "yes" if _is_kept(key, tally) else "NO"
        else:
            coverage = f"({coverage})"
    return (
        method,
        f"{n:,}",
        classes,
        f"{accuracy:g}",
        f"{100 * (tally.coverage_before or 0.0):.1f}",
        coverage,
        f"{100 * tally.standard_error:.1f}",
        f"{tally.runs:,}",
        f"{tally.intervals:,}",
        f"{100 * tally.error / max(tally.runs, 1):+.2f}",
        f"{100 * tally.width / max(tally.intervals, 1):.1f}",
        kept,
    )


# Real data -----------------------------------------------------------------------------------


def finished_files(folder: Path, pattern: str) -> list[Any]:
    """Return the contents of all finished files of a part."""
    return [
        cached_json(path, lambda: None)
        for path in sorted(folder.glob(pattern))
        if path.suffix == ".json"
    ]


def batches_section(folder: Path) -> Section:
    """Return the section of real batches: error and coverage of the headline, and per method."""
    bounds, rows = [], []
    coverage_rows: dict[str, list[str]] = {}
    for name in DATASETS:
        splits = finished_files(folder, f"{name}-*.json")
        cases = [case for split in splits for case in split]
        for values in coverage_rows.values():
            values.append("–")
        if not cases:
            continue
        headlines = [case["estimates"][case["headline"]] for case in cases]
        truths = [case["truth"] for case in cases]
        errors = [
            abs(value - truth) for (value, _, _), truth in zip(headlines, truths, strict=True)
        ]
        error, coverage = 100 * float(np.mean(errors)), _coverage(headlines, truths)
        bounds.append(Bound(f"{name}: mean absolute error of the headline, points", error, MAX_ERROR, least=False))  # fmt: skip
        bounds.append(Bound(f"{name}: coverage of the headline in %", 100 * coverage, 100 * MIN_COVERAGE))  # fmt: skip
        source_errors = [abs(case["source"] - case["truth"]) for case in cases]
        methods = ", ".join(sorted({case["headline"] for case in cases}))
        calibrations = ", ".join(sorted({case["calibration"] for case in cases}))
        rows.append((name, str(len(splits)), str(len(cases)), methods, calibrations,
                     f"{100 * np.mean(truths):.1f}", f"{error:.2f}",
                     f"{100 * np.mean(source_errors):.2f}", f"{100 * coverage:.1f}",
                     f"{100 * np.sqrt(0.95 * 0.05 / len(cases)):.1f}",
                     f"{_deviation_ratio(headlines, truths):.2f}"))  # fmt: skip
        for method in dict.fromkeys(m for case in cases for m in case["estimates"]):
            found = [case for case in cases if method in case["estimates"]]
            intervals = [case["estimates"][method] for case in found]
            share = _coverage(intervals, [case["truth"] for case in found])
            row = coverage_rows.setdefault(method, ["–"] * (len(rows)))
            row[-1] = "–" if np.isnan(share) else f"{100 * share:.1f}"
    text = [
        f"A model is trained on one part of the rows (ACS: a published model), {SOURCE_ROWS:,} other "
        f"rows are the source, and the batches are {BATCH_ROWS:,} further rows each. Every split is "
        "random. The standard error of the coverage ignores that the batches of one split share "
        "their source. The last column is the standard deviation of the errors, divided by the one "
        "that the widths of the intervals imply; it varies less than the coverage and is 1 if the "
        "intervals have the right width.",
        markdown_table(
            ("data", "splits", "batches", "headline", "calibration", "accuracy, %",
             "error, points", "error of the source accuracy", "coverage, %", "standard error",
             "deviation / implied"),
            rows,
        ),
        "Coverage in % of the 95 % interval of every method; a dash if there is no interval:",
        markdown_table(
            ("method", *(row[0] for row in rows)),
            [(method, *values) for method, values in coverage_rows.items()],
        ),
    ]  # fmt: skip
    return Section("Real batches without shift", bounds, "\n\n".join(text))


def _coverage(intervals: Sequence[Sequence[float | None]], truths: Sequence[float]) -> float:
    held = [
        low - 1e-9 <= truth <= high + 1e-9
        for (_, low, high), truth in zip(intervals, truths, strict=True)
        if low is not None and high is not None
    ]
    return float(np.mean(held)) if held else float("nan")


def _deviation_ratio(intervals: Sequence[Sequence[float]], truths: Sequence[float]) -> float:
    """Return the standard deviation of errors divided by that of 95 % intervals of these widths."""
    errors = [value - truth for (value, _, _), truth in zip(intervals, truths, strict=True)]
    implied = np.mean([(high - low) / (2 * Z95) for _, low, high in intervals])
    return float(np.std(errors) / implied)


def segments_section(folder: Path) -> Section:
    """Return the section of segments: error and coverage by column."""
    bounds, rows = [], []
    for name, columns in SEGMENTED_DATASETS.items():
        cases = [case for split in finished_files(folder, f"{name}-*.json") for case in split]
        if not cases:
            continue
        large = [case for case in cases if case["n"] >= MIN_SEGMENT_ROWS]
        bounds += [
            Bound(f"{name}: mean error of segments, points", _segment_error(large), MAX_ERROR, least=False),
            Bound(f"{name}: coverage of segments in %", 100 * _segment_coverage(large),
                  100 * MIN_SEGMENT_COVERAGE),
            Bound(f"{name}: largest difference of the mean of segments and the headline",
                  max(case["total_difference"] for case in cases), MAX_TOTAL_DIFFERENCE, least=False),
        ]  # fmt: skip
        for column in columns:
            part = [case for case in large if case["column"] == column]
            small = [case for case in cases if case["column"] == column and case not in part]
            rows.append((name, column, str(len(part)), f"{_segment_error(part):.2f}",
                         f"{100 * _segment_coverage(part):.1f}", str(len(small)),
                         f"{100 * _segment_coverage(small):.1f}" if small else "–"))  # fmt: skip
    text = [
        f"{SOURCE_ROWS:,} source rows and up to 10,000 target rows, split at random, with the column "
        f"on both sides. The bounds are for segments with at least {MIN_SEGMENT_ROWS} target rows; "
        "segments with fewer rows are shown beside, because the random labels of so few rows alone "
        "cause an error above 2 points.",
        markdown_table(
            ("data", "column", "segments", "mean error, points", "coverage, %",
             "smaller segments", "their coverage, %"), rows
        ),
    ]  # fmt: skip
    return Section("Segments without shift", bounds, "\n\n".join(text))


def _segment_error(cases: Sequence[dict[str, Any]]) -> float:
    errors = [abs(case["value"] - case["truth"]) for case in cases]
    return 100 * float(np.mean(errors)) if errors else float("nan")


def _segment_coverage(cases: Sequence[dict[str, Any]]) -> float:
    intervals = [(case["value"], case["low"], case["high"]) for case in cases]
    return _coverage(intervals, [case["truth"] for case in cases])


# Source as its own target ----------------------------------------------------------------------


def own_target_section(folder: Path) -> Section:
    """Return the section of the source as its own target: metrics outside their intervals."""
    bounds, rows = [], []
    for dataset in own_target.DATASETS:
        cases = [case for split in finished_files(folder, f"{dataset}-*.json") for case in split]
        if not cases:
            continue
        outside = [
            case
            for case in cases
            if not case["low"] - 1e-9 <= case["source"] <= case["high"] + 1e-9
        ]
        what = f"{dataset}: metrics outside their interval, of {len(cases):,}"
        bounds.append(Bound(what, float(len(outside)), 0.0, least=False))
        for share in own_target.POSITIVE_SHARES:
            part = [case for case in cases if case["share"] == share]
            errors = [
                100
                * float(
                    np.mean(
                        [
                            abs(case["value"] - case["source"])
                            for case in part
                            if case["metric"] == metric
                        ]
                    )
                )
                for metric in METRIC_NAMES
            ]
            n_outside = sum(case in outside for case in part)
            rows.append(
                (
                    dataset,
                    f"{100 * share:g}",
                    str(len(part)),
                    str(n_outside),
                    *(f"{error:.2f}" for error in errors),
                )
            )
    text = [
        f"The source is its own target. Simulation: {own_target.SIMULATED_ROWS:,} rows of two "
        "classes, with calibrated and with distorted scores; Adult: positives or negatives are left "
        "out until positives have the given share. Probabilities are as they are or rounded to 1, 2 "
        "or 3 decimals; decisions are made at ½, 0.3 or 0.8. Metrics are those of both classes, "
        "their mean, and the accuracy. Mean absolute errors in points:",
        markdown_table(
            ("data", "positives, %", "metrics", "outside", *METRIC_NAMES), rows
        ),
    ]  # fmt: skip
    return Section("Source as its own target", bounds, "\n\n".join(text))


# Peers ---------------------------------------------------------------------------------------


Splits = Sequence[dict[str, Any]]


def peers_section(tables: dict[str, dict[str, list[dict[str, Any]]]]) -> Section:
    """Return the section of batches of tables beside NannyML's CBPE."""
    results = {
        (table, variant): splits
        for table, variants in tables.items()
        for variant, splits in variants.items()
    }
    if not results:
        return Section("Batches of tables beside NannyML's CBPE", (), "Nothing was measured.")
    bounds = _peer_bounds(results)
    rows, alarm_rows = [], []
    for (table, variant), splits in results.items():
        noise = 100 * float(np.mean([noise for split in splits for noise in split["label_noise"]]))
        methods = ", ".join(sorted({method for split in splits for method in split["methods"]}))
        pairs = [f"{own:.2f} / {peer:.2f}" for own, peer in _all_errors(splits)]
        own, peer, all_methods = _cpu_times(splits)
        n_batches = sum(len(split["truths"]) for split in splits)
        rows.append((table, variant, str(n_batches), methods, f"{noise:.2f}", *pairs,
                     f"{1000 * own:.1f} / {1000 * peer:.1f}", f"{1000 * all_methods:.0f}"))  # fmt: skip
        alarm_rows.append((table, variant, *(_alarm_cell(splits, metric) for metric in METRICS)))
    version = next(iter(results.values()))[0]["nannyml"]["version"]
    text = [
        f"Ours / NannyML {version} CBPE: mean absolute error in points over the batches. ACS: the "
        "source is 2015, the batches are 5,000 rows of 2016 to 2018 in file order. Adult: the source "
        "is random, the batches are the groups of five columns with at least 500 rows, which is a "
        f"shift; {ADULT_SPLITS} splits with models trained on different rows. Both programs receive "
        "the same probabilities and decisions. Label noise is the error that the random labels alone "
        "cause, sqrt(2/π) · sqrt(Σ p (1 − p)) / n. CPU time is in ms per batch and includes what is "
        "learned from the source once; ours is that of a `Reference` that computes what NannyML "
        "computes (accuracy by ac with its interval and diagnostics, F1 and AUROC), and in the last "
        "column that of all methods.",
        markdown_table(
            ("table", "variant", "batches", "headline", "label noise", "accuracy", "F1", "AUROC",
             "CPU, ms", "all methods, ms"), rows
        ),
        "Alarms: an estimate below the mean minus three standard deviations of the metric over the "
        "source's batches. False alarms / missed alarms of ours, then of NannyML, compared with "
        f"whether the true metric is below the same limit. In total: {_total_alarms(results)}.",
        markdown_table(("table", "variant", "accuracy", "F1", "AUROC"), alarm_rows),
    ]  # fmt: skip
    return Section("Batches of tables beside NannyML's CBPE", bounds, "\n\n".join(text))


def _peer_bounds(results: dict[tuple[str, str], list[dict[str, Any]]]) -> list[Bound]:
    """Return the bounds of errors, CPU time and false alarms relative to NannyML."""
    bounds = []
    for (table, variant), splits in results.items():
        for metric, (own, peer) in zip(METRICS, _all_errors(splits), strict=True):
            what = f"{table}, {variant}: error of {metric} relative to NannyML"
            bounds.append(Bound(what, own / peer, MAX_ERROR_RATIO, least=False))
    for metric in METRICS:
        ratios = [own / peer for own, peer in (_peer_errors(s, metric) for s in results.values())]
        what = f"mean over all sets of the error of {metric} relative to NannyML"
        bounds.append(Bound(what, float(np.mean(ratios)), 1.0, least=False))
    own, peer, _ = np.mean([_cpu_times(splits) for splits in results.values()], axis=0)
    bounds.append(Bound("CPU time per batch relative to NannyML", float(own / peer), 1.0, least=False))  # fmt: skip
    ours, theirs = np.sum(
        [_false_alarms(splits, metric) for splits in results.values() for metric in METRICS], axis=0
    )
    what = f"false alarms of all metrics (NannyML: {theirs})"
    bounds.append(Bound(what, float(ours), float(theirs), least=False))
    return bounds


def _values(splits: Splits, metric: str) -> tuple[Floats, Floats, Floats, Floats]:
    """Return true values, our estimates, those of NannyML and alarm limits of all batches."""
    truths = [truth[metric] for split in splits for truth in split["truths"]]
    own = [estimate.get(metric) for split in splits for estimate in split["estimates"]]
    peer = [value for split in splits for value in split["nannyml"][metric]]
    limits = [split["limits"][metric] for split in splits for _ in split["truths"]]
    first, second, third, fourth = (np.array(v, dtype=float) for v in (truths, own, peer, limits))
    return first, second, third, fourth


def _peer_errors(splits: Splits, metric: str) -> tuple[float, float]:
    """Return our mean absolute error of a metric and that of NannyML, in points."""
    truths, own, peer, _ = _values(splits, metric)
    own_error, peer_error = (
        100 * float(np.nanmean(np.abs(values - truths))) for values in (own, peer)
    )
    return own_error, peer_error


def _all_errors(splits: Splits) -> list[tuple[float, float]]:
    return [_peer_errors(splits, metric) for metric in METRICS]


def _false_alarms(splits: Splits, metric: str) -> tuple[int, int]:
    """Return the numbers of false alarms, ours and those of NannyML."""
    truths, own, peer, limits = _values(splits, metric)
    ours, theirs = (
        int(np.count_nonzero((values < limits) & (truths >= limits))) for values in (own, peer)
    )
    return ours, theirs


def _total_alarms(results: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    """Return the false alarms of each metric over all sets, ours and those of NannyML, as text."""
    totals = []
    for metric in METRICS:
        ours, theirs = np.sum(
            [_false_alarms(splits, metric) for splits in results.values()], axis=0
        )
        totals.append(f"{metric} {ours} and {theirs} false alarms")
    return ", ".join(totals)


def _alarm_cell(splits: Splits, metric: str) -> str:
    truths, own, peer, limits = _values(splits, metric)
    false_alarms = _false_alarms(splits, metric)
    missed = [
        int(np.count_nonzero((values >= limits) & (truths < limits))) for values in (own, peer)
    ]
    cells = [f"{false} / {miss}" for false, miss in zip(false_alarms, missed, strict=True)]
    return ", ".join(cells)


def _cpu_times(splits: Splits) -> tuple[float, float, float]:
    """Return CPU seconds per batch: ours, those of NannyML, and ours with all methods."""
    n_batches = [len(split["truths"]) for split in splits]
    peer = [split["nannyml"]["cpu"] / n for split, n in zip(splits, n_batches, strict=True)]
    own, all_methods = ([split[key] for split in splits] for key in ("cpu", "cpu_all_methods"))
    first, second, third = (
        float(np.average(times, weights=n_batches)) for times in (own, peer, all_methods)
    )
    return first, second, third


# Command -------------------------------------------------------------------------------------


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure estimates without shift.")
    parser.add_argument(
        "parts", nargs="*", help=f"Parts to compute: {', '.join(PARTS)}; default all."
    )
    parser.add_argument("--runs", type=int, default=2000, help="Number of runs per cell.")
    parser.add_argument(
        "--splits", type=int, default=20, help="Number of random splits per dataset."
    )
    parser.add_argument("--processes", type=int, default=2, help="Number of processes.")
    parser.add_argument("--folder", type=Path, default=Path("studies") / NAME,
                        help="Folder of finished computations.")  # fmt: skip
    parser.add_argument("--page-only", action="store_true",
                        help="Compute nothing; write the page from what is finished.")  # fmt: skip
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}")
    return options


def compute_parts(parts: Sequence[str], options: argparse.Namespace, data: Path | None) -> None:
    """Compute everything of some parts that is not finished yet."""
    folder: Path = options.folder
    if "coverage" in parts:
        chunks = planned_chunks(options.runs)
        simulation.compute(chunks, folder / "coverage", options.processes)
    measured: tuple[tuple[str, tuple[str, ...], Measurement], ...] = (
        ("batches", tuple(DATASETS), measure_batches),
        ("segments", tuple(SEGMENTED_DATASETS), measure_segments),
        ("own_target", own_target.DATASETS, own_target.measure_own_target),
    )
    for part, names, measure in measured:
        for seed, name in product(range(options.splits), names):
            if part in parts and data is not None:
                path = folder / part / f"{name}-{seed:02d}.json"
                cached_json(path, partial(measure, name, data, seed))
    if "peers" in parts and data is not None:
        for name in TABLES:
            measure_table(name, data, folder / "peers")


@limit_to_one_thread()
def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    parts = () if options.page_only else tuple(options.parts) or PARTS
    data = data_folder()
    if data is None:
        print("The research data are not on this machine; only the simulation is computed.")
    if not PEER_PYTHON.exists():
        print("NannyML is not installed (make bench-peers); it is not compared.")
        parts = tuple(part for part in parts if part != "peers")
    compute_parts(parts, options, data)
    folder: Path = options.folder
    sections = [
        coverage_section(planned_chunks(options.runs), folder / "coverage"),
        batches_section(folder / "batches"),
        segments_section(folder / "segments"),
        own_target_section(folder / "own_target"),
        peers_section({name: finished_tables(name, folder / "peers") for name in TABLES}),
    ]
    write_results(NAME, "\n\n".join([*(section.page for section in sections), machine_facts()]))
    return 0 if all(bound.kept for section in sections for bound in section.bounds) else 1


if __name__ == "__main__":
    sys.exit(main())
