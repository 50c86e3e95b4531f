"""Monitoring: false alarms and delays of alarm rules, audits, scale of the store, killed writers.

Run `python -m benchmarks.monitoring`, or only some parts: `python -m benchmarks.monitoring alarms
source`. Finished parts are JSON files in a work folder, and the page is written from all of them.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _monitoring_rules as rules
from benchmarks._monitoring_rules import NEVER, Streams
from benchmarks._results import Bound, Section, machine_facts, markdown_table, write_results
from oodometer import Monitor, Predictions
from oodometer.monitor.baseline import Baseline
from oodometer.monitor.e_detector import DetectorSettings, DetectorState, update
from oodometer.monitor.store import STORE_FILE

NAME = "monitoring"
N_STREAMS, N_BATCHES, BATCH_ROWS = 1000, 500, 1000
CHANGE, SOURCE_MEAN, ALPHA, DAY = 100, 0.85, 0.01, 0.01
FALLS = (0.02, 0.05, 0.10)
# Streams whose source is drawn anew; each has its own level.
N_SOURCES = 1000
SCALE_BATCHES, SCALE_ROWS, SCALE_CLASSES = 10_000, 10_000, 10


def draw_streams(
    seed: int, *, fall: float = 0.0, change: int = CHANGE, day: float = 0.0, margin: float = 0.01,
    n_batches: int = N_BATCHES,
) -> Streams:  # fmt: skip
    """Return simulated streams whose mean falls at batch `change`; `day` varies batch means."""
    rng = np.random.default_rng([24, seed])
    center = np.full((N_STREAMS, n_batches), SOURCE_MEAN)
    center[:, change:] -= fall
    center = np.clip(center + day * rng.normal(size=center.shape), 0, 1)
    means = rng.binomial(BATCH_ROWS, center) / BATCH_ROWS
    return Streams(means, BATCH_ROWS, SOURCE_MEAN - margin, SOURCE_MEAN, ALPHA)


def alarm_rules() -> dict[str, rules.Rule]:
    return {
        "daily 95 % interval": rules.daily_interval,
        "daily, Bonferroni over 500 batches": rules.daily_bonferroni,
        "three sigma (NannyML's rule)": rules.three_sigma,
        "confidence sequence of the running mean": rules.running_mean,
        "CUSUM, tuned to 1 % without change": rules.tuned_cusum(draw_streams(900)),
        "Page–Hinkley, δ 0.005, λ 0.05": rules.page_hinkley,
        "always alarm": rules.always,
        "e-detector, rows": rules.e_detector("row"),
        "**e-detector, batches**": rules.e_detector("batch"),
    }


def measure_alarms() -> dict[str, Any]:
    """Return the shares of streams with a false alarm, and the median delays."""
    quiet = {
        "no change": draw_streams(1),
        "at m0": draw_streams(2, fall=0.01, change=0),
        "no change + day": draw_streams(3, day=DAY),
        "at m0 + day": draw_streams(4, fall=0.01, change=0, day=DAY),
    }
    falls = {
        f"−{100 * fall:g}, margin {100 * margin:g}": draw_streams(10, fall=fall, margin=margin)
        for margin in (0.01, 0.03)
        for fall in FALLS
    }
    result: dict[str, Any] = {"false": {}, "delay": {}}
    for name, rule in alarm_rules().items():
        result["false"][name] = {
            case: float((rule(streams) != NEVER).mean()) for case, streams in quiet.items()
        }
        result["delay"][name] = {case: median_delay(rule, each) for case, each in falls.items()}
    result["twin"] = max(rules.check_twin(quiet["no change"], form) for form in ("row", "batch"))
    return result


def median_delay(rule: rules.Rule, streams: Streams, change: int = CHANGE) -> float | None:
    """Return the median number of batches until an alarm, among streams without an earlier one.

    None if half of the streams have an earlier alarm, or none later.
    """
    first = rule(streams)
    late = first[(first == NEVER) | (first >= change)]
    if len(late) < len(first) / 2:
        return None
    delays = np.where(late == NEVER, np.inf, late - change + 1)
    delay = float(np.median(delays))
    return delay if np.isfinite(delay) else None


def measure_history() -> dict[str, Any]:
    """Return the median delay of a fall of 5 points after 10, 100 and 1,000 quiet batches."""
    result: dict[str, Any] = {}
    for name, rule in (
        ("e-detector, batches", rules.e_detector("batch")),
        ("e-detector, rows", rules.e_detector("row")),
        ("confidence sequence of the running mean", rules.running_mean),
    ):
        result[name] = {}
        for quiet in (10, 100, 1000):
            streams = draw_streams(20 + quiet, fall=0.05, change=quiet, n_batches=quiet + 400)
            result[name][str(quiet)] = median_delay(rule, streams, quiet)
    return result


def measure_source() -> dict[str, Any]:
    """Return the share of streams with a false alarm if the source is a sample, by its rows."""
    rng = np.random.default_rng(5)
    result: dict[str, Any] = {}
    for n in (500, 2000, 10_000):
        streams = draw_streams(50)
        shares = {}
        for how in ("ignored", "included"):
            alarms, costs = [], []
            for stream in range(N_SOURCES):
                scores = (rng.random(n) < SOURCE_MEAN).astype(float)
                baseline = Baseline.fit(scores, scores > 0, margin=0.01, alpha=ALPHA)
                level = baseline.level if how == "included" else baseline.source_mean - 0.01
                alpha = ALPHA / 2 if how == "included" else ALPHA
                one = Streams(streams.means[stream : stream + 1], BATCH_ROWS, level, 0.85, alpha)
                alarms.append(bool(rules.e_detector("row")(one)[0] != NEVER))
                costs.append(baseline.cost)
            shares[how] = float(np.mean(alarms))
        result[str(n)] = {**shares, "cost": float(np.mean(costs))}
    return result


def measure_audits() -> dict[str, Any]:
    """Return rows until detection and labels used, of fixed and two-tier audits, simulated."""
    result: dict[str, Any] = {}
    for case in ("scores fall too", "concept drift"):
        result[case] = {}
        for name, shares in (
            ("fixed 1 %", (0.01, 0.01)), ("two tiers, 1 % and 10 %", (0.01, 0.1)),
            ("fixed 10 %", (0.1, 0.1)),
        ):  # fmt: skip
            runs = [_audit(seed, shares, drift=case == "concept drift") for seed in range(100)]
            delays = [np.inf if run[0] is None else run[0] for run in runs]
            result[case][name] = {
                "rows": float(np.median(delays)),
                "labels": float(np.median([run[1] for run in runs])),
                "false": float(np.mean([run[2] for run in runs])),
            }
    return result


def _audit(seed: int, shares: tuple[float, float], *, drift: bool) -> tuple[int | None, int, bool]:
    """Return rows from the fall to its detection, labels since the fall, and if it came too early.

    40,000 rows in batches of 100; accuracy falls from 90 % to 78 % at row 5,000.
    """
    rng = np.random.default_rng([7, seed])
    size, n_rows, change = 100, 40_000, 5000
    watched = DetectorSettings(level=0.89, alpha=0.005, form="row")
    audited = DetectorSettings(level=0.89, alpha=0.005, form="row")
    scores, labels = DetectorState.start(watched), DetectorState.start(audited)
    n_labels = 0
    for start in range(0, n_rows, size):
        accuracy = 0.9 if start < change else 0.78
        score = 0.9 if start < change or drift else 0.78
        scores = update(watched, scores, n=size, total=float(rng.binomial(size, score)))
        raised = scores.log_evidence >= -np.log(watched.run_alpha(1)) / 2
        count = int(rng.binomial(size, shares[1] if raised else shares[0]))
        labels = update(audited, labels, n=count, total=float(rng.binomial(count, accuracy)))
        n_labels += count if start >= change else 0
        if labels.is_alarm:
            return start + size - change, n_labels, start < change
    return None, n_labels, False


# Store -------------------------------------------------------------------------------------------


def draw_rows(seed: int, n: int, k: int, *, labelled: bool = False) -> Predictions:
    rng = np.random.default_rng([25, seed])
    logits = rng.normal(size=(n, k)).astype(np.float32) * 2
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1) if labelled else None
    return Predictions.from_probs(probs, labels=labels)


def measure_scale(n_batches: int = SCALE_BATCHES) -> dict[str, Any]:
    """Return the times of `add` and `status`, and the size of the store, over many batches."""
    with tempfile.TemporaryDirectory() as folder:
        source = draw_rows(0, 20_000, SCALE_CLASSES, labelled=True)
        monitor = Monitor.create(folder, source)
        seconds: list[float] = []
        for number in range(n_batches):
            rows = draw_rows(1 + number, SCALE_ROWS, SCALE_CLASSES)
            start = time.process_time()
            monitor.add(rows)
            seconds.append(time.process_time() - start)
        start = time.perf_counter()
        monitor.status()
        status = time.perf_counter() - start
        size = (Path(folder) / STORE_FILE).stat().st_size
    part = max(n_batches // 10, 1)
    first, last = (float(np.median(part_times)) for part_times in (seconds[:part], seconds[-part:]))
    return {
        "batches": n_batches, "first": first, "last": last, "status": status, "bytes": size,
    }  # fmt: skip


ADD = """
import sys
from oodometer import Monitor
from benchmarks.monitoring import draw_rows
monitor = Monitor.open(sys.argv[1])
for seed in range(int(sys.argv[2]), 100_000):
    monitor.add(draw_rows(seed, 500, 3))
    print(seed, flush=True)
