"""Groups as they are declared: tables of TOML to sources, each key checked.

[groups.sites]
classes = ["cat", "dog"]        # or classes_of = "north": the names of its folders
kind = "images"                 # optional, as are shape, root and about
[groups.sites.domains.north]
reader = "folder"               # a reader and its settings, or a list of such: the first that
path = "north/"                 # is there is read
test = "north_test/"            # optional: what of the settings differs for testing
share = 0.2                     # optional: the share that is held out where no test is named

What all domains share stands in `each`, where {domain} is a domain's name; `domains` may then be
a list of names. A domain that is made of another has `of`, `change` and its settings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import INPUT_KINDS, InputKind
from oodometer.studies._toml import TomlTable, build_member, check_keys, check_type, require_table
from oodometer.studies.domains.reader_registry import READERS
from oodometer.studies.domains.row_sources import TEST_SHARE, DerivedDomain, DomainFiles
from oodometer.studies.domains.synthetic import DERIVATIONS

DomainOrigin = DomainFiles | DerivedDomain
GROUP_KEYS = ("kind", "classes", "classes_of", "shape", "root", "about", "each", "domains")
FILE_SOURCE_KEYS = ("reader", "test", "share", "rename")
DERIVED_DOMAIN_KEYS = ("of", "change", "part")


@dataclass(frozen=True)
class GroupDeclaration:
    """A group as its table says; a domain has one source or several, the first that is there."""

    kind: InputKind
    classes: tuple[str, ...]
    classes_of: str | None
    shape: tuple[int, ...] | None
    root: str | None
    about: str
    sources: tuple[tuple[str, tuple[DomainOrigin, ...]], ...]


def parse_group(table: Any, name: str) -> GroupDeclaration:
    """The group of a table; whatever is wrong with it is said with the place."""
    where = f"The group {name!r}"
    check_keys(require_table(table, where), GROUP_KEYS, f"key of {where.lower()}")
    sources = tuple(
        (domain, _parse_sources(table, domain, name)) for domain in _domain_names(table, where)
    )
    _check_derived(dict(sources), name)
    kind = table.get("kind", _default_kind(sources))
    if kind not in INPUT_KINDS:
        raise UnknownName("kind", str(kind), INPUT_KINDS)
    if "shape" in table and kind != "images":
        raise InputError(f"{where}: shape is for images, and it is of {kind}. Leave it out.")
    return GroupDeclaration(
        kind=kind,
        classes=_parse_classes(table, where),
        classes_of=check_type(table.get("classes_of"), str | None, "classes_of", where),
        shape=_parse_shape(table.get("shape"), where),
        root=check_type(table.get("root"), str | None, "root", where),
        about=check_type(table.get("about", ""), str, "about", where),
        sources=sources,
    )


def _check_derived(sources: Mapping[str, tuple[DomainOrigin, ...]], group: str) -> None:
    """A domain is made of one that is read from files: none is made of itself by a detour."""
    made = [one for few in sources.values() for one in few if isinstance(one, DerivedDomain)]
    read = [name for name, few in sources.items() if isinstance(few[0], DomainFiles)]
    for one in made:
        if "/" not in one.of and one.of not in read:
            raise UnknownName(f"domain of {group} that is read from files", one.of, read)


def _default_kind(sources: Iterable[tuple[str, tuple[DomainOrigin, ...]]]) -> InputKind:
    readers = (one.train for _, few in sources for one in few if isinstance(one, DomainFiles))
    return next((reader.kind for reader in readers), "images")


def _parse_classes(table: TomlTable, where: str) -> tuple[str, ...]:
    if ("classes" in table) == ("classes_of" in table):
        raise InputError(
            f"{where} needs classes, a list of names, or classes_of, the domain whose folders are "
            "the classes. Give one of them."
        )
    if "classes_of" in table:
        if table["classes_of"] not in _domain_names(table, where):
            raise UnknownName("domain", str(table["classes_of"]), _domain_names(table, where))
        return ()
    names: tuple[str, ...] = check_type(table["classes"], tuple[str, ...], "classes", where)
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError(
            f"{where}: classes must be two names or more, each once; got {list(names)}. Correct it."
        )
    return names


def _parse_shape(given: Any, where: str) -> tuple[int, ...] | None:
    shape: tuple[int, ...] | None = check_type(given, tuple[int, ...] | None, "shape", where)
    if shape is not None and (
        len(shape) not in (2, 3) or min(shape) < 1 or shape[2:] not in ((), (3,))
    ):
        raise InputError(
            f"{where}: shape must be [height, width] or [height, width, 3]; got {list(shape)}. "
            "Leave it out if all images have one."
        )  # fmt: skip
    return shape


def _domain_names(table: TomlTable, where: str) -> tuple[str, ...]:
    domains = table.get("domains")
    if not domains or not isinstance(domains, list | tuple | Mapping):
        raise InputError(
            f"{where} has no domains; one or more were expected, as tables or as a list of names."
        )
    names = tuple(domains)
    if not all(isinstance(one, str) for one in names) or len(set(names)) < len(names):
        raise InputError(f"{where}: domains must be names, each once; got {list(names)}.")
    return names


def _parse_sources(table: TomlTable, domain: str, group: str) -> tuple[DomainOrigin, ...]:
    """One source of every alternative, what all domains share being filled in."""
    domains = table["domains"]
    own = _as_list(domains[domain] if isinstance(domains, Mapping) else {})
    where = f"{group}/{domain}"
    shared = [_fill_template(one, domain) for one in _as_list(table.get("each", {}))]
    merged = [
        _merge_tables(require_table(base, where), require_table(top, where))
        for base in shared
        for top in own
    ]
    return tuple(_parse_source(one, where) for one in merged)


def _as_list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _fill_template(value: Any, domain: str) -> Any:
    """The same with the domain's name where {domain} stands."""
    if isinstance(value, str):
        return value.replace("{domain}", domain)
    if isinstance(value, Mapping):
        return {key: _fill_template(one, domain) for key, one in value.items()}
    return [_fill_template(one, domain) for one in value] if isinstance(value, list) else value


