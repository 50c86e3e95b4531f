"""Gallery: content, escaping, and protection of other files."""

from __future__ import annotations

import html
import importlib
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pytest

from oodometer.core import inputs as batches
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.protocols import Model
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.sampling import NeighborhoodSampler, SamplingRound
from oodometer.report.gallery import write_gallery
from oodometer.report.neighborhood_view import MemberDecision
from tests.support import invariance_runs
from tests.support.invariance_runs import DATA, TEXTS, Hashed, Nudge, images
from tests.support.invariance_runs import HOSTILE_TEXT as HOSTILE

CHROMIUM = shutil.which("chromium")
RNG = np.random.default_rng(0)


class GalleryRun(invariance_runs.InvarianceRun):
    """Run that can be written as a gallery."""

    def write(self, folder: Path, **options: Any) -> int:
        return write_gallery(folder, self.found, self.show, **options)

    def page(self, folder: Path, **options: Any) -> str:
        self.write(folder, **options)
        return (folder / "index.html").read_text(encoding="utf-8")


def gallery_run(data: Any, *models: Model, draws: int = 6, **options: Any) -> GalleryRun:
    run = invariance_runs.run_invariance(data, *models, draws=draws, **options)
    return GalleryRun(run.found, run.show)


def picture(path: Path) -> Any:
    image = cv2.imread(str(path))
    assert image is not None
    return image


def listed(page: str) -> list[int]:
    """Return the examples of a page, in order."""
    return [int(number) for number in re.findall(r'<h2 id="example-(\d+)"', page)]


def tables(page: str) -> list[list[list[str]]]:
    """Return the cells of each example's table as text, without the header."""
    bodies = [part.split("<tbody>")[1] for part in page.split('<section class="example"')[1:]]
    rows = [re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL) for body in bodies]
    return [[[plain(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)]
             for row in body] for body in rows]  # fmt: skip


def plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_gallery_shows_the_decisions_of_the_models(data: Any, tmp_path: Path) -> None:
    run = gallery_run(data, Hashed("first"), Hashed("second <i>", salt=7))
    page = run.page(tmp_path / "gallery")
    assert sorted(listed(page)) == [0, 1, 2, 3]
    for position, table in zip(listed(page), tables(page), strict=True):
        # Naive loop: each draw separately, equal draws counted.
        expected: dict[bytes, list[Any]] = {}
        for number in range(7):
            member = SamplingRound(np.array([position]), range(number, number + 1))
            inputs, _ = run.show.sample(member)
            content = next(batches.iter_row_bytes(inputs))
            outputs = [Hashed("", 1).classify(inputs), Hashed("", 7).classify(inputs)]
            classes = [
                output.class_names[output.classes[0]] for output in outputs if output.class_names
            ]
            name = f"draw {number}" if number else "original"
            expected.setdefault(content, [name, 0, classes])[1] += 1
        original = next(iter(expected.values()))[2]
        rows = [
            [f"{name} ×{times}" if times > 1 else name]
            + [c if c == o else f"≠ {c}" for c, o in zip(classes, original, strict=True)]
            for name, times, classes in expected.values()
        ]
        assert [row[:3] for row in table] == rows
        assert [row[0] for row in table] == ["original ×3", "draw 1 ×2", "draw 2 ×2"]


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_hostile_names_are_escaped(data: Any, tmp_path: Path) -> None:
    run = gallery_run(data, Hashed(HOSTILE, names=(HOSTILE, "<img src=x onerror=y>", "c")))
    page = run.page(tmp_path / "gallery")
    assert "<script" not in page
    assert "<b>" not in page
    assert "onerror=y>" not in page
    assert html.escape(HOSTILE) in page


def test_new_words_are_marked_and_deleted_words_struck_out(tmp_path: Path) -> None:
    class Other(Nudge):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return ["a fine film" for _ in inputs]

    dataset = as_dataset(["a good film", "a good film too"])
    result = invariance(Hashed("first"), dataset, transform=Other(), draws=3)
    run = GalleryRun(result, NeighborhoodSampler(dataset, Other(), 0))
    assert "a <del>good</del> <mark>fine</mark> film</bdi>" in run.page(tmp_path / "gallery")


