"""ImageNet folders restricted to classes, ImageNet-C, ImageNet-200, ImageNet-A and ObjectNet."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.domains.class_lists import get_class_list, imagenet_wnids
from oodometer.studies.domains.group import DomainGroup, get
from oodometer.studies.domains.image_files import ImageFiles, load_image
from oodometer.studies.domains.imagenet_folders import ImagenetFolderReader, ObjectNetReader
from tests.support.wilds_folders import write_image

GOLDFISH, SHARK, HEN = "n01443537", "n01484850", "n01514859"


def class_names(group: DomainGroup, domain: str, split: str = "test") -> list[str]:
    labels = group.domain(domain, split).labels  # type: ignore[arg-type]
    assert labels is not None
    return [group.classes[label] for label in labels]


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """Return a folder of ImageNet and its shifts, with three classes."""
    for folder in ("imagenet/train", "imagenet/val", "imagenet-c/fog/3", "imagenet-r"):
        for number, wnid in enumerate((GOLDFISH, SHARK, "n01440764")):
            write_image(tmp_path / folder / wnid / f"{number}.JPEG", 50 * number, side=9)
    write_image(tmp_path / "imagenetv2-matched-frequency-format-val" / "1" / "a.jpeg", 7)
    write_image(tmp_path / "imagenetv2-matched-frequency-format-val" / "0" / "b.jpeg", 9)
    return tmp_path


def test_imagenet_c_has_a_domain_per_corruption_and_severity(imagenet: Path) -> None:
    group = get("imagenet-c", root=imagenet)
    assert len(group.domains) == 1 + 19 * 5
    assert group.classes == imagenet_wnids()
    assert group.available_domains == ("imagenet", "fog-3")
    assert "there is no 'imagenet-c/fog/4' in" in str(group.missing_reason("fog-4"))
    rows = group.domain("fog-3", "test")
    assert rows.labels is not None
    assert rows.labels.tolist() == [0, 1, 2]
    assert rows.take(slice(None)).shape == (3, 224, 224, 3)


def test_imagenet_200_leaves_out_other_classes(imagenet: Path) -> None:
    group = get("imagenet-200", root=imagenet)
    assert len(group.classes) == 200
    assert "n01440764" not in group.classes  # tench is not a class of ImageNet-R
    for domain in ("imagenet", "fog-3", "imagenet-r"):
        assert class_names(group, domain) == [GOLDFISH, SHARK]
    # The folders of ImageNetV2 are named by class number: 0 is tench, 1 is goldfish.
    assert class_names(group, "imagenet-v2") == [GOLDFISH]


def test_imagenet_a_leaves_out_other_classes(imagenet: Path) -> None:
    stingray = imagenet_wnids()[6]
    for folder in ("imagenet-a", "imagenet/val"):
        write_image(imagenet / folder / stingray / "ray.jpg", 30)
    group = get("imagenet-a", root=imagenet)
    assert len(group.classes) == 200
    assert GOLDFISH not in group.classes
    assert group.missing_reason() is None
    assert class_names(group, "imagenet") == class_names(group, "imagenet-a") == [stingray]


def test_lists_of_classes_are_the_published_ones() -> None:
    assert len(imagenet_wnids()) == len(set(imagenet_wnids())) == 1000
    assert list(imagenet_wnids()) == sorted(imagenet_wnids())
    sizes = {
        "imagenet-200": 200,
        "imagenet-a": 200,
        "objectnet": 113,
        "imagenet-vid-robust": 30,
        "ytbb-robust": 19,
    }
    for name, size in sizes.items():
        members = [wnid for wnids in get_class_list(name).members for wnid in wnids]
        assert len(get_class_list(name).names) == size
        assert len(members) == len(set(members))
        assert set(members) <= set(imagenet_wnids())
    assert len(get_class_list("fmow").names) == 62
    numbers = {
        name: [imagenet_wnids().index(wnid) for wnid in wnids]
        for name, wnids in zip(*vars(get_class_list("objectnet")).values(), strict=True)
    }
    assert numbers["banana"] == [954]
    assert numbers["alarm_clock"] == [409, 530]  # analog and digital clocks
    with pytest.raises(UnknownName, match="No list of classes is called 'objectne'"):
        get_class_list("objectne")


def test_folder_without_expected_classes_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty has no images in subfolders .* empty/n01440764/"):
        ImagenetFolderReader("empty").read(tmp_path, None)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is a file; expected a folder"):
        ImagenetFolderReader("file").read(tmp_path, None)


def test_images_are_not_read_when_a_folder_is_opened(imagenet: Path) -> None:
    (imagenet / "imagenet/val" / SHARK / "1.JPEG").write_bytes(b"no image")
    rows = ImagenetFolderReader("imagenet/val").read(imagenet, (4, 4))
    assert rows.take(np.array([0, 1])).shape == (2, 4, 4, 3)
    with pytest.raises(InputError, match=r"n01484850/1.JPEG in .* cannot be decoded as an image"):
        rows.take(slice(None))


def test_image_files_keep_keys_and_labels_of_selected_rows(imagenet: Path) -> None:
    rows = ImagenetFolderReader("imagenet/val").read(imagenet, (4, 4))
    assert isinstance(rows, ImageFiles)
    before = rows.rows(np.array([2, 0]))
    keys = rows.keys
    after = rows.rows(np.array([2, 0]))
    assert before.keys.tolist() == after.keys.tolist() == keys[[2, 0]].tolist()
    assert after.labels is not None
    assert after.labels.tolist() == [SHARK, "n01440764"]
    assert before.fingerprint == after.fingerprint != rows.fingerprint
    assert pickle.loads(pickle.dumps(rows)).fingerprint == rows.fingerprint
    (imagenet / "imagenet/val" / SHARK / "1.JPEG").unlink()
    with pytest.raises(InputError, match=r"1.JPEG in .* cannot be read: No such file"):
        rows.take(slice(None))


# ObjectNet ----------------------------------------------------------------------------------------

FOLDERS = {"banana": "Banana", "alarm_clock": "Alarm clock", "baking_sheet": "Baking sheet"}
SHARED = {"Banana": "banana", "Alarm clock": "analog clock; digital clock"}


@pytest.fixture
def objectnet(tmp_path: Path) -> Path:
    """Return a data folder with three classes of ObjectNet, two of which ImageNet has."""
    for number, folder in enumerate(FOLDERS):
        pixels = np.full((12, 12, 3), (255, 0, 0), dtype=np.uint8)
        pixels[2:-2, 2:-2] = 40 * number + 10
        path = tmp_path / "objectnet-1.0/images" / folder / "x.png"
        path.parent.mkdir(parents=True)
        Image.fromarray(pixels).save(path)
    mappings = tmp_path / "objectnet-1.0/mappings"
    mappings.mkdir()
    (mappings / "folder_to_objectnet_label.json").write_text(json.dumps(FOLDERS))
    (mappings / "objectnet_to_imagenet_1k.json").write_text(json.dumps(SHARED))
    return tmp_path


def test_objectnet_has_the_shared_classes_without_red_border(objectnet: Path) -> None:
    group = get("objectnet", root=objectnet)
    assert class_names(group, "objectnet") == ["alarm_clock", "banana"]
    images = group.domain("objectnet", "test").take(slice(None))
    assert images.shape == (2, 224, 224, 3)
    assert [np.unique(image).tolist() for image in images] == [[50], [10]]
    with_border = ObjectNetReader("objectnet-1.0", border=0).read(objectnet, None)
    assert with_border.take(slice(0, 1)).max() == 255


def test_imagenet_domain_of_objectnet_merges_classes(objectnet: Path) -> None:
    wnids = imagenet_wnids()
    for split in ("train", "val"):
        for number in (409, 530, 954, 0):  # two clocks, a banana and a tench
            write_image(objectnet / "imagenet" / split / wnids[number] / "0.JPEG", number % 255)
    group = get("objectnet", root=objectnet)
    assert class_names(group, "imagenet") == ["alarm_clock", "alarm_clock", "banana"]


def test_bad_files_of_objectnet(objectnet: Path) -> None:
    group = get("objectnet", root=objectnet)
    mapping = objectnet / "objectnet-1.0/mappings/objectnet_to_imagenet_1k.json"
    mapping.write_text(json.dumps({**SHARED, "Boat": "boat"}))
    with pytest.raises(InputError, match=r"objectnet_to_imagenet_1k.json has the class 'Boat', which is not a value of .*folder_to_objectnet_label.json"):  # fmt: skip
        group.domain("objectnet", "test")
    mapping.write_text("[")
    with pytest.raises(InputError, match=r"Cannot read objectnet-1.0/mappings/objectnet_to_imagenet_1k.json as JSON"):  # fmt: skip
        group.domain("objectnet", "test")
    mapping.write_text("[]")
    with pytest.raises(InputError, match=r"objectnet_to_imagenet_1k.json must contain an object"):
        group.domain("objectnet", "test")
    mapping.unlink()
    assert "no 'objectnet-1.0/mappings/objectnet_to_imagenet_1k.json' in" in str(
        group.missing_reason("objectnet")
    )
    mapping.write_text(json.dumps({"Baking sheet": "x"}))
    (objectnet / "objectnet-1.0/images/baking_sheet/x.png").unlink()
    with pytest.raises(InputError, match=r"images has no images in folders of shared classes"):
        group.domain("objectnet", "test")


def test_border_larger_than_the_image_is_an_error(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", 3, side=4)
    with pytest.raises(InputError, match="has 4 × 4 pixels, which leaves nothing"):
        load_image(tmp_path, "a.png", border=2)
