"""Speed of all parts with their bounds on one page: docs/results/speed.md.

python -m benchmarks.speed             everything, about twenty minutes
python -m benchmarks.speed 5000000     the same with fewer rows in files
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import speed_estimators, speed_growth, speed_peers, speed_starting, speed_streaming
from benchmarks._results import Bound, Section, all_machine_facts, write_results
from benchmarks.speed_invariance import against_bare, images, network
from oodometer.models import TorchModel

SOME = 2_000


def forward() -> Section:
    """Compare neighborhoods of a small network with the same number of bare forward passes."""
    row, _, _ = against_bare("torch", TorchModel(network()), images(SOME))
    bounds = [
        Bound("images per second: invariance() / bare forward passes, torch", float(row[3]), 0.9)
    ]
    text = (
        f"{SOME:,} images of 32×32×3, ten draws of RandAugment each: {row[1]} images per second, and "
        f"{row[2]} by forward passes only; {row[5]}. See also [its own page](speed_invariance.md)."
    )
    return Section("Neighborhoods", bounds, text)


def main(rows: int = speed_streaming.N) -> int:
    parts: dict[str, Callable[[], Section]] = {
        "arrays": speed_estimators.section,
        "growth": speed_growth.section,
        "files": lambda: speed_streaming.section(rows),
        "forward": forward,
        "starting": speed_starting.section,
        "peers": speed_peers.section,
    }
    sections = []
    for name, make in parts.items():
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        sections.append(make())
    bounds = [one for section in sections for one in section.bounds]
    missed = [one for one in bounds if not one.kept]
    intro = (
        "Every figure is a ratio of two times measured in one run, or a CPU time on this machine. "
        f"{len(bounds) - len(missed)} of {len(bounds)} bounds are kept.\n\n{all_machine_facts()}"
    )
    write_results("speed", "\n\n".join([intro, *(section.page for section in sections)]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])) if len(sys.argv) > 1 else main())
