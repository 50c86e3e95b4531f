"""ONNX files as models."""

from __future__ import annotations

import contextlib
import math
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pytest
from onnx import TensorProto, helper, numpy_helper

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, UnknownName
from oodometer.models import OnnxModel, as_model
from oodometer.testing import check_model

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
WEIGHTS = RNG.normal(size=(4 * 6 * 3, 3)).astype(np.float32)
FLOAT, UINT8, INT64, STRING = (
    TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT64, TensorProto.STRING
)  # fmt: skip


def write(
    path: Path, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
    *, constants: dict[str, Array] | None = None, domain: Sequence[Any] = (),
) -> Path:  # fmt: skip
    initializers = [
        numpy_helper.from_array(value, name) for name, value in (constants or {}).items()
    ]
    graph = helper.make_graph(nodes, "toy", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 17), *domain]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def linear(path: Path, shape: Sequence[Any], *, kind: int = FLOAT, output: str = "scores") -> Path:
    """Write a network flatten(x) @ weights with an input of the given shape."""
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=FLOAT),
        helper.make_node("Flatten", ["f"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], [output]),
    ]
    input_info = helper.make_tensor_value_info("x", kind, shape)
    output_info = helper.make_tensor_value_info(output, FLOAT, ["n", 3])
    sizes = [size if isinstance(size, int) else 0 for size in shape[1:]]
    weights = WEIGHTS if math.prod(sizes) in (0, 72) else np.zeros((math.prod(sizes), 3), "f4")
    return write(path, nodes, [input_info], [output_info], constants={"w": weights})


def logits(model: Any, inputs: Any) -> Array:
    predictions = model.classify(inputs)
    assert predictions.score_type == "logits"
    return np.asarray(predictions.scores)


def first(images: Array) -> Array:
    return np.moveaxis(images, -1, 1).reshape(len(images), -1).astype(np.float32)


@pytest.mark.parametrize("size", [(4, 6), ("h", "w")])
def test_declared_shape_determines_the_channel_axis(tmp_path: Path, size: tuple[Any, Any]) -> None:
    planes = as_model(linear(tmp_path / "planes.onnx", ["n", 3, *size]))
    assert planes.name == "planes"
    check_model(planes, IMAGES)
    assert np.allclose(logits(planes, IMAGES), first(IMAGES) / 255 @ WEIGHTS, atol=1e-5)
    last = as_model(linear(tmp_path / "last.onnx", ["n", *size, 3]))
    assert np.allclose(logits(last, IMAGES), IMAGES.reshape(5, -1) / 255 @ WEIGHTS, atol=1e-5)


def test_uint8_inputs_get_raw_pixels_and_flat_inputs_flat_rows(tmp_path: Path) -> None:
    whole = as_model(linear(tmp_path / "a.onnx", ["n", 3, 4, 6], kind=UINT8))
    assert np.allclose(logits(whole, IMAGES), first(IMAGES) @ WEIGHTS, rtol=1e-4, atol=1e-2)
    flat = as_model(linear(tmp_path / "b.onnx", ["n", 72]))
    assert np.allclose(logits(flat, IMAGES), IMAGES.reshape(5, -1) / 255 @ WEIGHTS, atol=1e-5)
    grey = RNG.integers(0, 256, (2, 8, 9), dtype=np.uint8)
    for shape in (["n", 8, 9], ["n", 1, 8, 9], ["n", 8, 9, 1]):
        model = as_model(linear(tmp_path / "c.onnx", shape))
        assert np.allclose(logits(model, grey), grey.reshape(2, -1) / 255 @ WEIGHTS, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_fixed_batch_size_is_padded(tmp_path: Path, n: int) -> None:
    model = as_model(linear(tmp_path / "two.onnx", [2, 3, 4, 6]), batch_size=4)
    assert np.allclose(logits(model, IMAGES[:n]), first(IMAGES[:n]) / 255 @ WEIGHTS, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (["n", 3, 8, 6], "takes images of 8 by 6 pixels with 3 channels; these are 4 by 6 with 3"),
        (["n", 5, 6, 1], "takes images of 5 by 6 pixels with 1 channels; these are 4 by 6 with 3"),
        (
            ["n", 3, 8, 8],
            r"these are 4 by 6 with 3 \(size=8, or --size 8, scales the images of a folder",
        ),
        (["n", 1, "h", "w"], "takes images of any by any pixels with 1 channels"),
        (["n", 50], "takes rows of 50 numbers; these images have 72"),
        (["n", "c", "h", "w"], "whose channel axis is unknown"),
        (["n", 4, 6], "whose channel axis is unknown"),
    ],
)
def test_images_of_the_wrong_shape_raise(tmp_path: Path, shape: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=f"The model 'net' .*{words}"):
        as_model(linear(tmp_path / "net.onnx", shape)).classify(IMAGES)


