"""Networks of timm as models: logits equal those of timm, and clear errors."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import oodometer
from oodometer.core.errors import InputError, MissingExtra, UnknownName
from oodometer.models import timm as timm_models
from oodometer.models.timm import TimmSpec, build_network, join_location
from tests.support.timm_weights import NETWORK, TRANSFORMER, create, save_weights, write_weights

# Models of Table S4 of Wenzel et al. 2022, and the networks of Garg et al. 2022.
PAPER_NETWORKS = (
    "deit_base_distilled_patch16_224",
    "densenet169",
    "efficientnetv2_rw_s",
    "gmlp_s16_224",
    "mixer_b16_224",
    "resmlp_24_224",
    "resnet50d",
    "swin_small_patch4_window7_224",
    "vit_base_patch16_224",
    "densenet121",
    "resnet18",
    "resnet50",
)
# One network per kind of head: linear, convolution (BiT), two heads (distilled), other (LeViT).
HEADS = (NETWORK, TRANSFORMER, "resnetv2_18", "deit_tiny_distilled_patch16_224", "levit_128s")


def torch() -> Any:
    return importlib.import_module("torch")


def images(n: int = 2, side: int = 32, channels: int = 3) -> Any:
    shape = (n, side, side, channels)[: 4 if channels == 3 else 3]
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def timm_probs(network: Any, pixels: Any) -> Any:
    """Return the probabilities of timm's network for images normalized by its own constants."""
    config = network.pretrained_cfg
    values = (pixels / 255 - np.array(config["mean"])) / np.array(config["std"])
    tensor = torch().from_numpy(np.moveaxis(values, -1, 1).astype(np.float32))
    with torch().no_grad():
        return network(tensor).softmax(dim=1).numpy()


@pytest.mark.parametrize("model", HEADS)
def test_probabilities_equal_those_of_timm(model: str) -> None:
    network = create(model, num_classes=5)
    with torch().random.fork_rng():
        torch().manual_seed(0)
        module = build_network(TimmSpec(model=model, classes=5)).eval()
    side = network.pretrained_cfg["input_size"][1] if model not in (NETWORK, "resnetv2_18") else 64
    pixels = images(side=side)
    probs = oodometer.models.TorchModel(module).classify(pixels).probs
    np.testing.assert_allclose(probs, timm_probs(network, pixels), atol=1e-5)


def test_as_model_reads_a_file_of_weights_and_the_number_of_its_classes(tmp_path: Path) -> None:
    network = write_weights(tmp_path / "mine.safetensors", num_classes=4)
    model = oodometer.as_model(f"timm:{NETWORK}", weights=tmp_path / "mine.safetensors")
    predictions = model.classify(images())
    assert model.name == f"{NETWORK}@mine"
    np.testing.assert_allclose(predictions.probs, timm_probs(network, images()), atol=1e-5)
    other = oodometer.as_model(f"timm:{NETWORK}@{tmp_path / 'mine.safetensors'}", name="other")
    assert other.name == "other"
    np.testing.assert_array_equal(other.classify(images()).probs, predictions.probs)


def test_workers_open_the_weights_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_weights(tmp_path / f"{NETWORK}.safetensors", num_classes=3)
    monkeypatch.chdir(tmp_path)
    model = oodometer.as_model(f"timm:{NETWORK}", weights=".")
    sent = pickle.dumps(model)
    monkeypatch.chdir("/")
    received = pickle.loads(sent)
    assert (received.name, len(sent) < 2000) == (NETWORK, True)
    probs = model.classify(images()).probs
    np.testing.assert_array_equal(received.classify(images()).probs, probs)


def test_weights_are_looked_up_in_the_folder_of_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_weights(tmp_path / NETWORK / "model.safetensors", num_classes=3)
    monkeypatch.setenv("OODOMETER_WEIGHTS", str(tmp_path.parent))
    model = oodometer.as_model(f"timm:{NETWORK}", weights=tmp_path.name)
    assert (model.name, model.classify(images()).k) == (NETWORK, 3)


