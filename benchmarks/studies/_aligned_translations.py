"""Neighborhoods of existing back-translations: pairs of texts with other wordings of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams

Pair = tuple[str, str]


@dataclass(frozen=True)
class Aligned(Transform):
    """Transform whose j-th draw is the j-th other wording of a pair; `source` names their origin."""

    source: str
    # The key of every stored value contains the settings that `repr` shows.
    others: Mapping[Pair, tuple[Pair, ...]] = field(compare=False, repr=False)
    magnitude: float = 1.0

    name: ClassVar[str] = "backtranslate-aligned"
    label: ClassVar[str] = "BT"
    kinds: ClassVar[tuple[InputKind, ...]] = ("pairs",)
    assumes: ClassVar[str] = "the translation preserves the class"

    def __repr__(self) -> str:
        """Return a short form without the texts; it is stored with every value."""
        return f"Aligned({self.source!r}, {len(self.others)} pairs)"

    def apply(self, inputs: Any, draws: RowStreams) -> Any:
        """Return another wording of every pair."""
        found = []
        for pair, number in zip(inputs, draws.draw_index.tolist(), strict=True):
            known = self.others.get(tuple(pair), ())
            if not known:
                raise NotApplicable(f"{pair[0]!r:.60} has no translation ({self.source})")
            if number > len(known):
                raise InputError(
                    f"{pair[0]!r} has {len(known)} other wordings, but draw {number} was requested. "
                    f"Set draws to at most {len(known)}."
                )
            found.append(known[number - 1])
        return found
