"""Model outputs on ACS, Adult, reviews and digits, split at random into source and target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints

SOURCE_ROWS = 10_000
DIGITS_TRAINING_ROWS = 5_000
AGE_BANDS = (18, 30, 45, 60, 75)
HOUR_BANDS = (35, 41, 50)
EDUCATION_BANDS = (9, 10, 13)
ACS_SEGMENTS = ("age", "SEX", "MAR", "RAC1P", "CIT", "DIS")
ADULT_SEGMENTS = ("age", "sex", "race", "marital-status", "education", "hours")


@dataclass(frozen=True, eq=False)
class Outputs:
    """Probabilities (n, k) and labels of rows that the model was not trained on.

    `columns` has values of further columns, by name.
    """

    probs: Floats
    labels: Ints
    columns: dict[str, Array] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.labels)

    def rows(self, index: Any) -> Outputs:
        columns = {name: values[index] for name, values in self.columns.items()}
        return Outputs(self.probs[index], self.labels[index], columns)

    def split(self, seed: int, n_source: int) -> tuple[Outputs, Outputs]:
        """Return a random source and the remaining rows."""
        order = np.random.default_rng(seed).permutation(self.n)
        return self.rows(order[:n_source]), self.rows(order[n_source:])


def _bands(values: Array, edges: tuple[int, ...]) -> Array:
    names = [f"below {edges[0]}", *(f"{edge} or more" for edge in edges)]
    return np.array(names)[np.searchsorted(edges, values, side="right")]


def acs(data: Path, seed: int, *, years: tuple[int, ...] = (2015,)) -> Outputs:
    """Return a published model's outputs on ACS rows, in file order."""
    import pyarrow.parquet as pq

    path = data / "tables" / "acs_employment_MA_2015_2018.parquet"
    table = pq.read_table(path).to_pandas()
    table = table[table["year"].isin(years)]
    second = table["predicted_probability"].to_numpy()
    columns = {name: table[name].astype(str).to_numpy(dtype=str) for name in ACS_SEGMENTS[1:]}
    columns["age"] = _bands(table["AGEP"].to_numpy(), AGE_BANDS)
    columns["year"] = table["year"].to_numpy()
    return Outputs(np.column_stack([1 - second, second]), table["employed"].to_numpy(), columns)


def adult(data: Path, seed: int) -> Outputs:
    """Train gradient-boosted trees on a third of Adult; return the outputs on the other rows."""
    import pyarrow.parquet as pq
    from sklearn.ensemble import HistGradientBoostingClassifier

    table = pq.read_table(data / "tables" / "adult.parquet").to_pandas()
    labels = (table["income-per-year"].str.strip().str.startswith(">")).to_numpy().astype(np.int64)
    inputs = table.drop(columns=["income-per-year", "fnlwgt"])
    for name in inputs.columns:
        if inputs[name].dtype.kind not in "iuf":
            inputs[name] = inputs[name].astype("category").cat.codes
    order = np.random.default_rng(seed).permutation(len(table))
    training, rest = order[: len(order) // 3], order[len(order) // 3 :]
    values = inputs.to_numpy(dtype=np.float64)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    model.fit(values[training], labels[training])
    held_out = table.iloc[rest]
    columns = {
        name: held_out[name].astype(str).to_numpy(dtype=str)
        for name in ("sex", "race", "marital-status", "education", "occupation", "relationship")
    }
    columns["age"] = _bands(held_out["age"].to_numpy(), AGE_BANDS)
    columns["hours"] = _bands(held_out["hours-per-week"].to_numpy(), HOUR_BANDS)
    columns["education"] = _bands(held_out["education-num"].to_numpy(), EDUCATION_BANDS)
    return Outputs(model.predict_proba(values[rest]), labels[rest], columns)


def reviews(data: Path, seed: int) -> Outputs:
    """Fit a logistic regression of words to a third of the reviews of all domains."""
    import pyarrow.parquet as pq
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    table = pq.read_table(data / "text" / "fdu_mtl_16domain_sentiment.parquet").to_pandas()
    order = np.random.default_rng(seed).permutation(len(table))
    texts, labels = table["text"].fillna("").to_numpy(), table["label"].to_numpy().astype(np.int64)
    training, rest = order[: len(order) // 3], order[len(order) // 3 :]
    words = TfidfVectorizer(min_df=5, sublinear_tf=True)
    model = LogisticRegression(C=3.0, max_iter=200)
    model.fit(words.fit_transform(texts[training]), labels[training])
    return Outputs(model.predict_proba(words.transform(texts[rest])), labels[rest])


def digits(data: Path, seed: int) -> Outputs:
    """Fit a logistic regression of pixels to 5,000 digits of MNIST."""
    from sklearn.linear_model import LogisticRegression

    with np.load(data / "digits" / "mnist.npz") as archive:
        images = np.concatenate([archive["x_train"], archive["x_test"]])
        labels = np.concatenate([archive["y_train"], archive["y_test"]]).astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(labels))
    training, rest = order[:DIGITS_TRAINING_ROWS], order[DIGITS_TRAINING_ROWS:]
    pixels = images.reshape(len(images), -1) / np.float32(255)
    model = LogisticRegression(max_iter=30)
    model.fit(pixels[training], labels[training])
    return Outputs(model.predict_proba(pixels[rest]), labels[rest])


DATASETS: dict[str, Callable[[Path, int], Outputs]] = {
    "acs": acs,
    "adult": adult,
    "reviews": reviews,
    "digits": digits,
}
SEGMENTED_DATASETS = {"acs": ACS_SEGMENTS, "adult": ADULT_SEGMENTS}
