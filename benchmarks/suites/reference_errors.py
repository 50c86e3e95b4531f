"""Write the table of reference errors of the package: python -m benchmarks.suites.reference_errors.

The table has one row per case of the suites to which the headline method applies. It is the basis
of the typical range (oodometer/assessment/typical_range.py) and contains no data of the suites.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suites.files import write_atomically
from benchmarks.suites.leave_one_out import read_all
from oodometer.assessment import typical_range
from oodometer.assessment.typical_range import (
    COLUMNS,
    COVARIATES,
    METHOD,
    Covariates,
    ReferenceErrors,
)
from oodometer.core.results import Estimate

PATH = Path(typical_range.__file__).parent / typical_range.TABLE
DECIMALS = 4


def with_covariates(table: Any) -> Any:
    """Return the rows with an estimate of the headline method, with the columns of the reference."""
    known = table[table[f"est_{METHOD}"].notna() & table[f"low_{METHOD}"].notna()]
    rows = [
        Covariates.of(
            Estimate(
                row[f"est_{METHOD}"],
                METHOD,
                row[f"low_{METHOD}"],
                row[f"high_{METHOD}"],
                facts={name: row[name] for name in ("regime_auc", "regime_auc_reweighted")},
            ),
            n_source=row["n_source"],
            n_target=row["n_target"],
            distance=row["diag_score_distance"],
        )
        for row in known.to_dict("records")
    ]
    return known.assign(
        estimate=known[f"est_{METHOD}"],
        **{name: [getattr(row, name) for row in rows] for name in COVARIATES},
    ).reset_index(drop=True)


def reference_of(table: Any) -> ReferenceErrors:
    """Return reference errors from a table with covariates."""
    return ReferenceErrors(
        table["suite"].tolist(),
        table["regime"].tolist(),
        {name: table[name].to_numpy(float) for name in COLUMNS},
    )


def text(table: Any) -> str:
    """Return the reference errors as CSV."""
    lines = [",".join(("suite", "regime", *COLUMNS))]
    values = table[list(COLUMNS)].to_numpy(float)
    for suite, regime, row in zip(table["suite"], table["regime"], values, strict=True):
        lines.append(f"{suite},{regime}," + ",".join(f"{v:.{DECIMALS}f}" for v in np.round(row, 6)))
    return "\n".join(lines) + "\n"


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.suites.reference_errors", description=__doc__
    )
    options.add_argument("--folder", type=Path, default=Path("studies") / "suites")
    table = with_covariates(read_all(options.parse_args().folder))
    write_atomically(PATH, lambda path: path.write_text(text(table), encoding="utf-8"))
    print(f"{len(table):,} cases of {table['suite'].nunique()} suites written to {PATH.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
