"""TOML specification of a domain group: its domains, their files and classes.

[groups.sites]
classes = ["cat", "dog"]        # or classes_of = "north": use the folder names of this domain
kind = "images"                 # optional; shape, root and about are optional as well
[groups.sites.domains.north]
reader = "folder"               # name of the file reader
path = "north/"                 # setting of the reader; the other settings depend on the reader
test = "north_test/"            # optional: path (or a table of settings) of the test split
share = 0.2                     # optional: fraction of rows held out if `test` is missing

A domain can also be a list of such tables. They are alternatives, and the first one whose files
exist is read. Settings that all domains share can be written once in the table `each`, in which
{domain} is replaced by the name of the domain; `domains` can then be a list of names. A domain that
is derived from another domain has the keys `of` (the other domain) and `change` (the derivation),
and the settings of the derivation.

`classes` can also be the name of a built-in list, such as "objectnet". A name of a domain or of a
class with braces stands for several names: "fog-{1..5}", "{fog,snow}-{1..5}". In the settings of such
a domain, {1}, {2}, … are replaced by the value of the first, second, … pair of braces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import InputKind
from oodometer.studies._toml import (
    TABLE_ITEMS,
    AfterValidator,
    Field,
    StrictModel,
    Table,
    build,
    read_toml,
    validate,
)
from oodometer.studies.domains.class_lists import available_lists, get_class_list
from oodometer.studies.domains.reader_registry import READERS
from oodometer.studies.domains.row_sources import TEST_SHARE, DerivedDomain, DomainFiles
from oodometer.studies.domains.synthetic import DERIVATIONS

DomainOrigin = DomainFiles | DerivedDomain


def _expand_classes(classes: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(classes, str):
        if classes not in available_lists():
            raise ValueError(f"a list of names, or one of {', '.join(available_lists())}")
        return classes
    names = tuple(name for text in classes for name, _ in expand_braces(text))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError("a list of at least two different names")
    return names


def _check_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) not in (2, 3) or min(shape) < 1 or shape[2:] not in ((), (3,)):
        raise ValueError("[height, width] or [height, width, 3]")
    return shape


def _check_part(part: tuple[int, int]) -> tuple[int, int]:
    if not 0 <= part[0] < part[1]:
        raise ValueError("[i, m]: the i-th of m parts, counted from 0")
    return part


def _check_domains(domains: Any) -> Any:
    names = tuple(domains) if isinstance(domains, Mapping | tuple) else ()
    if not names or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise ValueError("a table of domains or a list of different names, at least one")
    expanded = {
        name: _fill_values(domains[text] if isinstance(domains, Mapping) else {}, values)
        for text in names
        for name, values in expand_braces(text)
    }
    if len(expanded) < sum(len(list(expand_braces(text))) for text in names):
        raise ValueError("a table or list in which all domains have different names")
    return expanded


def expand_braces(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield all names that a text with braces stands for, each with the values of the braces.

    >>> list(expand_braces("{fog,snow}-{1..2}"))[1:3]
    [('fog-2', ('fog', '2')), ('snow-1', ('snow', '1'))]
    >>> list(expand_braces("photo"))
    [('photo', ())]
    """
    before, opening, rest = text.partition("{")
    inside, closing, after = rest.partition("}")
    if not opening or not closing:
        yield text, ()
        return
    for value in _brace_values(inside):
        for name, values in expand_braces(after):
            yield f"{before}{value}{name}", (value, *values)


def _brace_values(inside: str) -> list[str]:
    first, dots, last = inside.partition("..")
    if dots and first.isdigit() and last.isdigit():
        return [str(number) for number in range(int(first), int(last) + 1)]
    return inside.split(",")


def _fill_values(settings: Any, values: tuple[str, ...]) -> Any:
    """Replace {1}, {2}, … in all texts of (nested) settings by the values of the braces."""
    for number, value in enumerate(values, start=1):
        settings = _replace_text(settings, f"{{{number}}}", value)
    return settings


class GroupKeys(StrictModel):
    """Keys of the table [groups.NAME] that declares a domain group."""

    domains: Annotated[Any, AfterValidator(_check_domains)]
    each: Any = Field(default_factory=dict)
    kind: InputKind | None = None
    classes: Annotated[str | tuple[str, ...], AfterValidator(_expand_classes)] | None = None
    classes_of: str | None = None
    shape: Annotated[tuple[int, ...], AfterValidator(_check_shape)] | None = None
    root: str | None = None
    about: str = ""


class FilesKeys(StrictModel):
    """Keys of a domain that is read from files, without the settings of its reader."""

    reader: str
    test: Any = None
    share: Annotated[float, Field(gt=0, le=1)] = TEST_SHARE
    rename: Annotated[tuple[tuple[str, str], ...], TABLE_ITEMS] = ()


class DerivedKeys(StrictModel):
    """Keys of a domain that is derived from another domain, without the derivation's settings."""

    of: str
    change: str
    part: Annotated[tuple[int, int], AfterValidator(_check_part)] | None = None


@dataclass(frozen=True)
class GroupDeclaration:
    """Validated declaration of a domain group.

    `sources` holds the name of each domain and its alternatives. An alternative is a set of files
    or a derivation from another domain; the first available alternative is read. `members` holds
    the ImageNet classes that each class consists of, as WordNet ids.
    """

    kind: InputKind
    classes: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    classes_of: str | None
    shape: tuple[int, ...] | None
    about: str
    sources: tuple[tuple[str, tuple[DomainOrigin, ...]], ...]


