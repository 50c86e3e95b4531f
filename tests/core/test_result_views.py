"""Views that all results share: short text, data frame, and the module that renders the rest."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import polars as pl
import pytest

import oodometer
from oodometer.core.errors import MissingExtra, UnknownName
from oodometer.core.result_views import ResultViews, TableRows, make_frame
from oodometer.studies import MeasureComparison
from oodometer.studies.analysis import AnalysisResult

RESULTS = (
    oodometer.Assessment,
    oodometer.Evaluation,
    oodometer.InvarianceResult,
    oodometer.Measurements,
    oodometer.Ranking,
    MeasureComparison,
    AnalysisResult,
)
ROWS: TableRows = [{"name": "a", "value": 1.5}, {"name": "b", "value": None}]


@dataclass(frozen=True, repr=False)
class Example(ResultViews):
    name: str = "x"
    data: Any = None

    renderer: ClassVar[str] = "no_such_module"
    transient_fields: ClassVar[tuple[str, ...]] = ("data",)

    def key_values(self) -> dict[str, Any]:
        return {"name": self.name, "value": 1 / 3, "ends": (0.25, None)}

    def tables(self) -> dict[str, TableRows]:
        return {"main": ROWS, "empty": []}


@pytest.mark.parametrize("result", RESULTS)
def test_named_renderer_exists_and_has_all_functions(result: type[ResultViews]) -> None:
    assert issubclass(result, ResultViews)
    renderer = importlib.import_module(result.renderer)
    for name in ("notebook_html", "write_report", "draw_chart"):
        assert callable(getattr(renderer, name)), name


def test_repr_is_short_and_names_are_cut() -> None:
    assert repr(Example()) == "Example(name='x', value=0.3333, ends=(0.25, None))"
    assert repr(Example("y" * 10_000)).startswith("Example(name='yyy")
    assert len(repr(Example("y" * 10_000))) < 100


def test_frame_is_the_main_table_or_a_named_one() -> None:
    pd.testing.assert_frame_equal(Example().to_frame(), pd.DataFrame(ROWS))
    assert Example().to_frame("empty").empty
    with pytest.raises(UnknownName, match=r"No table is called 'other'\. There are: main, empty"):
        Example().to_frame("other")


def test_frame_is_polars_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    frame = make_frame(ROWS)
    assert isinstance(frame, pl.DataFrame)
    assert frame.to_dicts() == ROWS


def test_missing_frame_library_is_reported_with_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"pip install \"oodometer\[tables\]\""):
        make_frame(ROWS)


def test_transient_fields_are_left_out_when_pickled() -> None:
    state = Example(data=[1, 2, 3]).__getstate__()
    assert state == {"name": "x", "data": None}
