"""Back-translation by the rule-based system Apertium (Forcada et al., 2011).

Apertium and one of its language pairs must be installed. No network connection and no downloaded
weights are needed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import ClassVar

from oodometer.core.errors import InputError

TIMEOUT_SECONDS = 300.0
# Characters that have a special meaning in the stream format of Apertium and must be escaped.
_RESERVED = re.compile(r"([\[\]{}^$/\\@<>~])")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# Text that is translated before and after the texts of the user. It is a multiword unit, which can
# change the state of Apertium's tagger permanently if the tagger was not trained on it. With the
# text at the start, this change always happens first, so a translation depends on its text only.
# With the text at the end, an empty last translation is not mistaken for the end of the output.
_SENTINEL_TEXT = "a lot of"


@dataclass(frozen=True)
class Apertium:
    """Round-trip translator that uses two modes of Apertium.

    `pair` has the modes for the translation to the pivot language and back; `apertium -l` lists the
    installed modes. One process per direction translates all texts. The texts are separated by null
    characters, at which Apertium flushes its output.
    """

    pair: tuple[str, str] = ("eng-spa", "spa-eng")
    name: ClassVar[str] = "apertium"

    @staticmethod
    def is_installed() -> bool:
        return shutil.which("apertium") is not None

    def __call__(self, texts: list[str]) -> list[str]:
        """Translate every text to the pivot language and back.

        If a text starts with a lower-case letter, its translation does too.
        """
        forward, backward = self.pair
        translated = _translate(_translate(texts, forward), backward)
        return [_match_lowercase(text, new) for text, new in zip(texts, translated, strict=True)]


def _translate(texts: list[str], mode: str) -> list[str]:
    sent = [_SENTINEL_TEXT, *(text.replace("\0", " ") for text in texts), _SENTINEL_TEXT]
    # Each text ends with a line break, because a full stop right before a null character is lost.
    stream = "".join(_RESERVED.sub(r"\\\1", text) + "\n\0" for text in sent)
    # The format "none" does not change null characters, and -u omits the marks at unknown words.
    output = _run(["apertium", "-u", "-z", "-f", "none", mode], stream)
    # Each program in Apertium's pipeline appends a null character to the output.
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
    r"""Replace runs of white space by one space, and remove escape characters.

    >>> _clean(" a  \\[b\\]")
    'a [b]'
    """
    return " ".join(_ESCAPED.sub(r"\1", part).split())


def _match_lowercase(text: str, new: str) -> str:
    """Start the new text in lower case if the old one did; Apertium capitalizes every text.

    >>> _match_lowercase("good", "Well"), _match_lowercase("Good", "Well")
    ('well', 'Well')
    """
    return new[:1].lower() + new[1:] if text[:1].islower() else new