def test_head_of_other_classes_is_new_and_the_body_is_loaded(tmp_path: Path) -> None:
    network = write_weights(tmp_path / "w.safetensors", num_classes=4)
    spec = TimmSpec(
        model=NETWORK, weights=str(tmp_path / "w.safetensors"), classes=7, size=(3, 32, 32)
    )
    module = build_network(spec)
    assert (module.new_head, module.head.out_features) == (True, 7)
    np.testing.assert_array_equal(
        module.body.conv1[0].weight.detach(), network.conv1[0].weight.detach()
    )
    same = build_network(TimmSpec(model=NETWORK, weights=spec.weights, classes=4))
    assert not same.new_head
    np.testing.assert_array_equal(same.head.weight.detach(), network.fc.weight.detach())
    replaced = build_network(
        TimmSpec(model=NETWORK, weights=spec.weights, classes=4, new_head=True)
    )
    assert replaced.new_head
    assert not np.allclose(replaced.head.weight.detach(), network.fc.weight.detach())


def test_weights_without_head_get_a_new_one_only_in_training(tmp_path: Path) -> None:
    tensors = create().state_dict()
    path = tmp_path / "body.safetensors"
    save_weights(path, {name: part for name, part in tensors.items() if not name.startswith("fc")})
    assert build_network(TimmSpec(model=NETWORK, weights=str(path), classes=3)).new_head
    with pytest.raises(InputError, match="have no head"):
        oodometer.as_model(f"timm:{NETWORK}", weights=path)


def test_grayscale_images_are_copied_to_the_channels_of_pretrained_weights(tmp_path: Path) -> None:
    network = write_weights(tmp_path / "w.safetensors", num_classes=3)
    model = oodometer.as_model(f"timm:{NETWORK}", weights=tmp_path / "w.safetensors")
    gray = images(channels=1)
    expected = timm_probs(network, np.repeat(gray[..., None], 3, axis=3))
    np.testing.assert_allclose(model.classify(gray).probs, expected, atol=1e-5)


def test_weights_for_grayscale_images_keep_their_channel(tmp_path: Path) -> None:
    write_weights(tmp_path / "w.safetensors", num_classes=3, in_chans=1)
    model = oodometer.as_model(f"timm:{NETWORK}", weights=tmp_path / "w.safetensors")
    assert model.classify(images(channels=1)).k == 3
    with pytest.raises(InputError, match="failed on 2 images"):
        model.classify(images())


def test_random_network_has_the_channels_and_size_of_the_data() -> None:
    module = build_network(TimmSpec(model=TRANSFORMER, classes=3, size=(1, 48, 48)))
    assert module.body.patch_embed.img_size == (48, 48)
    assert module.body.patch_embed.proj.in_channels == 1


def test_pretrained_network_of_fixed_size_resizes_images(tmp_path: Path) -> None:
    network = write_weights(tmp_path / "w.safetensors", TRANSFORMER, num_classes=3)
    model = oodometer.as_model(f"timm:{TRANSFORMER}", weights=tmp_path / "w.safetensors")
    pixels = images(side=32)
    # Pillow is the slow twin: one channel of one image at a time.
    channels = [
        [Image.fromarray(row[..., c].astype(np.float32)) for c in range(3)] for row in pixels
    ]
    enlarged = np.array(
        [
            np.stack(
                [np.asarray(one.resize((160, 160), Image.Resampling.BICUBIC)) for one in row], 2
            )
            for row in channels
        ]
    )
    expected = timm_probs(network, enlarged)
    assert network.pretrained_cfg["input_size"][1] == 160
    np.testing.assert_allclose(model.classify(pixels).probs, expected, atol=1e-5)


def test_image_size_resizes_images_of_any_architecture() -> None:
    module = build_network(TimmSpec(model=NETWORK, classes=3, size=(3, 32, 32), image_size=64))
    shapes = []
    module.body.register_forward_pre_hook(lambda _, args: shapes.append(tuple(args[0].shape)))
    module(torch().zeros(1, 3, 32, 32))
    assert shapes == [(1, 3, 64, 64)]


def test_networks_of_the_papers_can_be_created() -> None:
    with torch().device("meta"):
        for name in PAPER_NETWORKS:
            network = timm_models.timm_package().create_model(name, num_classes=7)
            head = timm_models._take_head(network)
            assert (type(head).__name__, head.out_features) == ("Linear", 7), name


def test_smallest_network_of_the_papers_runs_on_small_images() -> None:
    module = build_network(TimmSpec(model="resnet18", classes=10, size=(3, 32, 32)))
    assert module(torch().zeros(2, 3, 32, 32)).shape == (2, 10)


