"""ACS employment in Massachusetts, 2015 to 2018: by subgroup and by year.

One suite has the probabilities of a published model, the others models trained here on rows of 2015,
either on all of them or on one subgroup. Targets of all models are later years and subgroups of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from benchmarks.suites.heads import fit_all, predict_all
from benchmarks.suites.suite import HOME, Domain, Suite, Workspace
from benchmarks.suites.table_models import bands, encode, table_models
from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.stats import rng_for

NUMBERS = ("AGEP",)
CATEGORIES = ("SCHL", "MAR", "RELP", "DIS", "CIT", "MIG", "MIL", "ANC", "NATIVITY", "SEX", "RAC1P")
SUBGROUPS = {"all": "", "age band": "from 30", "SEX": "1", "MAR": "1", "RAC1P": "1", "DIS": "2",
             "CIT": "1"}  # fmt: skip
TARGET_COLUMNS = ("age band", "SEX", "MAR", "RAC1P", "DIS", "CIT", "MIG")
FIRST_YEAR = "2015"
TRAINING_ROWS = 6000
HOME_ROWS = 6000
MAX_TARGET_ROWS = 4000
MIN_TARGET_ROWS = 300


@cache
def load(space: Workspace) -> tuple[Floats, Ints, dict[str, Array], Floats]:
    """Return inputs, labels, columns that define subgroups, and the published probabilities."""
    import pyarrow.parquet as pq

    path = space.data / "tables" / "acs_employment_MA_2015_2018.parquet"
    table = pq.read_table(path).to_pandas()
    # Every second row is enough, and keeps training and prediction short.
    table = table.iloc[rng_for(0, "acs").permutation(len(table))[: len(table) // 2]]
    columns = {name: table[name].to_numpy(dtype=str) for name in (*CATEGORIES, "year")}
    columns["age band"] = bands(table["AGEP"].to_numpy(), (18, 30, 45, 60, 75))
    second = table["predicted_probability"].to_numpy()
    published = np.column_stack([1 - second, second])
    labels = table["employed"].to_numpy().astype(np.int64)
    return encode(table, NUMBERS, CATEGORIES), labels, columns, published


def groups(space: Workspace) -> Sequence[str]:
    return tuple(f"{column} = {value}" for column, value in SUBGROUPS.items())


def unrestricted_groups(space: Workspace) -> Sequence[str]:
    """Return the group of models that are trained on all rows, as deployed models usually are."""
    return ("all = ",)


def split(space: Workspace, group: str) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Return the rows for training, the held-out rows, and the rows of each target.

    Training and held-out rows are of the first year. Targets are all rows of other years, and
    subgroups of them.
    """
    columns = load(space)[2]
    column, value = group.split(" = ")
    rows = np.arange(len(columns["year"]))
    is_inside = columns["year"] == FIRST_YEAR
    if value:
        is_inside &= columns[column] == value
    inside = rows[is_inside]
    n_training = min(TRAINING_ROWS, len(inside) // 2)
    training, home, _ = np.split(inside, [n_training, n_training + HOME_ROWS])
    targets: dict[str, Ints] = {}
    for year in np.unique(columns["year"]):
        is_year = columns["year"] == year
        if year != FIRST_YEAR:
            in_group = is_year & (columns[column] == value) if value else is_year
            targets[year] = rows[in_group]
        for name in TARGET_COLUMNS if not value else (column,):
            for other in np.unique(columns[name]):
                if year in (FIRST_YEAR, "2018") and other != value:
                    is_free = is_year & (columns[name] == other)
                    found = np.setdiff1d(rows[is_free], np.concatenate([training, home]))
                    targets[f"{year}, {name} = {other}"] = found
    rng = rng_for(0, "acs", group)
    return training, home, {name: rng.permutation(index)[:MAX_TARGET_ROWS]
                            for name, index in targets.items()
                            if len(index) >= MIN_TARGET_ROWS}  # fmt: skip


def predict(space: Workspace, group: str) -> Iterator[Domain]:
    """Train on rows of 2015; test on other subgroups and other years."""
    inputs, labels, _, _ = load(space)
    training, home, targets = split(space, group)
    models = fit_all(table_models(), inputs[training], labels[training])
    for name, rows in {HOME: home, **targets}.items():
        yield Domain(name, labels[rows], predict_all(models, inputs[rows]))


def predict_published(space: Workspace, group: str) -> Iterator[Domain]:
    """Return the published probabilities on the same domains."""
    _, labels, _, published = load(space)
    _, home, targets = split(space, group)
    for name, rows in {HOME: home, **targets}.items():
        yield Domain(name, labels[rows], {"published": published[rows]})


SUITES = (
    Suite(name="acs", family="acs", k=2, groups=groups, predict=predict, outputs="acs", cases=280),
    Suite(name="acs-all", family="acs", k=2, groups=unrestricted_groups, predict=predict, outputs="acs",
          cases=240),
    Suite(name="acs-published", family="acs", k=2, groups=unrestricted_groups,
          predict=predict_published, outputs="acs-published", cases=160),
    Suite(name="acs-rounded", family="acs", k=2, groups=groups, predict=predict, outputs="acs",
          decimals=1, cases=96),
    Suite(name="acs-thresholds", family="acs", k=2, groups=groups, predict=predict, outputs="acs",
          threshold=0.7, cases=96),
)  # fmt: skip
