"""A classifier of texts or of images in a local Hugging Face folder, as a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, MissingExtra, NotApplicable, format_error
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


def load_pretrained(folder: Path, auto_class: str, *, purpose: str) -> tuple[Any, Any]:
    """The tokenizer and the network, by the class of transformers that opens such networks.

    A folder of another kind of network lacks weights, which would be made up at random.
    """
    local = {"local_files_only": True, "trust_remote_code": False}
    transformers = require("transformers", extra="hf", purpose=purpose.capitalize())
    # Only what is a folder: the name of none would be looked for among those fetched earlier.
    if not (folder / "config.json").is_file():
        raise invalid_folder_error(folder, purpose, "it has no config.json")
    try:
        with quiet_transformers():
            network, told = getattr(transformers, auto_class).from_pretrained(
                str(folder), use_safetensors=True, output_loading_info=True, **local
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **local)
    except Exception as error:  # broken files raise whatever their reader does
        reason = format_error(error, first_line=True)
        raise invalid_folder_error(folder, purpose, reason) from error
    if told["missing_keys"]:
        raise invalid_folder_error(
            folder, purpose, f"it lacks the weights {min(map(str, told['missing_keys']))}"
        )
    if not has_tokenizer(folder):
        raise invalid_folder_error(folder, purpose, "it has no tokenizer")
    return tokenizer, network.eval()


def invalid_folder_error(folder: Path, purpose: str, reason: str) -> InputError:
    """What to say of a folder that is none of these."""
    return InputError(
        f"{str(folder)!r} can't be opened as {purpose}: {reason}. A folder with config.json, "
        "model.safetensors and tokenizer.json was expected. Save one there with save_pretrained."
    )


TEXT_BATCH_ROWS, IMAGE_BATCH_ROWS = 64, 32
TASK_INPUT_KINDS: dict[str, tuple[InputKind, ...]] = {
    "SequenceClassification": ("text", "pairs"),
    "ImageClassification": ("images",),
}


@dataclass(frozen=True, eq=False, repr=False)
class HuggingFaceModel(ModelAdapter):
    """A folder with config.json, safetensors, and a tokenizer or an image processor.

    Texts and pairs are cut to what the network can take, and shown in order of length so that
    little is padded. Gives logits; class names come from id2label. Nothing is fetched, and no code
    of the folder is run. `prepare` gives the network's named arguments, in place of the tokenizer
    or the image processor.
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
        task, weights = _task(folder), _has_safetensors(folder, trust_pickle=self.trust_pickle)
        network, missing = _load_network(folder, f"AutoModelFor{task}", use_safetensors=weights)
        if missing:
            raise InputError(
                f"{str(folder)!r} lacks weights that its classifier needs: {missing[0]}. "
                "Save the whole fine-tuned classifier with save_pretrained."
            )
        self._set("kinds", TASK_INPUT_KINDS[task])
        self._set("module", network.to(self.device).eval())
        self._set("reader", _load_reader(folder, task) if self.prepare is None else None)

    def default_name(self) -> str:
        """The folder's name."""
        return Path(self.folder).resolve().name

    @property
    def config_class_names(self) -> ClassNames | None:
        """What id2label calls the classes, unless it just counts them."""
        labels = self.module.config.id2label
        names = tuple(str(labels[j]) for j in sorted(labels))
        return None if all(name == f"LABEL_{j}" for j, name in enumerate(names)) else names

    def rows_per_batch(self, inputs: Inputs) -> int:
        """Texts are batched by length, so all of them are looked at; images by 32."""
        if self.prepare is None and infer_kind(inputs) != "images":
            return len(inputs)
        return self.batch_size or IMAGE_BATCH_ROWS

    def raw_outputs(self, inputs: Inputs) -> RawOutputs:
        """Logits, in the order of the inputs."""
        if self.prepare is not None:
            logits = self._logits(self.prepare(inputs))
        elif self._validate_kind(inputs) == "images":
            logits = self._logits(self._image_arguments(inputs))
        else:
            logits = self._text_logits(inputs)
        return RawOutputs(logits, self.outputs or "logits", self.config_class_names)

    def torch_network(self) -> Network:
        """Its network, for measures that look into it."""
        form = self.outputs or "logits"
        if form == "classes":
            raise NotApplicable(f"{self.name!r} returns classes only")
        return Network(
            name=self.name,
            module=self.module,
            to_arguments=self._to_arguments,
            normalize=lambda shown: shown,
            extract_scores=extract_scores,
            score_type=form,
            to_predictions=lambda values: self.to_predictions(
                RawOutputs(values, form, self.config_class_names)
            ),
            rows_per_batch=lambda inputs: (
                1 if self._cannot_pad else self.batch_size or IMAGE_BATCH_ROWS
            ),
        )

    @property
    def _cannot_pad(self) -> bool:
        """Whether texts are shown one by one, for there is no token to pad with."""
        return hasattr(self.reader, "pad_token") and self.reader.pad_token is None

    def _to_arguments(self, inputs: Inputs) -> ForwardArguments:
        """What the network is called with, for all inputs at once."""
        if self.prepare is not None:
            named = self.prepare(inputs)
        elif self._validate_kind(inputs) == "images":
            named = self._image_arguments(inputs)
        else:
            named = self._pad_tokens(self._tokenize(inputs), range(len(inputs)))
        if set(named) == {"pixel_values"}:  # images are the first argument of every such network
            return ForwardArguments((self._to_device(named["pixel_values"]),), {})
        return ForwardArguments((), {key: self._to_device(values) for key, values in named.items()})

    def _to_device(self, values: Any) -> Any:
        return torch_package().as_tensor(values).to(self.device)

    def _validate_kind(self, inputs: Inputs) -> InputKind:
        kind = infer_kind(inputs)
        if kind not in self.kinds:
            raise InputError(
                f"The model {self.name!r} takes {' and '.join(self.kinds)}, not {kind}. "
                "Give it what it takes, or pass prepare=…."
            )
        return kind

    def _image_arguments(self, inputs: Inputs) -> Any:
        return self.reader(images=_to_rgb_images(inputs), return_tensors="pt")

    def _tokenize(self, inputs: Inputs) -> Any:
        sides = (
            [inputs]
            if infer_kind(inputs) == "text"
            else [list(s) for s in zip(*inputs, strict=True)]
        )
        return self.reader(*sides, truncation=True, max_length=self._max_tokens())

    def _text_logits(self, inputs: Inputs) -> Array:
        tokens = self._tokenize(inputs)
        order = np.argsort([len(ids) for ids in tokens["input_ids"]], kind="stable")
        step = 1 if self._cannot_pad else self.batch_size or TEXT_BATCH_ROWS
        parts = [order[start : start + step] for start in range(0, len(order), step)]
        logits = np.concatenate([self._logits(self._pad_tokens(tokens, part)) for part in parts])
        return logits[np.argsort(order)]

    def _pad_tokens(self, tokens: Any, rows: Any) -> Any:
        some = {key: [values[i] for i in rows] for key, values in tokens.items()}
        if len(rows) == 1:
            return {key: torch_package().tensor(values) for key, values in some.items()}
        with quiet_transformers():
            return self.reader.pad(some, return_tensors="pt")

    def _max_tokens(self) -> int:
        places = getattr(self.module.config, "max_position_embeddings", None)
        return min(int(self.reader.model_max_length), int(places or 2**31), 2**31)

    def _logits(self, arguments: Any) -> Array:
        torch = torch_package()
        named = {key: self._to_device(values) for key, values in arguments.items()}
        with torch.inference_mode():
            logits: Array = self.module(**named).logits.float().cpu().numpy()
        return logits


