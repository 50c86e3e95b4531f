"""Adapter of text and image classifiers in local Hugging Face folders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, MissingExtra, NotApplicable
from oodometer.core.inputs import InputKind, Inputs, infer_kind
from oodometer.core.optional_imports import (
    has_tokenizer,
    quiet_transformers,
    require,
    torch_package,
)
from oodometer.models.base import ClassNames, ModelAdapter, RawOutputs, exception_summary
from oodometer.models.introspection.network import ForwardArguments, Network
from oodometer.models.pickles import untrusted_pickle_error
from oodometer.models.torch import best_device, extract_scores

TEXT_BATCH_ROWS = 64
IMAGE_BATCH_ROWS = 32
TASK_INPUT_KINDS: dict[str, tuple[InputKind, ...]] = {
    "SequenceClassification": ("text", "pairs"),
    "ImageClassification": ("images",),
}
# With these arguments, transformers downloads nothing and executes no code from the folder.
LOCAL_ONLY = {"local_files_only": True, "trust_remote_code": False}


@dataclass(frozen=True, eq=False, repr=False)
class HuggingFaceModel(ModelAdapter):
    """A text or image classifier in a local Hugging Face folder.

    The folder contains config.json, weights as safetensors, and a tokenizer or an image processor.
    Texts and pairs are truncated to the network's maximum length. Texts of similar length are
    classified in the same batch, so that little padding is needed. The outputs are logits. The
    class names are read from `id2label` in config.json. Nothing is downloaded, and no code from the
    folder is executed.

    Parameters
    ----------
    folder : str or Path
        Folder written by `save_pretrained`.
    device : str
        Torch device. Default: an accelerator if there is one, else the CPU.
    trust_pickle : bool
        Whether to load weights from a pickle if there are no safetensors. Opening a pickle can run
        any code.
    name, class_names, outputs, batch_size
        See `ModelAdapter`.
    prepare : callable, optional
        Function that converts a batch to the network's keyword arguments. It replaces the tokenizer
        or the image processor.

    Raises
    ------
    InputError
        If the folder does not contain a classifier, lacks weights or a tokenizer, or contains a
        pickle that is not trusted.
    MissingExtra
        If transformers or torch is not installed.

    Examples
    --------
    >>> HuggingFaceModel("models/sentiment").classify(["a good film"])  # doctest: +SKIP
    """

    folder: str | Path
    _: KW_ONLY
    device: str = ""
    trust_pickle: bool = False
    module: Any = field(default=None, init=False)
    reader: Any = field(default=None, init=False)
    kinds: tuple[InputKind, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        folder = Path(self.folder)
        self._set("device", self.device or best_device())
        task = _read_task(folder)
        use_safetensors = _has_safetensors(folder, trust_pickle=self.trust_pickle)
        with _loading_errors(folder, "a classifier"):
            network, missing = _load_network(folder, f"AutoModelFor{task}", use_safetensors)
        if missing:
            raise InputError(
                f"{str(folder)!r} lacks weights of its classifier: {missing[0]}. "
                "Save the complete fine-tuned classifier with save_pretrained."
            )
        self._set("kinds", TASK_INPUT_KINDS[task])
        self._set("module", network.to(self.device).eval())
        self._set("reader", _load_reader(folder, task) if self.prepare is None else None)

    def default_name(self) -> str:
        return Path(self.folder).resolve().name

    @property
    def config_class_names(self) -> ClassNames | None:
        """Return the class names in `id2label`, or None if they are the default LABEL_0, …"""
        labels = self.module.config.id2label
        names = tuple(str(labels[j]) for j in sorted(labels))
        return None if all(name == f"LABEL_{j}" for j, name in enumerate(names)) else names

    def rows_per_batch(self, inputs: Inputs) -> int:
        """Return 32 for images, and all rows for texts, which `raw_outputs` batches by length."""
        if self.prepare is None and infer_kind(inputs) != "images":
            return len(inputs)
        return self.batch_size or IMAGE_BATCH_ROWS

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        """Return the logits in the order of the inputs."""
        if self.prepare is not None:
            logits = self._logits(self.prepare(inputs))
        elif self._validate_kind(inputs) == "images":
            logits = self._logits(self._process_images(inputs))
        else:
            logits = self._text_logits(inputs)
        return RawOutputs(logits, self.outputs or "logits", self.config_class_names)

    def torch_network(self) -> Network:
        """Return the torch network, from which features and gradients are computed."""
        score_type = self.outputs or "logits"
        if score_type == "classes":
            raise NotApplicable(f"{self.name!r} returns classes only")
        return Network(
            name=self.name,
            module=self.module,
            to_arguments=self._to_arguments,
            normalize=lambda arguments: arguments,
            extract_scores=extract_scores,
            score_type=score_type,
            to_predictions=lambda values: self.to_predictions(
                RawOutputs(values, score_type, self.config_class_names)
            ),
            rows_per_batch=lambda inputs: (
                1 if self._cannot_pad else self.batch_size or IMAGE_BATCH_ROWS
            ),
        )

    @property
    def _cannot_pad(self) -> bool:
        """Return whether the tokenizer has no padding token; texts are then run one by one."""
        return hasattr(self.reader, "pad_token") and self.reader.pad_token is None

    def _to_arguments(self, inputs: Inputs) -> ForwardArguments:
        """Return the network's arguments for all inputs in one batch."""
        if self.prepare is not None:
            tensors = self.prepare(inputs)
        elif self._validate_kind(inputs) == "images":
            tensors = self._process_images(inputs)
        else:
            tensors = self._pad_tokens(self._tokenize(inputs), range(len(inputs)))
        if set(tensors) == {"pixel_values"}:  # the first argument of every image network
            return ForwardArguments((self._to_device(tensors["pixel_values"]),), {})
        kwargs = {name: self._to_device(values) for name, values in tensors.items()}
        return ForwardArguments((), kwargs)

    def _to_device(self, values: Any) -> Any:
        return torch_package().as_tensor(values).to(self.device)

    def _validate_kind(self, inputs: Inputs) -> InputKind:
        kind = infer_kind(inputs)
        if kind not in self.kinds:
            raise InputError(
                f"The model {self.name!r} takes {' and '.join(self.kinds)}, not {kind}. "
                "Pass inputs of that kind, or prepare=…."
            )
        return kind

    def _process_images(self, images: Array) -> Any:
        # Image processors expect three channels, so a gray channel is repeated three times.
        images = images[..., None] if images.ndim == 3 else images
        rgb = np.repeat(images, 3, axis=3) if images.shape[3] == 1 else images
        return self.reader(images=list(rgb), return_tensors="pt")

    def _tokenize(self, inputs: Inputs) -> Any:
        if infer_kind(inputs) == "text":
            sides = [inputs]
        else:
            sides = [list(side) for side in zip(*inputs, strict=True)]
        positions = getattr(self.module.config, "max_position_embeddings", None)
        max_length = min(int(self.reader.model_max_length), int(positions or 2**31), 2**31)
        return self.reader(*sides, truncation=True, max_length=max_length)

    def _text_logits(self, inputs: Inputs) -> Array:
        tokens = self._tokenize(inputs)
        order = np.argsort([len(ids) for ids in tokens["input_ids"]], kind="stable")
        step = 1 if self._cannot_pad else self.batch_size or TEXT_BATCH_ROWS
        batches = [order[start : start + step] for start in range(0, len(order), step)]
        logits = np.concatenate(
            [self._logits(self._pad_tokens(tokens, batch)) for batch in batches]
        )
        return logits[np.argsort(order)]

    def _pad_tokens(self, tokens: Any, rows: Any) -> Any:
        batch = {key: [values[i] for i in rows] for key, values in tokens.items()}
        if len(rows) == 1:
            return {key: torch_package().tensor(values) for key, values in batch.items()}
        with quiet_transformers():
            return self.reader.pad(batch, return_tensors="pt")

    def _logits(self, tensors: Any) -> Array:
        kwargs = {name: self._to_device(values) for name, values in tensors.items()}
        with torch_package().inference_mode():
            logits: Array = self.module(**kwargs).logits.float().cpu().numpy()
        return logits


