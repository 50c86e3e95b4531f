"""What several estimators need of the same rows is made once, and goes when the rows go."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from oodometer.core.predictions import Predictions

CachedValue = TypeVar("CachedValue")
_CACHE: WeakKeyDictionary[Predictions, dict[Hashable, Any]] = WeakKeyDictionary()


def cached(predictions: Predictions, key: Hashable, make: Callable[[], CachedValue]) -> CachedValue:
    """What was made of these very rows under that key; made now where nothing was.

    Rows never change, so what was made of them stays true. The key tells all else it hangs on.

    >>> rows = Predictions.from_probs([[0.9, 0.1]])
    >>> cached(rows, "sum", lambda: 1), cached(rows, "sum", lambda: 2), cached(rows, "mean", lambda: 3)
    (1, 1, 3)
    """
    made = _CACHE.setdefault(predictions, {})
    if key not in made:
        made[key] = make()
    found: CachedValue = made[key]
    return found
