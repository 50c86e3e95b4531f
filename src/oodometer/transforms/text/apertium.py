"""Round-trip translation by Apertium, a rule-based system (Forcada et al., Machine Translation 2011).

Apertium and a language pair must be installed; no network and no weights are needed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import ClassVar

from oodometer.core.errors import InputError

TIMEOUT_SECONDS = 300.0
# Characters with a meaning in the stream format of Apertium.
_RESERVED = re.compile(r"([\[\]{}^$/\\@<>~])")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# The state of a tagger can change permanently once it meets a multiword unit that it was not trained
# on. Every process starts with one, so that a translation depends on its text only, and ends with
# one, so that an empty last translation is not mistaken for the end.
_SENTINEL_TEXT = "a lot of"


@dataclass(frozen=True)
class Apertium:
    """Round-trip translator that uses two modes of Apertium (see `apertium -l`).

    Each direction is one process for all texts. The texts are separated by null characters, at
    which Apertium flushes its state.
    """

    pair: tuple[str, str] = ("eng-spa", "spa-eng")
    name: ClassVar[str] = "apertium"

    @staticmethod
    def is_installed() -> bool:
        return shutil.which("apertium") is not None

    def __call__(self, texts: list[str]) -> list[str]:
        """Translate every text to the pivot language and back; keep lower-case first letters."""
        forward, backward = self.pair
        translated = _translate(_translate(texts, forward), backward)
        return [_match_lowercase(text, new) for text, new in zip(texts, translated, strict=True)]


def _translate(texts: list[str], mode: str) -> list[str]:
    sent = [_SENTINEL_TEXT, *(text.replace("\0", " ") for text in texts), _SENTINEL_TEXT]
    # A full stop right before a null character would be lost.
    stream = "".join(_RESERVED.sub(r"\\\1", text) + "\n\0" for text in sent)
    # The format "none" passes null characters through; -u omits the marks of unknown words.
    output = _run(["apertium", "-u", "-z", "-f", "none", mode], stream)
    # Each program of the pipe appends a null character.
    parts = output.rstrip("\0\n").split("\0")
    if len(parts) != len(sent):
        raise InputError(
            f"Apertium returned {len(parts)} texts for {len(sent)} in mode {mode!r}. Update Apertium, "
            "or choose another translator."
        )
    return [_clean(part) for part in parts[1:-1]]


def _run(command: list[str], stream: str) -> str:
    content = stream.encode("utf-8", "replace")
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=TIMEOUT_SECONDS)
    except FileNotFoundError as error:
        raise InputError(
            "The program 'apertium' is not on the PATH. Install the packages apertium and "
            "apertium-eng-spa, or choose another translator."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"Apertium took more than {TIMEOUT_SECONDS:.0f} s in mode {command[-1]!r}. "
            "Translate smaller batches."
        ) from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise InputError(
            f"Apertium failed with code {done.returncode} in mode {command[-1]!r}: "
            f"{lines[-1].strip()} Choose a pair of modes that `apertium -l` lists."
        )
    return done.stdout.decode("utf-8", "replace")


def _clean(part: str) -> str:
    r"""Collapse white space and remove escapes.

    >>> _clean(" a  \\[b\\]")
    'a [b]'
    """
    return " ".join(_ESCAPED.sub(r"\1", part).split())


def _match_lowercase(text: str, new: str) -> str:
    """Restore a lower-case first letter; Apertium capitalizes every text.

    >>> _match_lowercase("good", "Well"), _match_lowercase("Good", "Well")
    ('well', 'Well')
    """
    return new[:1].lower() + new[1:] if text[:1].islower() else new
