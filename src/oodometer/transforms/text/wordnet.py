"""Look up synonyms in the WordNet files (Miller, CACM 1995).

The index files are sorted, so a word is found by bisection of a memory-mapped file. Files are not
read in advance. Results are cached.
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
# English endings, and what replaces them in the base form of a word.
_ENDINGS = (("ies", "y"), ("ied", "y"), ("es", ""), ("s", ""), ("ed", ""), ("ed", "e"),
            ("ing", ""), ("ing", "e"))  # fmt: skip
_MIN_STEM_LETTERS = 3


def find_wordnet(folder: Path | None = None) -> Path | None:
    """Return the folder or zip file of WordNet; by default, search the usual locations.

    None is returned if the search finds no WordNet.
    """
    if folder is None:
        return next((path for path in _default_locations() if _is_complete(path)), None)
    if not _is_complete(Path(folder)):
        raise InputError(
            f"There is no WordNet in {str(folder)!r}; expected a folder or zip with index.noun, "
            "data.noun and so on. Install the package wordnet-base, or omit the setting."
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


def _is_complete(location: Path) -> bool:
    if location.is_dir():
        return all((location / name).is_file() for name in _FILE_NAMES)
    return (
        location.is_file()
        and zipfile.is_zipfile(location)
        and len(_archive_members(location)) == len(_FILE_NAMES)
    )


def _archive_members(location: Path) -> Mapping[str, str]:
    """Return a mapping from the names of the WordNet files in a zip to their paths in the zip."""
    with zipfile.ZipFile(location) as archive:
        inside = {name.rsplit("/", 1)[-1]: name for name in archive.namelist()}
    return {name: inside[name] for name in _FILE_NAMES if name in inside}


@lru_cache(maxsize=4)
def _open_files(location: Path) -> Mapping[str, FileBytes]:
    if location.is_dir():
        return {name: _memory_map(location / name) for name in _FILE_NAMES}
    members = _archive_members(location)
    with zipfile.ZipFile(location) as archive:
        return {name: archive.read(member) for name, member in members.items()}


def _memory_map(path: Path) -> FileBytes:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@lru_cache(maxsize=1 << 17)
def synonyms(location: Path, word: str) -> tuple[str, ...]:
    """Return the synonyms of a word, in lower case, in their base form, and sorted.

    The synonyms are all other single words in the word's synsets (sets of synonyms). If WordNet
    does not contain the word, its ending (plural, -ed, -ing) is removed first.
    """
    for stem in _stems(word.lower()):
        words = {other.lower() for other in _synset_words(location, stem)}
        if words:
            return tuple(sorted(words - {word.lower(), stem}))
    return ()


def _stems(word: str) -> Iterator[str]:
    """Yield the word and its possible base forms.

    >>> list(_stems("tried"))
    ['tried', 'try', 'tri', 'trie']
    """
    yield word
    for ending, start in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(start) >= _MIN_STEM_LETTERS:
            yield word[: len(word) - len(ending)] + start


def _synset_words(location: Path, lemma: str) -> Iterator[str]:
    files = _open_files(location)
    key = lemma.encode("utf-8", "replace")
    for part in _PARTS_OF_SPEECH:
        line = _find_line(files[f"index.{part}"], key)
        if line is not None:
            data = files[f"data.{part}"]
            for offset in _synset_offsets(line):
                yield from _single_words(data[offset : data.find(b"\n", offset)])


def _find_line(content: FileBytes, key: bytes) -> bytes | None:
    """Return the line of a sorted file that starts with the key and a space; None if none does."""
    prefix = key + b" "
    low, high = 0, len(content)
    while low < high:
        start = content.rfind(b"\n", low, (low + high) // 2) + 1 or low
        end = content.find(b"\n", start, high)
        end = high if end < 0 else end
        line = content[start:end]
        if line.startswith(prefix):
            return line
        low, high = (end + 1, high) if line < prefix else (low, start)
    return None


def _synset_offsets(line: bytes) -> list[int]:
    """Return the synset offsets in an index line.

    The offsets are the last fields of the line, and the third field is their number.

    >>> _synset_offsets(b"dog n 2 1 @ 2 1 02086723 10133978  ")
    [2086723, 10133978]
    """
    fields = line.split()
    return [int(field) for field in fields[len(fields) - int(fields[2]) :]]


def _single_words(line: bytes) -> list[str]:
    """Return the single words in a data line, without position markers such as (p).

    >>> _single_words(b"00001740 00 a 03 able 0 up_to 0 fit(p) 0 000 | having means")
    ['able', 'fit']
    """
    fields = line.split(b" ", 4)
    words = fields[4].split(b" ")[: 2 * int(fields[3], 16) : 2]
    # Phrases are omitted, because they would change more than one word.
    single = (word.split(b"(")[0] for word in words if b"_" not in word)
    return [word.decode("utf-8", "replace") for word in single]
