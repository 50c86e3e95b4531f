"""Adult (Kohavi, KDD 1996): models trained on one subgroup or on all rows, tested on subgroups.

The imbalanced suite keeps 3 % positive rows, in training and in all domains.
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

NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORIES = ("workclass", "marital-status", "occupation", "relationship", "race", "sex")
# Column and value of the rows for training; the other values of the column are the targets.
SUBGROUPS = {
    "sex": "Male", "race": "White", "marital-status": "Married-civ-spouse",
    "workclass": "Private", "country": "United-States", "age band": "from 30",
    "education band": "from 9", "occupation": "Prof-specialty",
}  # fmt: skip
ALL_ROWS = "all rows"
MAX_TRAINING_ROWS = 8000
MIN_TARGET_ROWS = 250
POSITIVE_SHARE = 0.03


@cache
def load(space: Workspace) -> tuple[Floats, Ints, dict[str, Array]]:
    """Return inputs, labels and the columns that define subgroups."""
    import pyarrow.parquet as pq

    table = pq.read_table(space.data / "tables" / "adult.parquet").to_pandas()
    labels = (table["income-per-year"] == ">50K").to_numpy().astype(np.int64)
    columns = {name: table[name].to_numpy(dtype=str) for name in CATEGORIES}
    country = table["native-country"].to_numpy(dtype=str)
    is_common = np.isin(country, ("United-States", "Mexico", "Philippines", "?"))
    columns["country"] = np.where(is_common, country, "other")
    columns["age band"] = bands(table["age"].to_numpy(), (22, 30, 45, 60))
    columns["education band"] = bands(table["education-num"].to_numpy(), (9, 10, 13, 14))
    return encode(table, NUMBERS, CATEGORIES), labels, columns


def groups(space: Workspace) -> Sequence[str]:
    return (*(f"{column} = {value}" for column, value in SUBGROUPS.items()), ALL_ROWS)


def unrestricted_groups(space: Workspace) -> Sequence[str]:
    """Return the group of models that are trained on all rows, as deployed models usually are."""
    return (ALL_ROWS,)


def split(space: Workspace, group: str, allowed: Ints) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Return the rows for training, the held-out rows, and the rows of each target."""
    columns = load(space)[2]
    rows = rng_for(0, "adult", group).permutation(allowed)
    if group == ALL_ROWS:
        training, home, rest = np.split(rows, [MAX_TRAINING_ROWS, MAX_TRAINING_ROWS + 6000])
        chosen = {f"{column} = {value}": rest[values[rest] == value]
                  for column, values in columns.items() for value in np.unique(values)}  # fmt: skip
    else:
        column, value = group.split(" = ")
        is_inside = columns[column][rows] == value
        inside, outside = rows[is_inside], rows[~is_inside]
        n_training = min(MAX_TRAINING_ROWS, len(inside) // 2)
        training, home = inside[:n_training], inside[n_training:]
        values = columns[column][outside]
        chosen = {f"{column} = {name}": outside[values == name] for name in np.unique(values)}
    targets = {name: index for name, index in chosen.items() if len(index) >= MIN_TARGET_ROWS}
    return training, home, targets


def _predict(space: Workspace, group: str, allowed: Ints) -> Iterator[Domain]:
    inputs, labels, _ = load(space)
    training, home, targets = split(space, group, allowed)
    models = fit_all(table_models(), inputs[training], labels[training])
    for name, rows in {HOME: home, **targets}.items():
        yield Domain(name, labels[rows], predict_all(models, inputs[rows]))


def predict(space: Workspace, group: str) -> Iterator[Domain]:
    """Train on one subgroup or on all rows; test on other subgroups."""
    return _predict(space, group, np.arange(len(load(space)[1])))


def predict_imbalanced(space: Workspace, group: str) -> Iterator[Domain]:
    """Do the same with 3 % positive rows in every subgroup."""
    _, labels, columns = load(space)
    column = "age band" if group == ALL_ROWS else group.split(" = ")[0]
    kept = []
    for value in np.unique(columns[column]):
        negative, positive = (
            np.flatnonzero((columns[column] == value) & (labels == j)) for j in (0, 1)
        )
        n_positive = round(len(negative) * POSITIVE_SHARE / (1 - POSITIVE_SHARE))
        rng = rng_for(0, "adult", "imbalanced", column, value)
        kept += [negative, rng.permutation(positive)[:n_positive]]
    return _predict(space, group, np.concatenate(kept))


SUITES = (
    Suite(name="adult", family="adult", k=2, groups=groups, predict=predict, outputs="adult",
          cases=320),
    Suite(name="adult-all", family="adult", k=2, groups=unrestricted_groups, predict=predict,
          outputs="adult", cases=240),
    Suite(name="adult-rounded", family="adult", k=2, groups=groups, predict=predict,
          outputs="adult", decimals=2, cases=120),
    Suite(name="adult-thresholds", family="adult", k=2, groups=groups, predict=predict,
          outputs="adult", threshold=0.3, cases=120),
    Suite(name="adult-imbalanced", family="adult", k=2, groups=groups,
          predict=predict_imbalanced, outputs="adult-imbalanced", base="source", cases=200),
)  # fmt: skip
