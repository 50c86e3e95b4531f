"""Code blocks of README and docs/ run, links work, and the pages are complete."""

from __future__ import annotations

import importlib
import logging
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main

import oodometer
from oodometer import cli, estimators, measures, metrics, transforms
from oodometer.assessment.diagnostics import DIAGNOSTICS
from oodometer.assessment.headline import METHOD_ORDER
from oodometer.studies import Study, spec
from oodometer.studies.analysis._compare_measures import STATISTIC_LABELS
from oodometer.studies.domains import spec as declared
from oodometer.studies.domains.reader_registry import READERS
from oodometer.studies.domains.synthetic import DERIVATIONS
from oodometer.studies.store.export import COLUMNS
from oodometer.studies.training import spec as grids
from oodometer.studies.training.config import TrainingConfig
from tests.support.command_line import run, run_json
from tests.support.markdown_pages import ROOT, Block, blocks, commands, run_page

DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = (README, *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("howto/*.md")))
# Pages whose links are checked; their code blocks are tested elsewhere, or they have none.
OTHERS = (
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")),
    *sorted({*DOCS.rglob("*.md")} - {*PAGES}),
)
CLUSTER = DOCS / "cluster.md"
SPARK = DOCS / "howto" / "spark_dask.md"
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(page: str) -> list[list[str]]:
    """Return the cells of all table rows of a page."""
    lines = [line for line in text(page).splitlines() if line.startswith("| ")]
    cells = [line.strip("|").replace("\\|", "|").split(" | ") for line in lines]
    return [[cell.strip() for cell in row] for row in cells]


# Code blocks ------------------------------------------------------------------------------------


# Parts of the output of a page's blocks, and files that the blocks write.
OUTPUTS = {
    "README": ["The estimated accuracy on the target is", "1. good: NI-Rotate"],
    "start": ["not applicable: it needs gradients: no model was given"],
    "studies": ["8 models trained", "16 evaluations", "ni-translate", "| measure"],
    "extend": ["keywords: NI-RandRep", "halfway", "feature-norm", "bright: NI-Darken"],
    "tables": [
        "Typical range (90 %)",
        "south",
        "macro",
        "Label 200 of 4,000 rows",
        "ppi++",
        "13 0.",
    ],
    "images": ["beyond_support", "NI-RandAug", "h-divergence"],
    "texts": ["classify_linear has the highest doc", "classify_bayes has the highest NI-RandRep"],
    "llm": ["gde", "Method: bbse, the only method with a result"],
    "many_models": ["critical: bayes_0.001", "of 597 rows differ; 20 were labelled"],
    "spark_dask": ["shop", "5000 The estimated accuracy"],
}
FILES = {
    "README": ["report.html"],
    "start": ["report.html", "look/index.html"],
    "studies": ["rows.parquet"],
    "commands": ["noisy.html", "ranking.html", "truth.html", "rows.csv"],
    "tables": ["to_label.csv"],
    "images": ["report.html", "look/index.html"],
    "many_models": ["ranking.html"],
}


@pytest.mark.parametrize("page", [page for page in PAGES if page != CLUSTER], ids=lambda p: p.stem)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    outputs = run_page(page, tmp_path)
    scripts = [block for block in blocks(page) if block.language == "python" and not block.file]
    assert len(outputs) == len(scripts) + len(commands(page))
    for part in OUTPUTS.get(page.stem, []):
        assert part in "\n".join(outputs)
    for name in FILES.get(page.stem, []):
        assert (tmp_path / name).is_file()


@pytest.fixture
def cluster() -> Iterator[str]:
    """Yield the address of a scheduler with one worker in this process."""
    local_cluster: Any = importlib.import_module("distributed").LocalCluster
    with local_cluster(
        n_workers=1, processes=False, dashboard_address=":0", silence_logs=logging.CRITICAL,
        protocol="tcp",
    ) as cluster:  # fmt: skip
        yield cluster.scheduler_address


