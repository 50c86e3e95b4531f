"""Properties of every architecture, and the registry."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.functional import cross_entropy

from oodometer.core.errors import InputError, UnknownName
from oodometer.core.inputs import InputKind
from oodometer.models.introspection.network import LAST_LINEAR_INPUT
from oodometer.models.torch import TorchModel
from oodometer.studies.training.architectures import (
    MEMBERS,
    available,
    get,
    head_parameters,
    text_cnn,
)
from oodometer.studies.training.architectures.base import Architecture, InputShape
from oodometer.testing import check_model
from tests.support.tiny_architectures import (
    IMAGES,
    NORMED,
    PAIRS,
    PLAIN,
    TEXT,
    VECTORS,
    WORDS,
    Tiny,
)

ALL = (*PLAIN, *NORMED, *WORDS)
PIXELS = np.random.default_rng(0).integers(0, 256, (9, 16, 16, 3), dtype=np.uint8)
each = pytest.mark.parametrize("tiny", ALL, ids=str)


def same(module: Any, other: Any) -> bool:
    return all(
        torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True)
    )


def count(name: str, settings: dict[str, Any], shape: InputShape) -> int:
    return sum(part.numel() for part in get(name, settings).build(shape).parameters())


def test_names_are_unique() -> None:
    names = ["mlp", "text-cnn", "nin", "vgg", "resnet", "small-cnn", "dg-cnn", "encoder", "head"]
    assert list(MEMBERS) == names
    assert [vars(member)["name"] for member in MEMBERS.values()] == names
    assert {tiny.name for tiny in ALL} == {*names} - {"encoder", "head"}


@each
def test_initial_logits_are_finite_and_differ(tiny: Tiny) -> None:
    logits = tiny.build().eval()(tiny.inputs())
    assert logits.shape == (6, 3)
    assert logits.isfinite().all()
    assert logits.std() > 1e-3
    assert isinstance(get(tiny.name, tiny.settings), Architecture)


@each
def test_seed_determines_the_weights(tiny: Tiny) -> None:
    assert same(tiny.build(0), tiny.build(0))
    assert not same(tiny.build(0), tiny.build(1))


@each
def test_outputs_do_not_depend_on_the_batch(tiny: Tiny) -> None:
    module, inputs = tiny.build().eval(), tiny.inputs()
    before = inputs.clone()
    whole = module(inputs)
    assert torch.allclose(torch.cat([module(row[None]) for row in inputs]), whole, atol=1e-5)
    assert torch.allclose(module(inputs.flip(0)), whole.flip(0), atol=1e-5)
    assert torch.equal(inputs, before)


@each
def test_every_weight_has_a_gradient(tiny: Tiny) -> None:
    module = tiny.build()
    loss: Any = cross_entropy(module(tiny.inputs()), torch.arange(6) % 3)
    loss.backward()
    assert all(part.grad is not None for part in module.parameters())


@each
def test_features_are_the_inputs_of_the_last_linear_layer(tiny: Tiny) -> None:
    module = tiny.build()
    head = {name: dict(module.named_parameters())[name] for name in head_parameters(module)}
    (weight,) = [part for name, part in head.items() if name.endswith(".weight")]
    (bias,) = [part for name, part in head.items() if name.endswith(".bias")]
    words = tiny.shape.kind in ("text", "pairs")
    model = TorchModel(module, prepare=(lambda _: tiny.inputs()) if words else None)
    inputs = {"images": PIXELS[:6], "vectors": tiny.inputs().double().numpy()}
    rows = inputs.get(tiny.shape.kind, ["a text"] * 6)
    output, features = model.torch_network().forward_with_features(rows, LAST_LINEAR_INPUT)
    assert features.shape == (6, weight.shape[1])
    logits = features @ weight.detach().numpy().T + bias.detach().numpy()
    assert np.allclose(np.asarray(output.scores), logits, atol=1e-4)


@pytest.mark.parametrize("tiny", [one for one in ALL if one.shape is IMAGES], ids=str)
def test_image_models_pass_the_conformance_check(tiny: Tiny) -> None:
    check_model(TorchModel(tiny.build()), PIXELS)


def stacked_gradients(tiny: Tiny) -> tuple[dict[str, Any], list[Any]]:
    """Return the gradients of three networks by torch.func, and the networks with theirs."""
    networks, inputs = [tiny.build(seed) for seed in range(3)], tiny.inputs()
    labels = torch.arange(18).reshape(3, 6) % 3
    weights, buffers = stack_module_state(networks)

    def loss(weights: Any, buffers: Any, labels: Any) -> Any:
        return cross_entropy(functional_call(networks[0], (weights, buffers), (inputs,)), labels)

    together = vmap(grad(loss), randomness="different")(weights, buffers, labels)
    for network, network_labels in zip(networks, labels, strict=True):
        alone: Any = cross_entropy(network(inputs), network_labels)
        alone.backward()
    return together, networks


@pytest.mark.parametrize("tiny", [*PLAIN, *NORMED, *WORDS], ids=str)
def test_stacked_gradients_match_separate_ones(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_cnn, "INPUT_DROPOUT", 0.0)  # its draws would differ
    together, networks = stacked_gradients(tiny)
    for place, network in enumerate(networks):
        for name, part in network.named_parameters():
            assert torch.allclose(together[name][place], part.grad, atol=1e-5), name


@pytest.mark.parametrize("tiny", PLAIN, ids=str)
def test_dropout_is_active_in_training_mode_only(tiny: Tiny) -> None:
    inputs = tiny.inputs()
    for dropout in (0.0, 0.5):
        module = tiny._replace(settings={**tiny.settings, "dropout": dropout}).build()
        assert torch.equal(module(inputs), module(inputs)) == (dropout == 0)
        module.eval()
        assert torch.equal(module(inputs), module(inputs))


@pytest.mark.parametrize(
    ("name", "shape"),
    [(one.name, one.shape) for one in (*PLAIN[1:], *WORDS) if one.name != "dg-cnn"],
)
def test_width_and_depth_add_parameters(name: str, shape: InputShape) -> None:
    small = count(name, {"width": 8, "depth": 1}, shape)
    assert count(name, {"width": 16, "depth": 1}, shape) > small
    assert count(name, {"width": 8, "depth": 2}, shape) > small


@pytest.mark.parametrize("name", ["small-cnn", "nin", "vgg", "resnet"])
def test_batch_norm_can_be_switched(name: str) -> None:
    for batch_norm in (False, True):
        module = get(name, {"width": 4, "batch_norm": batch_norm}).build(IMAGES)
        norms = [part for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
        layers = [part for part in module.modules() if isinstance(part, torch.nn.Conv2d)]
        assert {part.bias is None for part in layers} == {batch_norm}
        assert len(norms) == batch_norm * len(layers)


def test_unknown_architecture_suggests_the_most_similar() -> None:
    with pytest.raises(UnknownName, match=r"architecture is called 'resnett'.*'resnet'\?"):
        get("resnett", {})


def test_unknown_setting_suggests_the_most_similar() -> None:
    with pytest.raises(UnknownName, match=r"key of the architecture 'mlp'.*'width'\?"):
        get("mlp", {"widht": 4})


def test_setting_without_default_is_required() -> None:
    with pytest.raises(InputError, match=r"architecture 'encoder' has no key 'folder'"):
        get("encoder", {})


INVALID: list[tuple[str, Any, str]] = [
    ("depth", 0, "at least 1"),
    ("depth", 1.5, "a whole number"),
    ("depth", True, "a whole number"),
    ("width", -8, "at least 1"),
    ("width", "8", "a whole number"),
    ("embedding", 0, "at least 1"),
    ("length", 0, "at least 1"),
    ("dropout", -0.1, "at least 0"),
    ("dropout", 1, "below 1"),
    ("dropout", float("nan"), "below 1"),
    ("batch_norm", 1, "true or false"),
    ("folder", "", "a non-empty text"),
    ("pooling", "max", "'mean' or 'cls'"),
]


def test_invalid_settings_are_rejected() -> None:
    wrong = {}
    for name, member in MEMBERS.items():
        required = {"folder": "somewhere"} if name == "encoder" else {}
        for setting, value, allowed in INVALID:
            if setting not in member.__annotations__:
                continue
            message = f"{setting} of the architecture '{name}' must be {allowed}; got {value!r}."
            with pytest.raises(InputError) as caught:
                get(name, {**required, setting: value})
            if message not in str(caught.value):
                wrong[f"{name}: {setting} = {value!r}"] = str(caught.value)
    assert not wrong


@pytest.mark.parametrize(
    ("name", "shape"),
    [("mlp", TEXT), ("nin", VECTORS), ("dg-cnn", PAIRS), ("text-cnn", IMAGES)],
)
def test_other_kind_of_input_is_rejected(name: str, shape: InputShape) -> None:
    with pytest.raises(InputError, match=f"'{name}' accepts .*; got {shape.kind}"):
        get(name, {}).build(shape)


def test_single_class_is_rejected() -> None:
    with pytest.raises(InputError, match="at least two classes; got 1"):
        get("mlp", {}).build(InputShape("vectors", classes=1, size=(3,)))


@pytest.mark.parametrize(
    ("name", "least"), [("small-cnn", 4), ("nin", 4), ("vgg", 8), ("resnet", 4), ("dg-cnn", 2)]
)
def test_too_small_images_are_rejected(name: str, least: int) -> None:
    architecture = get(name, {"width": 8})
    built = architecture.build(InputShape("images", 2, (1, least, least + 1)))
    assert built.eval()(torch.rand(1, 1, least, least + 1)).shape == (1, 2)
    with pytest.raises(InputError, match=rf"{least - 1} × 40 pixels.*at least {least} pixels"):
        architecture.build(InputShape("images", 2, (1, least - 1, 40)))


@dataclass(frozen=True)
class Own:
    """Architecture of another package."""

    width: int = 1

    name: ClassVar[str] = "own"
    label: ClassVar[str] = "Own"
    kinds: ClassVar[tuple[InputKind, ...]] = ("vectors",)

    def build(self, shape: InputShape) -> Any:
        return torch.nn.Linear(shape.size[0], shape.classes)


class Entry:
    """Entry point of that package."""

    name = "own"

    def load(self) -> Any:
        return Own


def test_entry_points_add_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Entry()])
    assert available() == {**MEMBERS, "own": Own}
    assert get("own", {"width": 2}) == Own(2)
    assert head_parameters(torch.nn.Sequential(Own().build(VECTORS))) == {"0.weight", "0.bias"}


def test_registry_does_not_import_torch() -> None:
    code = "import sys, oodometer.studies.training.architectures as a; a.get('vgg', {}); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "tokenizers"} & {*ran.stdout.split()}
