"""measure and metrics as users run them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from oodometer.core.predictions import Predictions
from oodometer.testing.measures import toy_data
from tests.support.command_line import run
from tests.support.stub_models import forget_modules

NETS = """
import torch
from oodometer.testing.measures import toy_network
network = toy_network()
images = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("measuring")
    (made / "toy_nets.py").write_text(NETS)
    for name, seed, shift in (("one", 1, 0.0), ("other", 2, 0.5), ("new", 3, 1.0)):
        rows, labels = toy_data(seed, shift)
        np.savez(made / f"{name}.npz", inputs=rows, labels=labels)
        np.save(made / f"{name}.npy", rows)
        np.savez(made / f"{name}_features.npz", features=rows)
        said = Predictions.from_logits(rows[:, :3])
        np.savez(made / f"{name}_outputs.npz", probs=said.probs, labels=labels, features=rows)
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
    np.savez(made / "pictures.npz", images=pictures, labels=rng.integers(0, 3, 20))
    return made


@pytest.fixture(autouse=True)
def own_modules(folder: Path) -> None:
    forget_modules(folder)


def measured(folder: Path, *words: str) -> dict[str, float]:
    done = run(folder, "measure", *words, "--json")
    assert done.returncode == 0, done.stderr
    return {row["measure"]: row["value"] for row in json.loads(done.stdout)["measures"]}


