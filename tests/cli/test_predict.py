"""The `oodometer predict` command, and the whole path from the files of WILDS to an estimate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.command_line import assert_one_line_error, run, run_json
from tests.support.wilds_folders import write_amazon, write_camelyon17, write_image

MODEL = "tests.support.wilds_folders:brightness_model"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with a miniature of Camelyon17."""
    write_camelyon17(tmp_path, per_hospital=40)
    return tmp_path


def predict(data: Path, domain: str, output: str, *words: str) -> None:
    result = run(
        data, "predict", MODEL, "camelyon17", domain, "--output", output, "--data-dir", str(data), *words
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert f"camelyon17/{domain} to {output}" in result.stdout


def test_camelyon17_from_files_to_an_estimate(data: Path) -> None:
    (group,) = run_json(data, "domains", "--group", "camelyon17", "--data-dir", str(data))
    assert [group["domains"][name]["missing"] for name in ("id", "ood-test")] == [None, None]
    assert all(file["found"] for file in group["files"])
    predict(data, "id", "source.parquet")
    predict(data, "ood-test", "target.parquet")
    source, target = (pq.read_table(data / f"{name}.parquet") for name in ("source", "target"))
    assert source.column_names == ["prob_normal", "prob_tumor", "label"]
    assert (source.num_rows, target.num_rows) == (60, 40)
    pq.write_table(target.drop_columns(["label"]), data / "target.parquet")
    result = run_json(
        data,
        "estimate",
        "source.parquet",
        "target.parquet",
        "--method",
        "ac,atc-mc",
        "--replicates",
        "20",
    )
    tumor = target.column("prob_tumor").to_numpy()
    truth = np.mean((tumor > 0.5) == (target.column("label").to_numpy() == "tumor"))
    assert truth == 35 / 40  # the five brightest normal patches are above the threshold
    values = {estimate["method"]: estimate["value"] for estimate in result["estimates"]}
    assert values["ac"] == pytest.approx(truth, abs=0.1)
    assert values["atc-mc"] == pytest.approx(truth, abs=0.1)


def test_pool_is_trained_on_wilds_and_its_model_predicts(data: Path) -> None:
    (data / "little.toml").write_text(
        'name = "little"\ngroup = "small.toml"\ndomains = ["id"]\narchitecture = "small-cnn"\n'
        "fixed.epochs = 1\nfixed.batch = 30\nfixed.settings.width = 2\n"
    )
    (data / "small.toml").write_text(
        '[groups.small]\nclasses = ["normal", "tumor"]\nshape = [8, 8, 3]\n'
        'each = { reader = "wilds", dataset = "camelyon17", path = "camelyon17_v1.0", share = 1.0 }\n'
        '[groups.small.domains]\nid = { split = "train", test = { split = "id_val" } }\n'
        'away = { split = "val" }\n'
    )
    trained = run(data, "pool", "run", "little.toml", "--data-dir", str(data))
    assert trained.returncode == 0, trained.stderr
    (folder,) = (path for path in (data / "pools/little").iterdir() if path.name[0] != ".")
    result = run_json(
        data, "predict", str(folder), "small.toml", "away", "--output", "out.parquet",
        "--rows", "7", "--data-dir", str(data),
    )  # fmt: skip
    assert result == {"output": "out.parquet", "rows": 7, "classes": 2}
    assert pq.read_table(data / "out.parquet").column_names[-1] == "label"


def test_labels_of_numbered_classes_are_matched_by_name(tmp_path: Path) -> None:
    stars = [1, 2, 3, 4, 5] * 8
    write_amazon(tmp_path, [(3, star, f"{star} stars") for star in stars])
    words = ("predict", f"{__name__}:stars", "amazon-wilds", "ood-test", "--data-dir", ".")
    run_json(tmp_path, *words, "--output", "a.parquet")
    result = run_json(tmp_path, "evaluate", "none", "a.parquet", "--metric", "error")
    assert [metric["value"] for metric in result["metrics"]] == [0.0]


def stars(texts: list[str]) -> np.ndarray:
    """Return probabilities of one to five stars; the text names the number of stars."""
    return 0.1 + 0.5 * np.eye(5)[[int(text[0]) - 1 for text in texts]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("camelyon17", "ood-test", "--output", "a.txt"), "--output must end with .parquet or .csv; got 'a.txt'"),
        (("camelyon17", "ood", "--output", "a.parquet"), "No domain of camelyon17 is called 'ood'"),
        (("camelyon", "ood-test", "--output", "a.parquet"), "Did you mean 'camelyon17'?"),
        (("camelyon17", "id", "--split", "val", "--output", "a.parquet"), "No split is called 'val'"),
        (("fmow", "id", "--output", "a.parquet"), "there is no 'fmow_v1.1/rgb_metadata.csv' (and 2 more files)"),
        (("camelyon17", "id", "--rows", "0", "--output", "a.parquet"), "--rows"),
    ],
)  # fmt: skip
def test_invalid_input_is_a_one_line_error(
    words: tuple[str, ...], message: str, data: Path
) -> None:
    result = run(data, "predict", MODEL, *words, "--data-dir", str(data))
    assert_one_line_error(result, message)


