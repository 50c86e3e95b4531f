"""Pools of networks of timm: trained whole, head only, or only evaluated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oodometer
from oodometer.core.errors import InputError
from oodometer.data.dataset import InMemoryDataset
from oodometer.models.timm import imagenet_classes, timm_package
from oodometer.parallel.runners import processes
from oodometer.studies._run import run as run_study
from oodometer.studies.spec import Study
from oodometer.studies.training import checkpoint
from oodometer.studies.training._run import run
from oodometer.studies.training._status import status
from oodometer.studies.training.spec import BUILT_IN_FOLDER, PoolSpec
from tests.support import command_line
from tests.support.timm_weights import NETWORK, TRANSFORMER, create, write_weights
from tests.support.training_problems import InMemoryGroup


def image_group(classes: tuple[str, ...] = ("dark", "bright"), side: int = 32) -> InMemoryGroup:
    """Return a group of two domains of random images; brighter images are of later classes."""
    datasets = {}
    for seed, name in enumerate(("one", "two")):
        rng = np.random.default_rng(seed)
        labels = np.arange(16) % len(classes)
        means = 40 + 150 * labels / (len(classes) - 1)
        noise = rng.normal(0, 20, (16, side, side, 3))
        rows = np.clip(means[:, None, None, None] + noise, 0, 255).astype(np.uint8)
        datasets[name] = InMemoryDataset(name, rows, labels)
    sources = tuple((name, ()) for name in datasets)
    return InMemoryGroup("toy", "images", classes, sources, datasets=datasets)


def pool(group: InMemoryGroup | None = None, **changes: Any) -> PoolSpec:
    return PoolSpec.open(
        {
            "group": group or image_group(),
            "domains": ["one"],
            "architecture": f"timm:{NETWORK}",
            "fixed": {"epochs": 1, "batch": 8, "stop_at": "none"},
            **changes,
        }
    )


GROUP_FILE = """
[groups.toy]
classes = ["dark", "bright"]
kind = "images"
each = { reader = "npz", path = "{domain}.npz", share = 0.2 }
domains = ["one", "two"]
"""
POOL_FILE = f"""
group = "group.toml"
domains = ["one"]
architecture = "timm:{NETWORK}"
[fixed]
epochs = 1
batch = 8
stop_at = "none"
[grid]
part = ["whole", "head"]
"""


def write_pool_files(folder: Path) -> None:
    """Write a pool, its group and the images of two domains."""
    (folder / "group.toml").write_text(GROUP_FILE)
    (folder / "pool.toml").write_text(POOL_FILE)
    for name, dataset in image_group().datasets.items():
        np.savez(folder / f"{name}.npz", x=dataset.take(slice(None)), y=np.asarray(dataset.labels))


def test_pool_file_trains_measures_and_ranks_whole_networks_and_heads(tmp_path: Path) -> None:
    write_pool_files(tmp_path)
    done = command_line.run_json(tmp_path, "pool", "run", "pool.toml", "--data-dir", str(tmp_path))
    assert (len(done["trained"]), done["failed"]) == (2, {})
    spec = PoolSpec.open(tmp_path / "pool.toml", data=tmp_path)
    folders = {config.part: f"pools/pool/{config.id}" for config in spec.recipes()}
    one, two = (spec.group.domain(name, "train") for name in ("one", "two"))
    for folder in folders.values():
        model = oodometer.as_model(tmp_path / folder)
        result = oodometer.measure(model, one, two, training_data=one)
        assert {"mmd-gaussian", "fisher-align", "sharpness", "hdh-divergence"} <= set(result.scores)
        # Some measures need several source domains, and two are undefined if one class is predicted
        # or the sum of the logits is negative.
        skipped = {name for name, why in result.skipped.items() if "source domains" not in why}
        assert skipped <= {"dispersion", "l2-path-norm"}
    ranking = command_line.run_json(
        tmp_path,
        "rank",
        *folders.values(),
        "two.npz",
        "--inputs",
        "x",
        "-t",
        "randaugment",
        "--draws",
        "3",
    )
    assert len(ranking["models"]) == 2


def test_workers_train_networks_of_timm(tmp_path: Path) -> None:
    # A worker is another process, which imports torch and timm itself (4 seconds).
    write_pool_files(tmp_path)
    spec = PoolSpec.open(tmp_path / "pool.toml", data=tmp_path)
    result = run(spec, tmp_path / "pool", runner=processes(1), limit=1)
    assert (len(result.trained), result.failed) == (1, {})


def test_head_of_pretrained_network_is_saved_without_its_body(tmp_path: Path) -> None:
    network = write_weights(tmp_path / "w.safetensors", num_classes=5)
    settings = {"weights": str(tmp_path / "w.safetensors")}
    spec = pool(grid={"part": ["whole", "head"]}, fixed={"epochs": 1, "settings": settings})
    assert not run(spec, tmp_path / "pool").failed
    whole, head = (tmp_path / "pool" / config.id for config in spec.recipes())
    assert checkpoint.load_facts(head)["new_head"] == 1
    sizes = [(folder / checkpoint.WEIGHTS_FILE).stat().st_size for folder in (whole, head)]
    assert sizes[1] < sizes[0] / 100
    models: list[Any] = [checkpoint.load_model(head), checkpoint.load_model(head)]
    assert models[0].module.body is models[1].module.body
    np.testing.assert_array_equal(
        models[0].module.body.conv1[0].weight.detach(), network.conv1[0].weight.detach()
    )
    # A network that was trained as a whole does not need the pretrained weights any more, a head
    # does, and detects other weights.
    (tmp_path / "w.safetensors").unlink()
    assert checkpoint.load_model(whole).classify(np.zeros((1, 32, 32, 3), np.uint8)).k == 2
    write_weights(tmp_path / "w.safetensors", num_classes=5, seed=1)
    with pytest.raises(InputError, match="now holds another network"):
        checkpoint.load_model(head)


def test_head_with_the_classes_of_the_group_is_loaded(tmp_path: Path) -> None:
    write_weights(tmp_path / "w.safetensors", num_classes=2)
    settings = {"weights": str(tmp_path / "w.safetensors")}
    spec = pool(fixed={"epochs": 1, "settings": settings})
    run(spec, tmp_path / "pool")
    (folder,) = checkpoint.finished_models(tmp_path / "pool").values()
    assert "new_head" not in checkpoint.load_facts(folder)


def test_missing_weights_stop_a_pool_that_trains(tmp_path: Path) -> None:
    spec = pool(fixed={"settings": {"weights": str(tmp_path / "w.safetensors")}})
    message = (
        rf"settings.weights: There is no file '.*w.safetensors'; expected weights of timm:{NETWORK}"
    )
    with pytest.raises(InputError, match=message):
        run(spec, tmp_path / "pool")


def test_unknown_network_stops_a_pool(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"the pool 'pool': architecture: .*Similar names: test_resnet,"
    ):
        run(pool(architecture="timm:test_resnets"), tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('fixed.settings.weights = "w.safetensors"', "settings.weights: There is no file 'w.safetensors'; expected weights of timm:"),
        ('architecture = "timm:test_resnets"', "architecture: No network of timm is called 'test_resnets'. Similar names: test_resnet,"),
        ('architecture = "timm:test_resnets"\nweights_dir = "w"', "architecture: No network of timm is called 'test_resnets'."),
    ],
)  # fmt: skip
def test_errors_of_a_run_name_the_file_of_the_pool(line: str, message: str, tmp_path: Path) -> None:
    write_pool_files(tmp_path)
    own = "" if "architecture" in line else f'architecture = "timm:{NETWORK}"\n'
    (tmp_path / "mine.toml").write_text(
        f'name = "other"\ngroup = "group.toml"\ndomains = ["one"]\n{own}{line}\n'
    )
    spec = PoolSpec.open(tmp_path / "mine.toml", data=tmp_path)
    with pytest.raises(InputError) as caught:
        run(spec, tmp_path / "pool")
    assert str(caught.value).startswith(f"mine.toml: {message}")
    assert "\n" not in str(caught.value)
    if "weights_dir" in line:
        with pytest.raises(InputError, match=r"^mine\.toml: architecture: No network of timm"):
            status(spec, tmp_path / "pool")


def test_commands_open_networks_of_timm(tmp_path: Path) -> None:
    write_pool_files(tmp_path)
    for seed, name in enumerate(("a", NETWORK)):
        write_weights(tmp_path / f"{name}.safetensors", num_classes=2, seed=seed)
    models = (f"timm:{NETWORK}@a.safetensors", f"timm:{NETWORK}@.")
    options = ("two.npz", "--inputs", "x", "-t", "randaugment", "--draws", "2")
    ranking = command_line.run_json(tmp_path, "rank", *models, *options)
    assert {row["model"] for row in ranking["models"]} == {f"{NETWORK}@a", NETWORK}
    invariance = ("invariance", f"timm:{NETWORK}", *options)
    assert command_line.run(tmp_path, *invariance, "--weights", "a.safetensors").returncode == 0
    failed = command_line.run(tmp_path, *invariance, "--weights", "b.safetensors")
    command_line.assert_one_line_error(failed, "b.safetensors'; expected weights of timm:")


# Networks that are only evaluated ---------------------------------------------------------------


def test_pretrained_networks_are_registered_and_missing_ones_listed(tmp_path: Path) -> None:
    network = write_weights(tmp_path / "weights" / f"{NETWORK}.safetensors", num_classes=2)
    names = [f"timm:{NETWORK}", f"timm:{TRANSFORMER}"]
    spec = pool(architecture=names, fixed={}, weights_dir=str(tmp_path / "weights"))
    folder = tmp_path / "pool"
    assert status(spec, folder).missing == (names[1],)
    result = run(spec, folder)
    assert (len(result.trained), result.registered, result.failed) == (1, 1, {})
    assert result.missing == (names[1],)
    assert f"weights of 1 network are missing: {names[1]}." in result.summary()
    (model,) = checkpoint.finished_models(folder).values()
    assert checkpoint.load_facts(model)["converged"]
    loaded: Any = checkpoint.load_model(model)
    np.testing.assert_array_equal(loaded.module.head.weight.detach(), network.fc.weight.detach())
    # The next run registers the network whose weights have come.
    write_weights(tmp_path / "weights" / f"{TRANSFORMER}.safetensors", TRANSFORMER, num_classes=2)
    again = run(spec, folder)
    assert (again.before, len(again.trained), again.missing) == (1, 1, ())


def test_registered_networks_are_models_of_a_study(tmp_path: Path) -> None:
    write_weights(tmp_path / "weights" / f"{NETWORK}.safetensors", num_classes=2)
    spec = pool(fixed={}, weights_dir=str(tmp_path / "weights"))
    run(spec, tmp_path / "pool")
    table = {"name": "s", "pools": [{"spec": spec, "folder": str(tmp_path / "pool")}]}
    models = Study.open({**table, "metrics": ["error"]}).available_models().models
    assert [model.architecture for model in models] == [f"timm:{NETWORK}"]
    assert models[0].load().classify(np.zeros((1, 32, 32, 3), np.uint8)).k == 2


def test_head_of_imagenet_is_reduced_to_the_classes_of_the_group(tmp_path: Path) -> None:
    network = write_weights(tmp_path / f"{NETWORK}.safetensors", num_classes=1000)
    wnids = imagenet_classes()
    spec = pool(image_group((wnids[9], wnids[2])), fixed={}, weights_dir=str(tmp_path))
    run(spec, tmp_path / "pool")
    (folder,) = checkpoint.finished_models(tmp_path / "pool").values()
    loaded: Any = checkpoint.load_model(folder)
    expected = network.fc.weight.detach()[[9, 2]]
    np.testing.assert_array_equal(loaded.module.head.weight.detach(), expected)


def test_other_numbers_of_classes_fail_with_the_reason(tmp_path: Path) -> None:
    write_weights(tmp_path / f"{NETWORK}.safetensors", num_classes=5)
    result = run(pool(fixed={}, weights_dir=str(tmp_path)), tmp_path / "pool")
    (reason,) = result.failed.values()
    assert "have 5 classes, and there are 2 in the group" in reason


def test_only_networks_of_timm_can_be_evaluated_without_training(tmp_path: Path) -> None:
    result = run(pool(architecture="small-cnn", fixed={"part": "none"}), tmp_path)
    (reason,) = result.failed.values()
    assert "'small-cnn' has no pretrained head" in reason


def test_weights_dir_excludes_part_and_weights() -> None:
    with pytest.raises(InputError, match=r"part is set in more than one of .*weights_dir"):
        pool(fixed={"part": "head"}, weights_dir="weights")


def write_study(folder: Path, model: str, weights: str) -> Path:
    path = folder / "study.toml"
    path.write_text(
        'group = "hypersphere"\nmetrics = ["error"]\n[[models]]\nname = "mine"\ntrained_on = "0"\n'
        f'path = "timm:{model}"\nweights = "{weights}"\n'
    )
    return path


def test_user_model_of_a_study_is_a_network_of_timm(tmp_path: Path) -> None:
    write_weights(tmp_path / "w.safetensors", num_classes=2)
    write_study(tmp_path, NETWORK, "w.safetensors")
    (model,) = Study.open(tmp_path / "study.toml").available_models().models
    assert model.load().name == "mine"
    before = model.key
    write_weights(tmp_path / "w.safetensors", num_classes=2, seed=1)
    assert Study.open(tmp_path / "study.toml").available_models().models[0].key != before


def test_missing_weights_and_unknown_networks_of_a_study_are_named(tmp_path: Path) -> None:
    message = (
        r"^study\.toml: the model 'mine': weights: There is no file '.*w.safetensors'; expected .*"
    )
    with pytest.raises(InputError, match=message):
        Study.open(write_study(tmp_path, NETWORK, "w.safetensors"))
    study = Study.open(write_study(tmp_path, "test_resnets", "none"))
    message = (
        r"^the study 'study': the model 'mine': path: No network .*Similar names: test_resnet,"
    )
    with pytest.raises(InputError, match=message):
        run_study(study, tmp_path / "store")


def test_pickled_weights_of_a_study_need_trust_only_to_be_loaded(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save(create(num_classes=2).state_dict(), tmp_path / "w.pth")
    path = write_study(tmp_path, NETWORK, "w.pth")
    for trusted in (False, True):
        (model,) = Study.open(path, trust_pickle=trusted).available_models().models
        if trusted:
            assert model.load().name == "mine"
        else:
            with pytest.raises(InputError, match="opening a pickle can run any code"):
                model.load()


# The pool of the ImageNet Testbed ---------------------------------------------------------------


def test_testbed_lists_196_networks_and_timm_has_the_named_ones() -> None:
    text = (BUILT_IN_FOLDER / "imagenet-testbed.toml").read_text()
    with_name = dict(re.findall(r'^  "timm:(\S+)", # (\S+)$', text, flags=re.MULTILINE))
    without = re.sub(r"\n# ", " ", text.partition("Without a counterpart:")[2]).strip().split(", ")
    assert len({*with_name.values(), *without}) == len(with_name) + len(without) == 196
    assert set(with_name) <= set(timm_package().list_pretrained())
    spec = PoolSpec.open("imagenet-testbed")
    assert [config.architecture for config in spec.recipes()] == [f"timm:{n}" for n in with_name]
    assert {config.part for config in spec.recipes()} == {"none"}


def test_status_of_the_testbed_lists_missing_weights(tmp_path: Path) -> None:
    shown = command_line.run(tmp_path, "pool", "status", "imagenet-testbed").stdout
    assert "The pretrained weights of 92 networks are missing: timm:" in " ".join(shown.split())
