"""The toy study of NI §5.1 as published: 200 models, 40 distances, 5 datasets each.

The shape must be the paper's, for NI and ATC alike; the script exits with 1 when it is not.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from benchmarks._results import machine_facts, markdown_table, write_results
from oodometer.report.toy import zero_of
from oodometer.toys import HypersphereToy, SphereRow, hypersphere_rows

Line = list[tuple[float, float]]


def lines(rows: Sequence[SphereRow]) -> dict[str, Line]:
    return {
        "NI-Sphere": [(row.distance, row.ni) for row in rows if row.ni is not None],
        "ATC-MC": [(row.distance, row.atc) for row in rows if row.atc is not None],
    }


def claims(line: Line) -> list[tuple[str, str, bool]]:
    """What the paper's figure says of a measure, what was found, and whether it holds."""
    crossing = zero_of(line)
    far = max(tau for at, tau in line if at >= 2.4)
    return [
        ("positive near 0: τ > 0.4", f"{line[0][1]:+.2f}", line[0][1] > 0.4),
        (
            "crosses zero on the way to π/4",
            "never" if crossing is None else f"{crossing:.2f} rad",
            crossing is not None and crossing <= math.pi / 4,
        ),
        ("strongly negative far away: τ < −0.6 beyond 2.4 rad", f"{far:+.2f} at most", far < -0.6),
    ]


def main() -> int:
    toy = HypersphereToy()
    rows = list(hypersphere_rows(toy))
    found = lines(rows)
    judged = [(name, *claim) for name, line in found.items() for claim in claims(line)]
    apart = max(abs((row.ni or 0.0) - (row.atc or 0.0)) for row in rows)
    judged.append(("both", "alike: never further apart than 0.25", f"{apart:.2f}", apart <= 0.25))
    verdicts = [(name, what, value, "yes" if good else "NO") for name, what, value, good in judged]
    table = [
        (f"{r.distance:.2f}", f"{100 * r.accuracy:.1f}", f"{r.ni:+.2f}", f"{r.atc:+.2f}")
        for r in rows[::3]
    ]
    text = (
        f"{toy.models} models, {toy.distances} distances, {toy.centres} datasets of "
        f"{toy.points:,} points at each, {toy.steps:,} steps of training. "
        f"{sum(r.left_out for r in rows)} datasets were left out. {machine_facts()}\n\n"
        f"{markdown_table(('measure', 'claim', 'found', 'holds'), verdicts)}\n\n"
        "Kendall's τ with accuracy, every third distance:\n\n"
        f"{markdown_table(('rad', 'accuracy %', 'NI-Sphere', 'ATC-MC'), table)}\n"
    )
    write_results("quality_hypersphere", text)
    return 0 if all(good for *_, good in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