# Loading ----------------------------------------------------------------------------------------


def load_pretrained(folder: Path, auto_class: str, *, purpose: str) -> tuple[Any, Any]:
    """Return the tokenizer and the network of a folder.

    `auto_class` is the name of the transformers class that loads the network, and `purpose`
    describes the network in error messages. Missing weights raise an error, because transformers
    would initialize them at random.
    """
    # If the path is not a model folder, transformers would search its download cache for the name.
    if not (folder / "config.json").is_file():
        raise invalid_folder_error(folder, purpose, "it has no config.json")
    with _loading_errors(folder, purpose) as transformers:
        network, missing = _load_network(folder, auto_class, use_safetensors=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **LOCAL_ONLY)
    if missing:
        raise invalid_folder_error(folder, purpose, f"it lacks the weights {missing[0]}")
    if not has_tokenizer(folder):
        raise invalid_folder_error(folder, purpose, "it has no tokenizer")
    return tokenizer, network.eval()


def invalid_folder_error(folder: Path, purpose: str, reason: str) -> InputError:
    """Return the error for a folder that does not contain the expected kind of network."""
    return InputError(
        f"Cannot open {str(folder)!r} as {purpose}: {reason}. It must contain config.json, "
        "model.safetensors and a tokenizer or image processor, as save_pretrained writes them."
    )


