"""Transformer encoder from a local Hugging Face folder, with a linear layer or an MLP on top.

Nothing is downloaded, and no code in the folder is executed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from oodometer.core.errors import InputError, format_error
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import quiet_transformers, require, torch_package
from oodometer.data.file_hash import hash_files
from oodometer.models.huggingface import invalid_folder_error
from oodometer.studies._toml import Field, PositiveInt
from oodometer.studies.training.architectures._settings import (
    DropoutRate,
    check_settings,
    check_shape,
)
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.layers import make_module
from oodometer.studies.training.tokenizer import HuggingFaceTokenizer, TextRow

MODEL_DESCRIPTION = "an encoder"
DEFAULT_HIDDEN = 512
# Number of batches whose outputs are cached if several models use the same body.
MAX_CACHED_BATCHES = 4
# Names that different encoders of transformers use for dropout rates in their configuration.
DROPOUT_KEYS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
)


@dataclass(frozen=True)
class HuggingFaceEncoder:
    """Pretrained encoder in `folder`, followed by pooling and a head.

    folder         local Hugging Face folder of the encoder
    dropout        dropout rate in all layers of the encoder and before each linear layer of the head
    pooling        "mean" is the mean output over all tokens except padding, "cls" is the output of
                   the first token
    length         number of tokens to which texts are truncated
    head           "linear" is one linear layer, "mlp" has one hidden layer
    hidden         number of hidden units of the MLP
    activation     activation of the hidden layer of the MLP: "tanh" or "relu"
    head_dropout   dropout rates before the first and before the second layer of the MLP; by default
                   both are `dropout`

    The two texts of a pair are encoded as one sequence. Ng et al. (2023) feed the classification
    token into an MLP with 512 hidden units: pooling = "cls" and head = "mlp". They do not state the
    activation; by default it is tanh, as in the classification head of RoBERTa in fairseq. The head
    of DistilBERT in transformers is an MLP with hidden = 768, activation = "relu" and head_dropout =
    [0, 0.2].
    """

    folder: Annotated[str, Field(min_length=1)]
    dropout: DropoutRate = 0.1
    pooling: Literal["mean", "cls"] = "mean"
    length: PositiveInt = 128
    head: Literal["linear", "mlp"] = "linear"
    hidden: PositiveInt = DEFAULT_HIDDEN
    activation: Literal["tanh", "relu"] = "tanh"
    head_dropout: Annotated[
        tuple[DropoutRate, DropoutRate] | None,
        Field(description="a list of two dropout rates, each at least 0 and below 1"),
    ] = None

    name: ClassVar[str] = "encoder"
    label: ClassVar[str] = "Encoder"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    optional_settings: ClassVar[tuple[str, ...]] = ("head", "hidden", "activation", "head_dropout")

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("hidden", "activation", "head_dropout"):
            value = getattr(self, name)
            if self.head == "linear" and value != getattr(type(self), name):
                raise InputError(
                    f'{name} of the architecture {self.name!r} needs head = "mlp"; got {name} = '
                    f'{value} and head = "linear". Set head = "mlp" or remove {name}.'
                )

    @property
    def _head_dropout(self) -> tuple[float, float]:
        return self.head_dropout or (self.dropout, self.dropout)

    @property
    def pretrained_path(self) -> str:
        """Place of the pretrained weights in messages."""
        return self.folder

    def tokens(self, texts: Iterable[TextRow]) -> HuggingFaceTokenizer:
        """Return the tokenizer of the folder; it is not learned from the texts."""
        return HuggingFaceTokenizer(self.folder, self.length)

    def build(self, shape: InputShape) -> Any:
        """Return the pretrained encoder with a new head, initialized at random."""
        check_shape(self, shape)
        nn = torch_package().nn
        body = deepcopy(_load_body(self.folder, self.dropout, self.fingerprint()))
        head = self._build_head(body.config.hidden_size, shape.classes)
        parts = {"body": body, "dropout": nn.Dropout(self._head_dropout[0]), "head": head}
        pad = HuggingFaceTokenizer(self.folder, shape.size[0]).pad
        pool = _mean_pool if self.pooling == "mean" else _first_token
        module = make_module(parts, partial(_logits, pad=pad, pool=pool))
        module.head_name = "head"
        _check_length(module, shape, self.folder)
        return module

    def _build_head(self, width: int, classes: int) -> Any:
        nn = torch_package().nn
        if self.head == "linear":
            return nn.Linear(width, classes)
        return nn.Sequential(
            nn.Linear(width, self.hidden),
            nn.Tanh() if self.activation == "tanh" else nn.ReLU(),
            nn.Dropout(self._head_dropout[1]),
            nn.Linear(self.hidden, classes),
        )

    def fingerprint(self) -> str:
        """Return a hash of the pretrained weights and their configuration.

        It is saved with a model of which only the head was trained, to detect a changed encoder.
        """
        folder = Path(self.folder)
        if not (folder / "config.json").is_file():
            raise invalid_folder_error(folder, MODEL_DESCRIPTION, "it has no config.json")
        files = [folder / "config.json", *sorted(folder.glob("*.safetensors"))]
        return hash_files(files)

    def share_body(self, module: Any) -> None:
        """Replace the body of a module by one that all models with this encoder share.

        The shared body is frozen, and its last outputs are cached.
        """
        module.body = _shared_body(self.folder, self.dropout, self.fingerprint())


def _logits(module: Any, numbers: Any, *, pad: int, pool: Callable[[Any, Any], Any]) -> Any:
    numbers, sides = (numbers[:, 0], numbers[:, 1]) if numbers.ndim == 3 else (numbers, None)
    mask = (numbers != pad).long()
    inputs = {"input_ids": numbers, "attention_mask": mask}
    if sides is not None and getattr(module.body.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = sides
    hidden = _hidden_states(module.body, inputs)
    return module.head(module.dropout(pool(hidden, mask)))


def _hidden_states(body: Any, inputs: dict[str, Any]) -> Any:
    """Return the body's outputs; cache those of a shared body for models with other heads."""
    known: deque[Any] | None = getattr(body, "cached_outputs", None)
    if known is None or torch_package().is_grad_enabled():
        return body(**inputs).last_hidden_state
    for before, hidden in known:
        if before.keys() == inputs.keys() and all(
            before[name].shape == tensor.shape and bool((before[name] == tensor).all())
            for name, tensor in inputs.items()
        ):
            return hidden
    known.append((inputs, body(**inputs).last_hidden_state))
    return known[-1][1]