"""


def measure_kills(n_kills: int = 20) -> dict[str, Any]:
    """Return whether SIGKILL at random moments during `add` lost batches or counted any twice."""
    moments = random.Random(3)
    source = draw_rows(10**6, 3000, 3, labelled=True)
    with tempfile.TemporaryDirectory() as folder:
        Monitor.create(folder, source).close()
        reported = lost = 0
        for _ in range(n_kills):
            process = subprocess.Popen(
                [sys.executable, "-c", ADD, folder, str(max(reported - 1, 0))],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(2)]
            time.sleep(moments.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
            process.wait()
            process.stdout.close()
            reported = int([line for line in lines if line.endswith("\n")][-1]) + 1
            with Monitor.open(folder) as monitor:
                lost += int(monitor.status().n_batches < reported)
        with Monitor.open(folder) as monitor, tempfile.TemporaryDirectory() as other:
            whole = Monitor.create(other, source)
            n_batches = monitor.status().n_batches
            for seed in range(n_batches):
                whole.add(draw_rows(seed, 500, 3))
            same = monitor.status().evidence == whole.status().evidence
    return {"kills": n_kills, "batches": n_batches, "lost": lost, "same": same}


# Page --------------------------------------------------------------------------------------------


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def batches_late(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def show_alarms(result: dict[str, Any]) -> Section:
    ours = result["false"]["**e-detector, batches**"]
    bounds = [
        Bound(
            f"streams with a false alarm, batch form, {case} (%)", 100 * share, 100 * ALPHA, False
        )
        for case, share in ours.items()
    ]
    false = [[name, *map(percent, cells.values())] for name, cells in result["false"].items()]
    late = [[name, *map(batches_late, cells.values())] for name, cells in result["delay"].items()]
    return Section(
        "False alarms and delays",
        bounds,
        f"{N_STREAMS:,} simulated streams of {N_BATCHES} batches of {BATCH_ROWS:,} rows; mean score "
        f"{SOURCE_MEAN:.0%}, margin 1 point, α = {ALPHA:.0%}. “At m0” means that the mean score is "
        "exactly at the level, “day” that batch means vary with a standard deviation of 1 point. "
        f"Largest difference of log M between the simulation and the package: {result['twin']:.1g}."
        "\n\nStreams with an alarm that should not be (%):\n\n"
        + markdown_table(["rule", *next(iter(result["false"].values()))], false)
        + f"\n\nMedian batches from the change, at batch {CHANGE}, to the alarm, among streams without "
        "an earlier alarm (– : half of the streams had an earlier one, or half had none):\n\n"
        + markdown_table(["rule", *next(iter(result["delay"].values()))], late),
    )


def show_history(result: dict[str, Any]) -> Section:
    ours = result["e-detector, batches"]
    rows = [[name, *map(batches_late, cells.values())] for name, cells in result.items()]
    ratio = ours["1000"] / ours["10"] if ours["10"] and ours["1000"] else np.inf
    return Section(
        "Delay after a quiet time",
        [Bound("delay after 1,000 quiet batches / after 10", ratio, 2, False)],
        "Median batches until a fall of 5 points is found, after 10, 100 and 1,000 quiet batches:\n\n"
        + markdown_table(["rule", "10", "100", "1,000"], rows),
    )


def show_source(result: dict[str, Any]) -> Section:
    rows = [
        [n, percent(each["ignored"]), percent(each["included"]), percent(each["cost"])]
        for n, each in result.items()
    ]
    bounds = [
        Bound(f"false alarms, {n} source rows (%)", 100 * each["included"], 100 * ALPHA, False)
        for n, each in result.items()
    ]
    head = ["source rows", "ignored: alarms (%)", "included: alarms (%)", "cost in points"]
    return Section(
        "The source is a sample too",
        bounds,
        f"Share of {N_SOURCES} streams without change with an alarm, each with a source of its own, if "
        "the error of the source is ignored or included (row form):\n\n"
        + markdown_table(head, rows),
    )


def show_audits(result: dict[str, Any]) -> Section:
    rows = [
        [case, name, f"{each['rows']:,.0f}", f"{each['labels']:,.0f}", percent(each["false"])]
        for case, cells in result.items()
        for name, each in cells.items()
    ]
    head = ["case", "audits", "rows until detection", "labels", "too early (%)"]
    return Section(
        "Audits",
        [],
        "Medians of 100 simulated streams of 40,000 rows in batches of 100; the accuracy falls from "
        "90 % to 78 % at row 5,000, margin 1 point, α = 1 %. Under concept drift, the scores stay as "
        "they were. Labels are counted from the fall.\n\n" + markdown_table(head, rows),
    )


def show_scale(result: dict[str, Any]) -> Section:
    return Section(
        "Size",
        [
            Bound("CPU time of add, last tenth / first tenth", result["last"] / result["first"],
                  1.5, False),
            Bound("seconds of status", result["status"], 1, False),
            Bound("store of 10,000 batches (MB)",
                  result["bytes"] / result["batches"] * 10_000 / 1e6, 100, False),
        ],
        f"{result['batches']:,} batches of {SCALE_ROWS:,} rows with {SCALE_CLASSES} classes; `add` "
        f"takes {1000 * result['first']:.0f} ms of CPU time at first and "
        f"{1000 * result['last']:.0f} ms at the end.",
    )  # fmt: skip


def show_kills(result: dict[str, Any]) -> Section:
    return Section(
        "Killed processes",
        [
            Bound("kills after which a reported batch was missing", result["lost"], 0, False),
            Bound("same evidence as without kills", float(result["same"]), 1),
        ],
        f"SIGKILL at {result['kills']} random moments during `add`; {result['batches']} batches were "
        "added in all. Each restart begins with a batch that may have been added before.",
    )


PARTS: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[dict[str, Any]], Section]]] = {
    "alarms": (measure_alarms, show_alarms),
    "history": (measure_history, show_history),
    "source": (measure_source, show_source),
    "audits": (measure_audits, show_audits),
    "scale": (measure_scale, show_scale),
    "kills": (measure_kills, show_kills),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--batches", type=int, default=SCALE_BATCHES, help="of the part scale")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / NAME)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    for name in options.parts or PARTS:
        path = options.work / f"{name}.json"
        if not path.exists():
            measure = PARTS[name][0]
            result = measure_scale(options.batches) if name == "scale" else measure()
            path.write_text(json.dumps(result))
    sections = [
        show(json.loads((options.work / f"{name}.json").read_text()))
        for name, (_, show) in PARTS.items()
        if (options.work / f"{name}.json").exists()
    ]
    text = "\n\n".join(section.page for section in sections)
    write_results(NAME, f"{machine_facts()}\n\n{text}")
    if not all(bound.kept for section in sections for bound in section.bounds):
        sys.exit(1)


if __name__ == "__main__":
    main()
