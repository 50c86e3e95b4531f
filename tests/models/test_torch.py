"""Torch networks as models: evaluation mode, copies, fused layers, exported programs."""

from __future__ import annotations

import hashlib
import pickle
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.models import TorchModel, as_model
from oodometer.models._batchnorm_fusion import fuse_batchnorm
from oodometer.testing import check_model, toy_inputs

IMAGES = np.random.default_rng(0).integers(0, 256, (11, 12, 12, 3), dtype=np.uint8)


class Residual(nn.Module):
    """Convolutions and norms outside of a Sequential, and a norm without a convolution before it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.lone = nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lone(torch.relu(x + self.norm(self.conv(x))))  # type: ignore[no-any-return]


def network(channels: int = 3) -> nn.Sequential:
    """Return a small network in training mode, with running statistics and dropout."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(channels, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(), Residual(),
        nn.Dropout(0.5), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    for _ in range(5):
        network(3 * torch.rand(16, channels, 12, 12) + 1)
    return network


def literal(module: nn.Module, images: Array) -> Array:
    """Return logits image by image, in evaluation mode."""
    module.eval()
    rows = []
    with torch.no_grad():
        for image in images:
            channels_first = np.moveaxis(image if image.ndim == 3 else image[..., None], -1, 0)
            rows.append(module(torch.tensor(channels_first[None] / 255, dtype=torch.float32))[0])
    return torch.stack(rows).numpy()


def scores(thing: Any, inputs: Any, **settings: Any) -> Array:
    model = thing if isinstance(thing, TorchModel) else as_model(thing, **settings)
    predictions = model.classify(inputs)
    assert predictions.score_type == "logits"
    assert predictions.scores is not None
    return predictions.scores


def digest(module: nn.Module) -> str:
    state = module.state_dict()
    return hashlib.sha256(b"".join(state[key].numpy().tobytes() for key in state)).hexdigest()


def test_logits_equal_those_of_a_loop_over_images() -> None:
    for images, channels in ((IMAGES, 3), (IMAGES[..., 0], 1), (IMAGES[..., :1], 1)):
        predictions = scores(network(channels), images)
        assert np.allclose(predictions, literal(network(channels), images), atol=1e-5, rtol=0)


def test_module_is_not_changed() -> None:
    module = network()
    module[4].eval()
    flags = [part.training for part in module.modules()]
    before, layout = digest(module), module[0].weight.stride()  # type: ignore[operator]
    model = TorchModel(module)
    inside = digest(model.module)
    model.classify(IMAGES)
    assert digest(module) == before
    assert [part.training for part in module.modules()] == flags
    assert module[0].weight.stride() == layout  # type: ignore[operator]
    assert digest(model.module) == inside
    assert torch.is_grad_enabled()


def test_torch_model_passes_the_model_check() -> None:
    check_model(as_model(network(), batch_size=4), IMAGES)


def test_batch_size_changes_only_the_batches() -> None:
    one, other = (scores(network(), IMAGES, batch_size=size) for size in (3, 11))
    assert np.allclose(one, other, atol=1e-6)


def test_batch_norms_after_convolutions_are_folded() -> None:
    module = network().eval()
    quick = fuse_batchnorm(module)
    assert quick is not None
    calls = [node.target for node in quick.graph.nodes if node.op == "call_module"]
    assert "1" not in calls
    assert "3.norm" not in calls
    assert "3.lone" in calls
    assert isinstance(module[1], nn.BatchNorm2d)
    x = torch.rand(5, 3, 12, 12)
    with torch.no_grad():
        assert torch.allclose(quick(x), module(x), atol=1e-5)


def test_networks_without_foldable_norms_are_not_fused() -> None:
    assert fuse_batchnorm(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU())) is None
    assert fuse_batchnorm(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()) is None
    unkept = nn.BatchNorm2d(4, track_running_stats=False)
    assert fuse_batchnorm(nn.Sequential(nn.Conv2d(3, 4, 1), unkept).eval()) is None
    shared = nn.Conv2d(3, 3, 1)
    twice = nn.Sequential(shared, nn.BatchNorm2d(3), shared, nn.BatchNorm2d(3))
    assert fuse_batchnorm(twice.eval()) is None


class Wandering(nn.Module):
    """Network whose control flow depends on its inputs, so that it cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) if x.sum() > 0 else -self.body(x)  # type: ignore[no-any-return]


class Deceptive(Wandering):
    """Network that is traced wrongly, because a tracer's proxy is not a tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) if isinstance(x, torch.Tensor) else self.body(x) + 1.0  # type: ignore[no-any-return]


def test_untraceable_networks_run_unfused() -> None:
    assert fuse_batchnorm(Wandering().eval()) is None
    assert fuse_batchnorm(Deceptive().eval()) is not None
    for module in (Wandering(), Deceptive()):
        model = TorchModel(module)
        assert np.allclose(scores(model, IMAGES), literal(network(), IMAGES), atol=1e-5)
        assert model._fast is model.module