def test_cluster_page_runs_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    outputs = run_page(CLUSTER, tmp_path, {"tcp://head:8786": cluster})
    assert len(list(tmp_path.glob("on_cluster/[!.]*/weights.safetensors"))) == 4
    assert "4 of 4 are stored" in outputs[-1]
    assert "left" in outputs[-2]


def _spark_script() -> Block:
    (script,) = [block for block in blocks(SPARK) if block.file == "spark_outputs.py"]
    return script


def test_spark_script_writes_folders_that_estimate_reads(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "spark_outputs.py").write_text(_spark_script().content)
    subprocess.run([sys.executable, "spark_outputs.py"], cwd=tmp_path, check=True)
    result = run_json(tmp_path, "estimate", "spark_validation", "spark_new")
    assert 0.5 < result["headline"]["value"] < 1


def test_folders_in_the_layout_of_spark_are_read(tmp_path: Path) -> None:
    assert "vector_to_array" in compile(_spark_script().content, "spark", "exec").co_names
    rng = np.random.default_rng(0)
    for name in ("spark_validation", "spark_new"):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("_SUCCESS", "._SUCCESS.crc", ".part-00000-27.snappy.parquet.crc"):
            (folder / file).write_bytes(b"")
        probs = rng.dirichlet([0.5, 0.5], 500)
        columns = {"probs": pa.array(probs.tolist()), "channel": ["web", "shop"] * 250}
        if name == "spark_validation":
            columns["label"] = (rng.random(500) < probs[:, 1]).astype("int32")
        pq.write_table(pa.table(columns), folder / "part-00000-27.snappy.parquet")
    result = run_json(tmp_path, "estimate", "spark_validation", "spark_new")
    assert result["n_target"] == 500


def test_files_of_the_formats_page_are_valid(tmp_path: Path) -> None:
    run_page(DOCS / "formats.md", tmp_path)
    study = Study.open(tmp_path / "study.toml")
    assert list(study.domains) == ["north", "south", "tilted"]
    assert [model.name for model in study.models] == ["mine"]
    assert study.groups[0].missing_reason() is None


def test_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) < 90


def test_first_commands_of_the_readme_are_make_targets() -> None:
    first = next(block for block in blocks(README) if block.language == "sh")
    words = [line.split("#")[0].split() for line in first.content.splitlines()]
    assert words == [["make", "demo"], ["make", "test"]]
    makefile = (ROOT / "Makefile").read_text()
    for _, target in words:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_readme_counts_measures_and_transforms() -> None:
    assert 55 <= len(measures.MEMBERS) <= 65
    assert "Some sixty *measures*" in README.read_text()
    assert len(transforms.MEMBERS) == 16
    assert "sixteen transforms" in README.read_text()


def test_studies_page_lists_every_built_in_pool_with_its_number_of_models() -> None:
    listed = {
        row[0].strip("`"): int(row[4]) for row in rows("studies.md") if row[0].startswith("`")
    }
    counted = {name: len(grids.PoolSpec.open(name).recipes()) for name in grids.built_in_names()}
    assert listed == counted


_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
# Values of the short output that the page Getting started shows.
ANSWER_NAMES = (
    "Accuracy on the target", "Confidence interval (95 %)", "Typical range (90 %)",
    "Accuracy on the source", "Highest other method", "Lowest other method",
)  # fmt: skip


def test_images_have_alternative_texts_and_are_small() -> None:
    used = set()
    for page in PAGES:
        for alt, name in _IMAGE.findall(page.read_text(encoding="utf-8")):
            path = (page.parent / name).resolve()
            assert len(alt) > 30, f"{page.name}: {name}"
            assert path.stat().st_size < 150_000, name
            used.add(path.name)
    images = {path.name for path in (DOCS / "images").iterdir() if path.suffix != ".py"}
    assert images <= used


