"""Outputs that are read in pieces: folders, patterns, files too large to be read whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli._options import errors, note
from oodometer.cli._run_options import runner_of
from oodometer.core.errors import InputError
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.assessment.conformal_interval import History
    from oodometer.assessment.streaming import Asked, Streamed
    from oodometer.core.predictions import Predictions
    from oodometer.data.prediction_files import Columns

Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Read files in pieces, as is done with folders, patterns and files above 1 GB.",
    ),
]
Workers = Annotated[
    int, typer.Option(help="Processes that read in pieces, a core each; 0 reads in this one.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="Read in pieces on a Dask cluster: tcp://host:8786.")
]


@dataclass(frozen=True)
class Reading:
    """How files are read: whole where they can be, or in pieces, and by whom."""

    stream: bool = False
    workers: int = 0
    scheduler: str | None = None

    def in_pieces(self, *paths: Path) -> bool:
        """Whether files must be read in pieces, or are wanted to be."""
        asked = self.stream or self.workers or self.scheduler is not None
        return bool(asked) or any(_is_large(path) for path in paths)

    def assessed(
        self,
        source: Path,
        target: Path,
        columns: Columns,
        asked: Asked,
        history: History | list[Predictions] | None,
    ) -> Streamed:
        """Read in pieces, and estimate."""
        from oodometer.assessment.streaming import How, streamed

        runner = runner_of(self.workers, self.scheduler)
        with terminal.progress_bar(errors()) as progress:
            how = How(runner, progress)
            found = streamed(source, target, columns, asked, history=history, how=how)
        if found.labels == found.assessment.n_target:
            note(f"Every row of {target.name} has a label; they are not looked at.")
        return found


# As files are read unless something else is asked for.
WHOLE = Reading()


def _is_large(path: Path) -> bool:
    from oodometer.assessment._streamed_source import is_large
    from oodometer.data._partitions import is_many

    return is_many(path) or (is_large(path) and path.suffix != ".npz")


def no_second(second: tuple[Path, ...]) -> None:
    """Refuse what takes the rows of two models side by side."""
    if second:
        raise InputError(
            f"--second {second[0].name} can't be used where files are read in pieces, for rows of "
            "two models would have to be read side by side. Leave it out, or give smaller files."
        )


def told(path: Path) -> dict[str, str]:
    """What is told of files that are too many or too large to be fingerprinted; else nothing."""
    from oodometer.data._partitions import located

    if not _is_large(path):
        return {}
    files = located(path)
    size = sum(file.stat().st_size for file in files)
    return {f"Files of {path}": f"{len(files):,}, of {size / 1e6:,.1f} MB together"}
