"""Look up domain groups by name, including corrupted versions of image groups."""

from __future__ import annotations

from pathlib import Path

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.domains import group as groups
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.row_sources import DerivedDomain
from oodometer.studies.domains.synthetic import TransformedDomain
from oodometer.transforms import corruptions as corruption
from oodometer.transforms.corruptions import SeverityScale

# Suffix of the names of corrupted groups, as in ci10-c.
CORRUPTED_SUFFIX = "-c"


def get_group(
    name: str, *, root: str | Path | None = None, severities: SeverityScale = "published"
) -> DomainGroup:
    """Return a built-in group by name.

    If the name ends with -c, the group is a corrupted version of an image group: it has one domain
    for each combination of original domain, corruption and severity. `severities` is the scale of
    their severities.

    >>> get_group("pacs-c").domains[:2]
    ('art_painting/gaussian_noise-1', 'art_painting/gaussian_noise-2')
    """
    plain = name.removesuffix(CORRUPTED_SUFFIX)
    known = groups.available_names()
    if name in known or plain == name:
        return groups.get(name, root=root)
    if plain not in known:
        raise UnknownName("domain group", name, known)
    return corrupt_group(groups.get(plain, root=root), severities=severities)


def corrupt_group(
    group: DomainGroup,
    corruptions: str = "all",
    *,
    severities: SeverityScale = "published",
    seed: int = 0,
) -> DomainGroup:
    """Return a group with corrupted versions of all domains, such as photo/fog-3.

    `corruptions` is the name of a corruption, a category (noise, blur, weather, digital), or a set
    (standard, extra, all). A suffix selects one severity, as in fog-3; without a suffix all five
    severities are used. The fingerprints of the domains depend on the scale of the severities.

    >>> corrupt_group(get_group("pacs"), "fog-3").domains[0]
    'art_painting/fog-3'
    """
    if group.kind != "images":
        raise InputError(
            f"Only images can be corrupted; {group.name} holds {group.kind}. Choose a group of images."
        )
    sources = tuple(
        (f"{domain}/{change.label}", (DerivedDomain(domain, TransformedDomain(change, seed)),))
        for domain in group.domains
        for change in corruption.parse_corruptions(corruptions, severities=severities)
    )
    return DomainGroup(
        name=f"{group.name}{CORRUPTED_SUFFIX}",
        kind=group.kind,
        classes=group.classes,
        sources=sources,
        root=group.root,
        shape=group.shape,
        about=f"{group.about}, corrupted",
        base=group,
        members=group.members,
    )
