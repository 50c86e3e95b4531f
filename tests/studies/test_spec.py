"""Studies as they are written, and what is wrong with some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies import Study
from oodometer.studies.domains.corrupted_groups import get_group
from oodometer.studies.domains.hypersphere_group import hypersphere
from oodometer.studies.training.spec import PoolSpec
from oodometer.transforms import Gaussian
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


def names(of: Study) -> list[str]:
    return [name for one in of.requests for name in one.names]


def test_a_file_says_all_of_it(tmp_path: Path) -> None:
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
    assert (found.requests[3].option, found.requests[4].option) == (10, 3)
    assert all("seed 7" in one.settings for one in found.requests[1:])


def test_the_group_is_the_pools_and_their_folders_are_where_pools_are_trained() -> None:
    found = Study.open({"pools": ["toy-mlp", PoolSpec.open(POOL)]})
    assert [group.name for group in found.groups] == ["hypersphere"]
    assert [str(pool.folder) for pool in found.pools] == ["pools/toy-mlp", "pools/little"]
    assert list(found.domains) == list(hypersphere().domains)
    assert names(found)[:3] == ["accuracy", "ac", "doc"]
    assert found.converged


def test_of_several_groups_a_name_that_stands_twice_has_its_group_before_it() -> None:
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


def test_words_for_all_for_none_and_for_both() -> None:
    found = study(estimators="none", metrics="all", measures=[], invariance="none")
    assert "nll" in names(found)
    assert not {"ac", "entropy-target"} & set(names(found))
    assert not any(name.startswith("ni-") for name in names(found))
    both = study(estimators="ac", temperature=["none", "fit"], metrics="none", invariance="sphere")
    assert {"ac", "ac (pre-T)"} < set(names(both))
    assert "ni-sphere" in names(both)


def test_a_transform_may_be_given_as_it_is() -> None:
    found = study(invariance=[Gaussian(0.5), {"transform": Gaussian(), "draws": 4}])
    assert {"ni-gaussian magnitude=0.5", "ni-gaussian draws=4"} < set(names(found))


def test_paths_are_seen_from_the_file(tmp_path: Path) -> None:
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
    "key": ({"estimator": "ac"}, "No key of a study is called 'estimator'. Did you mean 'estimators'?"),
    "estimators": ({"estimators": ["acc"]}, "estimators: No estimator is called 'acc'. Did you mean 'ac'?"),
    "metrics": ({"metrics": ["nlll"]}, "metrics: No metric is called 'nlll'. Did you mean 'nll'?"),
    "measures": ({"measures": ["mmd"]}, "measures: No measure is called 'mmd'."),
    "transform": ({"invariance": ["spere"]}, "invariance: No transform is called 'spere'."),
    "setting": (
        {"invariance": [{"transform": "sphere", "magnitud": 1}]},
        "invariance: No setting of sphere is called 'magnitud'. Did you mean 'magnitude'?",
    ),
    "no transform": ({"invariance": [{"draws": 3}]}, "invariance: It must say transform = …"),
    "odd transform": ({"invariance": [3]}, "invariance: A transform is given by its name or as it is; got 3."),
    "bad magnitude": ({"invariance": [{"transform": "gaussian", "magnitude": -1}]}, "invariance: "),
    "kind": ({"invariance": ["translate"]}, "invariance: 'translate' changes images, and the domains are of vectors."),
    "twice": ({"invariance": ["sphere", "sphere"]}, "Two values would be called 'ni-sphere'."),
    "draws": ({"draws": 0}, "draws must be a whole number of 1 or more; got 0."),
    "own draws": (
        {"invariance": [{"transform": "sphere", "draws": 0}]},
        "invariance: draws must be a whole number of 1 or more; got 0.",
    ),
    "seed": ({"seed": 1.5}, "seed must be a whole number; got 1.5."),
    "rows": ({"rows": True}, "rows must be a whole number of 1 or more; got True."),
    "split": ({"split": "train"}, "split must be \"test\" or \"all\"; got 'train'."),
    "temperature": ({"temperature": 1.0}, 'temperature must be "fit" or "none" or "both"; got 1.0.'),
    "converged": ({"converged": "yes"}, "converged must be true or false; got 'yes'."),
    "name": ({"name": ""}, "name must be a text; got ''."),
    "domains": ({"domains": ["0", "31"]}, "No test domain is called '31'. Did you mean '30'?"),
    "no domains": ({"domains": []}, 'domains must be "all" or a list of names; got [].'),
    "group": ({"group": "hyperspher"}, "No domain group is called 'hyperspher'."),
    "no group": ({"group": None}, "group is missing"),
    "other kind": ({"group": ["hypersphere", "pacs"]}, "group: 'pacs' holds images, and 'hypersphere' vectors."),
    "nothing": ({"models": []}, "pools and models are both missing."),
    "models": ({"models": "mine"}, "models must be tables, [[models]] each; got 'mine'."),
    "no list": ({"models": 3}, "models must be a list; got 3."),
    "model key": ({"models": [{"nam": "a"}]}, "No key of a model of a study is called 'nam'. Did you mean 'name'?"),
    "no path": ({"models": [{"name": "a", "trained_on": "0"}]}, "models: a must say path = …"),
    "trained_on": ({"models": [model("a", len, "31")]}, "No domain (trained_on) is called '31'."),
    "trained on nothing": ({"models": [{"name": "a", "path": len, "trained_on": []}]}, "models: trained_on must be"),
    "pool": ({"pools": ["toy-mpl"]}, "pools: No pool is called 'toy-mpl'. Did you mean 'toy-mlp'?"),
    "pool file": ({"pools": ["gone.toml"]}, "pools: There is no file 'gone.toml'."),
    "pool key": ({"pools": [{"spec": "toy-mlp", "foldr": "x"}]}, "No key of a pool of a study is called 'foldr'."),
    "no spec": ({"pools": [{"folder": "x"}]}, "pools: a pool must say spec = …"),
    "odd pool": ({"pools": [3]}, "pools: A pool is named, or is a TOML file; got 3."),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_with_its_key(case: str) -> None:
    changes, message = BAD[case]
    with pytest.raises(InputError) as refused:
        Study.open({**SPEC, **changes})
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*gone\.toml"):
        Study.open(tmp_path / "gone.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(InputError, match=r"bad\.toml' is no TOML: .* Correct it there"):
        Study.open(tmp_path / "bad.toml")
    with pytest.raises(UnknownName):
        Study.open({"nam": "x"})


def test_groups_of_other_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"'pacs' has the classes .* Give groups of the same"):
        Study.open({"models": [model("m", len, "mnist")], "group": ["numbers", "pacs"]})


def test_a_pool_without_models_says_how_to_train_them(tmp_path: Path) -> None:
    lone = Study.open({"pools": [{"spec": "toy-mlp", "folder": str(tmp_path)}]})
    with pytest.raises(InputError, match=r"no trained model in .* oodometer pool run toy-mlp"):
        lone.available_models()