def test_a_network_with_its_source_and_target(folder: Path) -> None:
    done = run(
        folder, "measure", "toy_nets:network", "--source-data", "one.npz", "--target-data", "new.npz",
        "-m", "entropy-target,jacobian,sharpness", "-m", "h-divergence",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "source one (60 rows), target new (60 rows without labels)" in done.stdout
    for word in ("Entropy-Target", "Jacobian", "H-divergence", "Not measured", "sharpness"):
        assert word in done.stdout


def test_several_sources_are_domains_and_training_data_are_known(folder: Path) -> None:
    found = measured(
        folder, "toy_nets:network", "--source-data", "one.npz", "--source-data", "other.npz", "--target-data",
        "new.npz", "--training-data", "one.npz", "--training-data", "other.npz", "-m",
        "h-divergence-ms,sharpness,source-error",
    )  # fmt: skip
    assert set(found) == {"h-divergence-ms", "sharpness", "source-error"}


def test_the_noise_is_shown(folder: Path) -> None:
    done = run(
        folder, "measure", "toy_nets:network", "--source-data", "one.npz", "--target-data", "new.npz",
        "-m", "h-divergence,spectral-norm", "--subsamples", "3",
    )  # fmt: skip
    assert "signal/noise" in done.stdout
    assert "constant" in done.stdout


def test_outputs_and_features_need_no_model(folder: Path) -> None:
    by_array = measured(
        folder, "none", "--source-data", "one.npy", "--target-data", "new.npy", "-m", "mmd-gaussian"
    )
    by_name = measured(
        folder, "none", "--source-data", "one_features.npz", "--target-data", "new_features.npz", "-m", "mmd-gaussian"
    )  # fmt: skip
    both = measured(folder, "none", "--source-data", "one_outputs.npz", "--target-data", "new_outputs.npz", "-m",
                    "mmd-gaussian,source-error,entropy-source")  # fmt: skip
    assert by_array == by_name
    assert both["mmd-gaussian"] == by_name["mmd-gaussian"]
    assert set(both) == {"mmd-gaussian", "source-error", "entropy-source"}


def test_the_targets_labels_are_not_looked_at(folder: Path) -> None:
    rows, _ = toy_data(3, 1.0)
    said = Predictions.from_logits(rows[:, :3]).probs
    np.savez(folder / "wrong.npz", probs=said, labels=np.full(60, 99), features=rows)
    words = ("none", "--source-data", "one_outputs.npz", "-m", "entropy-target,source-error")
    wrong, right = (
        measured(folder, *words, "--target-data", f"{name}.npz")
        for name in ("wrong", "new_outputs")
    )
    assert wrong == right


def test_outputs_may_be_logits_and_labels_names_of_their_own(folder: Path) -> None:
    rows, labels = toy_data(1)
    names = np.array(["cat", "dog", "owl"])[labels]
    np.savez(folder / "named.npz", logits=rows[:, :3], truth=names)
    words = (
        "named.npz",
        "--label-column",
        "truth",
        "--class-names",
        "cat,dog,owl",
        "--metric",
        " error, nll,",
    )
    found = json.loads(run(folder, "evaluate", "none", *words, "--json", "--seed", "5").stdout)
    wrong = np.mean(rows[:, :3].argmax(1) != labels)
    assert [row["metric"] for row in found["metrics"]] == ["error", "nll"]
    assert found["metrics"][0]["value"] == pytest.approx(wrong)
    assert (found["data"], found["seed"]) == ("named", 5)


def test_files_that_end_in_capitals_are_arrays_too(folder: Path) -> None:
    (folder / "ONE.NPY").write_bytes((folder / "one.npy").read_bytes())
    words = ("--target-data", "new.npy", "-m", "mmd-mean-cov,mmd-gaussian")
    small, large = (
        measured(folder, "none", "--source-data", n, *words) for n in ("one.npy", "ONE.NPY")
    )
    assert small == large


def test_the_seed_is_passed_on(folder: Path) -> None:
    words = (
        "none",
        "--source-data",
        "one.npy",
        "--target-data",
        "new.npy",
        "-m",
        "mmd-random-features",
    )
    assert measured(folder, *words) != measured(folder, *words, "--seed", "1")


def test_domains_are_called_as_their_files_or_by_their_paths(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "one.npy").write_bytes((folder / "other.npy").read_bytes())
    for other, names in (("other.npy", {"domain_one", "domain_other"}),
                         ("more/one.npy", {"domain_one.npy", "domain_more/one.npy"})):  # fmt: skip
        done = run(
            folder, "measure", "none", "--source-data", "one.npy", "--source-data", other, "--target-data",
            "new.npy", "-m", "h-divergence-ms", "--json",
        )  # fmt: skip
        assert set(json.loads(done.stdout)["measures"][0]["facts"]) == names


def test_a_layer_is_named(folder: Path) -> None:
    words = (
        "toy_nets:network",
        "--source-data",
        "one.npz",
        "--target-data",
        "new.npz",
        "-m",
        "mmd-mean-cov",
    )
    assert measured(folder, *words) != measured(folder, *words, "--layer", "0")
    done = run(folder, "measure", *words, "--layer", "head")
    assert done.returncode == 2
    assert "No layer of 'network' is called 'head'. There are: 0, 1, 2" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-m", "fisher"), "No measure is called 'fisher'. Did you mean 'fisher-align'"),
        (("-m", "h-divergence-ms"), "h-divergence-ms is not applicable"),
        (("-m", "sharpness"), "sharpness is not applicable: it needs training data"),
        (("--subsamples", "1"), "subsamples must be 0, or 2 or more"),
        (("--source-data", "one.npz"), "'one.npz' is given more than once"),
        (
            ("--source-data", "other.npz", "--source-data", "other.npz"),
            "'other.npz' is given more than once",
        ),
        (("--source-data", "pictures.npz"), "can't be of several kinds"),
    ],
)
def test_what_can_not_be_measured_is_one_line_and_exit_code_2(
    folder: Path, words: tuple[str, ...], said: str
) -> None:
    done = run(
        folder, "measure", "toy_nets:network", "--source-data", "one.npz", "--target-data", "new.npz", *words
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_without_outputs_or_features_says_what_it_has(folder: Path) -> None:
    done = run(folder, "measure", "none", "--source-data", "one.npz", "--target-data", "new.npz")
    assert done.returncode == 2
    assert "There is no array 'features'. Arrays: inputs, labels." in done.stderr


def test_metrics_of_a_network(folder: Path) -> None:
    done = run(folder, "evaluate", "toy_nets:network", "one.npz")
    assert done.returncode == 0, done.stderr
    for word in (
        "Error",
        "NLL",
        "ECE",
        "Adversarial error",
        "Demographic disparity",
        "F1",
        "By class",
    ):
        assert word in done.stdout
    plain = json.loads(run(folder, "evaluate", "toy_nets:network", "one.npz", "--json").stdout)
    assert [row["metric"] for row in plain["metrics"]][:2] == ["error", "nll"]


def test_metrics_after_corruption(folder: Path) -> None:
    done = run(
        folder, "evaluate", "toy_nets:images", "pictures.npz", "--corruption", "fog,jpeg-3", "--metric",
        "error,nll", "--class-names", "cat,dog,[red]owl[/red]",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Error after corruption, by severity" in done.stdout
    assert "corrupted" in done.stdout
    assert "jpeg" in done.stdout


def test_metrics_of_outputs_alone(folder: Path) -> None:
    done = run(folder, "evaluate", "none", "one_outputs.npz", "--metric", "error")
    assert done.returncode == 0, done.stderr
    assert "outputs alone on one_outputs: 60 labelled rows" in done.stdout
    assert run(folder, "evaluate", "none", "one_outputs.npz", "--corruption", "fog").returncode == 2


def test_markup_in_class_names_is_shown_as_text(folder: Path) -> None:
    done = run(
        folder, "evaluate", "toy_nets:images", "pictures.npz", "--metric", "f1,error", "--class-names",
        "cat,dog,[red]owl[/red]",
    )  # fmt: skip
    assert "[red]owl[/red]" in done.stdout


def test_methods_lists_all_families_and_one(folder: Path) -> None:
    rows = json.loads(run(folder, "methods", "--json").stdout)
    assert {row["family"] for row in rows} == {"estimator", "measure", "metric"}
    needs = {row["name"]: row["needs"] for row in rows}
    assert needs["fisher-align"] == ["gradients"]
    assert needs["h-divergence-ms"] == ["features", "source domains"]
    some = json.loads(run(folder, "methods", "--json", "--family", "measures").stdout)
    assert {row["family"] for row in some} == {"measure"}
    done = run(folder, "methods", "--family", "measur")
    assert done.returncode == 2
    assert "Did you mean 'measure'" in done.stderr
    shown = run(folder, "methods").stdout
    assert "Metrics on labelled data" in shown


def test_nothing_but_refusals_is_a_failure(folder: Path) -> None:
    words = ("none", "--source-data", "one.npy", "--target-data", "new.npy", "-m", "jacobian,mixup")
    for more in ((), ("--json",)):
        done = run(folder, "measure", *words, *more)
        assert done.returncode == 2
        assert "no model was given" in done.stdout
        assert "value" not in done.stdout
    done = run(folder, "evaluate", "none", "one_features.npz")
    assert done.returncode == 2
    assert "labelled" not in done.stdout


def test_files_of_outputs_have_names(folder: Path) -> None:
    done = run(
        folder, "measure", "none", "--source-data", "one.npy", "--source-data", "other.npy", "--target-data",
        "new.npy", "-m", "mmd-mean-cov", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert (found["source"], found["target"]) == ("one + other", "new")


def test_the_column_of_labels_is_no_input_of_the_target(folder: Path) -> None:
    (folder / "tables.py").write_text(
        "import numpy as np\n"
        "def two(frame):\n"
        "    assert list(frame) == ['a', 'b'], list(frame)\n"
        "    return np.stack([np.full(len(frame), 0.25), np.full(len(frame), 0.75)], axis=1)\n"
    )
    (folder / "known.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    (folder / "bare.csv").write_text("a,b\n1,2\n3,4\n")
    for target in ("known.csv", "bare.csv"):
        found = measured(
            folder, "tables:two", "--source-data", "known.csv", "--target-data", target, "--label-column", "y",
            "-m", "source-error,entropy-target",
        )  # fmt: skip
        assert found["source-error"] == 0.5
    done = run(
        folder, "measure", "tables:two", "--source-data", "bare.csv", "--target-data", "known.csv",
        "--label-column", "y",
    )  # fmt: skip
    assert done.returncode == 2
    assert "There is no column 'y'" in done.stderr


def test_corruptions_between_nothing_are_refused(folder: Path) -> None:
    done = run(folder, "evaluate", "toy_nets:images", "pictures.npz", "--corruption", ",")
    assert done.returncode == 2
    assert "No corruption was named" in done.stderr


def test_by_workers_the_numbers_are_the_same(folder: Path) -> None:
    words = ("toy_nets:network", "--source-data", "one.npz", "--source-data", "other.npz", "--target-data", "new.npz",
             "-m", "entropy-target,jacobian,mmd-mean-cov,h-divergence-ms")  # fmt: skip
    expected = measured(folder, *words)
    assert len(expected) == 4
    forget_modules(folder)
    assert measured(folder, *words, "--workers", "2") == expected
