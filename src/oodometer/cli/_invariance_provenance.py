"""What invariance and rank share for their pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oodometer.cli._provenance import provenance
from oodometer.core.errors import UnknownName

if TYPE_CHECKING:
    from oodometer.core.protocols import Dataset, Transform
    from oodometer.neighborhood._neighborhood_sampler import NeighborhoodSampler
    from oodometer.neighborhood.results import InvarianceResult

ExamplesModelName = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL", help="Model whose examples the report shows. [default: the first]"
    ),
]
# Settings of a transform that has learned can be long.
MAX_SETTINGS_CHARS = 500


def validate_model_name(name: str | None, models: Mapping[str, Any]) -> str | None:
    """The name that was given; one that no model has is refused."""
    if name is not None and name not in models:
        raise UnknownName("model", name, models)
    return name


def recreate_sampler(
    dataset: Dataset, transform: Transform, seed: int, reference: Dataset | None = None
) -> NeighborhoodSampler:
    """What draws the same neighborhoods once more."""
    from oodometer.neighborhood import prepare_transform
    from oodometer.neighborhood._neighborhood_sampler import NeighborhoodSampler

    known = dataset if reference is None else reference
    return NeighborhoodSampler(dataset, prepare_transform(transform, dataset, known, seed), seed)


def invariance_provenance(
    models: Iterable[str], seed: int, result: InvarianceResult | None
) -> dict[str, str]:
    """What is needed to get the same numbers again."""
    places = [Path(one) for one in models]
    facts = provenance([one for one in places if one.is_file()], seed=seed)
    facts |= {
        f"SHA-256 of the files in {one}": _folder_sha256(one) for one in places if one.is_dir()
    }
    if result is None:
        return facts
    settings = result.settings
    cut = settings if len(settings) <= MAX_SETTINGS_CHARS else f"{settings[:MAX_SETTINGS_CHARS]}…"
    return facts | {"Transform": cut, f"Fingerprint of {result.data}": result.fingerprint}


def _folder_sha256(folder: Path) -> str:
    """Of all files of a folder, one after another in the order of their names."""
    whole = hashlib.sha256()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        with path.open("rb") as stream:
            while block := stream.read(2**20):
                whole.update(block)
    return whole.hexdigest()
