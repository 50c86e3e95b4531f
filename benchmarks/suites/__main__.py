"""Build suites and print the errors of today's methods: python -m benchmarks.suites [names…]."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks._results import data_folder
from benchmarks.suites.registry import SUITES, select
from benchmarks.suites.results import build, write_stored_rows
from benchmarks.suites.suite import Workspace
from benchmarks.suites.summary import summary

PROGRESS_SECONDS = 20.0


class Progress:
    """Progress lines, at most one every 20 seconds, and one when the step changes."""

    def __init__(self) -> None:
        self.time, self.step = -PROGRESS_SECONDS, ""

    def __call__(self, done: int, total: int, step: str) -> None:
        now = time.monotonic()
        if step != self.step or now - self.time >= PROGRESS_SECONDS:
            print(f"{time.strftime('%H:%M:%S')} {step} ({done} of {total})", flush=True)
            self.time, self.step = now, step


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m benchmarks.suites", description=__doc__)
    options.add_argument("names", nargs="*", help="Names of suites or families; default: all.")
    options.add_argument("--cases", type=int, help="Number of cases per suite.")
    options.add_argument(
        "--folder", type=Path, default=Path("studies") / "suites", help="Work folder of the caches."
    )
    options.add_argument(
        "--replicates", type=int, default=20, help="Number of bootstrap replicates."
    )
    options.add_argument(
        "--table", action="store_true", help="Write and print the stored results; compute nothing."
    )
    return options


def main() -> int:
    options = parser().parse_args()
    data = data_folder()
    if data is None:
        print("The research data are missing ($OODOMETER_DATA); nothing was built.")
        return 0
    space, start = Workspace(data, options.folder), time.process_time()
    for suite in select(options.names):
        if options.table:
            write_stored_rows(space, suite)
            continue
        build(
            space, suite, n_cases=options.cases, replicates=options.replicates, progress=Progress()
        )
    print(summary(space, [suite.name for suite in SUITES]))
    print(f"CPU time: {(time.process_time() - start) / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