def test_vectors_and_numeric_tables_are_accepted(tmp_path: Path) -> None:
    model = as_model(linear(tmp_path / "rows.onnx", ["n", 72]))
    rows = RNG.normal(size=(4, 72))
    check_model(model, rows)
    table = pa.table({f"x{j:02}": rows[:, j] for j in range(72)})
    assert np.allclose(logits(model, table), rows @ WEIGHTS, atol=1e-4)
    with pytest.raises(InputError, match=r"takes tensor\(float\), not text"):
        model.classify(["a text"])


def test_output_named_prob_is_read_as_probabilities(tmp_path: Path) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["probabilities"], axis=1),
             helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0)]  # fmt: skip
    input_info = helper.make_tensor_value_info("x", FLOAT, ["n", 3])
    label = helper.make_tensor_value_info("label", INT64, ["n"])
    probs = helper.make_tensor_value_info("probabilities", FLOAT, ["n", 3])
    path = write(tmp_path / "soft.onnx", nodes, [input_info], [label, probs])
    rows = np.array([[1.0, 2.0, 0.0]])
    assert as_model(path).classify(rows).score_type == "probs"
    assert as_model(path, outputs="probs").classify(rows).classes.tolist() == [1]
    picked = OnnxModel(path, output="label", class_names=["a", "b", "c"]).classify(rows)
    assert (picked.score_type, picked.classes.tolist(), picked.k) == ("classes", [1], 3)
    with pytest.raises(UnknownName, match=r"No output is called 'labels'\. Did you mean 'label'"):
        OnnxModel(path, output="labels")
    only = write(tmp_path / "only.onnx", nodes[1:], [input_info], [label])
    assert as_model(only).classify(rows).score_type == "classes"


@pytest.mark.parametrize("names", [["cat", "dog", "cow"], [10, 20, 30]])
def test_probability_maps_are_read_with_class_names(tmp_path: Path, names: list[Any]) -> None:
    known: dict[str, Any] = {
        "classlabels_strings" if isinstance(names[0], str) else "classlabels_int64s": names
    }
    nodes = [helper.make_node("ZipMap", ["x"], ["probs"], domain="ai.onnx.ml", **known),
             helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0)]  # fmt: skip
    input_info = helper.make_tensor_value_info("x", FLOAT, ["n", 3])
    key = STRING if isinstance(names[0], str) else INT64
    value = helper.make_tensor_type_proto(FLOAT, [])
    output_info = helper.make_value_info(
        "probs", helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))
    )
    label = helper.make_tensor_value_info("label", INT64, ["n"])
    path = write(tmp_path / "zip.onnx", nodes, [input_info], [label, output_info],
                 domain=[helper.make_opsetid("ai.onnx.ml", 1)])  # fmt: skip
    predictions = as_model(path).classify(np.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]))
    assert predictions.score_type == "probs"
    assert dict(zip(predictions.class_names or (), predictions.probs[0], strict=True)) == {
        str(names[0]): 0.25, str(names[1]): 0.25, str(names[2]): 0.5
    }  # fmt: skip