def test_imagenet_head_is_reduced_to_the_classes_of_a_group() -> None:
    module = build_network(TimmSpec(model=NETWORK, classes=1000))
    weight = module.head.weight.detach().clone()
    wnids = timm_models.imagenet_classes()
    assert wnids[:2] == ("n01440764", "n01443537")  # tench and goldfish, the first two classes
    timm_models.select_classes(module, [wnids[7], wnids[3]], "x")
    np.testing.assert_array_equal(module.head.weight.detach(), weight[[7, 3]])
    with pytest.raises(InputError, match="have 2 classes, and there are 3 in the group"):
        timm_models.select_classes(module, ["a", "b", "c"], "timm:x")


# Errors -----------------------------------------------------------------------------------------


def test_unknown_network_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"'resnet50dd'\. Similar names: resnet50d,"):
        oodometer.as_model("timm:resnet50dd", weights="none")
    with pytest.raises(UnknownName, match=r"set of weights of timm:resnet50 .*'resnet50.tv_in1k'"):
        oodometer.as_model("timm:resnet50.tv_in", weights="none")


def test_weights_must_be_chosen_once() -> None:
    with pytest.raises(InputError, match=r"timm:resnet18 needs weights\. .*'download'"):
        oodometer.as_model("timm:resnet18")
    with pytest.raises(InputError, match="are given twice: 'a' and 'b'"):
        join_location("timm:resnet18@a", "b")
    with pytest.raises(InputError, match="applies to networks of timm"):
        oodometer.as_model(lambda rows: rows, weights="w.safetensors")


def test_missing_weights_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.safetensors"
    with pytest.raises(InputError, match=r"no file '.*none.safetensors'; expected weights of timm"):
        oodometer.as_model(f"timm:{NETWORK}", weights=missing)
    with pytest.raises(InputError, match=f"has no weights of timm:{NETWORK}; expected the file"):
        oodometer.as_model(f"timm:{NETWORK}", weights=tmp_path)


def test_weights_of_another_network_do_not_fit(tmp_path: Path) -> None:
    write_weights(tmp_path / "vit.safetensors", TRANSFORMER)
    with pytest.raises(
        InputError, match=f"vit.safetensors' do not fit timm:{NETWORK}: Missing"
    ) as e:
        oodometer.as_model(f"timm:{NETWORK}", weights=tmp_path / "vit.safetensors")
    assert "\n" not in str(e.value)


def test_damaged_file_of_weights_is_named(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"no weights")
    with pytest.raises(InputError, match=r"Cannot read the weights '.*w.safetensors' of timm"):
        oodometer.as_model(f"timm:{NETWORK}", weights=tmp_path / "w.safetensors")


def test_pickled_weights_need_trust(tmp_path: Path) -> None:
    network = create(num_classes=3)
    torch().save(network.state_dict(), tmp_path / "w.pth")
    with pytest.raises(InputError, match="opening a pickle can run any code"):
        oodometer.as_model(f"timm:{NETWORK}", weights=tmp_path / "w.pth")
    model = oodometer.as_model(f"timm:{NETWORK}", weights=tmp_path / "w.pth", trust_pickle=True)
    np.testing.assert_allclose(
        model.classify(images()).probs, timm_probs(network, images()), atol=1e-5
    )


def test_images_that_are_too_small_are_an_error() -> None:
    with pytest.raises(InputError, match=r"32 × 32 pixels.*[Ss]et image_size"):
        build_network(TimmSpec(model="inception_v3", classes=3, size=(3, 32, 32)))


def test_number_of_class_names_must_fit(tmp_path: Path) -> None:
    write_weights(tmp_path / "w.safetensors", num_classes=4)
    with pytest.raises(InputError, match="has 4 classes, and class_names has 2"):
        oodometer.as_model(
            f"timm:{NETWORK}", weights=tmp_path / "w.safetensors", class_names=["a", "b"]
        )


def test_failing_download_is_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no connection\nat all")

    monkeypatch.setattr(timm_models.timm_package(), "create_model", fail)
    with pytest.raises(InputError, match=r"cannot download the weights of timm:.*no connection at"):
        oodometer.as_model(f"timm:{NETWORK}", weights="download")


def test_torchvision_for_another_torch_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(timm_models, "require", fail)
    with pytest.raises(MissingExtra, match=r"nms does not exist\. Install the torchvision that"):
        timm_models.timm_package()


def test_naming_a_network_of_timm_imports_neither_timm_nor_torch() -> None:
    code = (
        "import sys; from oodometer.studies.training.architectures import get; "
        "get('timm:resnet50d', {}); sys.exit('timm' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
