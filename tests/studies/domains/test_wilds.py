"""Six datasets of WILDS: miniatures of the published folders, splits, domains and bad files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.domains.group import DomainGroup, get, open_group
from oodometer.studies.domains.image_files import ImageFiles
from oodometer.studies.domains.wilds import WILDS_DATASETS, WildsReader
from tests.support import wilds_folders

WRITERS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "camelyon17": ("camelyon17", wilds_folders.write_camelyon17),
    "fmow": ("fmow", wilds_folders.write_fmow),
    "iwildcam": ("iwildcam", wilds_folders.write_iwildcam),
    "rxrx1": ("rxrx1", wilds_folders.write_rxrx1),
    "amazon": ("amazon-wilds", wilds_folders.write_amazon),
    "civilcomments": ("civilcomments", wilds_folders.write_civilcomments),
}


def labels_of(group: DomainGroup, domain: str, split: str = "test") -> list[str]:
    """Return the names of the classes of all rows."""
    labels = group.domain(domain, split).labels  # type: ignore[arg-type]
    assert labels is not None
    return [group.classes[label] for label in labels]


def opened(name: str, root: Path) -> DomainGroup:
    group_name, write = WRITERS[name]
    write(root)
    return get(group_name, root=root)


def test_every_dataset_has_a_writer_and_a_group() -> None:
    assert set(WRITERS) == set(WILDS_DATASETS)
    numbers = {"camelyon17": 2, "fmow": 62, "iwildcam": 182, "rxrx1": 1139, "amazon": 5}
    for name, count in numbers.items():
        assert len(get(WRITERS[name][0]).classes) == len(WILDS_DATASETS[name].classes) == count


def test_camelyon17_holds_out_two_hospitals(tmp_path: Path) -> None:
    group = opened("camelyon17", tmp_path)
    assert group.missing_reason() is None
    # Hospitals 0, 3 and 4 have two training patches and two validation patches each.
    assert labels_of(group, "id", "train") == ["normal", "tumor"] * 3
    assert labels_of(group, "id") == ["normal", "tumor"] * 3
    assert len(group.domain("ood-val", "test")) == len(group.domain("ood-test", "test")) == 4
    assert group.domain("hospital-3", "train").take(slice(None))[:, 0, 0, 0].tolist() == [69, 190]
    for held_out, hospital in (("ood-val", "hospital-1"), ("ood-test", "hospital-2")):
        same = [group.domain(name, "test").keys.tolist() for name in (held_out, hospital)]
        assert same[0] == same[1]
    with pytest.raises(InputError, match="None of the 4 rows is in the split 'train'"):
        group.domain("hospital-2", "train")


def test_camelyon17_patients_keep_leading_zeros(tmp_path: Path) -> None:
    wilds_folders.write_camelyon17(tmp_path)
    reader = WildsReader("camelyon17_v1.0", "camelyon17", where=(("center", "4"),))
    rows = reader.read(tmp_path, None)
    assert isinstance(rows, ImageFiles)
    assert rows.files[0] == "patches/patient_004_node_4/patch_patient_004_node_4_x_0_y_7.png"
    assert rows.take(slice(0, 1)).shape == (1, 8, 8, 3)


def test_fmow_splits_by_year_and_region(tmp_path: Path) -> None:
    group = opened("fmow", tmp_path)
    assert labels_of(group, "id", "train") == ["zoo"]
    assert labels_of(group, "id") == ["airport", "zoo"]  # 2012 is in the distribution
    assert labels_of(group, "ood-val") == ["zoo"]
    assert labels_of(group, "ood-test") == ["airport", "airport"]
    # The number in the name of an image counts rows of the split seq as well.
    assert group.domain("ood-test-Africa", "test").take(slice(None))[0, 0, 0, 0] == 60
    assert labels_of(group, "year-2013") == ["zoo"]
    with pytest.raises(InputError, match=r"fmow/ood-val-Asia: fmow_v1.1/rgb_metadata.csv: No row has region = 'Asia'. Values: Africa, Europe, Other"):  # fmt: skip
        group.domain("ood-val-Asia", "test")


def test_fmow_training_images_of_later_years_are_unused(tmp_path: Path) -> None:
    group = opened("fmow", tmp_path)
    domains = [("id", "train"), ("id", "test"), ("ood-val", "test"), ("ood-test", "test")]
    values = [group.domain(name, split).take(slice(None))[:, 0, 0, 0] for name, split in domains]  # type: ignore[arg-type]
    assert sorted(np.concatenate(values).tolist()) == [0, 10, 30, 40, 50, 60]


def test_iwildcam_splits_by_location(tmp_path: Path) -> None:
    group = opened("iwildcam", tmp_path)
    assert labels_of(group, "id", "train") == ["0"]
    assert labels_of(group, "id") == ["108", "144"]
    assert labels_of(group, "ood-val") == labels_of(group, "location-1") == ["36"]
    assert labels_of(group, "ood-test") == labels_of(group, "location-2") == ["72"]
    # Location 0 has training images only, which are never tested.
    with pytest.raises(InputError, match="no row meets all conditions on split, location_remapped"):
        group.domain("location-0", "test")


def test_iwildcam_images_are_resized_to_a_square(tmp_path: Path) -> None:
    """As `Resize((448, 448))` of the wilds package: the left and right edges are kept."""
    group = opened("iwildcam", tmp_path)
    wide = np.zeros((448, 896, 3), dtype=np.uint8)
    wide[:, :224], wide[:, 672:] = 200, 100
    Image.fromarray(wide).save(tmp_path / "iwildcam_v2.0/train/0.jpg", quality=95)
    (image,) = np.asarray(group.domain("id", "train").take(slice(None)))
    assert image.shape == (448, 448, 3)
    columns = image[200, :, 0].astype(int)
    assert np.abs(columns[:110] - 200).max() < 8
    assert np.abs(columns[114:334]).max() < 8
    assert np.abs(columns[338:] - 100).max() < 8
    expected = Image.fromarray(wide).resize((448, 448), Image.Resampling.BILINEAR)
    assert np.abs(np.asarray(expected).astype(int) - image).mean() < 2


def test_rxrx1_second_site_is_the_id_test_set(tmp_path: Path) -> None:
    group = opened("rxrx1", tmp_path)
    assert labels_of(group, "id", "train") == labels_of(group, "id") == ["0"]
    assert group.domain("id", "test").take(slice(None))[0, 0, 0, 0] == 2
    assert labels_of(group, "ood-val") == labels_of(group, "HUVEC-17") == ["500", "500"]
    assert labels_of(group, "ood-test") == labels_of(group, "ood-test-U2OS") == ["1000", "1000"]
    assert len(group.domains) == 3 + 4 + 51


def test_amazon_uses_the_split_file_of_users(tmp_path: Path) -> None:
    group = opened("amazon", tmp_path)
    assert group.kind == "text"
    assert group.domain("id", "train").take(slice(None)) == ["good,\nvery good"]
    assert group.domain("id", "test").take(slice(None)) == ["NA", "123"]
    assert labels_of(group, "id") == ["2", "5"]
    assert labels_of(group, "ood-val") == ["4"]
    assert labels_of(group, "ood-test") == ["1"]


def test_amazon_reviewers_can_be_selected(tmp_path: Path) -> None:
    wilds_folders.write_amazon(tmp_path)
    domain = {
        "reader": "wilds", "dataset": "amazon", "path": "amazon_v2.1", "share": 1.0,
        "where": {"reviewerID": "R4"},
    }  # fmt: skip
    table = {"groups": {"one": {"classes": ["{1..5}"], "domains": {"R4": domain}}}}
    rows = open_group(table, root=tmp_path).domain("R4", "test")
    assert rows.take(slice(None)) == ["bad"]


def test_civilcomments_identities_and_toxicity_are_majorities(tmp_path: Path) -> None:
    group = opened("civilcomments", tmp_path)
    assert labels_of(group, "id", "train") == ["non-toxic"]
    assert labels_of(group, "id") == ["toxic"]  # 0.5 is toxic
    assert labels_of(group, "test") == ["non-toxic", "toxic", "toxic"]
    assert group.domain("male", "test").take(slice(None)) == ["comment 2", "comment 4"]
    assert group.domain("no-male", "test").take(slice(None)) == ["comment 3"]
    with pytest.raises(InputError, match=r"No row has female = '1'. Values: 0"):
        group.domain("female", "test")


def test_images_are_opened_on_access_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wilds_folders.write_camelyon17(tmp_path)
    opened_files: list[str] = []
    read_bytes = Path.read_bytes

    def record_and_read(path: Path) -> bytes:
        opened_files.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", record_and_read)
    rows = WildsReader("camelyon17_v1.0", "camelyon17").read(tmp_path, (4, 4))
    assert len(rows) == 20
    assert opened_files == []
    assert rows.take(slice(2, 4)).shape == (2, 4, 4, 3)
    assert len(opened_files) == 2
    assert len(np.unique(rows.keys)) == 20
    assert len(opened_files) == 22


# Bad files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_missing_metadata_is_named(name: str, tmp_path: Path) -> None:
    group = opened(name, tmp_path)
    metadata = WRITERS[name][1](tmp_path)
    metadata.unlink()
    file = metadata.relative_to(tmp_path).as_posix()
    assert f"there is no '{file}' in {tmp_path}" in str(group.missing_reason("id"))
    missing = [path for path, found, _ in group.expected_files() if not found]
    assert missing == [file]


@pytest.mark.parametrize("name", WRITERS)
def test_missing_column_is_named(name: str, tmp_path: Path) -> None:
    group = opened(name, tmp_path)
    metadata = WRITERS[name][1](tmp_path)
    for column in WILDS_DATASETS[name].columns[WILDS_DATASETS[name].metadata]:
        original = metadata.read_text()
        metadata.write_text(original.replace(f'"{column}"', '"other"', 1))
        with pytest.raises(InputError, match=f"{metadata.name} has no column '{column}'; its columns are: .*other"):  # fmt: skip
            group.domain("id", "train")
        metadata.write_text(original)


def test_unknown_label_is_named(tmp_path: Path) -> None:
    for name, old, new in (("fmow", '"zoo"', '"zooo"'), ("iwildcam", ",36,", ",182,")):
        group = opened(name, tmp_path)
        metadata = WRITERS[name][1](tmp_path)
        metadata.write_text(metadata.read_text().replace(old, new, 1))
        label = WILDS_DATASETS[name].label
        with pytest.raises(InputError, match=f"{metadata.name}, row [01]: the column '{label}' has the label .*; expected one of the"):  # fmt: skip
            group.domain("id", "train")


def test_missing_image_is_named_with_the_metadata_file(tmp_path: Path) -> None:
    group = opened("rxrx1", tmp_path)
    (tmp_path / "rxrx1_v1.0/images/HEPG2-01/Plate2/B04_s1.png").unlink()
    with pytest.raises(InputError, match=r"rxrx1/id: There is no image 'images/HEPG2-01/Plate2/B04_s1.png' in .*rxrx1_v1.0, although rxrx1_v1.0/metadata.csv lists it"):  # fmt: skip
        group.domain("id", "train")
    assert len(group.domain("id", "test")) == 1


def test_empty_image_folder_is_an_error(tmp_path: Path) -> None:
    group = opened("fmow", tmp_path)
    for image in (tmp_path / "fmow_v1.1/images").iterdir():
        image.unlink()
    with pytest.raises(InputError, match=r"no image 'images/rgb_img_5.png' \(and 1 more of 2 images\)"):  # fmt: skip
        group.domain("ood-test", "test")


def test_broken_metadata_is_an_error(tmp_path: Path) -> None:
    group = opened("camelyon17", tmp_path)
    metadata = tmp_path / "camelyon17_v1.0/metadata.csv"
    header = metadata.read_text().splitlines()[0]
    metadata.write_text(header + "\n")
    with pytest.raises(InputError, match=r"metadata.csv has no rows"):
        group.domain("id", "train")
    metadata.write_text("")
    with pytest.raises(InputError, match=r"Cannot read camelyon17_v1.0/metadata.csv as CSV"):
        group.domain("id", "train")
    wilds_folders.write_camelyon17(tmp_path)
    lines = metadata.read_text().splitlines()
    metadata.write_text("\n".join([lines[0], lines[1][:-1] + "7", *lines[2:]]) + "\n")
    with pytest.raises(InputError, match=r"metadata.csv, row 0: the split is '7'; expected one of train, id_val"):  # fmt: skip
        group.domain("id", "train")


def test_files_of_amazon_must_have_equal_lengths(tmp_path: Path) -> None:
    group = opened("amazon", tmp_path)
    splits = tmp_path / "amazon_v2.1/splits/user.csv"
    splits.write_text(splits.read_text() + "0\n")
    with pytest.raises(InputError, match=r"amazon_v2.1/splits/user.csv has 7 rows, and reviews.csv has 6"):  # fmt: skip
        group.domain("id", "train")


@pytest.mark.parametrize(
    ("column", "value"), [("toxicity", '"much"'), ("male", '""'), ("white", '"?"')]
)
def test_values_that_must_be_numbers(column: str, value: str, tmp_path: Path) -> None:
    group = opened("civilcomments", tmp_path)
    file = tmp_path / "civilcomments_v1.0/all_data_with_identities.csv"
    header, first, *rest = file.read_text().splitlines()
    cells = first.split(",")
    cells[header.replace('"', "").split(",").index(column)] = value
    file.write_text("\n".join([header, ",".join(cells), *rest]) + "\n")
    with pytest.raises(InputError, match=f"row 0: the column '{column}' has the value .*; expected a number"):  # fmt: skip
        group.domain("id", "train")


def test_invalid_times_of_fmow(tmp_path: Path) -> None:
    group = opened("fmow", tmp_path)
    file = tmp_path / "fmow_v1.1/rgb_metadata.csv"
    file.write_text(file.read_text().replace("2012-12-31T23:59:59Z", "last year"))
    with pytest.raises(InputError, match=r"fmow_v1.1/rgb_metadata.csv, row 1: the column 'timestamp'"):  # fmt: skip
        group.domain("id", "train")


def test_unknown_names_are_listed(tmp_path: Path) -> None:
    wilds_folders.write_rxrx1(tmp_path)
    with pytest.raises(UnknownName, match="No WILDS dataset is called 'fmo'"):
        _ = WildsReader("a", "fmo").files
    with pytest.raises(UnknownName, match="No split of WILDS is called 'valid'"):
        WildsReader("rxrx1_v1.0", "rxrx1", split="valid").read(tmp_path, None)
    with pytest.raises(InputError, match=r"metadata.csv has no column 'wel'; its columns are"):
        WildsReader("rxrx1_v1.0", "rxrx1", where=(("wel", "B04"),)).read(tmp_path, None)
