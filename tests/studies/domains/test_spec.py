"""Declarations of domain groups: shared settings, test files, and messages for invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.domains.array_files import NpzReader
from oodometer.studies.domains.reader_registry import ImageFolderReader
from oodometer.studies.domains.row_sources import DerivedDomain, DomainFiles
from oodometer.studies.domains.spec import get_group_tables, parse_group, read_group_tables
from oodometer.studies.domains.synthetic import Rotated
from oodometer.studies.domains.table_files import TableReader

TWO = ["cat", "dog"]
NORTH = {"reader": "folder", "path": "north"}


def group(**keys: Any) -> dict[str, Any]:
    return {"classes": TWO, "domains": {"north": NORTH}, **keys}


def sources(table: dict[str, Any]) -> dict[str, Any]:
    return dict(parse_group(table, "sites").sources)


def test_minimal_declaration_uses_defaults() -> None:
    found = parse_group(group(), "sites")
    assert (found.kind, found.classes, found.shape) == ("images", ("cat", "dog"), None)
    assert found.sources == (("north", (DomainFiles(ImageFolderReader("north")),)),)


def test_test_path_overrides_the_path_only() -> None:
    table = group(domains={"north": {**NORTH, "size": 8, "test": "held/", "share": 0.5}})
    assert sources(table)["north"] == (
        DomainFiles(ImageFolderReader("north", 8), ImageFolderReader("held/", 8), 0.5),
    )


def test_braces_stand_for_several_domains_and_classes() -> None:
    each = {"reader": "folder"}
    domains = {"{fog,snow}-{1..2}": {"path": "c/{1}/{2}/{domain}"}, "clean": {"path": "clean"}}
    found = sources(group(domains=domains, each=each))
    assert list(found) == ["fog-1", "fog-2", "snow-1", "snow-2", "clean"]
    assert found["snow-2"] == (DomainFiles(ImageFolderReader("c/snow/2/{domain}")),)
    listed = sources(group(domains=["{08..10}"], each={"reader": "folder", "path": "{domain}"}))
    assert [origins[0].train.path for origins in listed.values()] == ["8", "9", "10"]
    assert parse_group(group(classes=["{0..3}", "other"]), "sites").classes == (
        "0", "1", "2", "3", "other",
    )  # fmt: skip
    where = {"reader": "table", "path": "a.csv", "where": {"{1}": "1"}}
    found = sources(group(domains={"{male,female}": where}))
    assert found["female"][0].train.where == (("female", "1"),)


def test_classes_can_be_a_built_in_list() -> None:
    found = parse_group(group(classes="breeds-living-17"), "sites")
    assert found.classes[:2] == ("salamander", "turtle")
    assert len(found.members[0]) == 4
    assert parse_group(group(), "sites").members == ()


def test_own_settings_override_shared_ones() -> None:
    each = {
        "reader": "table",
        "path": "{domain}.csv",
        "text": "text",
        "where": {"domain": "{domain}", "split": "train"},
        "test": {"where": {"split": "test"}},
    }
    found = sources(group(domains=["a", "b"], each=each))
    where = (("domain", "b"), ("split", "train"))
    train = TableReader("b.csv", text="text", where=where)
    test = TableReader("b.csv", text="text", where=(("domain", "b"), ("split", "test")))
    assert found["b"] == (DomainFiles(train, test),)
    own = sources(group(domains={"a": {"path": "c.csv", "where": {"year": 1}}}, each=each))
    assert own["a"][0].train.path == "c.csv"
    assert dict(own["a"][0].train.where) == {"domain": "a", "split": "train", "year": 1}
    assert parse_group(group(domains=["a"], each=each), "sites").kind == "text"


def test_domain_can_have_alternative_sources() -> None:
    each = [{"reader": "npz", "path": "a.npz", "where": {"domain": "{domain}"}}, {"reader": "folder", "path": "{domain}"}]  # fmt: skip
    found = sources(group(domains=["a"], each=each))["a"]
    assert found == (
        DomainFiles(NpzReader("a.npz", where=(("domain", "a"),))),
        DomainFiles(ImageFolderReader("a")),
    )
    assert len(sources(group(domains={"a": [NORTH, NORTH]}))["a"]) == 2


def test_domain_can_be_derived_from_another() -> None:
    made = {"of": "north", "change": "rotated", "degrees": 15, "part": [1, 6]}
    found = sources(group(domains={"north": NORTH, "turned": made}))
    assert found["turned"] == (DerivedDomain("north", Rotated(15), (1, 6)),)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"domians": {}}, "Did you mean 'domains'?"),
        ({"domains": {"n": {"reader": "foldr", "path": "n"}}}, "No reader is called 'foldr'. Did you mean 'folder'?"),
        ({"domains": {"n": {**NORTH, "tset": "m"}}}, "No key of sites/n is called 'tset'. Did you mean 'test'?"),
        ({"domains": {"n": {**NORTH, "test": {"pth": "m"}}}}, "No key of sites/n is called 'pth'"),
        ({"domains": {"n": {"of": "n", "change": "rotated", "degrees": 1}}}, "that is read from files is called 'n'"),
        ({"domains": {"n": NORTH, "m": {"of": "o", "change": "painted"}}}, "is called 'o'"),
        ({"domains": {"n": NORTH, "m": {"of": "n", "change": "turned"}}}, "No change is called 'turned'"),
        ({"domains": {"n": NORTH, "m": {"of": "n", "change": "rotated", "angle": 3}}}, "is called 'angle'"),
    ],
)  # fmt: skip
def test_unknown_name_suggests_the_most_similar(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(UnknownName) as caught:
        parse_group(group(**keys), "sites")
    assert why in str(caught.value)


INVALID: list[tuple[dict[str, Any], str]] = [
        ({"kind": "image"}, "got 'image'. Did you mean 'images'?"),
        ({"classes": ["cat"]}, "classes of the group 'sites' must be a list of at least two different names"),
        ({"classes": ["cat", "cat"]}, "different names; got ['cat', 'cat']"),
        ({"classes": "cat"}, "classes of the group 'sites' must be a list of names, or one of imagenet, imagenet-200"),
        ({"domains": {"a-{1..2}": NORTH, "a-2": NORTH}}, "all domains have different names"),
        ({"classes_of": "north"}, "needs either classes, a list of names, or classes_of"),
        ({"domains": {}}, "domains of the group 'sites' must be a table of domains or a list of different names"),
        ({"domains": ["a", "a"]}, "a list of different names, at least one; got ['a', 'a']"),
        ({"domains": {"n": {"path": "n"}}}, "sites/n has no reader. Choose from: folder, idx"),
        ({"domains": {"n": {"reader": "folder"}}}, "sites/n has no key 'path'"),
        ({"domains": {"n": "north/"}}, "sites/n must be a table"),
        ({"domains": {"n": {**NORTH, "share": 0}}}, "share of sites/n must be above 0; got 0"),
        ({"domains": {"n": {**NORTH, "share": 1.5}}}, "share of sites/n must be at most 1; got 1.5"),
        ({"domains": {"n": {**NORTH, "skip_bad": "yes"}}}, "skip_bad of sites/n must be true or false; got 'yes'"),
        ({"domains": {"n": {**NORTH, "rename": {"a": 1}}}}, "rename of sites/n must be a table"),
        ({"shape": [32]}, "shape of the group 'sites' must be [height, width]"),
        ({"shape": [32, 32, 4]}, "or [height, width, 3]; got [32, 32, 4]"),
        ({"shape": [32, 32], "kind": "text"}, "shape applies to images only, and the kind is text"),
        ({"domains": {"n": NORTH, "m": {"of": "n", "change": "painted", "part": [3, 3]}}}, "part of sites/m must be [i, m]: the i-th of m parts, counted from 0; got [3, 3]"),
        ({"domains": {"n": NORTH, "m": {"change": "painted"}}}, "sites/m has no key 'of'"),
]  # fmt: skip


def test_errors_name_the_group_and_the_key_in_one_line() -> None:
    wrong = {}
    for keys, message in INVALID:
        with pytest.raises(InputError) as caught:
            parse_group(group(**keys), "sites")
        if message not in str(caught.value) or "\n" in str(caught.value):
            wrong[str(keys)] = str(caught.value)
    assert not wrong


def test_group_must_be_a_table_with_classes() -> None:
    with pytest.raises(InputError, match="The group 'sites' must be a table"):
        parse_group(3, "sites")
    with pytest.raises(InputError, match="The group 'sites' needs either classes"):
        parse_group({"domains": {"n": NORTH}}, "sites")
    with pytest.raises(UnknownName, match="No domain is called 'south'"):
        parse_group({"domains": {"north": NORTH}, "classes_of": "south"}, "sites")


def test_files_of_groups_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "sites.toml"
    with pytest.raises(InputError, match=r"There is no file .*sites\.toml'; expected a TOML file"):
        read_group_tables(path)
    path.write_text("[groups.a\n")
    with pytest.raises(InputError, match=r"sites\.toml' is not valid TOML"):
        read_group_tables(path)
    with pytest.raises(UnknownName, match=r"is called 'group'. Did you mean 'groups'\?"):
        get_group_tables({"group": {}})
    nothing: list[dict[str, Any]] = [{}, {"groups": {}}, {"groups": 3}]
    for empty in nothing:
        with pytest.raises(InputError, match=r"There is no group\. Declare one"):
            get_group_tables(empty)
