"""Translation there and back by Apertium, where its programs and a pair are installed.

Forcada et al., Machine Translation 2011: rules, no network, no weights.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import ClassVar

from oodometer.core.errors import InputError

TIMEOUT_SECONDS = 300.0
# What has a meaning in the stream between Apertium's programs.
_RESERVED = re.compile(r"([\[\]{}^$/\\@<>~])")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# A tagger may change its mind for good once it met a multiword it was not trained with, so every
# process starts with one: what it says of a text then hangs on that text alone. It also ends
# with it, so that no text that is translated to nothing is taken for the end.
_SENTINEL_TEXT = "a lot of"


@dataclass(frozen=True)
class Apertium:
    """Texts to a pivot language and back, by two of Apertium's modes (see `apertium -l`).

    Each direction is one process for all texts, which are kept apart by null characters, the
    one sign that Apertium flushes its state at.
    """

    pair: tuple[str, str] = ("eng-spa", "spa-eng")
    name: ClassVar[str] = "apertium"

    @staticmethod
    def is_installed() -> bool:
        """Whether there is a program of that name."""
        return shutil.which("apertium") is not None

    def __call__(self, texts: list[str]) -> list[str]:
        """Every text, there and back; a small first letter stays small."""
        there, back = self.pair
        returned = _translate(_translate(texts, there), back)
        return [_match_lowercase(text, new) for text, new in zip(texts, returned, strict=True)]


def _translate(texts: list[str], mode: str) -> list[str]:
    sent = [_SENTINEL_TEXT, *(text.replace("\0", " ") for text in texts), _SENTINEL_TEXT]
    # A full stop right before a null character would be lost.
    stream = "".join(_RESERVED.sub(r"\\\1", text) + "\n\0" for text in sent)
    # With the format "none" null characters go through; -u leaves out the marks of unknown words.
    answer = _run(["apertium", "-u", "-z", "-f", "none", mode], stream)
    # At its end each program of the pipe adds one more null character.
    parts = answer.rstrip("\0\n").split("\0")
    if len(parts) != len(sent):
        raise InputError(
            f"Apertium gave {len(parts)} texts for {len(sent)} in mode {mode!r}; as many were "
            "expected. Update Apertium, or give another translator."
        )
    return [_clean(part) for part in parts[1:-1]]


def _run(command: list[str], stream: str) -> str:
    given = stream.encode("utf-8", "replace")
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=TIMEOUT_SECONDS)
    except FileNotFoundError as error:
        raise InputError(
            "The program 'apertium' was not found; it was expected on the PATH. Install the "
            "packages apertium and apertium-eng-spa, or give another translator."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"Apertium took more than {TIMEOUT_SECONDS:.0f} s in mode {command[-1]!r}. "
            "Translate smaller batches."
        ) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing"]
        raise InputError(
            f"Apertium failed with code {done.returncode} in mode {command[-1]!r} and said: "
            f"{said[-1].strip()} Choose a pair of modes that `apertium -l` lists."
        )
    return done.stdout.decode("utf-8", "replace")


def _clean(part: str) -> str:
    r"""A translation as text: single blanks, no escapes.

    >>> _clean(" a  \\[b\\]")
    'a [b]'
    """
    return " ".join(_ESCAPED.sub(r"\1", part).split())


def _match_lowercase(text: str, new: str) -> str:
    """Apertium starts every text with a capital.

    >>> _match_lowercase("good", "Well"), _match_lowercase("Good", "Well")
    ('well', 'Well')
    """
    return new[:1].lower() + new[1:] if text[:1].islower() else new
