"""Check the node arrays of scikit-learn's trees, because its compiled code does not check them.

A changed file could contain a tree whose nodes refer to positions outside of its arrays. Prediction
would then read other memory of the process or not end. Files of trees are opened without being
declared trusted, so their nodes are checked first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from oodometer.core.array_types import Bools, Ints
from oodometer.core.errors import InputError


def check_trees(model: Any) -> None:
    """Raise if a tree inside a fitted model has an invalid node."""
    for owner in _iter_fitted(model, set()):
        n_features = getattr(owner, "n_features_in_", 0)
        if hasattr(owner, "tree_"):
            tree = owner.tree_
            _check_children(tree.children_left, tree.children_right, tree.children_left < 0)
            _check_below(tree.feature[tree.children_left >= 0], min(n_features, tree.n_features))
        for predictor in _tree_predictors(owner):
            nodes = predictor.nodes
            is_leaf = nodes["is_leaf"].astype(bool)
            _check_children(nodes["left"], nodes["right"], is_leaf)
            _check_below(nodes["feature_idx"][~is_leaf], n_features)
            categorical = ~is_leaf & nodes["is_categorical"].astype(bool)
            _check_below(
                nodes["bitset_idx"][categorical],
                min(len(predictor.raw_left_cat_bitsets), len(predictor.binned_left_cat_bitsets)),
            )


def _iter_fitted(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield every scikit-learn object inside a model, such as steps and members of ensembles."""
    if id(value) in seen:
        return
    seen.add(id(value))
    children: Any = ()
    if isinstance(value, dict):
        children = value.values()
    elif isinstance(value, list | tuple | set):
        children = value
    elif isinstance(value, np.ndarray):
        children = value.ravel().tolist() if value.dtype == object else ()
    elif type(value).__module__.startswith("sklearn."):
        yield value
        children = getattr(value, "__dict__", {}).values()
    for child in children:
        yield from _iter_fitted(child, seen)


def _tree_predictors(owner: Any) -> Iterator[Any]:
    for iteration in getattr(owner, "_predictors", ()):
        yield from iteration


def _check_children(left: Ints, right: Ints, is_leaf: Bools) -> None:
    """Raise unless the children of each inner node come after it, and inside of the tree."""
    nodes = np.flatnonzero(~is_leaf)
    for children in (left[nodes].astype(np.int64), right[nodes].astype(np.int64)):
        if (children <= nodes).any() or (children >= len(is_leaf)).any():
            raise _invalid_tree()


def _check_below(values: Ints, limit: int) -> None:
    if (values.astype(np.int64) < 0).any() or (values.astype(np.int64) >= limit).any():
        raise _invalid_tree()


def _invalid_tree() -> InputError:
    return InputError(
        "The file contains a tree with invalid nodes, so it is damaged or was changed. Save the "
        "model again with skops.io.dump."
    )