def test_start_page_shows_the_present_output(tmp_path: Path) -> None:
    (shown,) = [block.content for block in blocks(DOCS / "start.md") if block.language == "text"]
    assert run(tmp_path, "demo", "--save", "example", "--quiet").returncode == 0
    files = ("example/source.parquet", "example/rotated_10.parquet")
    output = run(tmp_path, "estimate", *files).stdout
    for name in ANSWER_NAMES:
        assert f"\n{name} " in shown
        assert f"\n{name} " in output
    assert shown.splitlines()[-1] == output.splitlines()[-1]
    assert len(shown.splitlines()) <= 25


# Links -------------------------------------------------------------------------------------------


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda p: p.stem)
def test_every_link_has_a_target(page: Path) -> None:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}, which does not exist"
        assert not anchor or anchor in _anchors(target), f"{page.name}: no heading for {link}"


def test_index_links_to_every_page() -> None:
    linked = set(_LINK.findall(text("index.md")))
    pages = {str(page.relative_to(DOCS)) for page in PAGES if page != README}
    assert pages - linked == {"index.md"}


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda p: p.stem)
def test_every_image_exists_and_is_described(page: Path) -> None:
    for description, link in _IMAGE.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / link).is_file(), f"{page.name}: {link}"
        assert description, f"{page.name}: {link} has no description for screen readers"


def test_diagrams_are_those_that_the_script_draws() -> None:
    script = runpy.run_path(str(DOCS / "images" / "draw.py"))
    assert set(script["PICTURES"]) == {path.name for path in DOCS.glob("images/*.svg")}
    for name, draw in script["PICTURES"].items():
        assert (DOCS / "images" / name).read_text() == draw(), f"run docs/images/draw.py: {name}"
        assert name in text("index.md")


