"""The table of the papers' components, docs/papers.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks._results import data_folder
from tests.support import papers_page as papers

# Numbers of components per paper.
COMPONENTS = {"NI": 51, "MS": 10, "DG": 26, "AO": 23, "ATC": 23}
MAX_DEVIATIONS = 6


def test_every_component_has_one_row() -> None:
    components = papers.read_components()
    assert [row.number for row in components] == list(range(1, 134))
    assert Counter(row.paper for row in components) == COMPONENTS
    empty = [row.number for row in components if not (row.section and row.component and row.code)]
    assert not empty


def test_every_name_of_the_table_exists() -> None:
    failures = []
    for row in papers.read_components():
        for name in row.names:
            try:
                assert papers.find_source_file(name).is_file()
            except (ImportError, AttributeError, LookupError, AssertionError) as error:
                failures.append(f"{row.number}: {name}: {error}")
    assert not failures, "\n".join(failures)


def test_deviations_are_few_and_have_a_reason() -> None:
    components = papers.read_components()
    assert {row.state for row in components} <= {papers.FAITHFUL, papers.DEVIATES}
    deviating = [row for row in components if row.state == papers.DEVIATES]
    assert len(deviating) <= MAX_DEVIATIONS
    assert all(len(row.reason.split()) >= 8 for row in deviating)
    assert not any(row.reason for row in components if row.state == papers.FAITHFUL)


def test_page_is_generated_from_the_data_file() -> None:
    assert papers.PAGE.read_text(encoding="utf-8") == papers.render(papers.read_components()), (
        "docs/papers.md is out of date: run `python -m tests.support.papers_page`"
    )


@pytest.mark.parametrize("name", ["pool:none", "group:none", "estimators.none", "none.none"])
def test_name_that_does_not_exist_is_an_error(name: str) -> None:
    with pytest.raises((LookupError, ImportError, AttributeError)):
        papers.find_source_file(name)


@pytest.mark.realdata
def test_table_lists_the_components_of_the_specification() -> None:
    folder = data_folder()
    specification = Path(folder).parent / "spec" / "components.md" if folder else Path("missing")
    if not specification.is_file():
        pytest.skip("the specification is not on this machine")
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", specification.read_text("utf-8"), re.MULTILINE)
    listed = [(str(row.number), row.paper) for row in papers.read_components()]
    assert listed == rows