def test_changed_values_are_marked_and_hidden_columns_counted(tmp_path: Path) -> None:
    page = gallery_run(np.ones((1, 40)), draws=1).page(tmp_path / "gallery")
    assert page.count("<mark>2</mark>") == 30
    assert "10 more columns are not shown." in page


def test_only_the_changed_column_of_a_table_is_marked(tmp_path: Path) -> None:
    page = gallery_run(pa.table({"a": [1.0], "b": ["x"]}), draws=1).page(tmp_path / "gallery")
    assert "<mark>2</mark>" in page
    assert page.count("<mark>") == 1
    assert '<th scope="col"><bdi>b</bdi></th>' in page


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (8, 8, 3), (300, 200), (300, 200, 3)])
def test_every_image_example_has_a_picture(shape: tuple[int, ...], tmp_path: Path) -> None:
    data = images(3, *shape)
    page = gallery_run(data).page(tmp_path / "gallery")
    names = {f"example_{number:04d}.png" for number in range(3)}
    assert set(os.listdir(tmp_path / "gallery")) == {"index.html", *names}
    assert set(re.findall(r'<img src="([^"]*)"[^>]* alt="[^"]+"', page)) == names
    seen = picture(tmp_path / "gallery" / "example_0001.png")
    large = max(shape) > 160
    assert seen.shape[0] == 8 + 2 * 4 + 32 + 8 + (160 if large else 128)
    if not large:
        first = seen[12:140:16, 12:140:16, ::-1]
        assert np.array_equal(first, np.broadcast_to(data[1].reshape(8, 8, -1), (8, 8, 3)))


def test_non_ascii_class_is_shown_by_number_in_pictures() -> None:
    assert MemberDecision(2, "größe", False).ascii_text == "2"
    assert MemberDecision(2, "a\nb", False).ascii_text == "2"
    assert MemberDecision(2, " ", False).ascii_text == "2"
    assert MemberDecision(2, "big", True).ascii_text == "!= big"


@pytest.mark.parametrize("measure", ["pa", "NI"])
def test_least_invariant_examples_come_first_ties_in_order(measure: str, tmp_path: Path) -> None:
    run = gallery_run(images(60, 4, 4), Hashed("first"), Hashed("second", salt=7))
    page = run.page(tmp_path / "gallery", count=25, measure=measure)
    mean = np.mean([one.by_example(measure) for one in run.found], axis=0)
    expected = sorted(range(60), key=lambda i: (mean[i], i))[:25]
    assert len(set(mean)) < 25
    assert listed(page) == expected
    for position in expected:
        values = [mean[position], *(one.by_example(measure)[position] for one in run.found)]
        cells = "".join(f'<td class="number">{value:.3f}</td>' for value in values)
        assert f'<a href="#example-{position}">{position}</a></th>{cells}</tr>' in page
        assert f"{measure.upper()}-Nudge {mean[position]:.3f}</span>" in page


def test_gallery_describes_itself_and_returns_the_count(tmp_path: Path) -> None:
    run = gallery_run(images(60, 4, 4), seed=5)
    text = plain(run.page(tmp_path / "gallery", count=7))
    assert "shows the 7 of 60 examples on which the model is least invariant, by PA-Nudge." in text
    assert "transform nudge with magnitude 2 and seed 5." in text
    assert run.write(tmp_path / "two", count=2) == 2
    assert run.write(tmp_path / "all", count=100) == 60


