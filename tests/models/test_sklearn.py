"""scikit-learn estimators as models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from oodometer.core.errors import InputError
from oodometer.models import SklearnModel, as_model
from oodometer.testing import check_model, toy_inputs

ROWS = np.random.default_rng(0).normal(size=(30, 4))
ANIMALS = np.array(["cat", "dog", "cow"])[np.arange(30) % 3]


def test_predict_proba_is_preferred() -> None:
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, ANIMALS)
    model = as_model(fitted)
    check_model(model, ROWS)
    predictions = model.classify(ROWS)
    assert model.name == "LogisticRegression"
    assert predictions.class_names == ("cat", "cow", "dog")
    assert np.array_equal(predictions.probs, fitted.predict_proba(ROWS))


def test_classes_are_used_without_predict_proba_or_on_request() -> None:
    for fitted, outputs in ((LinearSVC(), None), (GaussianNB(), "classes")):
        predictions = as_model(fitted.fit(ROWS, ANIMALS), outputs=outputs).classify(ROWS)  # type: ignore[arg-type]
        assert predictions.score_type == "classes"
        assert predictions.class_names is not None
        assert [predictions.class_names[j] for j in predictions.classes] == fitted.predict(
            ROWS
        ).tolist()


@pytest.mark.parametrize("labels", [[3, 7], [0.0, 1.0], [False, True], ["0", "1"]])
@pytest.mark.parametrize("maker", [LinearSVC, GaussianNB])
def test_classes_keep_their_own_labels(maker: Any, labels: list[Any]) -> None:
    y = np.array(labels)[(ROWS[:, 0] > 0).astype(int)]
    predictions = as_model(maker().fit(ROWS, y)).classify(ROWS)
    assert predictions.k == 2
    assert np.array_equal(np.array(labels)[predictions.classes], maker().fit(ROWS, y).predict(ROWS))


def test_unavailable_outputs_raise() -> None:
    with pytest.raises(InputError, match="'LinearSVC' cannot return probs; it returns classes"):
        as_model(LinearSVC().fit(ROWS, ANIMALS), outputs="probs")
    with pytest.raises(InputError, match="'GaussianNB' cannot return logits"):
        as_model(GaussianNB().fit(ROWS, ANIMALS), outputs="logits")


def test_unfitted_estimators_and_non_classifiers_raise() -> None:
    for unfitted in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        with pytest.raises(InputError, match="'LogisticRegression' is not fitted"):
            as_model(unfitted)
    for other in (LinearRegression().fit(ROWS, ROWS[:, 0]), KMeans(2).fit(ROWS)):
        with pytest.raises(InputError, match="has no classes_, so it is not a classifier"):
            as_model(other)
    many = MultiOutputClassifier(GaussianNB()).fit(ROWS, np.column_stack([ANIMALS, ANIMALS]))
    with pytest.raises(InputError, match="'MultiOutputClassifier' returned"):
        as_model(many).classify(ROWS)


@pytest.mark.parametrize("shape", [(20, 4, 4), (20, 4, 4, 3)])
def test_images_are_flattened_without_scaling(shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    flat = images.reshape(20, -1).astype(float)
    fitted = GaussianNB().fit(flat, np.arange(20) % 2)
    check_model(as_model(fitted), images)
    assert np.array_equal(as_model(fitted).classify(images).probs, fitted.predict_proba(flat))


def test_images_are_not_flattened_if_the_first_step_takes_them() -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 4, 5), dtype=np.uint8)
    flatten = FunctionTransformer(lambda batch: batch.reshape(len(batch), -1) / 255)
    fitted = make_pipeline(flatten, GaussianNB()).fit(images, np.arange(20) % 2)
    assert np.array_equal(as_model(fitted).classify(images).probs, fitted.predict_proba(images))


def test_images_of_another_size_raise() -> None:
    fitted = GaussianNB().fit(ROWS, ANIMALS)
    with pytest.raises(InputError, match=r"rows of 4 numbers; images of shape \(5, 5\) have 25"):
        as_model(fitted).classify(np.zeros((2, 5, 5), dtype=np.uint8))


def test_vectors_for_an_estimator_fitted_on_names_do_not_warn() -> None:
    fitted = GaussianNB().fit(pd.DataFrame(ROWS, columns=list("abcd")), ANIMALS)
    assert np.array_equal(
        as_model(fitted).classify(ROWS).probs, GaussianNB().fit(ROWS, ANIMALS).predict_proba(ROWS)
    )


def test_table_columns_are_selected_by_name() -> None:
    frame = pd.DataFrame({"age": ROWS[:, 0], "colour": ANIMALS})
    encode = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    fitted = encode.fit(frame[["colour"]], ANIMALS)
    table = pa.table({"extra": ROWS[:, 1], "colour": ANIMALS.tolist(), "age": ROWS[:, 0]})
    check_model(as_model(fitted), table)
    assert (
        as_model(fitted).classify(table).classes == np.searchsorted(["cat", "cow", "dog"], ANIMALS)
    ).all()
    with pytest.raises(InputError, match=r"no column 'colour'.*Columns: extra, age"):
        as_model(fitted).classify(table.drop_columns(["colour"]))


def test_tables_become_matrices_for_unnamed_features() -> None:
    fitted = GaussianNB().fit(ROWS, ANIMALS)
    table = pa.table({name: ROWS[:, j] for j, name in enumerate("abcd")})
    assert np.array_equal(as_model(fitted).classify(table).probs, fitted.predict_proba(ROWS))
    with pytest.raises(InputError, match=r"'GaussianNB' takes a numeric array.*'e' is not numeric"):
        as_model(fitted).classify(table.append_column("e", pa.array(ANIMALS.tolist())))


def test_text_pipelines_receive_the_list() -> None:
    texts = toy_inputs("text", n=8)
    fitted = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, np.arange(8) % 2)
    check_model(as_model(fitted), texts)


def test_prepare_replaces_the_conversion() -> None:
    fitted = GaussianNB().fit(ROWS, ANIMALS)
    model = SklearnModel(fitted, prepare=lambda rows: rows[:, :4])
    assert model.classify(np.hstack([ROWS, ROWS])).n == 30


def test_duck_typed_estimators_are_accepted() -> None:
    class Foreign:
        classes_ = np.array(["a", "b"])

        def predict_proba(self, rows: Any) -> Any:
            return np.full((len(rows), 2), 0.5)

    assert as_model(Foreign()).classify(ROWS).class_names == ("a", "b")
