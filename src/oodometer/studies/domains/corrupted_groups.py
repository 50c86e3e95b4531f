"""Domain groups by name, those among them whose images are corrupted.

Groups are of the datasets family and corruptions of the metrics family, which know nothing of
each other: here they meet.
"""

from __future__ import annotations

from pathlib import Path

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.domains import group as groups
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.row_sources import DerivedDomain
from oodometer.studies.domains.synthetic import TransformedDomain
from oodometer.transforms import corruptions as corruption

# What the name of a group ends in whose domains are those of another, corrupted: ci10-c.
CORRUPTED_SUFFIX = "-c"


def get_group(name: str, *, root: str | Path | None = None) -> DomainGroup:
    """A built-in group; with -c behind its name, the same corrupted in every way.

    >>> get_group("pacs-c").domains[:2]
    ('art_painting/gaussian_noise-1', 'art_painting/gaussian_noise-2')
    """
    plain = name.removesuffix(CORRUPTED_SUFFIX)
    known = groups.available_names()
    if name in known or plain == name:
        return groups.get(name, root=root)
    if plain not in known:
        raise UnknownName("domain group", name, known)
    return corrupt_group(groups.get(plain, root=root))


def corrupt_group(group: DomainGroup, corruptions: str = "all", *, seed: int = 0) -> DomainGroup:
    """The group of all domains of another under all of some corruptions: photo/fog-3.

    `corruptions` is one, a kind of them (noise, blur, weather, digital) or all, with a severity
    behind it or at all five.

    >>> corrupt_group(get_group("pacs"), "fog-3").domains[0]
    'art_painting/fog-3'
    """
    if group.kind != "images":
        raise InputError(
            f"Only images can be corrupted; {group.name} is of {group.kind}. Name a group of images."
        )
    sources = tuple(
        (f"{domain}/{one.label}", (DerivedDomain(domain, TransformedDomain(one, seed)),))
        for domain in group.domains
        for one in corruption.parse_corruptions(corruptions)
    )
    return DomainGroup(
        f"{group.name}{CORRUPTED_SUFFIX}", group.kind, group.classes, sources, group.root, group.shape,
        f"{group.about}, corrupted", base=group,
    )  # fmt: skip