def _mean_pool(hidden: Any, mask: Any) -> Any:
    shares = mask / mask.sum(dim=1, keepdim=True).clamp(min=1)
    return (hidden * shares.unsqueeze(2)).sum(dim=1)


def _first_token(hidden: Any, _: Any) -> Any:
    return hidden[:, 0]


@lru_cache(maxsize=1)
def _shared_body(place: str, dropout: float, fingerprint: str) -> Any:
    body = deepcopy(_load_body(place, dropout, fingerprint)).eval().requires_grad_(False)
    body.cached_outputs = deque(maxlen=MAX_CACHED_BATCHES)
    return body


@lru_cache(maxsize=1)
def _load_body(place: str, dropout: float, fingerprint: str) -> Any:
    """Return the encoder without its pooler; the result is cached, so do not modify it."""
    folder = Path(place)
    transformers = require("transformers", extra="hf", purpose="Opening a Hugging Face folder")
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet_transformers():
            config = transformers.AutoConfig.from_pretrained(str(folder), **local)
            for name in DROPOUT_KEYS:
                if hasattr(config, name):
                    setattr(config, name, dropout)
            body, loading_info = transformers.AutoModel.from_pretrained(
                str(folder), config=config, use_safetensors=True, output_loading_info=True,
                dtype=torch_package().float32, **local,
            )  # fmt: skip
    except Exception as error:  # transformers does not document its exceptions for broken files
        reason = format_error(error, first_line=True)
        raise invalid_folder_error(folder, MODEL_DESCRIPTION, reason) from error
    missing = sorted(
        str(key) for key in loading_info["missing_keys"] if not key.startswith("pooler.")
    )
    if missing:
        raise invalid_folder_error(folder, MODEL_DESCRIPTION, f"it lacks the weights {missing[0]}")
    if hasattr(body, "pooler"):
        body.pooler = None
    return body


def _check_length(module: Any, shape: InputShape, folder: str) -> None:
    """Raise if the encoder cannot process a text with the number of tokens in `shape`."""
    torch = torch_package()
    length = shape.size[0]
    try:
        with torch.no_grad():
            module.eval()(torch.full((1, length), max(shape.vocabulary - 1, 0)))
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"The encoder in {folder!r} cannot process {length} tokens from a vocabulary of "
            f"{shape.vocabulary}. Lower the setting length, and use the tokenizer of the folder."
        ) from error
    finally:
        module.train()
