"""Hash of the content of files, such as pretrained weights or a tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path


def hash_files(files: Iterable[Path]) -> str:
    """Return 32 hexadecimal digits of a hash of the files' contents; unchanged files are cached."""
    return _hash_contents(tuple((str(file), file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=64)
def _hash_contents(files: tuple[tuple[str, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, _ in files:
        digest.update(Path(name).read_bytes())
    return digest.hexdigest()
