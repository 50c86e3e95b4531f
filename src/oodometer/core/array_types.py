"""Type aliases of arrays and scores."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
ScoreType = Literal["probs", "logits"]
