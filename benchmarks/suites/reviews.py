"""Reviews of 16 categories (Liu et al., ACL 2017): models of words, and heads on MiniLM features."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.suites._features import sentence_features
from benchmarks.suites.heads import Classifier, fit_all, heads, predict_all
from benchmarks.suites.suite import HOME, Domain, Suite, Workspace
from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.stats import rng_for

# Rows per category that are encoded by MiniLM.
ENCODED_ROWS = 600
SINGLE = ("books", "dvd", "electronics", "kitchen_housewares", "MR", "apparel", "software", "music")
SEVERAL = ("books + dvd + video", "baby + toys_games + apparel", "camera_photo + electronics",
           "imdb + MR", "health_personal_care + magazines + sports_outdoors")  # fmt: skip
N_TARGETS = 9
MAX_WORDS = 20_000


@cache
def load(space: Workspace) -> tuple[list[str], Ints, Array]:
    """Return texts, labels and categories, in random order."""
    import pyarrow.parquet as pq

    table = pq.read_table(space.data / "text" / "fdu_mtl_16domain_sentiment.parquet").to_pandas()
    table = table.iloc[rng_for(0, "reviews").permutation(len(table))]
    labels = table["label"].to_numpy().astype(np.int64)
    return table["text"].fillna("").tolist(), labels, table["domain"].to_numpy(dtype=str)


@cache
def word_counts(space: Workspace) -> Any:
    """Return the sparse matrix of the words of all texts."""
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(min_df=8, max_features=MAX_WORDS).fit_transform(load(space)[0])


def groups(space: Workspace) -> Sequence[str]:
    return (*SINGLE, *SEVERAL)


def split(space: Workspace, group: str, allowed: Ints) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Return the rows for training, the held-out rows and the rows of nine other categories."""
    categories = load(space)[2]
    inside = group.split(" + ")
    rows = allowed[np.isin(categories[allowed], inside)]
    training, home = np.split(rows, [int(0.45 * len(rows))])
    others = sorted(set(categories.tolist()) - set(inside))
    chosen = rng_for(0, "reviews", group).permutation(others)[:N_TARGETS]
    return training, home, {name: allowed[categories[allowed] == name] for name in chosen.tolist()}


def predict_from_words(space: Workspace, group: str) -> Iterator[Domain]:
    """Train models of TF-IDF weights."""
    from sklearn.feature_extraction.text import TfidfTransformer

    _, labels, categories = load(space)
    training, home, targets = split(space, group, np.arange(len(categories)))
    counts = word_counts(space)
    known = np.flatnonzero(np.asarray((counts[training] > 0).sum(axis=0))[0] >= 2)
    weights = TfidfTransformer(sublinear_tf=True).fit(counts[training][:, known])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = weights.transform(counts[:, known])
        models = fit_all(_word_models(), inputs[training], labels[training])
        for name, rows in {HOME: home, **targets}.items():
            yield Domain(name, labels[rows], predict_all(models, inputs[rows]))


def _word_models() -> Mapping[str, Classifier]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.decomposition import TruncatedSVD
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import ComplementNB
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    reduction = TruncatedSVD(60, n_iter=2, random_state=0)
    boosting = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    return {
        "logistic": LogisticRegression(C=3.0, max_iter=200),
        "logistic-loose": LogisticRegression(C=300.0, max_iter=300),
        "naive-bayes": ComplementNB(alpha=0.3),
        "svm-platt": CalibratedClassifierCV(LinearSVC(), cv=3),
        "boosting": make_pipeline(reduction, boosting),
        "mlp": ReducedHead(heads(2)["mlp"], 200),
    }


class ReducedHead:
    """Head on the leading singular vectors of sparse features."""

    def __init__(self, head: Classifier, n_components: int) -> None:
        from sklearn.decomposition import TruncatedSVD

        self.head = head
        self.reduction = TruncatedSVD(n_components, n_iter=2, random_state=1)

    def fit(self, features: Any, labels: Ints) -> ReducedHead:
        self.head.fit(self.reduction.fit_transform(features), labels)
        return self

    def predict_proba(self, features: Any) -> Floats:
        return self.head.predict_proba(self.reduction.transform(features))


def encoded_rows(space: Workspace) -> Ints:
    """Return the rows that MiniLM encodes: the first 600 of every category."""
    categories = load(space)[2]
    return np.concatenate(
        [np.flatnonzero(categories == name)[:ENCODED_ROWS] for name in np.unique(categories)]
    )


@cache
def encoded(space: Workspace) -> Floats:
    """Return the MiniLM features of the encoded rows, in a matrix with a row for every text."""
    texts, rows = load(space)[0], encoded_rows(space)
    found = sentence_features(space.features("reviews"), lambda: [texts[i] for i in rows])
    features = np.zeros((len(texts), found.shape[1]), dtype=np.float32)
    features[rows] = found
    return features


def predict_from_features(space: Workspace, group: str) -> Iterator[Domain]:
    """Train heads on MiniLM features."""
    labels, features = load(space)[1], encoded(space)
    training, home, targets = split(space, group, encoded_rows(space))
    models = fit_all(heads(2), features[training], labels[training])
    for name, rows in {HOME: home, **targets}.items():
        yield Domain(name, labels[rows], predict_all(models, features[rows]))


SUITES = (
    Suite(name="reviews-words", family="reviews", k=2, groups=groups, predict=predict_from_words,
          outputs="reviews-words", cases=320),
    Suite(name="reviews-minilm", family="reviews", k=2, groups=groups,
          predict=predict_from_features, outputs="reviews-minilm", body="minilm", cases=240),
    Suite(name="reviews-thresholds", family="reviews", k=2, groups=groups,
          predict=predict_from_words, outputs="reviews-words", threshold=0.65, cases=96),
)  # fmt: skip
