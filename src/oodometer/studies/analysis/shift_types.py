"""Types of shift, such as `real → artificial`, by the types of domains (Wenzel et al., Table S1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ARTIFICIAL = "artificial"
REAL = "real"
# Type of the domains of each task: one type for all domains, or the domains of type `real` (all
# others are artificial). Tasks are named as the built-in domain groups.
_ONE_TYPE: Mapping[str, str] = {
    "vlcs": REAL,
    "terra-incognita": REAL,
    "sviro": ARTIFICIAL,
    "camelyon17": REAL,
    "fmow": REAL,
    "iwildcam": REAL,
    "rxrx1": REAL,
}
_REAL_DOMAINS: Mapping[str, tuple[str, ...]] = {
    "pacs": ("photo",),
    "pacs-224": ("photo",),
    "domain-net": ("real",),
    "office-home": ("Product", "Real World"),
}


def domain_type(task: str, domain: str) -> str | None:
    """Return the type of a domain of a known task; None if the task is not known.

    >>> domain_type("pacs", "sketch"), domain_type("vlcs", "SUN09"), domain_type("mine", "photo")
    ('artificial', 'real', None)
    """
    if task in _REAL_DOMAINS:
        return REAL if domain in _REAL_DOMAINS[task] else ARTIFICIAL
    return _ONE_TYPE.get(task)


def shift_type(task: str, training: Sequence[str], target: str) -> str | None:
    """Return the type of shift from training domains to a target; None if it is not known.

    It is not known either if the training domains have different types.

    >>> shift_type("pacs", ["photo"], "sketch"), shift_type("pacs", ["photo", "sketch"], "cartoon")
    ('real → artificial', None)
    """
    sources = {domain_type(task, name) for name in training}
    source = sources.pop() if len(sources) == 1 else None
    end = domain_type(task, target)
    return f"{source} → {end}" if source and end else None
