"""Outputs that are read in pieces: folders, patterns, files too large to be read whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli._options import error_console, print_note
from oodometer.cli._runtime import make_runner
from oodometer.core.errors import InputError
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.assessment.conformal_interval import History
    from oodometer.assessment.streaming import EstimateOptions, StreamedAssessment
    from oodometer.core.predictions import Predictions
    from oodometer.data.prediction_files import PredictionColumns

StreamFiles = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Read files in batches, as is done with folders, patterns and files above 1 GB.",
    ),
]


@dataclass(frozen=True)
class FileReadOptions:
    """How files are read: whole where they can be, or in pieces, and by whom."""

    stream: bool = False
    workers: int = 0
    scheduler: str | None = None

    def should_stream(self, *paths: Path) -> bool:
        """Whether files must be read in pieces, or are wanted to be."""
        asked = self.stream or self.workers or self.scheduler is not None
        return bool(asked) or any(_is_large(path) for path in paths)

    def assess(
        self,
        source: Path,
        target: Path,
        columns: PredictionColumns,
        options: EstimateOptions,
        history: History | list[Predictions] | None,
    ) -> StreamedAssessment:
        """Read in pieces, and estimate."""
        from oodometer.assessment.streaming import ExecutionOptions, assess_streamed

        runner = make_runner(self.workers, self.scheduler)
        with terminal.progress_bar(error_console()) as progress:
            how = ExecutionOptions(runner, progress)
            found = assess_streamed(
                source, target, columns, options, history=history, execution=how
            )
        if found.n_labels == found.assessment.n_target:
            print_note(f"Every row of {target.name} has a label; they are not looked at.")
        return found


# As files are read unless something else is asked for.
DEFAULT_READ_OPTIONS = FileReadOptions()


def _is_large(path: Path) -> bool:
    from oodometer.assessment.streaming import is_large
    from oodometer.data.batch_reader import is_multi_file

    return is_multi_file(path) or (is_large(path) and path.suffix != ".npz")


def reject_other_models(other_models: tuple[Path, ...]) -> None:
    """Refuse what takes the rows of two models side by side."""
    if other_models:
        raise InputError(
            f"--other-model {other_models[0].name} can't be used where files are read in pieces, for rows of "
            "two models would have to be read side by side. Leave it out, or give smaller files."
        )


def describe_large_files(path: Path) -> dict[str, str]:
    """What is told of files that are too many or too large to be fingerprinted; else nothing."""
    from oodometer.data.batch_reader import find_files

    if not _is_large(path):
        return {}
    files = find_files(path)
    size = sum(file.stat().st_size for file in files)
    return {f"Files of {path}": f"{len(files):,}, of {size / 1e6:,.1f} MB together"}