@pytest.mark.parametrize("shape", [["n"], ["n", 1]])
def test_string_inputs_receive_texts(tmp_path: Path, shape: list[Any]) -> None:
    nodes = [
        helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml",
                         keys_strings=["good"], values_int64s=[1], default_int64=0),
        helper.make_node("Reshape", ["y", "flat"], ["label"]),
    ]  # fmt: skip
    input_info = helper.make_tensor_value_info("x", STRING, shape)
    label = helper.make_tensor_value_info("label", INT64, ["n"])
    path = write(tmp_path / "words.onnx", nodes, [input_info], [label],
                 constants={"flat": np.array([-1])}, domain=[helper.make_opsetid("ai.onnx.ml", 2)])  # fmt: skip
    assert as_model(path).classify(["bad", "good"]).classes.tolist() == [0, 1]
    with pytest.raises(InputError, match="takes strings, not pairs"):
        as_model(path).classify([("a", "b")])


def test_several_inputs_need_prepare(tmp_path: Path) -> None:
    input_info = [helper.make_tensor_value_info(name, FLOAT, ["n", 3]) for name in ("one", "two")]
    output_info = helper.make_tensor_value_info("sum", FLOAT, ["n", 3])
    path = write(
        tmp_path / "add.onnx",
        [helper.make_node("Add", ["one", "two"], ["sum"])],
        input_info,
        [output_info],
    )
    rows = np.eye(3)
    with pytest.raises(InputError, match=r"'add' has 2 inputs \(one, two\)"):
        as_model(path).classify(rows)

    def both(batch: Array) -> dict[str, Array]:
        half = batch.astype(np.float32)
        return {"one": half, "two": half}

    assert np.array_equal(logits(as_model(path, prepare=both), rows), 2 * rows)


def test_prepared_array_is_passed_to_the_only_input(tmp_path: Path) -> None:
    def flat(images: Array) -> Array:
        return (images.reshape(len(images), -1) / 127.5 - 1).astype(np.float32)

    model = as_model(linear(tmp_path / "net.onnx", ["n", 72]), prepare=flat)
    assert np.allclose(logits(model, IMAGES), flat(IMAGES) @ WEIGHTS, atol=1e-5)


def test_broken_files_and_unsuitable_outputs_raise_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no network")
    with pytest.raises(InputError, match=r"Cannot open '.*broken\.onnx': ") as refusal:
        as_model(tmp_path / "broken.onnx")
    assert "\n" not in str(refusal.value)
    input_info = helper.make_tensor_value_info("x", FLOAT, ["n", 3, 2])
    output_info = helper.make_tensor_value_info("y", FLOAT, ["n", 3, 2])
    path = write(
        tmp_path / "deep.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [input_info],
        [output_info],
    )
    with pytest.raises(
        InputError, match="'deep' has no output of scores or classes; its outputs are y"
    ):
        as_model(path).classify(np.zeros((2, 3, 2)))


def test_model_can_be_pickled(tmp_path: Path) -> None:
    model = as_model(linear(tmp_path / "net.onnx", ["n", 3, 4, 6]))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(logits(again, IMAGES), logits(model, IMAGES))


def test_pickled_model_finds_its_file_from_another_folder(tmp_path: Path) -> None:
    linear(tmp_path / "net.onnx", ["n", 4, 6, 3])
    with contextlib.chdir(tmp_path):
        here = OnnxModel("net.onnx")
        sent = pickle.dumps(here)
    assert np.array_equal(logits(pickle.loads(sent), IMAGES), logits(here, IMAGES))


@pytest.mark.parametrize(("variable", "threads"), [("1", 1), ("", 0), ("all", 0)])
def test_number_of_threads_follows_the_environment(
    variable: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    model = OnnxModel(linear(tmp_path / "net.onnx", ["n", 4, 6, 3]))
    assert model.session.get_session_options().intra_op_num_threads == threads