def _contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, as defined by WCAG 2."""

    def luminance(color: str) -> float:
        parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_diagrams_are_readable_in_light_and_dark() -> None:
    style = runpy.run_path(str(DOCS / "images" / "draw.py"))["STYLE"]
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", part)) for part in style.split("@media"))
    assert set(light) == set(dark) > {"paper", "ink", "soft", "a", "b", "c"}
    for colors in (light, dark):
        for text_color in ("ink", "soft"):
            for background in ("paper", "fill"):
                assert _contrast(colors[text_color], colors[background]) >= 4.5
        for mark in ("a", "b", "c"):
            assert _contrast(colors[mark], colors["paper"]) >= 3


def test_comparison_page_has_the_measured_figures() -> None:
    measured = (DOCS / "results" / "quality_no_shift.md").read_text()
    page = text("compared.md")
    for quantity, name in (("accuracy", "accuracy"), ("f1", "F1"), ("auroc", "AUROC")):
        found = re.search(
            rf"mean over all sets of the error of {quantity} relative to NannyML *\| ([\d.]+)",
            measured,
        )
        assert found is not None
        assert f"| mean absolute error of the estimated {name} | {found[1]} |" in page
    time = re.search(r"CPU time per batch relative to NannyML *\| ([\d.]+)", measured)
    alarms = re.search(r"false alarms of all metrics \(NannyML: (\d+)\) *\| (\d+)", measured)
    assert time is not None
    assert alarms is not None
    assert f"| CPU time per batch | {time[1]} |" in page
    assert f"{alarms[2]} instead of {alarms[1]}" in page


def test_comparison_page_counts_required_packages_and_estimators() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = text("compared.md")
    assert f"| oodometer | MIT | ≥ 3.11 | {len(project['dependencies'])} | no |" in page
    assert len(estimators.MEMBERS) > 15
    assert "more than fifteen estimators" in page
    requirements = (ROOT / "benchmarks" / "peers" / "requirements.txt").read_text()
    (version,) = re.findall(r"^nannyml==(.+)$", requirements, flags=re.MULTILINE)
    assert f"NannyML {version}," in page


def test_results_page_links_to_every_result() -> None:
    linked = set(_LINK.findall(text("results.md")))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.glob("results/**/*.md")}
    assert pages, "docs/results has no pages"
    assert pages - linked == set(), "docs/results.md must have one sentence on each"


# Completeness -----------------------------------------------------------------------------------


def _command_names(group: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _command_names(command, (*path, name))
        else:
            yield " ".join(("oodometer", *path, name))


def test_every_command_has_a_heading_and_an_example() -> None:
    page = DOCS / "commands.md"
    examples = commands(page)
    names = list(_command_names(typer.main.get_command(cli.app)))
    assert len(names) >= 18
    for name in names:
        assert f"### {name}\n" in page.read_text(), f"docs/commands.md lacks {name}"
        assert any(line.startswith(f"{name} ") or line == name for line in examples), name


def test_every_heading_of_the_commands_page_is_a_command() -> None:
    headings = re.findall(r"^### (oodometer .*)$", text("commands.md"), flags=re.MULTILINE)
    assert set(headings) == set(_command_names(typer.main.get_command(cli.app)))


def test_api_page_describes_every_public_name() -> None:
    described = {cells[0].strip("`"): cells[1] for cells in rows("api.md") if cells[0][0] == "`"}
    assert set(described) == set(oodometer.__all__)
    assert all(len(sentence.split()) > 1 for sentence in described.values())


def _method_rows() -> dict[str, list[str]]:
    """Return the rows of the methods page by the name in their first cell."""
    return {cells[0].strip("`"): cells for cells in rows("methods.md") if cells[0][0] == "`"}


def test_methods_page_has_the_facts_of_estimators_and_metrics() -> None:
    described = _method_rows()
    members: tuple[Any, ...] = (*estimators.MEMBERS, *estimators.ON_REQUEST, *metrics.MEMBERS)
    for member in members:
        expected = [member.assumes, ", ".join(member.needs), member.paper]
        assert described[member.name][2:] == expected, member.name


def test_methods_page_has_the_facts_of_transforms() -> None:
    described = _method_rows()
    for member in transforms.MEMBERS:
        row = described[member.name]
        expected = [", ".join(member.kinds), f"{member.magnitude:g}", member.assumes]
        assert [row[1], row[3], row[4]] == expected, member.name


def test_methods_page_names_every_measure() -> None:
    names = set(re.findall(r"`([^`]+)`", text("methods.md")))
    assert {member.name for member in measures.MEMBERS} - names == set()


def test_methods_named_by_the_decision_page_exist() -> None:
    known = {
        m.name for family in (estimators, measures, metrics, transforms) for m in family.MEMBERS
    }
    known |= {member.name for member in estimators.ON_REQUEST}
    known |= {diagnostic.__name__ for diagnostic in DIAGNOSTICS}
    names = set(re.findall(r"`([^`]+)`", text("which.md")))
    names = {name for name in names if not name.startswith(("oodometer ", "--"))}
    assert len(names) > 20
    assert names - known == set()


def test_reading_page_has_diagnostics_statistics_and_the_headline_rule() -> None:
    page = text("reading.md")
    for diagnostic in DIAGNOSTICS:
        assert f"| `{diagnostic.__name__}` |" in page
    for label in STATISTIC_LABELS.values():
        assert f"`{label}`" in page
    assert ", ".join(f"`{name}`" for name in METHOD_ORDER) in page


def test_formats_page_has_every_key_reader_column_and_variable() -> None:
    page = text("formats.md")
    keys = [
        *declared.GroupKeys.model_fields,
        *declared.FilesKeys.model_fields,
        *declared.DerivedKeys.model_fields,
        *grids.PoolKeys.model_fields,
        *spec.StudyKeys.model_fields,
    ]
    keys += [
        *spec.PoolEntry.model_fields,
        *spec.ModelEntry.model_fields,
        *TrainingConfig.__dataclass_fields__,
        *READERS,
        *DERIVATIONS,
    ]
    for key in (*keys, *COLUMNS):
        assert re.search(rf"\b{re.escape(key)}\b", page), f"docs/formats.md lacks {key}"
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for variable in set(re.findall(r"\bOODOMETER_\w+", source)):
        assert f"`{variable}`" in page


def test_formats_page_has_every_exit_code() -> None:
    codes = set(re.findall(r"\b(\d+) [a-z]", (cli.__doc__ or "").partition("Exit codes:")[2]))
    assert codes == {"0", "1", "2", "3", "130", "141"}
    for code in codes:
        assert re.search(rf"^\| {code} \| \w", text("formats.md"), flags=re.MULTILINE)


# The runner of code blocks -----------------------------------------------------------------------


def _write_page(folder: Path, language: str, content: str) -> Path:
    page = folder / "page.md"
    page.write_text(f"# Page\n\n```{language}\n{content}\n```\n")
    return page


@pytest.mark.parametrize(
    ("language", "content"),
    [
        ("python", "raise AssertionError('broken')"),
        ("sh", "oodometer methods --family none"),
        ("sh", "rm nothing"),
        ("rust", "fn main() {}"),
        ("", "no language"),
    ],
)
def test_broken_block_fails(language: str, content: str, tmp_path: Path) -> None:
    page = _write_page(tmp_path, language, content)
    with pytest.raises(AssertionError):
        run_page(page, tmp_path)


def test_block_with_a_file_name_is_written(tmp_path: Path) -> None:
    page = _write_page(tmp_path, "toml", "# one.toml: a file\nkey = 1")
    assert run_page(page, tmp_path) == []
    assert (tmp_path / "one.toml").read_text() == "# one.toml: a file\nkey = 1\n"
    assert blocks(page) == [Block("toml", "# one.toml: a file\nkey = 1\n")]


def test_output_of_a_block_is_returned(tmp_path: Path) -> None:
    page = _write_page(tmp_path, "python", "print('here')")
    assert run_page(page, tmp_path) == ["here\n"]
    assert run_page(page, tmp_path, {"here": "there"}) == ["there\n"]


SOURCE = ROOT / "src" / "oodometer"


def test_modules_of_the_glossary_exist() -> None:
    rows = [
        line.strip("| ").split(" | ")
        for line in (DOCS / "glossary.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| term"))
    ]
    assert len(rows) > 100
    modules = {
        word for row in rows for word in re.findall(r"`([a-z_]+(?:\.[a-z_0-9]+)+)`$", row[-1])
    }
    assert len(modules) > 50
    for module in modules:
        path = SOURCE.joinpath(*module.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file(), module


def test_files_and_functions_of_the_architecture_page_exist() -> None:
    page = (DOCS / "architecture.md").read_text()
    nodes = re.findall(r'\["([\w/]+\.py)<br/>([^"]+)"\]', page)
    assert len(nodes) > 25
    assert page.count("```mermaid") == 4
    for file, functions in nodes:
        text = (SOURCE / file).read_text()
        for name in re.findall(r"([\w.]+)\(\)", functions):
            assert re.search(rf"(def|class) {name.split('.')[-1]}\b", text), f"{file}: {name}"
    tree = page.split("```text")[1].split("```")[0]
    folder = ""
    for line in tree.splitlines()[1:]:
        if match := re.match(r"  (\w+)/ ", line):
            folder = match[1]
            assert (SOURCE / folder / "__init__.py").is_file(), folder
        elif line.startswith("    "):
            names = re.match(r"    ((?:[\w/]+(?:\.py|/) ?)+)", line)
            assert names is not None, line
            for name in names[1].split():
                assert (SOURCE / folder / name).exists(), f"{folder}/{name}"
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages <= set(re.findall(r"^  (\w+)/", tree, flags=re.MULTILINE))


def test_result_tables_are_readable() -> None:
    paths = sorted((DOCS / "results").rglob("*.parquet"))
    assert len(paths) > 5
    for path in paths:
        assert pq.read_table(path).num_rows > 0, path.name