def test_images_of_a_folder_show_file_names(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("ant.png", "b&b.png"):
        cv2.imwrite(str(folder / name), images(1, 4, 4)[0])
    (folder / "broken.png").write_bytes(b"no image")
    page = gallery_run(as_dataset(folder, skip_bad=True)).page(tmp_path / "gallery")
    assert sorted(listed(page)) == [0, 1]
    assert "Example 0: ant.png" in plain(page)
    assert "Example 1: b&b.png" in plain(page)
    assert "b&b" not in page
    assert "from 0; unreadable and empty inputs are not counted." in plain(page)
    assert "not counted" not in gallery_run(images(4, 4, 4)).page(tmp_path / "other")


def test_only_classified_draws_are_shown(tmp_path: Path) -> None:
    run = gallery_run(RNG.normal(size=(250, 3)), draws=8, max_inputs=630)
    assert not run.found[0].complete
    page = run.page(tmp_path / "gallery", count=3)
    lowest = np.argsort(run.found[0].by_example("pa"), kind="stable")[:3]
    assert listed(page) == run.found[0].positions[lowest].tolist() != lowest.tolist()
    assert all([row[0] for row in table] == ["original", "draw 1", "draw 2"]
               for table in tables(page))  # fmt: skip


def test_constant_model_has_no_changed_classes(tmp_path: Path) -> None:
    page = gallery_run(TEXTS, Hashed("constant", salt=2**64 - 1)).page(tmp_path / "gallery")
    assert 'class="class moved"' not in page
    assert page.count("1.000") >= 4


def test_policy_allows_pictures_but_no_scripts(tmp_path: Path) -> None:
    page = html.unescape(gallery_run(TEXTS).page(tmp_path / "gallery"))
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'none'; img-src 'self' file:"
    )
    assert f'content="{policy}"' in page
    assert "http://" not in page.replace('<meta http-equiv="', "")
    assert "https://" not in page


def test_gallery_needs_no_chart_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        assert name not in ("altair", "vl_convert")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    assert gallery_run(images(2, 8, 8)).write(tmp_path / "gallery") == 2


@pytest.mark.parametrize(
    ("name", "other"),
    [("seed", {"seed": 1}), ("magnitude", {"transform": Nudge(1.0)}),
     ("fingerprint", {"dataset": as_dataset(["other"])})],
)  # fmt: skip
def test_sampler_of_another_run_is_rejected(
    name: str, other: dict[str, Any], tmp_path: Path
) -> None:
    run = gallery_run(TEXTS)
    with pytest.raises(InputError, match=f"^The result has {name} .* Give the data, tr") as one:
        write_gallery(tmp_path / "g", run.found, replace(run.show, **other))
    assert "\n" not in str(one.value)
    assert not os.listdir(tmp_path)


def test_invalid_count_and_measure_are_rejected(tmp_path: Path) -> None:
    run = gallery_run(TEXTS)
    with pytest.raises(InputError, match=r"count must be at least 1; got 0\."):
        run.write(tmp_path / "g", count=0)
    with pytest.raises(UnknownName, match="'pq'"):
        run.write(tmp_path / "g", measure="pq")
    assert not os.listdir(tmp_path)


def test_earlier_gallery_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    gallery_run(images(5, 4, 4)).write(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    page = gallery_run(images(2, 4, 4)).page(tmp_path)
    assert sorted(listed(page)) == [0, 1]
    expected = ["example_0000.png", "example_0001.png", "index.html", "notes.txt"]
    assert sorted(os.listdir(tmp_path)) == expected


def test_unsuitable_folder_is_rejected_before_any_work(tmp_path: Path) -> None:
    run = gallery_run(TEXTS)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"not empty: mine\.txt does not belong to an earlier gal"):
        write_gallery(tmp_path, run.found, run.show)
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_invalid_unicode_is_replaced(tmp_path: Path) -> None:
    assert "a ? b" in gallery_run(["a \ud800 b"]).page(tmp_path / "gallery")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_browser_opens_pictures_from_disk(tmp_path: Path) -> None:
    gallery_run(images(1, 8, 8)).write(tmp_path / "gallery")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--enable-logging=stderr", "--window-size=800,900",
             f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={tmp_path / 'seen.png'}")  # fmt: skip
    address = (tmp_path / "gallery" / "index.html").as_uri()
    command = [str(CHROMIUM), *flags, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    seen = picture(tmp_path / "seen.png")
    drawn = picture(tmp_path / "gallery" / "example_0000.png")[12:140, 12:140]
    assert cv2.matchTemplate(seen, drawn, cv2.TM_SQDIFF).min() < 1e4