def _task(folder: Path) -> str:
    """What kind of classifier config.json says it is."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{str(folder)!r} has no readable config.json, so it is no Hugging Face folder. "
            "Save the model and its tokenizer there with save_pretrained; if these are data, the "
            "model comes first and the data after it."
        ) from error
    built = [str(name) for name in config.get("architectures") or []]
    for task in TASK_INPUT_KINDS:
        if any(name.endswith(f"For{task}") for name in built):
            return task
    raise InputError(
        f"{str(folder)!r} holds {', '.join(built) or 'no named architecture'}, which is no "
        f"classifier here. It must end in {' or '.join(f'For{task}' for task in TASK_INPUT_KINDS)}."
    )


def _has_safetensors(folder: Path, *, trust_pickle: bool) -> bool:
    """Whether weights are safetensors; pickled ones must be trusted."""
    if any(folder.glob("*.safetensors")):
        return True
    pickled = next(iter(sorted(folder.glob("*.bin"))), None)
    if pickled is None:
        raise InputError(f"{str(folder)!r} has no weights. There must be a *.safetensors file.")
    if not trust_pickle:
        raise untrusted_pickle_error(pickled)
    return False


def _load_network(folder: Path, auto_class: str, *, use_safetensors: bool) -> tuple[Any, list[str]]:
    with _wrap_loading_errors(folder) as transformers:
        network, told = getattr(transformers, auto_class).from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=use_safetensors,
            output_loading_info=True,
        )
    return network, sorted(str(key) for key in told["missing_keys"])


def _load_reader(folder: Path, task: str) -> Any:
    """The tokenizer, or the image processor that needs no torchvision."""
    safe = {"local_files_only": True, "trust_remote_code": False}
    if task == "SequenceClassification":
        _check_tokenizer(folder)
    with _wrap_loading_errors(folder) as transformers:
        if task == "SequenceClassification":
            return transformers.AutoTokenizer.from_pretrained(folder, **safe)
        require("PIL", extra="images", purpose="Reading images for a Hugging Face model")
        return transformers.AutoImageProcessor.from_pretrained(folder, backend="pil", **safe)


def _check_tokenizer(folder: Path) -> None:
    """Without its files an empty tokenizer would be made up, to which every word is unknown."""
    if not has_tokenizer(folder):
        raise InputError(
            f"{str(folder)!r} has no tokenizer. There must be a tokenizer.json beside the model: "
            "save it there with the tokenizer's save_pretrained, or pass prepare=…."
        )


@contextmanager
def _wrap_loading_errors(folder: Path) -> Iterator[Any]:
    transformers = require("transformers", extra="hf", purpose="Opening a Hugging Face folder")
    torch_package()
    try:
        with quiet_transformers():
            yield transformers
    except (InputError, MissingExtra):
        raise
    except Exception as error:  # broken files raise whatever their reader does
        raise InputError(
            f"{str(folder)!r} can't be opened: {exception_summary(error)}. It must hold a model and its "
            "tokenizer or image processor, as save_pretrained writes them."
        ) from error


def _to_rgb_images(images: Array) -> list[Array]:
    """Three channels, for that is what image processors take."""
    images = images[..., None] if images.ndim == 3 else images
    return list(np.repeat(images, 3, axis=3) if images.shape[3] == 1 else images)
