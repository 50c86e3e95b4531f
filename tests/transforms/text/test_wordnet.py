from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.transforms.text.wordnet import _default_locations, _find_line, find_wordnet, synonyms

REAL = Path("/usr/share/wordnet")
NAMES = [f"{file}.{part}" for part in ("noun", "verb", "adj", "adv") for file in ("index", "data")]


def write_wordnet(folder: Path) -> Path:
    """Write a WordNet with three synsets of nouns and one of adjectives."""
    folder.mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_bytes(b"  1 a line of the licence\n")
    head = b"  1 a line of the licence\n"
    lines = [b"03 n 03 car 0 auto 0 motor_car 0 000 | it rolls",
             b"04 n 02 car 1 Wagon 0 000 | it rolls on rails",
             b"05 n 02 story 0 tale 0 000 | it is told"]  # fmt: skip
    data, offsets = head, []
    for line in lines:
        offsets.append(len(data))
        data += b"%08d %s  \n" % (len(data), line)
    (folder / "data.noun").write_bytes(data)
    one, two, three = offsets
    entries = {
        b"auto": [one],
        b"car": [one, two],
        b"motor_car": [one],
        b"story": [three],
        b"tale": [three],
        b"wagon": [two],
    }
    index = [b"%s n %d 1 @ %d 0 %s  \n" % (lemma, len(at), len(at), b" ".join(b"%08d" % a for a in at))
             for lemma, at in sorted(entries.items())]  # fmt: skip
    (folder / "index.noun").write_bytes(head + b"".join(index))
    good = b"%08d 00 a 02 good 0 well(p) 1 000 | fine  \n" % len(head)
    (folder / "data.adj").write_bytes(head + good)
    (folder / "index.adj").write_bytes(
        head + b"good a 1 0 1 1 %08d  \nwell a 1 0 1 1 %08d  \n" % (len(head), len(head))
    )
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_wordnet(tmp_path / "wordnet")


def test_synonyms_are_single_words_of_all_synsets(tiny: Path) -> None:
    assert synonyms(tiny, "car") == ("auto", "wagon")
    assert synonyms(tiny, "GOOD") == ("well",)
    assert synonyms(tiny, "unheard") == synonyms(tiny, "日本") == ()


def test_endings_are_removed_from_unknown_words(tiny: Path) -> None:
    assert synonyms(tiny, "Cars") == ("auto", "wagon")
    assert synonyms(tiny, "stories") == ("tale",)
    assert synonyms(tiny, "storied") == ("tale",)


def test_zip_gives_the_same_synonyms(tiny: Path, tmp_path: Path) -> None:
    archive = tmp_path / "wordnet.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in NAMES:
            file.write(tiny / name, f"wordnet/{name}")
    assert find_wordnet(archive) == archive
    assert synonyms(archive, "car") == synonyms(tiny, "car")


def test_wordnet_is_found_in_the_nltk_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_wordnet(tmp_path / "corpora" / "wordnet")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path))
    places = list(_default_locations())
    assert folder in places
    monkeypatch.setattr(
        "oodometer.transforms.text.wordnet._default_locations", lambda: iter(places[1:])
    )
    assert find_wordnet() == folder


def test_folder_without_the_files_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no WordNet in .*; expected a folder .* Install"):
        find_wordnet(tmp_path)


@given(st.sets(st.text("abc_-", min_size=1, max_size=4)), st.text("abc_-", min_size=1, max_size=4))
def test_bisection_matches_a_linear_search(lemmas: set[str], expected: str) -> None:
    lines = sorted(f"{lemma} n 1".encode() for lemma in lemmas)
    pages = b"  1 licence\n" + b"".join(line + b"\n" for line in lines)
    slow = next((line for line in lines if line.split()[0] == expected.encode()), None)
    assert _find_line(pages, expected.encode()) == slow


def all_lines(path: Path) -> Iterator[bytes]:
    return (line for line in path.read_bytes().split(b"\n") if line and line[:1] != b" ")


@pytest.mark.skipif(not REAL.is_dir(), reason="the package wordnet-base is not installed")
def test_the_real_files() -> None:
    assert find_wordnet(REAL) == REAL
    assert {"auto", "automobile"} <= set(synonyms(REAL, "car"))
    assert "buy" in synonyms(REAL, "purchases")
    assert "film" in synonyms(REAL, "movies")
    for part in ("verb", "adv"):
        pages = (REAL / f"index.{part}").read_bytes()
        for line in list(all_lines(REAL / f"index.{part}"))[::37]:
            assert _find_line(pages, line.split()[0]) == line
