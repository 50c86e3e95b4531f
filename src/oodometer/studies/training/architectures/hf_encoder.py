"""A transformer encoder of a local Hugging Face folder, with a linear layer on top.

Nothing is fetched, and no code of the folder is run.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from oodometer.core.errors import InputError, format_error
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import quiet_transformers, require, torch_package
from oodometer.models.huggingface import invalid_folder_error
from oodometer.studies.training.architectures._settings import check_settings, check_shape
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.layers import make_module
from oodometer.studies.training.tokenizer import HuggingFaceTokenizer, TextRow

MODEL_DESCRIPTION = "an encoder"
# Of a body that many heads share, the outputs of so many batches are remembered.
MAX_CACHED_BATCHES = 4
# What the settings of transformers call the share that is dropped.
DROPOUT_KEYS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
)


@dataclass(frozen=True)
class HuggingFaceEncoder:
    """The pooled output of the encoder in `folder`, and a linear layer.

    `pooling` is the mean over all tokens that don't pad, or the first token's output (`cls`).
    `dropout` replaces that of the encoder, and comes before the linear layer. A text is cut to
    `length` tokens; the two texts of a pair are read together.
    """

    folder: str
    dropout: float = 0.1
    pooling: Literal["mean", "cls"] = "mean"
    length: int = 128

    name: ClassVar[str] = "encoder"
    label: ClassVar[str] = "Encoder"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")

    def __post_init__(self) -> None:
        check_settings(self)

    def tokens(self, texts: Iterable[TextRow]) -> HuggingFaceTokenizer:
        """The folder's own tokens, whatever the texts."""
        return HuggingFaceTokenizer(self.folder, self.length)

    def build(self, shape: InputShape) -> Any:
        """The encoder as it lies in the folder, and a linear layer from torch's random state."""
        check_shape(self, shape)
        nn = torch_package().nn
        body = deepcopy(_load_body(self.folder, self.dropout, self.fingerprint()))
        head = nn.Linear(body.config.hidden_size, shape.classes)
        parts = {"body": body, "dropout": nn.Dropout(self.dropout), "head": head}
        pad = HuggingFaceTokenizer(self.folder, shape.size[0]).pad
        pool = _mean_pool if self.pooling == "mean" else _first_token
        module = make_module(parts, partial(_logits, pad=pad, pool=pool))
        _check_length(module, shape, self.folder)
        return module

    def fingerprint(self) -> str:
        """A hash of the folder's weights and their form: what is fixed if the head alone learns."""
        folder = Path(self.folder)
        if not (folder / "config.json").is_file():
            raise invalid_folder_error(folder, MODEL_DESCRIPTION, "it has no config.json")
        files = [folder / "config.json", *sorted(folder.glob("*.safetensors"))]
        return _hash_files(tuple((str(file), file.stat().st_mtime_ns) for file in files))

    def share_body(self, module: Any) -> None:
        """Give a module of ours the body that all such modules share, which they never change."""
        module.body = _shared_body(self.folder, self.dropout, self.fingerprint())


def _logits(module: Any, numbers: Any, *, pad: int, pool: Callable[[Any, Any], Any]) -> Any:
    numbers, sides = (numbers[:, 0], numbers[:, 1]) if numbers.ndim == 3 else (numbers, None)
    mask = (numbers != pad).long()
    given = {"input_ids": numbers, "attention_mask": mask}
    if sides is not None and getattr(module.body.config, "type_vocab_size", 0) > 1:
        given["token_type_ids"] = sides
    hidden = _hidden_states(module.body, given)
    return module.head(module.dropout(pool(hidden, mask)))


def _hidden_states(body: Any, given: dict[str, Any]) -> Any:
    """The body's outputs; a shared one's are remembered, for other heads will ask for the same."""
    known: deque[Any] | None = getattr(body, "remembered", None)
    if known is None or torch_package().is_grad_enabled():
        return body(**given).last_hidden_state
    for before, found in known:
        if before.keys() == given.keys() and all(
            before[name].shape == one.shape and bool((before[name] == one).all())
            for name, one in given.items()
        ):
            return found
    known.append((given, body(**given).last_hidden_state))
    return known[-1][1]


def _mean_pool(hidden: Any, mask: Any) -> Any:
    shares = mask / mask.sum(dim=1, keepdim=True).clamp(min=1)
    return (hidden * shares.unsqueeze(2)).sum(dim=1)


def _first_token(hidden: Any, _: Any) -> Any:
    return hidden[:, 0]


@lru_cache(maxsize=8)
def _hash_files(files: tuple[tuple[str, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, _ in files:
        digest.update(Path(name).read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _shared_body(place: str, dropout: float, fingerprint: str) -> Any:
    body = deepcopy(_load_body(place, dropout, fingerprint)).eval().requires_grad_(False)
    body.remembered = deque(maxlen=MAX_CACHED_BATCHES)
    return body


@lru_cache(maxsize=1)
def _load_body(place: str, dropout: float, fingerprint: str) -> Any:
    """The encoder, without the layer that some have on their first token; it must not be changed."""
    folder = Path(place)
    transformers = require("transformers", extra="hf", purpose="Opening a Hugging Face folder")
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet_transformers():
            config = transformers.AutoConfig.from_pretrained(str(folder), **local)
            for name in DROPOUT_KEYS:
                if hasattr(config, name):
                    setattr(config, name, dropout)
            body, told = transformers.AutoModel.from_pretrained(
                str(folder), config=config, use_safetensors=True, output_loading_info=True,
                dtype=torch_package().float32, **local,
            )  # fmt: skip
    except Exception as error:  # broken files raise whatever their reader does
        reason = format_error(error, first_line=True)
        raise invalid_folder_error(folder, MODEL_DESCRIPTION, reason) from error
    missing = sorted(str(key) for key in told["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise invalid_folder_error(folder, MODEL_DESCRIPTION, f"it lacks the weights {missing[0]}")
    if hasattr(body, "pooler"):
        body.pooler = None
    return body


def _check_length(module: Any, shape: InputShape, folder: str) -> None:
    """Show it one row of that length; how many places there are, each encoder says elsewhere."""
    torch = torch_package()
    length = shape.size[0]
    try:
        with torch.no_grad():
            module.eval()(torch.full((1, length), max(shape.vocabulary - 1, 0)))
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"The encoder in {folder!r} can't read {length} tokens of a vocabulary of "
            f"{shape.vocabulary}. Lower the setting length, and use the folder's own tokens."
        ) from error
    finally:
        module.train()
