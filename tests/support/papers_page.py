"""Write docs/papers.md from docs/papers.csv: `python -m tests.support.papers_page`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import NamedTuple

from oodometer.studies.domains.group import available_names
from oodometer.studies.training.spec import BUILT_IN_FOLDER, built_in_names

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "papers.csv"
PAGE = ROOT / "docs" / "papers.md"
SOURCE = ROOT / "src" / "oodometer"
GROUPS_FILE = SOURCE / "studies" / "domains" / "groups.toml"
FAITHFUL, DEVIATES = "faithful", "deviates"
PAPERS = {
    "NI": "Predicting Out-of-Domain Generalization with Neighborhood Invariance (2023)",
    "MS": "Predicting Out-of-Domain Generalization with Local Manifold Smoothness (2022), an earlier form of NI",
    "DG": "An Empirical Investigation of Domain Generalization with Empirical Risk Minimizers (2021)",
    "AO": "Assaying Out-Of-Distribution Generalization in Transfer Learning (2022)",
    "ATC": "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance (2022)",
}


class Component(NamedTuple):
    """Component of a paper: row of `papers.csv`.

    code     names in the package, separated by semicolons: dotted names below `oodometer`,
             `pool:NAME` for a built-in pool, `group:NAME` for a built-in domain group
    state    "faithful", or "deviates" with a reason
    """

    number: int
    paper: str
    section: str
    component: str
    code: str
    state: str
    reason: str

    @property
    def names(self) -> list[str]:
        return [name.strip() for name in self.code.split(";")]


def read_components(path: Path = DATA) -> list[Component]:
    """Return the rows of the data file."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Component(int(row.pop("number")), **row) for row in csv.DictReader(file)]


def find_source_file(name: str) -> Path:
    """Return the file that defines a name; raise LookupError or ImportError if nothing has it."""
    kind, _, member = name.rpartition(":")
    if kind == "pool":
        if member not in built_in_names():
            raise LookupError(f"there is no built-in pool {member!r}")
        return BUILT_IN_FOLDER / f"{member}.toml"
    if kind == "group":
        if member not in available_names():
            raise LookupError(f"there is no built-in domain group {member!r}")
        return GROUPS_FILE
    return _defining_file(resolve_name(f"oodometer.{name}"))


def _defining_file(value: object) -> Path:
    value = getattr(value, "fget", getattr(value, "func", value))
    module = value if isinstance(value, ModuleType) else sys.modules[value.__module__]
    assert module.__file__ is not None
    return Path(module.__file__)


def _link(name: str) -> str:
    path = find_source_file(name).resolve().relative_to(ROOT.resolve())
    return f"[`{name}`](../{path.as_posix()})"


def _section(paper: str, components: list[Component]) -> Iterator[str]:
    yield f"## {paper}: {PAPERS[paper]}"
    yield ""
    yield "| no. | section | component | code | state |"
    yield "| --- | --- | --- | --- | --- |"
    for row in components:
        state = row.state if not row.reason else f"{row.state}: {row.reason}"
        code = ", ".join(map(_link, row.names))
        yield f"| {row.number} | {row.section} | {row.component} | {code} | {state} |"
    yield ""


def render(components: list[Component]) -> str:
    """Return the text of the page."""
    deviating = [row for row in components if row.state == DEVIATES]
    lines = [
        "# Components of the papers",
        "",
        f"oodometer implements the methods and protocols of five papers. This page lists their "
        f"{len(components)} components, the section that defines each of them, and the code that "
        f"implements it. {len(components) - len(deviating)} components are faithful: formula and "
        "defaults are those of the paper. "
        + (f"{len(deviating)} deviate, for the stated reason. " if deviating else "")
        + "`pool:` is a built-in pool (`oodometer pool list`), `group:` a built-in domain group "
        "(`oodometer domains`).",
        "",
        "Datasets, pretrained networks, translation models and tokenizers are read from local files. "
        "Three methods also work without such a file. Their default is then a substitute: SSMBA "
        "replaces words by an n-gram model, back-translation uses Apertium, and the text CNNs learn "
        "their vocabulary from the training texts. The masked language model, the Marian models and "
        "GPT-2's tokenizer of the papers are settings.",
        "",
        "This page is generated from `docs/papers.csv` by `python -m tests.support.papers_page`.",
        "",
        "| paper | components | faithful | deviate |",
        "| --- | --- | --- | --- |",
    ]
    for paper in PAPERS:
        states = [row.state for row in components if row.paper == paper]
        counts = (len(states), states.count(FAITHFUL), states.count(DEVIATES))
        lines.append(f"| {paper} | {' | '.join(map(str, counts))} |")
    lines.append("")
    for paper in PAPERS:
        lines += _section(paper, [row for row in components if row.paper == paper])
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(read_components()), encoding="utf-8")