def _merge_tables(base: TomlTable, top: TomlTable) -> dict[str, Any]:
    """The settings of `top`, and of `base` what it does not say; `where` holds both."""
    merged = {**base, **top}
    if isinstance(base.get("where"), Mapping) and isinstance(top.get("where"), Mapping):
        merged["where"] = {**base["where"], **top["where"]}
    return merged


def _parse_source(table: TomlTable, where: str) -> DomainOrigin:
    if "of" in table or "change" in table:
        return _parse_derived(table, where)
    reader = _select_member(READERS, table, "reader", where)
    settings = {key: value for key, value in table.items() if key not in FILE_SOURCE_KEYS}
    test = table.get("test")
    held = {"path": test} if isinstance(test, str) else test
    share = check_type(table.get("share", TEST_SHARE), float, "share", where)
    if not 0 < share <= 1:
        raise InputError(f"{where}: share must be above 0 and at most 1; got {share}.")
    return DomainFiles(
        train=build_member(reader, settings, where, FILE_SOURCE_KEYS),
        test=None
        if held is None
        else build_member(
            reader, _merge_tables(settings, require_table(held, where)), where, FILE_SOURCE_KEYS
        ),
        share=share,
        rename=check_type(table.get("rename", {}), tuple[tuple[str, str], ...], "rename", where),
    )


def _parse_derived(table: TomlTable, where: str) -> DerivedDomain:
    maker = _select_member(DERIVATIONS, table, "change", where)
    settings = {key: value for key, value in table.items() if key not in DERIVED_DOMAIN_KEYS}
    part = check_type(table.get("part"), tuple[int, int] | None, "part", where)
    if part is not None and not 0 <= part[0] < part[1]:
        raise InputError(
            f"{where}: part must be [i, m], the i-th of m from 0; got {list(part)}. Count from 0."
        )
    of = check_type(table.get("of"), str, "of", where)
    return DerivedDomain(of, build_member(maker, settings, where, DERIVED_DOMAIN_KEYS), part)


def _select_member(members: Mapping[str, type], table: TomlTable, key: str, where: str) -> type:
    name = table.get(key)
    if name is None:
        raise InputError(f"{where} has no {key}. Name one of: {', '.join(members)}.")
    if name not in members:
        raise UnknownName(key, str(name), members)
    return members[name]


def read_group_tables(path: Path) -> dict[str, Any]:
    """The tables of the groups that a TOML file declares, by name."""
    try:
        stamp = path.stat().st_mtime_ns
    except OSError as error:
        raise InputError(
            f"There is no file {str(path)!r}. Give a TOML file with a table [groups.NAME]."
        ) from error
    return _parse_file(path, stamp)


@lru_cache(maxsize=8)
def _parse_file(path: Path, stamp: int) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(
            f"{path.name} can't be read as TOML: {error}. Correct it there."
        ) from error
    return get_group_tables(content)


def get_group_tables(content: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of the groups, by name; there is nothing else in a file of groups."""
    for key in content:
        if key != "groups":
            raise UnknownName("table of a file of groups", str(key), ["groups"])
    tables = content.get("groups")
    if not isinstance(tables, Mapping) or not tables:
        raise InputError("There is no group. Declare one: a table [groups.NAME] with its domains.")
    return dict(tables)
