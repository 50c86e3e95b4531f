"""Synonyms from the files of WordNet. Miller, CACM 1995.

The index files are sorted, so a word is found by bisection of the mapped file: nothing is read
beforehand, and what was looked up is remembered.
"""

from __future__ import annotations

import mmap
import os
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from oodometer.core.errors import InputError

FileBytes = bytes | mmap.mmap

_PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
_FILE_NAMES = tuple(f"{file}.{part}" for part in _PARTS_OF_SPEECH for file in ("index", "data"))
# What an English ending may stand for. The shortest stem is of three letters.
_ENDINGS = (("ies", "y"), ("ied", "y"), ("es", ""), ("s", ""), ("ed", ""), ("ed", "e"),
            ("ing", ""), ("ing", "e"))  # fmt: skip
_MIN_STEM_LETTERS = 3


def find_wordnet(folder: Path | None = None) -> Path | None:
    """The folder (or zip) of the WordNet files: the one given, or the first of the usual places."""
    if folder is None:
        return next((place for place in _default_locations() if _is_complete(place)), None)
    if not _is_complete(Path(folder)):
        raise InputError(
            f"There is no WordNet in {str(folder)!r}: a folder (or zip) with index.noun, data.noun "
            "and the like was expected. Install the package wordnet-base, or leave the setting out."
        )
    return Path(folder)


def _default_locations() -> Iterator[Path]:
    yield Path("/usr/share/wordnet")
    named = [Path(root) for root in os.environ.get("NLTK_DATA", "").split(os.pathsep) if root]
    usual = [Path("~").expanduser() / "nltk_data"]
    shared = [Path("/usr/share/nltk_data"), Path("/usr/local/share/nltk_data")]
    for root in named + usual + shared:
        yield root / "corpora" / "wordnet"
        yield root / "corpora" / "wordnet.zip"


def _is_complete(place: Path) -> bool:
    if place.is_dir():
        return all((place / name).is_file() for name in _FILE_NAMES)
    return (
        place.is_file()
        and zipfile.is_zipfile(place)
        and len(_archive_members(place)) == len(_FILE_NAMES)
    )


def _archive_members(place: Path) -> Mapping[str, str]:
    """The wanted files of a zip, by name alone."""
    with zipfile.ZipFile(place) as archive:
        inside = {name.rsplit("/", 1)[-1]: name for name in archive.namelist()}
    return {name: inside[name] for name in _FILE_NAMES if name in inside}


@lru_cache(maxsize=4)
def _open_files(place: Path) -> Mapping[str, FileBytes]:
    if place.is_dir():
        return {name: _memory_map(place / name) for name in _FILE_NAMES}
    members = _archive_members(place)
    with zipfile.ZipFile(place) as archive:
        return {name: archive.read(member) for name, member in members.items()}


def _memory_map(path: Path) -> FileBytes:
    if path.stat().st_size == 0:  # an empty file can't be mapped
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@lru_cache(maxsize=1 << 17)
def synonyms(location: Path, word: str) -> tuple[str, ...]:
    """The other single words of all synsets of a word, or of its stem, in lower case, sorted.

    An ending (plural, -ed, -ing) is taken off where the word itself is unknown; the synonyms are
    given as they are, without it.
    """
    for stem in _stems(word.lower()):
        found = {other.lower() for other in _synset_words(location, stem)}
        if found:
            return tuple(sorted(found - {word.lower(), stem}))
    return ()


def _stems(word: str) -> Iterator[str]:
    """The word, and what it may be an ending of.

    >>> list(_stems("tried"))
    ['tried', 'try', 'tri', 'trie']
    """
    yield word
    for ending, start in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(start) >= _MIN_STEM_LETTERS:
            yield word[: len(word) - len(ending)] + start


def _synset_words(place: Path, lemma: str) -> Iterator[str]:
    files = _open_files(place)
    key = lemma.encode("utf-8", "replace")
    for part in _PARTS_OF_SPEECH:
        line = _find_line(files[f"index.{part}"], key)
        if line is not None:
            data = files[f"data.{part}"]
            for offset in _synset_offsets(line):
                yield from _single_words(data[offset : data.find(b"\n", offset)])


def _find_line(content: FileBytes, key: bytes) -> bytes | None:
    """The line of a sorted file that starts with the key and a blank."""
    wanted = key + b" "
    low, high = 0, len(content)
    while low < high:
        start = content.rfind(b"\n", low, (low + high) // 2) + 1 or low
        end = content.find(b"\n", start, high)
        end = high if end < 0 else end
        line = content[start:end]
        if line.startswith(wanted):
            return line
        low, high = (end + 1, high) if line < wanted else (low, start)
    return None


def _synset_offsets(line: bytes) -> list[int]:
    """Where the synsets of an index line are: its last numbers, as many as the third field says.

    >>> _synset_offsets(b"dog n 2 1 @ 2 1 02086723 10133978  ")
    [2086723, 10133978]
    """
    fields = line.split()
    return [int(field) for field in fields[len(fields) - int(fields[2]) :]]


def _single_words(line: bytes) -> list[str]:
    """The single words of a data line; adjectives may have a mark of their place, such as (p).

    >>> _single_words(b"00001740 00 a 03 able 0 up_to 0 fit(p) 0 000 | having means")
    ['able', 'fit']
    """
    fields = line.split(b" ", 4)
    words = fields[4].split(b" ")[: 2 * int(fields[3], 16) : 2]
    # A phrase in the place of a word would be more than one word changed.
    single = (word.split(b"(")[0] for word in words if b"_" not in word)
    return [word.decode("utf-8", "replace") for word in single]
