"""Views of a result: short text, data frame, HTML for notebooks, HTML report and Altair chart.

A result class knows its own numbers, and a module of a higher layer knows how to draw them. The
class therefore names that module in `renderer`, and the module is imported by this name when a view
is requested. No package imports a higher layer, and a result that is never shown imports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from oodometer.core.errors import MissingExtra, UnknownName

TableRows = list[dict[str, Any]]
# Maximum length of a name, with its quotes, in the short text of a result.
MAX_REPR_CHARS = 40


class Renderer(Protocol):
    """Functions of the module that `ResultViews.renderer` names."""

    def notebook_html(self, result: Any) -> str:
        """Return a fragment of HTML that needs no script and no other file."""
        ...

    def write_report(self, result: Any, path: str | Path, *, title: str | None) -> None:
        """Write the complete HTML report."""
        ...

    def draw_chart(self, result: Any, kind: str | None) -> Any:
        """Return an Altair chart; without a kind, the main chart."""
        ...


class ResultViews:
    """Base class of results that notebooks can show.

    A subclass sets `renderer` and implements `key_values` and `tables`. `transient_fields` are
    fields that hold the inputs of a computation; they are left out when the result is pickled.
    """

    renderer: ClassVar[str]
    transient_fields: ClassVar[tuple[str, ...]] = ()

    def key_values(self) -> Mapping[str, Any]:
        """Return the few values by which the result is recognized, for its short text."""
        raise NotImplementedError

    def tables(self) -> Mapping[str, TableRows]:
        """Return the tables of the result by name, the main table first; a row is a dictionary."""
        raise NotImplementedError

    def to_frame(self, table: str | None = None) -> Any:
        """Return a table of the result as a data frame.

        Parameters
        ----------
        table : str, optional
            Name of the table; the error for an unknown name lists all names. Default: the main
            table.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            A pandas frame if pandas is installed, otherwise a polars frame.

        Raises
        ------
        UnknownName
            If there is no such table.
        MissingExtra
            If neither pandas nor polars is installed.
        """
        tables = self.tables()
        name = next(iter(tables)) if table is None else table
        if name not in tables:
            raise UnknownName("table", name, tables)
        return make_frame(tables[name])

    def to_html(self, path: str | Path, *, title: str | None = None) -> None:
        """Write the HTML report of the result: one file that needs no network connection.

        Parameters
        ----------
        path : str or Path
            File to write; an existing file is replaced.
        title : str, optional
            Title of the report.

        Raises
        ------
        InputError
            If the file cannot be written, or the result no longer holds the data that it was
            computed from, because it was pickled.
        MissingExtra
            If altair or vl-convert is missing (extra `report`).
        """
        self._renderer.write_report(self, path, title=title)

    def chart(self, kind: str | None = None) -> Any:
        """Return a chart of the result.

        Parameters
        ----------
        kind : str, optional
            Kind of the chart; the error for an unknown kind lists all kinds. Default: the main
            chart.

        Returns
        -------
        altair.Chart
            Chart that notebooks show, and that can be changed or saved.

        Raises
        ------
        UnknownName
            If there is no such kind of chart.
        NotApplicable
            If the result does not have the data of this chart.
        MissingExtra
            If altair is missing (extra `report`).
        """
        return self._renderer.draw_chart(self, kind)

    @property
    def _renderer(self) -> Renderer:
        return cast(Renderer, import_module(self.renderer))

    def _repr_html_(self) -> str:
        """Return the result as HTML, which notebooks show."""
        return self._renderer.notebook_html(self)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_short(value)}" for name, value in self.key_values().items())
        return f"{type(self).__name__}({values})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **dict.fromkeys(self.transient_fields)}


def _short(value: Any) -> str:
    """Return a value as short text: numbers with four digits, long names with an ellipsis.

    >>> _short(0.123456), _short((0.5, 2 / 3)), _short(None), len(_short("x" * 99))
    ('0.1235', '(0.5, 0.6667)', 'None', 40)
    """
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return f"({', '.join(_short(item) for item in value)})"
    text = repr(value)
    is_long = len(text) > MAX_REPR_CHARS
    return f"{text[: MAX_REPR_CHARS - 2]}…{text[-1]}" if is_long else text


def make_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a pandas frame, or as a polars frame if pandas is not installed."""
    for module, options in (("pandas", {}), ("polars", {"infer_schema_length": None})):
        try:
            return import_module(module).DataFrame(list(rows), **options)
        except ModuleNotFoundError:
            continue
    raise MissingExtra(
        "to_frame() needs the package 'pandas' or 'polars', and neither is installed. "
        'Install pandas with: pip install "oodometer[tables]"'
    )