def _load_network(folder: Path, auto_class: str, use_safetensors: bool) -> tuple[Any, list[str]]:
    """Return the network and the sorted names of its missing weights."""
    transformers = require("transformers", extra="hf", purpose="A Hugging Face model")
    network, info = getattr(transformers, auto_class).from_pretrained(
        str(folder), use_safetensors=use_safetensors, output_loading_info=True, **LOCAL_ONLY
    )
    return network, sorted(str(key) for key in info["missing_keys"])


def _load_reader(folder: Path, task: str) -> Any:
    """Return the tokenizer, or the image processor that does not need torchvision."""
    is_text = task == "SequenceClassification"
    if is_text and not has_tokenizer(folder):
        # transformers would create an empty tokenizer, for which every word is unknown.
        raise InputError(
            f"{str(folder)!r} has no tokenizer. Save tokenizer.json there with the tokenizer's "
            "save_pretrained, or pass prepare=…."
        )
    with _loading_errors(folder, "a classifier") as transformers:
        if is_text:
            return transformers.AutoTokenizer.from_pretrained(folder, **LOCAL_ONLY)
        require("PIL", extra="images", purpose="Processing images for a Hugging Face model")
        return transformers.AutoImageProcessor.from_pretrained(folder, backend="pil", **LOCAL_ONLY)


def _read_task(folder: Path) -> str:
    """Return the classification task that config.json names."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{str(folder)!r} has no readable config.json, so it is not a Hugging Face folder. "
            "Save the model and its tokenizer there with save_pretrained. If the folder contains "
            "data, pass the model first and the data after it."
        ) from error
    architectures = [str(name) for name in config.get("architectures") or []]
    for task in TASK_INPUT_KINDS:
        if any(name.endswith(f"For{task}") for name in architectures):
            return task
    expected = " or ".join(f"For{task}" for task in TASK_INPUT_KINDS)
    raise InputError(
        f"{str(folder)!r} contains {', '.join(architectures) or 'no named architecture'}, which is "
        f"not a supported classifier. The architecture must end in {expected}."
    )


def _has_safetensors(folder: Path, *, trust_pickle: bool) -> bool:
    """Return whether the weights are safetensors, not a pickle; raise if a pickle is untrusted."""
    if any(folder.glob("*.safetensors")):
        return True
    pickled = min(folder.glob("*.bin"), default=None)
    if pickled is None:
        raise InputError(f"{str(folder)!r} has no weights. There must be a *.safetensors file.")
    if not trust_pickle:
        raise untrusted_pickle_error(pickled)
    return False


@contextmanager
def _loading_errors(folder: Path, purpose: str) -> Iterator[Any]:
    """Yield the transformers package without log output; convert its exceptions to InputError."""
    transformers = require("transformers", extra="hf", purpose="A Hugging Face model")
    torch_package()
    try:
        with quiet_transformers():
            yield transformers
    except (InputError, MissingExtra):
        raise
    except Exception as error:  # on broken files, the readers raise exceptions of any type
        raise invalid_folder_error(folder, purpose, exception_summary(error)) from error