def test_images_are_normalized_by_mean_and_std() -> None:
    class Means(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(dim=(2, 3))

    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    predictions = scores(TorchModel(Means(), mean=mean, std=std), IMAGES)
    assert np.allclose(predictions, ((IMAGES / 255 - mean) / std).mean(axis=(1, 2)), atol=1e-5)
    with pytest.raises(InputError, match="mean and std must be passed together"):
        TorchModel(Means(), mean=mean)


def test_vectors_have_the_type_of_the_weights() -> None:
    for dtype in (torch.float32, torch.float64):
        module = nn.Sequential(nn.Linear(20, 3)).to(dtype)
        check_model(as_model(module), toy_inputs("vectors"))


Output = namedtuple("Output", "first second")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: (y, y + 1),
        lambda y: Output(y, y + 1),
        lambda y: [y],
        lambda y: {"logits": y},
        lambda y: type("Rich", (), {"logits": y})(),
    ],
)
def test_logits_are_extracted_from_the_output(wrap: Any) -> None:
    class Wrapped(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return wrap(x)

    rows = np.array([[1.0, 2.0], [4.0, 3.0]])
    assert as_model(Wrapped()).classify(rows).classes.tolist() == [1, 0]


def test_other_outputs_must_be_declared() -> None:
    class Given(nn.Module):
        def __init__(self, value: Any) -> None:
            super().__init__()
            self.value = value

        def forward(self, x: torch.Tensor) -> Any:
            return self.value

    rows = np.zeros((2, 3))
    picks = as_model(Given(torch.tensor([1, 0])), outputs="classes").classify(rows)
    assert picks.classes.tolist() == [1, 0]
    with pytest.raises(InputError, match="at least two; got 1"):
        as_model(Given(torch.zeros(2, 1))).classify(rows)
    with pytest.raises(InputError, match='pass outputs="classes"'):
        as_model(Given(torch.tensor([1, 0]))).classify(rows)
    with pytest.raises(InputError, match="returned a str"):
        as_model(Given("text")).classify(rows)


def test_texts_need_prepare_which_may_return_keyword_arguments() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.EmbeddingBag(256, 3)

        def forward(self, ids: torch.Tensor, shift: torch.Tensor | float = 0.0) -> torch.Tensor:
            return self.table(ids) + shift  # type: ignore[no-any-return]

    def ids(texts: list[str]) -> Array:
        return np.array([[ord(text[0]), len(text)] for text in texts])

    texts = ["one", "three", "six"]
    with pytest.raises(InputError, match=r"takes tensors, not text\. Pass prepare="):
        as_model(Bag()).classify(texts)
    module = Bag()
    plain = scores(module, texts, prepare=ids)
    named = scores(module, texts, prepare=lambda t: {"ids": torch.tensor(ids(t))})
    two = scores(module, texts, prepare=lambda t: (ids(t), np.ones((len(t), 1), "f4")))
    assert np.array_equal(plain, named)
    assert np.allclose(plain + 1, two)


def test_wrong_image_size_raises_one_line() -> None:
    with pytest.raises(
        InputError, match=r"'Sequential' failed on 11 images of shape \(12, 12\): R"
    ):
        as_model(network()).classify(IMAGES[..., 0])


def test_module_that_cannot_be_copied_raises() -> None:
    module = nn.Linear(2, 2)
    module.kept = module.weight * 2
    with pytest.raises(InputError, match="'Linear' cannot be copied: RuntimeError"):
        as_model(module)


def test_model_can_be_pickled() -> None:
    model = TorchModel(network())
    before = scores(model, IMAGES)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(scores(again, IMAGES), before)


def exported(module: nn.Module) -> Any:
    rows = {0: torch.export.Dim("rows", min=1, max=512)}
    return torch.export.export(module, (torch.rand(4, 3, 12, 12),), dynamic_shapes=(rows,))


def test_program_exported_in_evaluation_mode_runs(tmp_path: Path) -> None:
    program = exported(network().eval())
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(InputError, match=r"net.pt2' is a pickle"):
        as_model(tmp_path / "net.pt2")
    expected = literal(network(), IMAGES)
    for thing in (program, tmp_path / "net.pt2"):
        predictions = scores(thing, IMAGES, trust_pickle=True)
        assert np.allclose(predictions, expected, atol=1e-5)


@pytest.mark.parametrize("part", [nn.BatchNorm2d(3), nn.Dropout(0.5)])
def test_program_exported_in_training_mode_raises(part: nn.Module) -> None:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(InputError, match="was exported in training mode"):
        as_model(exported(nn.Sequential(part, *head).train()))


class InPlace(nn.Module):
    """Module that modifies its input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 12), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return self.norm(self.conv(x)).flatten(1)  # type: ignore[no-any-return]


@pytest.mark.parametrize("prepared", [False, True])
def test_inputs_are_copied_for_modules_that_modify_them(prepared: bool) -> None:
    torch.manual_seed(0)
    module = InPlace().eval()
    rows = np.random.default_rng(0).normal(size=(5, 3, 12, 12)).astype(np.float32)
    before = rows.copy()
    model = TorchModel(module, prepare=torch.from_numpy if prepared else None)
    with torch.no_grad():
        expected = module(torch.from_numpy(rows.copy())).numpy()
    for _ in range(2):
        assert np.allclose(np.asarray(model.classify(rows).scores), expected, atol=1e-5)
        assert np.array_equal(rows, before)
