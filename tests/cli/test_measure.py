"""The `oodometer measure` command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oodometer.core.predictions import Predictions
from oodometer.testing.measures import toy_data
from tests.support.command_line import assert_one_line_error, run, run_json
from tests.support.stub_models import forget_modules

# Source and target of most tests.
PAIR = ("--source-data", "one.npz", "--target-data", "new.npz")
ARRAYS = ("none", "--source-data", "one.npy", "--target-data", "new.npy")


def measured(folder: Path, *words: str) -> dict[str, float]:
    """Return the values of the measures by name."""
    return {row["measure"]: row["value"] for row in run_json(folder, "measure", *words)["measures"]}


def test_measures_of_a_network_are_shown_with_its_data(network_folder: Path) -> None:
    words = ("-m", "entropy-target,jacobian,sharpness", "-m", "h-divergence")
    result = run(network_folder, "measure", "toy_nets:network", *PAIR, *words)
    assert result.returncode == 0, result.stderr
    assert "source one (60 rows), target new (60 unlabelled rows)" in result.stdout
    for word in ("Entropy-Target", "Jacobian", "H-divergence", "Not applicable", "sharpness"):
        assert word in result.stdout


def test_several_sources_are_domains_and_training_data_is_used(network_folder: Path) -> None:
    values = measured(
        network_folder, "toy_nets:network", *PAIR, "--source-data", "other.npz",
        "--training-data", "one.npz", "--training-data", "other.npz",
        "-m", "h-divergence-ms,sharpness,source-error",
    )  # fmt: skip
    assert set(values) == {"h-divergence-ms", "sharpness", "source-error"}


def test_subsamples_show_the_noise_of_a_measure(network_folder: Path) -> None:
    words = ("-m", "h-divergence,spectral-norm", "--subsamples", "3")
    result = run(network_folder, "measure", "toy_nets:network", *PAIR, *words)
    assert "signal/noise" in result.stdout
    assert "constant" in result.stdout


def test_files_of_outputs_or_features_need_no_model(network_folder: Path) -> None:
    values = [
        measured(
            network_folder, "none", "--source-data", f"one{ending}", "--target-data",
            f"new{ending}", "-m", names,
        )
        for ending, names in (
            (".npy", "mmd-gaussian"),
            ("_features.npz", "mmd-gaussian"),
            ("_outputs.npz", "mmd-gaussian,source-error,entropy-source"),
        )
    ]  # fmt: skip
    assert values[0] == values[1]
    assert values[2]["mmd-gaussian"] == values[1]["mmd-gaussian"]
    assert set(values[2]) == {"mmd-gaussian", "source-error", "entropy-source"}


def test_target_labels_are_ignored(network_folder: Path) -> None:
    rows, _ = toy_data(3, 1.0)
    probs = Predictions.from_logits(rows[:, :3]).probs
    np.savez(network_folder / "wrong.npz", probs=probs, labels=np.full(60, 99), features=rows)
    words = ("none", "--source-data", "one_outputs.npz", "-m", "entropy-target,source-error")
    wrong, right = (
        measured(network_folder, *words, "--target-data", f"{name}.npz")
        for name in ("wrong", "new_outputs")
    )
    assert wrong == right


def test_extensions_are_not_case_sensitive(network_folder: Path) -> None:
    (network_folder / "ONE.NPY").write_bytes((network_folder / "one.npy").read_bytes())
    words = ("--target-data", "new.npy", "-m", "mmd-mean-cov,mmd-gaussian")
    lower, upper = (
        measured(network_folder, "none", "--source-data", name, *words)
        for name in ("one.npy", "ONE.NPY")
    )
    assert lower == upper


def test_seed_is_applied(network_folder: Path) -> None:
    words = (*ARRAYS, "-m", "mmd-random-features")
    assert measured(network_folder, *words) != measured(network_folder, *words, "--seed", "1")


def test_domains_are_named_by_file_or_by_path_if_names_repeat(network_folder: Path) -> None:
    (network_folder / "more").mkdir()
    (network_folder / "more" / "one.npy").write_bytes((network_folder / "other.npy").read_bytes())
    for other, names in (("other.npy", {"domain_one", "domain_other"}),
                         ("more/one.npy", {"domain_one.npy", "domain_more/one.npy"})):  # fmt: skip
        words = (*ARRAYS, "--source-data", other, "-m", "h-divergence-ms")
        result = run_json(network_folder, "measure", *words)
        assert set(result["measures"][0]["facts"]) == names


def test_layer_is_selected_by_name(network_folder: Path) -> None:
    words = ("toy_nets:network", *PAIR, "-m", "mmd-mean-cov")
    assert measured(network_folder, *words) != measured(network_folder, *words, "--layer", "0")
    assert_one_line_error(
        run(network_folder, "measure", *words, "--layer", "head"),
        "No layer of 'network' is called 'head'. There are: 0, 1, 2",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-m", "fisher"), "No measure is called 'fisher'. Did you mean 'fisher-align'"),
        (("-m", "h-divergence-ms"), "h-divergence-ms is not applicable"),
        (("-m", "sharpness"), "sharpness is not applicable: it needs training data"),
        (("--subsamples", "1"), "subsamples must be 0 or at least 2"),
        (("--source-data", "one.npz"), "'one.npz' is given more than once"),
        (
            ("--source-data", "other.npz", "--source-data", "other.npz"),
            "'other.npz' is given more than once",
        ),
        (("--source-data", "pictures.npz"), "must have inputs of one kind"),
    ],
)
def test_invalid_input_is_a_one_line_error(
    network_folder: Path, words: tuple[str, ...], message: str
) -> None:
    result = run(network_folder, "measure", "toy_nets:network", *PAIR, *words)
    assert_one_line_error(result, message)


def test_file_without_outputs_or_features_lists_its_arrays(network_folder: Path) -> None:
    result = run(network_folder, "measure", "none", *PAIR)
    assert_one_line_error(result, "There is no array 'features'. Arrays: inputs, labels.")


def test_exit_code_is_2_if_no_measure_applies(network_folder: Path) -> None:
    for option in ((), ("--json",)):
        result = run(network_folder, "measure", *ARRAYS, "-m", "jacobian,mixup", *option)
        assert result.returncode == 2
        assert "no model was given" in result.stdout
        assert "value" not in result.stdout


def test_arrays_are_named_by_their_files(network_folder: Path) -> None:
    words = (*ARRAYS, "--source-data", "other.npy", "-m", "mmd-mean-cov")
    result = run_json(network_folder, "measure", *words)
    assert (result["source"], result["target"]) == ("one + other", "new")


def test_label_column_is_not_an_input_of_the_target(network_folder: Path) -> None:
    (network_folder / "tables.py").write_text(
        "import numpy as np\n"
        "def two(frame):\n"
        "    assert list(frame) == ['a', 'b'], list(frame)\n"
        "    return np.stack([np.full(len(frame), 0.25), np.full(len(frame), 0.75)], axis=1)\n"
    )
    (network_folder / "known.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    (network_folder / "bare.csv").write_text("a,b\n1,2\n3,4\n")
    words = ("tables:two", "--label-column", "y")
    for target in ("known.csv", "bare.csv"):
        values = measured(
            network_folder, *words, "--source-data", "known.csv", "--target-data", target,
            "-m", "source-error,entropy-target",
        )  # fmt: skip
        assert values["source-error"] == 0.5
    files = ("--source-data", "bare.csv", "--target-data", "known.csv")
    result = run(network_folder, "measure", *words, *files)
    assert_one_line_error(result, "There is no column 'y'")


def test_workers_do_not_change_the_numbers(network_folder: Path) -> None:
    words = ("toy_nets:network", *PAIR, "--source-data", "other.npz",
             "-m", "entropy-target,jacobian,mmd-mean-cov,h-divergence-ms")  # fmt: skip
    expected = measured(network_folder, *words)
    assert len(expected) == 4
    forget_modules(network_folder)
    assert measured(network_folder, *words, "--workers", "2") == expected
