"""Pool specs: deterministic expansion, random search, and messages for invalid ones."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.domains import group as groups
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.build import build_network
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec, built_in_names, built_in_path

REFERENCE = Path(__file__).parent.parent.parent.parent / "benchmarks" / "pools"
GROUP = {
    "groups": {
        "sites": {
            "kind": "images",
            "classes": ["cat", "dog"],
            "domains": {
                name: {"reader": "folder", "path": f"{name}/"} for name in ("north", "east", "west")
            },
        }
    }
}


def spec_of(**keys: Any) -> PoolSpec:
    return PoolSpec.open({"group": GROUP, "architecture": "mlp", **keys})


def nested_loops(
    grid: dict[str, list[Any]], seeds: int, settings: dict[str, Any]
) -> list[TrainingConfig]:
    """Return the configurations by nested loops, from the seed to the domain."""
    return [
        TrainingConfig(
            "sites", (domain,), "mlp", settings, seed=seed, **dict(zip(grid, point, strict=True))
        )
        for seed in range(seeds)
        for point in product(*grid.values())
        for domain in ("north", "east", "west")
    ]


def test_grid_is_the_cross_product_in_the_order_of_the_file() -> None:
    grid: dict[str, list[Any]] = {"batch": [8, 16], "lr": [0.1, 0.01, 0.001]}
    found = spec_of(seeds=2, grid=grid, fixed={"settings": {"width": 4}}).recipes()
    full = {"width": 4, "depth": 1, "dropout": 0.0}
    assert list(found) == nested_loops(grid, 2, full)
    assert [recipe.id for recipe in found] == [recipe.id for recipe in nested_loops(grid, 2, full)]


def test_file_and_table_give_the_same_configurations(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("""
group = "sites.toml"
architecture = ["mlp", "small-cnn"]
seeds = [3, 5]
[fixed]
settings.width = 8
[grid]
settings.depth = [1, 2]
weight_decay = [0, 1e-4]
""")
    (tmp_path / "sites.toml").write_text(
        '[groups.sites]\nkind = "images"\nclasses = ["cat", "dog"]\n'
        'domains = ["north", "east", "west"]\neach = {reader = "folder", path = "{domain}/"}\n'
    )
    spec = PoolSpec.open(path)
    table = spec_of(
        architecture=["mlp", "small-cnn"],
        seeds=[3, 5],
        fixed={"settings.width": 8},
        grid={"settings": {"depth": [1, 2]}, "weight_decay": [0.0, 1e-4]},
    )
    assert spec.name == "mine"
    assert spec.recipes() == table.recipes()
    assert len(spec.recipes()) == 2 * 2 * 2 * 2 * 3


@pytest.mark.parametrize(
    ("domains", "sets"),
    [
        ("each", [("north",), ("east",), ("west",)]),
        ("all-but-one", [("east", "west"), ("north", "west"), ("north", "east")]),
        (["west", "north"], [("west",), ("north",)]),
        ([["west", "north"], "east"], [("north", "west"), ("east",)]),
    ],
)
def test_sets_of_training_domains(domains: Any, sets: list[tuple[str, ...]]) -> None:
    assert [recipe.domains for recipe in spec_of(domains=domains).recipes()] == sets


def test_duplicate_configurations_are_removed() -> None:
    spec = spec_of(grid={"batch": [8, 8, 16], "weight_decay": [0, 0.0]}, domains=["east", "east"])
    assert [(recipe.batch, recipe.weight_decay) for recipe in spec.recipes()] == [(8, 0), (16, 0)]


def test_default_settings_do_not_change_the_id() -> None:
    named = spec_of(fixed={"settings": {"width": 16, "depth": 1, "dropout": 0}})
    assert [one.id for one in named.recipes()] == [one.id for one in spec_of().recipes()]


def test_keys_of_a_part_override_those_of_the_pool() -> None:
    spec = spec_of(
        domains=["east"],
        fixed={"lr": 0.1, "settings": {"width": 8}},
        grid={"batch": [8, 16]},
        parts=[
            {"grid": {"batch": [32]}},
            {"architecture": "small-cnn", "domains": ["west"], "fixed": {"settings": {"depth": 2}}},
        ],
    )
    found = [
        (one.architecture, one.domains, one.batch, one.lr, one.settings["width"])
        for one in spec.recipes()
    ]
    assert found == [
        ("mlp", ("east",), 32, 0.1, 8),
        ("small-cnn", ("west",), 8, 0.1, 8),
        ("small-cnn", ("west",), 16, 0.1, 8),
    ]
    assert [one.settings["depth"] for one in spec.recipes()] == [1, 2, 2]


def test_none_is_written_as_text() -> None:
    spec = spec_of(domains=["east"], fixed={"stop_at": "none"}, grid={"few_shot": ["none", 10]})
    assert [(one.stop_at, one.few_shot) for one in spec.recipes()] == [(None, None), (None, 10)]


# Random search -----------------------------------------------------------------------------------------

SWEEP: dict[str, Any] = {
    "lr": {"log10": [-4.5, -2.5]},
    "batch": {"log2": [3, 9]},
    "label_noise": {"uniform": [0, 0.3]},
    "settings": {"dropout": {"choice": [0, 0.1, 0.5]}},
}


def swept(count: int, **keys: Any) -> tuple[TrainingConfig, ...]:
    return spec_of(domains=["east"], sweep={"count": count, **SWEEP, **keys}).recipes()


@given(st.integers(1, 30), st.integers(0, 30), st.integers(-5, 5))
def test_larger_sweep_extends_a_smaller_one(count: int, more: int, seed: int) -> None:
    assert swept(count + more, seed=seed)[:count] == swept(count, seed=seed)


def test_drawn_values_cover_their_distribution() -> None:
    found = swept(400)
    bounds: dict[str, tuple[float, float]] = {
        "lr": (10**-4.5, 10**-2.5), "batch": (8, 511), "label_noise": (0, 0.3),
    }  # fmt: skip
    for name, (low, high) in bounds.items():
        values = [getattr(recipe, name) for recipe in found]
        assert low <= min(values) < max(values) <= high
    assert {type(one.batch) for one in found} == {int}
    assert 150 < sum(one.batch < 2**6 for one in found) < 250  # the middle of the powers
    assert 150 < sum(one.lr < 10**-3.5 for one in found) < 250
    assert 150 < sum(one.label_noise < 0.15 for one in found) < 250
    dropouts = [one.settings["dropout"] for one in found]
    assert {value: 90 < dropouts.count(value) < 180 for value in (0.0, 0.1, 0.5)} == dict.fromkeys(
        (0.0, 0.1, 0.5), True
    )


def test_integer_settings_are_drawn_as_integers() -> None:
    found = swept(100, settings={"width": {"log2": [3, 6]}, "dropout": {"uniform": [0, 0.5]}})
    widths = {one.settings["width"] for one in found}
    assert {type(width) for width in widths} == {int}
    assert (min(widths), max(widths)) == (8, 63)
    assert {type(one.settings["dropout"]) for one in found} == {float}


def test_keys_are_drawn_independently() -> None:
    alone = spec_of(domains=["east"], sweep={"count": 5, "lr": SWEEP["lr"]}).recipes()
    assert [one.lr for one in alone] == [one.lr for one in swept(5)]
    assert [one.lr for one in swept(5, seed=1)] != [one.lr for one in swept(5)]


def test_domains_share_draws_and_models_have_own_seeds() -> None:
    found = spec_of(sweep={"count": 2, **SWEEP}).recipes()
    assert [one.seed for one in found] == [0, 0, 0, 1, 1, 1]
    assert len({one.lr for one in found}) == 2


def test_sweep_combines_with_grid_and_seeds() -> None:
    found = spec_of(
        domains=["east"], seeds=3, grid={"epochs": [5, 6]}, sweep={"count": 4, **SWEEP}
    ).recipes()
    assert len(found) == 3 * 2 * 4
    assert {one.seed for one in found} == {0, 1, 2}


def test_drawn_numbers_have_six_digits() -> None:
    assert all(float(f"{one.lr:.6g}") == one.lr for one in swept(50))


def test_draws_of_a_known_sweep_never_change() -> None:
    """A change of the draws would require training all sweeps again."""
    found = PoolSpec.open(
        {"group": "hypersphere", "architecture": "mlp", "domains": ["0"],
         "sweep": {"count": 2, "lr": {"log10": [-4, -2]}}}
    )  # fmt: skip
    assert [one.lr for one in found.recipes()] == [0.000534214, 0.00139094]


# Built-in specs -----------------------------------------------------------------

# Number of models of each pool; where a paper states the number, it is written as a plain number.
SIZES = {
    "ao-pacs": 4 * 9 * 72,
    "atc-amazon-wilds": 4,
    "imagenet-testbed": 92,
    "atc-cifar-10": 2 * 2 * 4,
    "atc-cifar-100": 2 * 4,
    "atc-civilcomments": 4,
    "atc-entity-13": 2 * 4,
    "atc-entity-30": 2 * 4,
    "atc-fmow": 2 * 4,
    "atc-imagenet": 2 * 4,
    "atc-imagenet-200": 2 * 4,
    "atc-living-17": 2 * 4,
    "atc-mnist": 4,
    "atc-nonliving-26": 2 * 4,
    "atc-rxrx1": 2 * 4,
    "cnn-cinic-10": 128,
    "dg-pacs": 4 * 20,
    "dg-rotated-mnist": 6 * 20,
    "dg-vlcs": 4 * 20,
    "dg-vlcs-coral": 3000,
    "nin-cifar-10": 32,
    "nin-svhn": 54,
    "resnet-cifar-10": 216,
    "roberta-nli": 270,
    "roberta-sa": 540,
    "text-cnn-nli": 5 * 162,
    "text-cnn-sa": 10 * 243,
    "text-cnn-sa-ms": 1620,
    "toy-mlp": 200,
    "vgg-cifar-10": 54,
}
# Number of values of each key that varies (Ng et al. 2023, Table 1).
TABLE_1 = {
    "nin-svhn": {"batch": 3, "depth": 3, "dropout": 3, "weight_decay": 2},
    "nin-cifar-10": {"batch": 2, "depth": 2, "width": 2, "dropout": 2, "weight_decay": 2},
    "vgg-cifar-10": {"batch": 3, "depth": 3, "dropout": 3, "weight_decay": 2},
    "resnet-cifar-10": {
        "width": 3, "weight_decay": 3, "lr": 2, "batch_norm": 2, "seed": 3, "augment": 2,
    },
    "cnn-cinic-10": {
        "batch": 2, "depth": 2, "width": 4, "weight_decay": 2, "lr": 2, "batch_norm": 2,
    },
    "text-cnn-sa": {"domains": 10, "batch": 3, "depth": 3, "width": 3, "dropout": 3, "weight_decay": 3},
    "text-cnn-sa-ms": {"domains": 10, "batch": 3, "depth": 3, "width": 3, "dropout": 2, "weight_decay": 3},
    "text-cnn-nli": {"domains": 5, "batch": 3, "depth": 3, "width": 3, "dropout": 2, "label_noise": 3},
    "roberta-sa": {"domains": 10, "batch": 3, "dropout": 2, "weight_decay": 3, "label_noise": 3},
    "roberta-nli": {"domains": 5, "batch": 3, "dropout": 2, "weight_decay": 3, "label_noise": 3},
}  # fmt: skip


def varied_values(found: Sequence[TrainingConfig]) -> dict[str, list[Any]]:
    """Return the different values of each key and setting that is not the same in all models."""
    tables = [{**vars(one), **one.settings, "settings": None} for one in found]
    values = {key: [table[key] for table in tables] for key in tables[0] if key != "id"}
    return {
        key: list(dict.fromkeys(column)) for key, column in values.items() if len(set(column)) > 1
    }


@pytest.mark.parametrize("name", TABLE_1)
def test_grid_varies_the_keys_of_table_1(name: str) -> None:
    varied = varied_values(PoolSpec.open(name).recipes())
    assert {key: len(values) for key, values in varied.items()} == TABLE_1[name]


def test_image_pools_have_the_published_values() -> None:
    nin = varied_values(PoolSpec.open("nin-svhn").recipes())
    assert nin == {
        "batch": [32, 512, 1024], "depth": [2, 3, 4], "dropout": [0.0, 0.25, 0.5],
        "weight_decay": [0.0, 0.001],
    }  # fmt: skip
    resnet = varied_values(PoolSpec.open("resnet-cifar-10").recipes())
    assert resnet["weight_decay"] == [0.0, 0.002, 0.02]
    assert resnet["lr"] == [0.01, 0.001]
    assert resnet["batch_norm"] == [True, False]
    assert resnet["augment"] == ["none", "flip-crop"]
    cnn = PoolSpec.open("cnn-cinic-10").recipes()
    assert {one.lr_decay_epochs for one in cnn} == {(1800, 2200, 2400)}


@pytest.mark.parametrize(
    "name", ["nin-svhn", "nin-cifar-10", "vgg-cifar-10", "resnet-cifar-10", "cnn-cinic-10", "atc-mnist"]
)  # fmt: skip
def test_every_network_of_an_image_pool_can_be_built(name: str) -> None:
    shape = InputShape("images", classes=10, size=(3, 32, 32))
    built = {}
    with torch.device("meta"):
        for one in PoolSpec.open(name).recipes():
            key = json.dumps(one.to_dict()["settings"])
            if key not in built:
                built[key] = build_network(one, shape)(torch.zeros(2, 3, 32, 32)).shape
    assert set(built.values()) == {(2, 10)}


def test_ao_pool_has_nine_networks_and_72_settings_per_domain() -> None:
    found = PoolSpec.open("ao-pacs").recipes()
    per_model: dict[tuple[str, tuple[str, ...]], int] = {}
    for one in found:
        key = (one.architecture, one.domains)
        per_model[key] = per_model.get(key, 0) + 1
    assert set(per_model.values()) == {72}
    assert len({name for name, _ in per_model}) == 9
    assert {one.few_shot for one in found} == {None, 10, 100}
    assert {one.lr for one in found} == {5e-4, 5e-5}
    assert {one.epochs for one in found} == {10, 100}
    assert {one.part for one in found} == {"head", "whole"}
    assert {one.augment for one in found} == {"none", "randaugment", "augmix"}


# Epochs, batch size, learning rate, optimizer, weight decay and schedule of each pool (Garg et al.
# 2022, appendix G).
RECIPES: dict[str, tuple[Any, ...]] = {
    "atc-mnist": (50, 200, 0.01, "sgd", 1e-5, "constant"),
    "atc-cifar-10": (300, 200, 0.1, "sgd", 5e-4, "step", 0.1, 100),
    "atc-cifar-100": (300, 200, 0.1, "sgd", 5e-4, "step", 0.1, 100),
    "atc-imagenet": (10, 64, 1e-4, "adam", 0.0, "constant"),
    "atc-imagenet-200": (50, 64, 1e-4, "adam", 0.0, "constant"),
    "atc-fmow": (50, 64, 1e-4, "adam", 0.0, "exponential", 0.96),
    "atc-rxrx1": (90, 75, 1e-4, "adam", 1e-5, "cosine", None, None, 10),
    "atc-amazon-wilds": (3, 8, 1e-5, "adamw", 0.01, "constant"),
    "atc-civilcomments": (5, 16, 1e-5, "adamw", 0.01, "constant"),
    "atc-living-17": (450, 128, 0.1, "sgd", 1e-4, "step", 0.1, 150),
    "atc-nonliving-26": (450, 128, 0.1, "sgd", 1e-4, "step", 0.1, 150),
    "atc-entity-13": (300, 128, 0.1, "sgd", 1e-4, "step", 0.1, 100),
    "atc-entity-30": (300, 128, 0.1, "sgd", 1e-4, "step", 0.1, 100),
}
# Number of tokens to which texts are truncated.
TOKENS = {"atc-amazon-wilds": 512, "atc-civilcomments": 300}


def test_every_atc_pool_follows_its_recipe_with_four_seeds() -> None:
    assert set(RECIPES) == {name for name in built_in_names() if name.startswith("atc-")}
    for name, expected in RECIPES.items():
        found = PoolSpec.open(name).recipes()
        assert {one.seed for one in found} == {0, 1, 2, 3}
        assert {one.stop_at for one in found} == {None}
        values = {
            (one.epochs, one.batch, one.lr, one.optimizer, one.weight_decay, one.schedule,
             one.lr_decay, one.lr_decay_epochs, one.warmup_epochs)
            for one in found
        }  # fmt: skip
        padding = (None, None, 0)[len(expected) - 6 :]
        assert values == {(*expected, *padding)}, name
        assert {one.settings.get("length") for one in found} == {TOKENS.get(name)}


@pytest.mark.parametrize("name", built_in_names())
def test_built_in_pool_names_the_files_that_it_needs(name: str) -> None:
    spec = PoolSpec.open(name)
    text = built_in_path(name).read_text(encoding="utf-8")
    comments = " ".join(line[1:].strip() for line in text.splitlines() if line.startswith("#"))
    if spec.group.name == "hypersphere":
        assert "Data: none" in comments
    else:
        assert f"`oodometer domains --group {spec.group.name}` lists the files" in comments
    settings = [part.fixed for part in spec.parts]
    weights = {one.get("settings.weights") for one in settings} - {None}
    folders = {one.get("settings.folder") for one in settings} - {None}
    assert all(f"Weights: {one}/" in comments for one in weights)
    assert all(f"Weights: the Hugging Face folder {one} in the" in comments for one in folders)


def test_timm_has_every_network_of_the_built_in_pools() -> None:
    timm = pytest.importorskip("timm")
    parts = [part for name in built_in_names() for part in PoolSpec.open(name).parts]
    names = {name for part in parts for name in part.architectures if name.startswith("timm:")}
    known = set(timm.list_models())
    assert len(names) >= 12
    assert {name for name in names if name[5:].partition(".")[0] not in known} == set()


def test_domain_generalization_pools_use_pretrained_networks() -> None:
    for name in ("dg-pacs", "dg-vlcs", "dg-vlcs-coral"):
        found = PoolSpec.open(name).recipes()
        assert {one.architecture for one in found} == {"timm:resnet50"}
        assert {len(one.domains) for one in found} == {3}
        assert {one.coral > 0 for one in found} == {name == "dg-vlcs-coral"}


def test_built_in_specs_have_the_sizes_of_the_papers() -> None:
    specs = {name: PoolSpec.open(name) for name in built_in_names()}
    assert {name: len({one.id for one in spec.recipes()}) for name, spec in specs.items()} == SIZES
    assert {name: spec.name for name, spec in specs.items()} == {name: name for name in SIZES}
    assert [name for name, spec in specs.items() if not 20 < len(spec.about) < 100] == []


def test_settings_that_are_lists_are_stored_and_restored(tmp_path: Path) -> None:
    (found,) = PoolSpec.open({
        "group": "hypersphere", "domains": ["0"], "architecture": "mlp",
        "fixed": {"settings": {"widths": [8, 4]}},
    }).recipes()  # fmt: skip
    assert found.to_dict()["settings"]["widths"] == [8, 4]
    assert TrainingConfig.from_dict(found.to_dict()) == found


def test_text_cnn_for_sentiment_matches_the_paper() -> None:
    found = PoolSpec.open("text-cnn-sa").recipes()
    assert {one.stop_at for one in found} == {0.04}
    assert {one.lr for one in found} == {1e-3}
    assert {one.weight_decay for one in found} == {0.0, 1e-4, 5e-4}
    assert {one.settings["width"] for one in found} == {128, 256, 512}


@pytest.mark.parametrize(
    ("name", "models", "domains", "architectures"), [("pacs", 60, 4, 2), ("sentiment", 100, 8, 1)]
)
def test_reference_pools_are_large_enough(
    name: str, models: int, domains: int, architectures: int
) -> None:
    found = PoolSpec.open(REFERENCE / f"{name}.toml").recipes()
    assert len(found) >= models
    assert len({one.domains for one in found}) >= domains
    assert len({one.architecture for one in found}) >= architectures


# Invalid specs ----------------------------------------------------------------------------------

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "key": ({"architectur": "mlp"}, "No key of the pool is called 'architectur'. Did you mean 'arch"),
    "architecture": ({"architecture": "resnt"}, "No architecture is called 'resnt'. Did you mean 'r"),
    "no architecture": ({"architecture": []}, "architecture of the pool must be a name or a list of names; got []"),
    "kind": ({"architecture": "text-cnn"}, "accepts text or pairs, and the group 'sites' holds images"),
    "recipe key": ({"fixed": {"bach": 8}}, "No key of a training configuration is called 'bach'. Did you mean 'batch'?"),
    "grid key": ({"grid": {"domains": ["a"]}}, "No key of a training configuration is called 'domains'."),
    "grid seed": ({"grid": {"seed": [0, 1]}}, "No key of a training configuration is called 'seed'. Use the key seeds of the pool, a list of seeds or their number."),
    "setting": ({"grid": {"settings": {"widht": [8]}}}, "'widht'. Did you mean 'width'?"),
    "bad setting": ({"fixed": {"settings": {"depth": 0}}}, "depth of the architecture 'mlp' must be at least 1; got 0."),
    "empty list": ({"grid": {"batch": []}}, "grid: batch must be a list of at least one value; got []"),
    "no list": ({"grid": {"batch": 8}}, "grid: batch must be a list of at least one value; got 8"),
    "word": ({"fixed": {"batch": "many"}}, "batch of the training configuration must be a whole number; got 'many'."),
    "half": ({"grid": {"batch": [8.5]}}, "batch of the training configuration must be a whole number; got 8.5."),
    "truth": ({"fixed": {"lr": True}}, "lr of the training configuration must be a number; got True."),
    "none": ({"fixed": {"lr": "none"}}, "lr of the training configuration must be a number; got 'none'."),
    "few": ({"fixed": {"few_shot": 0.5}}, "few_shot of the training configuration must be a whole number; got 0.5."),
    "choice": ({"fixed": {"augment": "augmx"}}, "got 'augmx'. Did you mean 'augmix'?"),
    "number": ({"grid": {"lr": [0.1, -1]}}, "lr of the training configuration must be above 0; got -1."),
    "twice": ({"fixed": {"lr": 1}, "grid": {"lr": [1]}}, "lr is set in more than one of [fixed], [g"),
    "table": ({"grid": [1]}, "grid of the pool must be a table; got [1]."),
    "domain": ({"domains": ["nord"]}, "No domain of the group 'sites' is called 'nord'. Did you mean 'no"),
    "domains": ({"domains": "all"}, "domains of the pool must be 'each', 'all-but-one', or a list of domains or of lists"),
    "no domains": ({"domains": []}, "domains of the pool must be 'each', 'all-but-one', or a list of domains or of lists"),
    "no domain": ({"domains": [[]]}, "domains of the training configuration must be a list of at least 1; got ()."),
    "number of a domain": ({"domains": [1]}, "domains of the pool must be 'each', 'all-but-one', or a list"),
    "seeds": ({"seeds": 0}, "seeds of the pool must be a list of whole numbers, or their number; got 0."),
    "seed": ({"seeds": ["a"]}, "seeds of the pool must be a list of whole numbers, or their number; got ['a']."),
    "parts": ({"parts": []}, "parts of the pool must be a list of tables [[parts]]; got []."),
    "part": ({"parts": [{"name": "a"}]}, "No key of a part of the pool is called 'name'."),
    "no part": ({"parts": [3]}, "A part of the pool must be a table; got 3."),
    "group": ({"group": 3}, "group must be the name of a domain group; got 3."),
    "sphere": ({"group": "hyperspere"}, "is called 'hyperspere'. Did you mean 'hypersphere'?"),
    "group name": ({"group": "pakcs"}, "No domain group is called 'pakcs'. Did you mean 'pacs'?"),
    "count": ({"sweep": {}}, "The sweep has no key 'count'. Add count = …."),
    "sweep seed": ({"sweep": {"count": 1, "seed": "a"}}, "seed of the sweep must be a whole number; got"),
    "sweep key": ({"sweep": {"count": 1, "rl": {"log2": [1, 2]}}}, "No key of a training configuration is called 'rl'"),
    "value": ({"sweep": {"count": 1, "lr": 0.1}}, "sweep: lr must be a distribution such as { un"),
    "name": ({"sweep": {"count": 1, "lr": {"log1": [1, 2]}}}, "No distribution is called 'log1'. Did y"),
    "bounds": ({"sweep": {"count": 1, "lr": {"log10": [2, 1]}}}, "sweep: lr: log10 must be two bounds, the"),
    "bound": ({"sweep": {"count": 1, "lr": {"log10": [1, math.inf]}}}, "within ±300; got [1, inf]"),
    "power": ({"sweep": {"count": 1, "lr": {"log2": [1, 2000]}}}, "within ±1000; got [1, 2000]"),
    "not a number": ({"sweep": {"count": 1, "lr": {"uniform": [math.nan, 1]}}}, "got [nan, 1]"),
    "folder": ({"name": "../other"}, "name of the pool must be letters, digits, spaces, dots and dashes, because it names a folder; got '../"),
    "no name": ({"name": 3}, "name of the pool must be a text; got 3."),
    "choices": ({"sweep": {"count": 1, "lr": {"choice": []}}}, "sweep: lr: choice must be a list of values"),
    "schedule": ({"fixed": {"schedule": "stp"}}, "'cosine', 'step' or 'exponential'; got 'stp'. Did you mean 'step'?"),
    "no decay": ({"grid": {"schedule": ["constant", "exponential"]}}, "has no key 'lr_decay', which the schedule 'exponential' needs. Add lr_decay = …."),
    "drawn": ({"sweep": {"count": 1, "lr": {"uniform": [-1, 1]}}}, "lr of the training configuration must be above 0; got -1.0."),
    "drawn setting": ({"sweep": {"count": 1, "settings": {"dropout": {"uniform": [0, 2]}}}}, "dropout of the architecture 'mlp' must be below 1; got 2.0."),
}  # fmt: skip


def test_errors_name_the_key_in_one_line() -> None:
    wrong = {}
    for case, (keys, message) in BAD.items():
        with pytest.raises(InputError) as caught:
            spec_of(**keys).recipes()
        if message not in str(caught.value) or "\n" in str(caught.value):
            wrong[case] = str(caught.value)
    assert not wrong


def test_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        "group = 'hypersphere'\narchitecture = 'mlp'\nfixed = { lr = 'fast' }"
    )
    with pytest.raises(InputError, match=r"^mine\.toml: lr of the training configuration must be"):
        PoolSpec.open(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("grid.settings.batch_norm = [false, true]", "No key of the architecture 'mlp' is called 'batch_norm'. There are: width, depth, dropout, widths."),
        ("grid.settings.depth = [1, 2, 0]", "depth of the architecture 'mlp' must be at least 1; got 0."),
        ("fixed.schedule = 'step'", "The training configuration has no key 'lr_decay', which the schedule 'step' needs."),
        ("fixed.coral = 1", "coral of the training configuration needs at least two training domains; got coral = 1 and domains = ['0']."),
        ("domains = [['0', '15'], ['30']]\nfixed.coral = 1", "coral of the training configuration needs at least two training domains; got coral = 1 and domains = ['30']."),
        ("domains = [['0', '15']]\ngrid.coral = [0, 1]\nfixed.batch = 3", "batch of the training configuration must be at least 4 with coral"),
        ("fixed.augment = 'flipcrop'", "augment of the training configuration must be 'none', 'randaugment', 'augmix', 'augmix-jsd' or 'flip-crop'; got 'flipcrop'."),
        ("[[parts]]\nseeds = 'two'", "seeds of a part of the pool must be a list of whole numbers, or their number; got 'two'."),
    ],
)  # fmt: skip
def test_every_value_is_checked_when_the_file_is_opened(
    line: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"group = 'hypersphere'\narchitecture = 'mlp'\n{line}")
    with pytest.raises(InputError) as caught:
        PoolSpec.open(path)
    assert str(caught.value).startswith(f"mine.toml: {message}")
    assert "\n" not in str(caught.value)


def test_parts_have_their_own_seeds() -> None:
    spec = spec_of(
        domains=["east"],
        seeds=2,
        parts=[{"grid": {"batch": [8, 16]}}, {"seeds": [5, 6, 7], "fixed": {"batch": 32}}],
    )
    assert [part.count for part in spec.parts] == [4, 3]
    found = [(one.batch, one.seed) for one in spec.recipes()]
    assert sorted(found) == [(8, 0), (8, 1), (16, 0), (16, 1), (32, 5), (32, 6), (32, 7)]


@pytest.mark.parametrize(
    "keys",
    [
        {"grid": {"batch": list(range(1, 1001)), "epochs": list(range(1, 1001))}},
        {"sweep": {"count": 10**15}},
        {"seeds": 10**15},
        {"parts": [{"sweep": {"count": 60_000}}, {"sweep": {"count": 60_000}}]},
    ],
)
def test_too_many_models_are_rejected_before_expansion(keys: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"would have [\d,]{7,} models; the maximum is 100,000"):
        spec_of(domains=["east"], **keys).recipes()


def test_all_but_one_needs_two_domains() -> None:
    one = {"groups": {"sites": {**GROUP["groups"]["sites"], "domains": {"north": {
        "reader": "folder", "path": "north/"}}}}}  # fmt: skip
    with pytest.raises(InputError, match="has a single domain; 'all-but-one' needs two or more"):
        spec_of(group=one, domains="all-but-one")


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"'toy-mpl'\. Did you mean 'toy-mlp'"):
        PoolSpec.open("toy-mpl")
    with pytest.raises(InputError, match=r"There is no file 'mine\.toml'; expected a TOML file"):
        PoolSpec.open("mine.toml")
    (tmp_path / "broken.toml").write_text("seeds = [")
    with pytest.raises(InputError, match=r"broken\.toml' is not valid TOML: .*Correct the file"):
        PoolSpec.open(tmp_path / "broken.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(InputError, match=r"latin\.toml' is not valid TOML"):
        PoolSpec.open(tmp_path / "latin.toml")


def test_data_folder_is_passed_to_the_group(tmp_path: Path) -> None:
    assert PoolSpec.open("dg-pacs", data=tmp_path).group.root == tmp_path


def test_domain_group_object_is_accepted() -> None:
    group = groups.open_group(GROUP)
    assert spec_of(group=group).group is group