def parse_group(table: Any, name: str) -> GroupDeclaration:
    """Validate the table of a domain group; error messages name the group and the key."""
    where = f"the group {name!r}"
    group = validate(GroupKeys, table, where)
    sources = {domain: _parse_sources(group, domain, name) for domain in group.domains}
    _check_derived(sources, name)
    if (group.classes is None) == (group.classes_of is None):
        raise InputError(
            f"The group {name!r} needs either classes, a list of names, or classes_of, the domain whose "
            "folders are the classes."
        )
    if group.classes_of is not None and group.classes_of not in sources:
        raise UnknownName("domain", group.classes_of, sources)
    kind = group.kind or _default_kind(sources.values())
    if group.shape is not None and kind != "images":
        raise InputError(
            f"The group {name!r}: shape applies to images only, and the kind is {kind}."
        )
    listed = get_class_list(group.classes) if isinstance(group.classes, str) else None
    return GroupDeclaration(
        kind=kind,
        classes=tuple(group.classes or ()) if listed is None else listed.names,
        members=() if listed is None else listed.members,
        classes_of=group.classes_of,
        shape=group.shape,
        about=group.about,
        sources=tuple(sources.items()),
    )


def _check_derived(sources: Mapping[str, tuple[DomainOrigin, ...]], group: str) -> None:
    """Raise if a domain is derived from an unknown domain or from one that is itself derived."""
    read = [name for name, origins in sources.items() if isinstance(origins[0], DomainFiles)]
    for origins in sources.values():
        for origin in origins:
            if isinstance(origin, DerivedDomain) and "/" not in origin.of and origin.of not in read:
                raise UnknownName(f"domain of {group} that is read from files", origin.of, read)


def _default_kind(sources: Iterable[tuple[DomainOrigin, ...]]) -> InputKind:
    readers = (
        origin.train for origins in sources for origin in origins if isinstance(origin, DomainFiles)
    )
    return next((reader.kind for reader in readers), "images")


def _parse_sources(group: GroupKeys, domain: str, name: str) -> tuple[DomainOrigin, ...]:
    """Return the alternatives of a domain, each merged with the shared settings of `each`."""
    where = f"{name}/{domain}"
    own = group.domains[domain]
    alternatives = [
        (
            _require_table(_replace_text(shared, "{domain}", domain), where),
            _require_table(settings, where),
        )
        for shared in _as_list(group.each)
        for settings in _as_list(own)
    ]
    return tuple(_parse_source(_merge_tables(*tables), where) for tables in alternatives)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _require_table(value: Any, where: str) -> Table:
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a table of keys and values; got {value!r:.60}.")
    return value


def _replace_text(value: Any, old: str, new: str) -> Any:
    """Replace a part of every text of a (nested) value, keys included."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, Mapping):
        return {
            _replace_text(key, old, new): _replace_text(item, old, new)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_replace_text(item, old, new) for item in value]
    return value


def _merge_tables(base: Table, top: Table) -> dict[str, Any]:
    """Return `base` updated by `top`; if both have a table `where`, merge the two tables."""
    merged = {**base, **top}
    if isinstance(base.get("where"), Mapping) and isinstance(top.get("where"), Mapping):
        merged["where"] = {**base["where"], **top["where"]}
    return merged


def _parse_source(table: Table, where: str) -> DomainOrigin:
    if "of" in table or "change" in table:
        derived, settings = _split_keys(DerivedKeys, table, where)
        derivation = _select_member(DERIVATIONS, derived.change, "change", where)
        keys = DerivedKeys.model_fields
        return DerivedDomain(derived.of, build(derivation, settings, where, keys), derived.part)
    files, settings = _split_keys(FilesKeys, {"reader": "", **table}, where)
    reader = _select_member(READERS, files.reader, "reader", where)
    keys = FilesKeys.model_fields
    test = {"path": files.test} if isinstance(files.test, str) else files.test
    return DomainFiles(
        train=build(reader, settings, where, keys),
        test=None
        if test is None
        else build(reader, _merge_tables(settings, _require_table(test, where)), where, keys),
        share=files.share,
        rename=files.rename,
    )


def _split_keys(model: Any, table: Table, where: str) -> tuple[Any, dict[str, Any]]:
    """Return the keys of a pydantic model as a validated instance, and the other keys as a dict."""
    own = {key: value for key, value in table.items() if key in model.model_fields}
    rest = {key: value for key, value in table.items() if key not in model.model_fields}
    return validate(model, own, where), rest


def _select_member(members: Mapping[str, type], name: str, key: str, where: str) -> type:
    if not name:
        raise InputError(f"{where} has no {key}. Choose from: {', '.join(members)}.")
    if name not in members:
        raise UnknownName(key, name, members)
    return members[name]


def read_group_tables(path: Path) -> dict[str, Any]:
    """Read a TOML file; return the tables of the groups that it declares, keyed by group name."""
    modified = path.stat().st_mtime_ns if path.is_file() else 0
    return _read_group_tables(path, modified)


@lru_cache(maxsize=8)
def _read_group_tables(path: Path, modified: int) -> dict[str, Any]:
    return get_group_tables(read_toml(path))


def get_group_tables(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of all groups, keyed by group name; raise if there are other tables."""
    for key in content:
        if key != "groups":
            raise UnknownName("table of a file of groups", str(key), ["groups"])
    tables = content.get("groups")
    if not isinstance(tables, Mapping) or not tables:
        raise InputError("There is no group. Declare one: a table [groups.NAME] with its domains.")
    return dict(tables)
