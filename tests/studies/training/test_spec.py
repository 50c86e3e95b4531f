"""Specs: what is trained, each model once, always the same, and what is wrong is named."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.domains import group as groups
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec, built_in_names

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


def literal(
    grid: dict[str, list[Any]], seeds: int, settings: dict[str, Any]
) -> list[TrainingConfig]:
    """Loops within loops, from the seed inwards to the domain."""
    return [
        TrainingConfig(
            "sites", (domain,), "mlp", settings, seed=seed, **dict(zip(grid, point, strict=True))
        )
        for seed in range(seeds)
        for point in product(*grid.values())
        for domain in ("north", "east", "west")
    ]


def test_a_grid_is_every_combination_in_the_order_of_the_file() -> None:
    grid: dict[str, list[Any]] = {"batch": [8, 16], "lr": [0.1, 0.01, 0.001]}
    found = spec_of(seeds=2, grid=grid, fixed={"settings": {"width": 4}}).recipes()
    full = {"width": 4, "depth": 1, "dropout": 0.0}
    assert list(found) == literal(grid, 2, full)
    assert [recipe.id for recipe in found] == [recipe.id for recipe in literal(grid, 2, full)]


def test_a_file_says_the_same_as_its_table(tmp_path: Path) -> None:
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
    ("told", "sets"),
    [
        ("each", [("north",), ("east",), ("west",)]),
        ("all-but-one", [("east", "west"), ("north", "west"), ("north", "east")]),
        (["west", "north"], [("west",), ("north",)]),
        ([["west", "north"], "east"], [("north", "west"), ("east",)]),
    ],
)
def test_domains(told: Any, sets: list[tuple[str, ...]]) -> None:
    assert [recipe.domains for recipe in spec_of(domains=told).recipes()] == sets


def test_every_recipe_stands_once() -> None:
    spec = spec_of(grid={"batch": [8, 8, 16], "weight_decay": [0, 0.0]}, domains=["east", "east"])
    assert [(recipe.batch, recipe.weight_decay) for recipe in spec.recipes()] == [(8, 0), (16, 0)]


def test_settings_that_are_not_named_have_the_same_id_as_those_that_are() -> None:
    named = spec_of(fixed={"settings": {"width": 16, "depth": 1, "dropout": 0}})
    assert [one.id for one in named.recipes()] == [one.id for one in spec_of().recipes()]


def test_parts_have_their_own_keys_before_those_of_the_whole() -> None:
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


def test_none_is_written_as_a_word() -> None:
    spec = spec_of(domains=["east"], fixed={"stop_at": "none"}, grid={"few_shot": ["none", 10]})
    assert [(one.stop_at, one.few_shot) for one in spec.recipes()] == [(None, None), (None, 10)]


# Sweeps -----------------------------------------------------------------------------------------

SWEEP: dict[str, Any] = {
    "lr": {"log10": [-4.5, -2.5]},
    "batch": {"log2": [3, 9]},
    "label_noise": {"uniform": [0, 0.3]},
    "settings": {"dropout": {"choice": [0, 0.1, 0.5]}},
}


def swept(count: int, **keys: Any) -> tuple[TrainingConfig, ...]:
    return spec_of(domains=["east"], sweep={"count": count, **SWEEP, **keys}).recipes()


@given(st.integers(1, 30), st.integers(0, 30), st.integers(-5, 5))
def test_a_larger_sweep_keeps_the_models_of_a_smaller_one(count: int, more: int, seed: int) -> None:
    assert swept(count + more, seed=seed)[:count] == swept(count, seed=seed)


def test_values_lie_where_they_are_drawn_and_everywhere_there() -> None:
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


def test_whole_numbers_of_settings_are_drawn_too() -> None:
    found = swept(100, settings={"width": {"log2": [3, 6]}, "dropout": {"uniform": [0, 0.5]}})
    widths = {one.settings["width"] for one in found}
    assert {type(width) for width in widths} == {int}
    assert (min(widths), max(widths)) == (8, 63)
    assert {type(one.settings["dropout"]) for one in found} == {float}


def test_keys_are_drawn_apart_from_one_another() -> None:
    alone = spec_of(domains=["east"], sweep={"count": 5, "lr": SWEEP["lr"]}).recipes()
    assert [one.lr for one in alone] == [one.lr for one in swept(5)]
    assert [one.lr for one in swept(5, seed=1)] != [one.lr for one in swept(5)]


def test_all_domains_share_their_draws_and_models_have_seeds_of_their_own() -> None:
    found = spec_of(sweep={"count": 2, **SWEEP}).recipes()
    assert [one.seed for one in found] == [0, 0, 0, 1, 1, 1]
    assert len({one.lr for one in found}) == 2


def test_a_sweep_within_a_grid_with_seeds() -> None:
    found = spec_of(
        domains=["east"], seeds=3, grid={"epochs": [5, 6]}, sweep={"count": 4, **SWEEP}
    ).recipes()
    assert len(found) == 3 * 2 * 4
    assert {one.seed for one in found} == {0, 1, 2}


def test_drawn_numbers_are_short_so_that_ids_are_the_same_everywhere() -> None:
    assert all(float(f"{one.lr:.6g}") == one.lr for one in swept(50))


def test_the_ids_of_a_sweep_stay_what_they_are() -> None:
    """Whoever changes how values are drawn trains all sweeps anew."""
    found = PoolSpec.open(
        {"group": "hypersphere", "architecture": "mlp", "domains": ["0"],
         "sweep": {"count": 2, "lr": {"log10": [-4, -2]}}}
    )  # fmt: skip
    assert [one.lr for one in found.recipes()] == [0.000534214, 0.00139094]


# Those that come with the package -----------------------------------------------------------------

SIZES = {
    "ao-pacs": 4 * 5 * 3 * 2 * 2 * 2 * 3,
    "dg-pacs": 4 * 20,
    "dg-rotated-mnist": 6 * 20,
    "dg-vlcs": 4 * 20,
    "images-ci10": 2 * 8 * (2 * 3 + 2 * 2 * 2 * 2 + 2 * 2 * 2 + 2 * 2 * 2),
    "images-numbers": 3 * 8 * (2 * 2 * 2 + 2 * 3 + 2 * 2 + 2 * 2 * 2),
    "roberta-nli": 5 * 3 * 2 * 3 * 3,
    "roberta-sa": 10 * 3 * 2 * 3 * 3,
    "text-cnn-nli": 5 * 3 * 3 * 3 * 2 * 3,
    "text-cnn-sa": 10 * 3**5,
    "toy-mlp": 200,
}


def test_built_in_specs_are_those_of_the_papers() -> None:
    assert {name: len(PoolSpec.open(name).recipes()) for name in built_in_names()} == SIZES


@pytest.mark.parametrize("name", SIZES)
def test_built_in_specs_are_well_made(name: str) -> None:
    spec = PoolSpec.open(name)
    assert spec.name == name
    assert 20 < len(spec.about) < 100
    assert len({recipe.id for recipe in spec.recipes()}) == SIZES[name]


def test_the_reviews_of_the_text_cnn() -> None:
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


# What is wrong ----------------------------------------------------------------------------------

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "key": ({"architectur": "mlp"}, "No key of a pool is called 'architectur'. Did you mean 'arch"),
    "architecture": ({"architecture": "resnt"}, "No architecture is called 'resnt'. Did you mean 'r"),
    "no architecture": ({"architecture": []}, "architecture must be a name, or a list of names; got []"),
    "kind": ({"architecture": "text-cnn"}, "takes text or pairs, and the group 'sites' holds images"),
    "recipe key": ({"fixed": {"bach": 8}}, "No key of a recipe is called 'bach'. Did you mean 'batch'?"),
    "grid key": ({"grid": {"domains": ["a"]}}, "No key of a recipe is called 'domains'."),
    "setting": ({"grid": {"settings": {"widht": [8]}}}, "'widht'. Did you mean 'width'?"),
    "bad setting": ({"fixed": {"settings": {"depth": 0}}}, "must be a whole number, 1 or more; got 0"),
    "empty list": ({"grid": {"batch": []}}, "batch of a grid must be a list of one value or more; got []"),
    "no list": ({"grid": {"batch": 8}}, "batch of a grid must be a list of one value or more; got 8"),
    "word": ({"fixed": {"batch": "many"}}, "batch must be a whole number; got 'many'."),
    "half": ({"grid": {"batch": [8.5]}}, "batch must be a whole number; got 8.5."),
    "truth": ({"fixed": {"lr": True}}, "lr must be a number; got True."),
    "none": ({"fixed": {"lr": "none"}}, "lr must be a number; got 'none'."),
    "few": ({"fixed": {"few_shot": 0.5}}, 'few_shot must be a whole number or "none"; got 0.5.'),
    "choice": ({"fixed": {"augment": "augmx"}}, "No augment is called 'augmx'. Did you mean 'augmix'?"),
    "number": ({"grid": {"lr": [0.1, -1]}}, "lr must be finite and above 0; got -1.0."),
    "twice": ({"fixed": {"lr": 1}, "grid": {"lr": [1]}}, "lr stands in more than one of [fixed], [g"),
    "table": ({"grid": [1]}, "grid must be a table of keys of a recipe; got [1]."),
    "domain": ({"domains": ["nord"]}, "No domain of the group 'sites' is called 'nord'. Did you mean 'no"),
    "domains": ({"domains": "all"}, 'domains must be "each", "all-but-one", or a list'),
    "no domains": ({"domains": []}, 'domains must be "each", "all-but-one", or a list'),
    "no domain": ({"domains": [[]]}, "A recipe has one training domain or more; got none."),
    "number of a domain": ({"domains": [1]}, "No domain of the group 'sites' is called '1'."),
    "seeds": ({"seeds": 0}, "seeds must be whole numbers, or how many there are; got 0."),
    "seed": ({"seeds": ["a"]}, "seeds must be whole numbers, or how many there are; got ['a']."),
    "parts": ({"parts": []}, "parts must be tables, [[parts]] each; got []."),
    "part": ({"parts": [{"name": "a"}]}, "No key of a part of a pool is called 'name'."),
    "no part": ({"parts": [3]}, "A part of a pool is a table of domains, "),
    "group": ({"group": 3}, "group must be the name of a domain group; got 3."),
    "sphere": ({"group": "hyperspere"}, "is called 'hyperspere'. Did you mean 'hypersphere'?"),
    "group name": ({"group": "pakcs"}, "No domain group is called 'pakcs'. Did you mean 'pacs'?"),
    "count": ({"sweep": {}}, "count of a sweep must be a whole number, 1 or more; got None."),
    "sweep seed": ({"sweep": {"count": 1, "seed": "a"}}, "seed of a sweep must be a whole number; got"),
    "sweep key": ({"sweep": {"count": 1, "rl": {"log2": [1, 2]}}}, "No key of a recipe is called 'rl'"),
    "value": ({"sweep": {"count": 1, "lr": 0.1}}, "lr of a sweep must say how it is drawn, such as { un"),
    "name": ({"sweep": {"count": 1, "lr": {"log1": [1, 2]}}}, "No distribution is called 'log1'. Did y"),
    "bounds": ({"sweep": {"count": 1, "lr": {"log10": [2, 1]}}}, "lr: log10 must have two bounds, the"),
    "bound": ({"sweep": {"count": 1, "lr": {"log10": [1, math.inf]}}}, "beyond ±300; got [1, inf]"),
    "power": ({"sweep": {"count": 1, "lr": {"log2": [1, 2000]}}}, "none beyond ±1000; got [1, 2000]"),
    "not a number": ({"sweep": {"count": 1, "lr": {"uniform": [math.nan, 1]}}}, "got [nan, 1]"),
    "folder": ({"name": "../other"}, "name must be letters, digits, spaces, dots, dashes; got '../"),
    "no name": ({"name": 3}, "name must be letters, digits, spaces, dots, dashes; got 3."),
    "choices": ({"sweep": {"count": 1, "lr": {"choice": []}}}, "lr: choice must have a list of values"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_in_a_line(case: str) -> None:
    keys, message = BAD[case]
    with pytest.raises(InputError) as refused:
        spec_of(**keys).recipes()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "keys",
    [
        {"grid": {"batch": list(range(1, 1001)), "epochs": list(range(1, 1001))}},
        {"sweep": {"count": 10**15}},
        {"seeds": 10**15},
        {"parts": [{"sweep": {"count": 60_000}}, {"sweep": {"count": 60_000}}]},
    ],
)
def test_more_models_than_anybody_trains_are_refused_at_once(keys: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"would have [\d,]{7,} models; 100,000 at most were"):
        spec_of(domains=["east"], **keys).recipes()


def test_one_domain_has_no_others() -> None:
    one = {"groups": {"sites": {**GROUP["groups"]["sites"], "domains": {"north": {
        "reader": "folder", "path": "north/"}}}}}  # fmt: skip
    with pytest.raises(InputError, match="has one domain; none is left but one"):
        spec_of(group=one, domains="all-but-one")


def test_a_spec_that_is_not_there_or_no_toml(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"'toy-mpl'\. Did you mean 'toy-mlp'"):
        PoolSpec.open("toy-mpl")
    with pytest.raises(InputError, match=r"There is no file 'mine\.toml'"):
        PoolSpec.open("mine.toml")
    (tmp_path / "broken.toml").write_text("seeds = [")
    with pytest.raises(InputError, match=r"broken\.toml' is no TOML: .*Correct it there"):
        PoolSpec.open(tmp_path / "broken.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(InputError, match=r"latin\.toml' is no TOML"):
        PoolSpec.open(tmp_path / "latin.toml")


def test_the_folder_of_the_data_goes_to_the_group(tmp_path: Path) -> None:
    assert PoolSpec.open("dg-pacs", data=tmp_path).group.root == tmp_path


def test_a_group_itself_can_be_given() -> None:
    group = groups.open_group(GROUP)
    assert spec_of(group=group).group is group
