"""Study specs: TOML files and tables, and the messages for invalid ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.metrics import AdversarialError
from oodometer.studies import Study
from oodometer.studies.domains.corrupted_groups import get_group
from oodometer.studies.domains.hypersphere_group import hypersphere
from oodometer.studies.requested_values import NeighborhoodOptions
from oodometer.studies.training.spec import PoolSpec
from oodometer.transforms import SSMBA, Gaussian
from tests.support.study_tasks import SPEC, model, study

POOL = {"name": "little", "group": "hypersphere", "domains": ["0"], "architecture": "mlp"}
TEXT = """
about = "points"
group = "hypersphere"
domains = ["30", "0"]
rows = 50
split = "all"
converged = false
estimators = ["doc"]
temperature = "none"
metrics = ["nll"]
measures = ["entropy-target"]
invariance = ["sphere", { transform = "gaussian", magnitude = 1, draws = 3 }]
seed = 7

[[pools]]
spec = "little.toml"
folder = "trained"

[[models]]
name = "mine"
path = "tests.support.study_tasks:classes_only"
trained_on = "0"
"""


def names(study: Study) -> list[str]:
    return [name for request in study.requests for name in request.names]


def test_every_key_of_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "little.toml").write_text(
        'group = "hypersphere"\ndomains = ["0"]\narchitecture = "mlp"\n'
    )
    (tmp_path / "points.toml").write_text(TEXT)
    found = Study.open(tmp_path / "points.toml")
    assert (found.name, found.about, found.rows, found.split) == ("points", "points", 50, "all")
    assert (found.converged, found.seed, list(found.domains)) == (False, 7, ["30", "0"])
    assert [pool.folder for pool in found.pools] == [tmp_path / "trained"]
    assert [(one.name, one.architecture) for one in found.models] == [("mine", "unnamed")]
    stirred = [f"{name}-sphere" for name in ("ni", "ne", "ei", "pa")]
    stirred += [f"{name}-gaussian draws=3 magnitude=1" for name in ("ni", "ne", "ei", "pa")]
    assert names(found) == ["accuracy", "nll", "doc (pre-T)", *stirred, "entropy-target"]
    assert found.requests[4].component == Gaussian(magnitude=1.0)
    assert [found.requests[i].option for i in (3, 4)] == [
        NeighborhoodOptions(10),
        NeighborhoodOptions(3),
    ]
    assert all("seed 7" in one.settings for one in found.requests[1:])


def test_group_and_folders_default_to_those_of_the_pools() -> None:
    found = Study.open({"pools": ["toy-mlp", PoolSpec.open(POOL)]})
    assert [group.name for group in found.groups] == ["hypersphere"]
    assert [str(pool.folder) for pool in found.pools] == ["pools/toy-mlp", "pools/little"]
    assert list(found.domains) == list(hypersphere().domains)
    assert names(found)[:3] == ["accuracy", "ac", "doc"]
    assert found.converged


def test_duplicate_domain_name_is_prefixed_with_its_group() -> None:
    names = ["cifar-10", "cifar-10/fog-3", "ci10-again/cifar-10"]
    again = replace(get_group("ci10"), name="ci10-again")
    found = Study.open({"models": [model("m", len, "cifar-10")], "domains": names,
                        "group": ["ci10", "ci10-c", again]})  # fmt: skip
    assert [domain.group.name for domain in found.domains.values()] == [
        "ci10",
        "ci10-c",
        "ci10-again",
    ]
    assert [domain.name for domain in found.domains.values()] == [*names[:2], "cifar-10"]


def test_severities_select_the_corruptions_of_a_group() -> None:
    pool = {"name": "one", "group": "ci10", "architecture": "small-cnn"}
    table: dict[str, Any] = {"pools": [{"spec": pool}], "group": "ci10-c"}
    published, relative = (
        Study.open({**table, **more}).domains for more in ({}, {"severities": "relative"})
    )
    assert set(published) - set(relative) == {
        f"{domain}/{name}-{severity}"
        for domain in get_group("ci10").domains
        for name in ("glass_blur", "spatter", "saturate")
        for severity in range(1, 6)
    }
    with pytest.raises(InputError, match="severities of the study must be 'published' or"):
        Study.open({**table, "severities": "own"})


def test_all_none_and_both_select_members() -> None:
    found = study(estimators="none", metrics="all", measures=[], invariance="none")
    assert "nll" in names(found)
    assert not {"ac", "entropy-target"} & set(names(found))
    assert not any(name.startswith("ni-") for name in names(found))
    both = study(estimators="ac", temperature=["none", "fit"], metrics="none", invariance="sphere")
    assert {"ac", "ac (pre-T)"} < set(names(both))
    assert "ni-sphere" in names(both)


def test_metrics_have_settings(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'group = "ci10"\nestimators = "none"\n'
        'metrics = ["nll", "adversarial_error_0.001", { metric = "adversarial_error_0.02", '
        'unit = "rms", steps = 10 }, { metric = "adversarial_error", sizes = [0.5] }]\n'
        '[[models]]\nname = "m"\npath = "tests.support.study_tasks:classes_only"\n'
        'trained_on = "tiny-imagenet"\n'
    )
    found = [request.component for request in Study.open(tmp_path / "a.toml").requests[2:]]
    assert found == [
        AdversarialError(sizes=(0.001,)),
        AdversarialError(sizes=(0.02,), unit="rms", steps=10),
        AdversarialError(sizes=(0.5,)),
    ]
    with pytest.raises(InputError, match="metrics: No setting of nll is called 'bins'"):
        study(metrics=[{"metric": "nll", "bins": 3}])
    with pytest.raises(InputError, match="metrics: unit must be l2 or rms; got 'linf'"):
        study(metrics={"metric": "adversarial_error", "unit": "linf"})


def test_transform_objects_are_accepted() -> None:
    found = study(invariance=[Gaussian(0.5), {"transform": Gaussian(), "draws": 4}])
    assert {"ni-gaussian magnitude=0.5", "ni-gaussian draws=4"} < set(names(found))


def test_strength_and_identity_are_settings_of_transforms(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'group = "sentiment"\n'
        'invariance = ["ssmba", "MS-SSMBA", { transform = "eda", strength = "fixed" },\n'
        '  { transform = "random_replace", strength = "fixed", identity = false, magnitude = 0.3 }]\n'
        '[[models]]\nname = "m"\npath = "tests.support.study_tasks:classes_only"\n'
        'trained_on = "books"\n'
    )
    plain, smooth, fixed, both = Study.open(tmp_path / "a.toml").requests[-4:]
    assert plain.component == SSMBA()
    assert smooth.component == SSMBA(strength="fixed")
    assert [request.option.identity for request in (plain, smooth, fixed, both)] == [
        True, False, True, False,
    ]  # fmt: skip
    assert plain.names == ("ni-ssmba", "ne-ssmba", "ei-ssmba", "pa-ssmba")
    assert smooth.names == (
        "ms-ssmba",
        "mse-ssmba",
        "ei-ssmba identity=false strength=fixed",
        "pa-ssmba identity=false strength=fixed",
    )
    assert fixed.names[0] == "ni-eda strength=fixed"
    assert both.names[:2] == ("ms-random_replace magnitude=0.3", "mse-random_replace magnitude=0.3")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.onnx", np.zeros(1))
    (tmp_path / "mine.onnx.npy").rename(tmp_path / "mine.onnx")
    (tmp_path / "a.toml").write_text(
        'group = "sentiment"\n[[models]]\nname = "m"\npath = "mine.onnx"\ntrained_on = "books"\n'
        '[[invariance]]\ntransform = "ssmba"\nmodel = "filler"\n'
        '[[invariance]]\ntransform = "backtranslate"\ntranslator = ["there", "back"]\n'
    )
    found = Study.open(tmp_path / "a.toml")
    assert found.models[0].path == tmp_path / "mine.onnx"
    ssmba, back = found.requests[-2:]
    assert ssmba.component.model == tmp_path / "filler"
    assert ssmba.names[0] == "ni-ssmba model=filler"
    assert str(tmp_path / "there") in back.settings


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "key": ({"estimator": "ac"}, "No key of the study is called 'estimator'. Did you mean 'estimators'?"),
    "estimators": ({"estimators": ["acc"]}, "estimators: No estimator is called 'acc'. Did you mean 'ac'?"),
    "metrics": ({"metrics": ["nlll"]}, "metrics: No metric is called 'nlll'. Did you mean 'nll'?"),
    "measures": ({"measures": ["mmd"]}, "measures: No measure is called 'mmd'."),
    "transform": ({"invariance": ["spere"]}, "invariance: No transform is called 'spere'."),
    "setting": (
        {"invariance": [{"transform": "sphere", "magnitud": 1}]},
        "invariance: No setting of sphere is called 'magnitud'. Did you mean 'magnitude'?",
    ),
    "bad strength": (
        {"invariance": [{"transform": "ssmba", "strength": "full"}]},
        "invariance: The strength of ssmba must be 'up_to' or 'fixed'; got 'full'.",
    ),
    "no strength": (
        {"invariance": [{"transform": "sphere", "strength": "fixed"}]},
        "invariance: No setting of sphere is called 'strength'.",
    ),
    "odd identity": (
        {"invariance": [{"transform": "sphere", "identity": "no"}]},
        "invariance: identity of a transform must be true or false; got 'no'.",
    ),
    "no transform": ({"invariance": [{"draws": 3}]}, "invariance: A transform has no key 'transform'. Add transform = …."),
    "odd transform": ({"invariance": [3]}, "invariance: transform of a transform must be the name of a transform, a transform object or a function; got 3."),
    "bad magnitude": ({"invariance": [{"transform": "gaussian", "magnitude": -1}]}, "invariance: "),
    "kind": ({"invariance": ["translate"]}, "invariance: 'translate' applies to images, and the domains hold vectors."),
    "twice": ({"invariance": ["sphere", "sphere"]}, "Two values would have the name 'ni-sphere'."),
    "draws": ({"draws": 0}, "draws of the study must be at least 1; got 0."),
    "own draws": (
        {"invariance": [{"transform": "sphere", "draws": 0}]},
        "invariance: draws of a transform must be at least 1; got 0.",
    ),
    "seed": ({"seed": 1.5}, "seed of the study must be a whole number; got 1.5."),
    "rows": ({"rows": True}, "rows of the study must be a whole number; got True."),
    "split": ({"split": "train"}, "split of the study must be 'test' or 'all'; got 'train'."),
    "temperature": ({"temperature": 1.0}, "temperature of the study must be 'fit', 'none' or 'both'; got 1.0."),
    "converged": ({"converged": "yes"}, "converged of the study must be true or false; got 'yes'."),
    "name": ({"name": ""}, "name of the study must be a non-empty text; got ''."),
    "domains": ({"domains": ["0", "31"]}, "No test domain is called '31'. Did you mean '30'?"),
    "no domains": ({"domains": []}, "domains of the study must be 'all' or a list of names; got []."),
    "group": ({"group": "hyperspher"}, "No domain group is called 'hyperspher'."),
    "no group": ({"group": None}, "group is missing"),
    "other kind": ({"group": ["hypersphere", "pacs"]}, "group: 'pacs' holds images, and 'hypersphere' holds vectors."),
    "nothing": ({"models": []}, "pools and models are both missing."),
    "models": ({"models": "mine"}, "A model of the study must be a table; got 'mine'."),
    "no list": ({"models": 3}, "models of the study must be a list; got 3."),
    "model key": ({"models": [{"nam": "a"}]}, "No key of a model of the study is called 'nam'. Did you mean 'name'?"),
    "no path": ({"models": [{"name": "a", "trained_on": "0"}]}, "The model 'a' has no key 'path'. Add path = …."),
    "trained_on": ({"models": [model("a", len, "31")]}, "No domain (trained_on) is called '31'."),
    "trained on nothing": ({"models": [{"name": "a", "path": len, "trained_on": []}]}, "trained_on of the model 'a' must be a domain or a list of domains; got []."),
    "pool": ({"pools": ["toy-mpl"]}, "pools: No pool is called 'toy-mpl'. Did you mean 'toy-mlp'?"),
    "pool file": ({"pools": ["gone.toml"]}, "pools: There is no file 'gone.toml'; expected a TOML file."),
    "pool key": ({"pools": [{"spec": "toy-mlp", "foldr": "x"}]}, "No key of a pool of the study is called 'foldr'."),
    "no spec": ({"pools": [{"folder": "x"}]}, "A pool of the study has no key 'spec'. Add spec = …."),
    "odd pool": ({"pools": [3]}, "spec of a pool of the study must be the name of a pool or the path of a TOML file; got 3."),
}  # fmt: skip


def test_errors_name_the_key_in_one_line() -> None:
    wrong = {}
    for case, (changes, message) in BAD.items():
        with pytest.raises(InputError) as caught:
            Study.open({**SPEC, **changes})
        if message not in str(caught.value) or "\n" in str(caught.value):
            wrong[case] = str(caught.value)
    assert not wrong


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*gone\.toml'; expected a TOML file"):
        Study.open(tmp_path / "gone.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(InputError, match=r"bad\.toml' is not valid TOML: .* Correct the file"):
        Study.open(tmp_path / "bad.toml")
    (tmp_path / "points.toml").write_text("rows = 0")
    with pytest.raises(InputError, match=r"^points\.toml: rows of the study must be at least 1"):
        Study.open(tmp_path / "points.toml")
    with pytest.raises(UnknownName):
        Study.open({"nam": "x"})


def test_groups_with_different_classes_are_rejected() -> None:
    with pytest.raises(InputError, match=r"'pacs' has the classes .* must have the same classes"):
        Study.open({"models": [model("m", len, "mnist")], "group": ["numbers", "pacs"]})


def test_pool_without_models_names_the_training_command(tmp_path: Path) -> None:
    study = Study.open({"pools": [{"spec": "toy-mlp", "folder": str(tmp_path)}]})
    with pytest.raises(
        InputError, match=r"no trained model in .* `oodometer pool run toy-mlp --models-dir"
    ):
        study.available_models()