def test_model_with_other_classes_is_rejected(data: Path) -> None:
    model = "tests.support.study_tasks:three_classes"
    result = run(
        data, "predict", model, "camelyon17", "id", "--output", "a.parquet", "--data-dir", str(data)
    )
    assert_one_line_error(result, "The model has 3 classes, and the domain has 2.")
    model = "tests.support.wilds_folders:brightness_model"
    result = run(
        data, "predict", model, "camelyon17", "id", "--output", "a.parquet", "--data-dir", str(data),
        "--outputs", "classes",
    )  # fmt: skip
    assert result.returncode == 2


def test_missing_image_is_a_one_line_error(data: Path) -> None:
    image = next((data / "camelyon17_v1.0/patches/patient_002_node_2").iterdir())
    image.unlink()
    result = run(
        data, "predict", MODEL, "camelyon17", "ood-test", "--output", "a", "--data-dir", str(data)
    )
    assert_one_line_error(result, "--output must end with .parquet")
    result = run(
        data, "predict", MODEL, "camelyon17", "ood-test", "--output", "a.parquet", "--data-dir", str(data)
    )  # fmt: skip
    assert_one_line_error(result, image.name, "camelyon17_v1.0/metadata.csv lists it")


def test_missing_metadata_column_is_a_one_line_error(data: Path) -> None:
    metadata = data / "camelyon17_v1.0/metadata.csv"
    metadata.write_text(metadata.read_text().replace('"center"', '"centre"', 1))
    result = run(
        data, "predict", MODEL, "camelyon17", "id", "--output", "a.parquet", "--data-dir", str(data)
    )
    assert_one_line_error(
        result,
        "camelyon17/id: camelyon17_v1.0/metadata.csv has no column 'center'; its columns are: patient, ",
        "Required columns: patient, node, x_coord, y_coord, tumor, center, split.",
    )
    assert "Unnamed" not in result.stderr


def test_any_label_of_a_frame_is_written_if_it_is_predicted(tmp_path: Path) -> None:
    """The frames have the classes of ImageNet-Vid-Robust; the model always predicts a bus."""
    folder = tmp_path / "imagenet-vid-robust"
    frames = [f"val/clip/{number}.JPEG" for number in range(3)]
    for number, frame in enumerate(frames):
        write_image(folder / frame, 50 * number)
    names = {str(number): [f"n{number}", name] for number, name in enumerate(("bus", "car", "dog"))}
    labels = dict(zip(frames, ([0, 1], [1, 2], [0]), strict=True))
    for file, content in (
        ("metadata/labels.json", labels),
        ("metadata/pmsets.json", {frame: [] for frame in frames}),
        ("misc/imagenet_vid_class_index.json", names),
    ):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps(content))
    result = run(
        tmp_path, "predict", "tests.support.wilds_folders:bus_model", "imagenet-vid-robust", "anchors",
        "--output", "anchors.parquet", "--data-dir", str(tmp_path),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    written = pq.read_table(tmp_path / "anchors.parquet").column("label").to_pylist()
    assert written == ["bus", "car", "bus"]
