"""Summary of the verdicts on all claims, docs/results.md."""

from __future__ import annotations

import re
from typing import Any

import pytest

from benchmarks.studies import summary
from benchmarks.studies._claims import (
    NOT_RUN,
    VERDICTS,
    ClaimResult,
    all_claims,
    get_claim,
    read_results,
)
from benchmarks.studies._pages import PAGES

# Names that contain digits.
NAMES_WITH_DIGITS = re.compile(r"CIFAR-10(\.1)?|DIS2|R2")


def stored() -> dict[str, dict[str, Any]]:
    return read_results(PAGES)


def test_page_has_the_verdicts_of_the_stored_results() -> None:
    text = summary.PAGE.read_text()
    assert summary.replace_block(text, summary.block(stored())) == text, (
        "run python -m benchmarks.studies.summary"
    )
    assert summary.PICTURE.exists()


def test_every_claim_has_a_row() -> None:
    table = summary.claims_table(all_claims(), summary.results_by_id(stored()))
    assert len(table.splitlines()) == len(all_claims()) + 2
    assert all(line.split("|")[1].strip().startswith(VERDICTS) for line in table.splitlines()[2:])


def test_stored_results_belong_to_the_study_of_their_page() -> None:
    for name, page in stored().items():
        assert page["name"] == name
        for entry in page["claims"]:
            assert get_claim(entry["id"]).study == name


def test_takeaways_rest_on_claims_with_the_verdicts_that_they_name() -> None:
    results = summary.results_by_id(stored())
    assert len(summary.takeaways()) == 5
    for takeaway in summary.takeaways():
        assert takeaway.claims, takeaway.words
        for verdict, names in takeaway.claims.items():
            found = {name: summary.verdict_of(get_claim(name), results) for name in names}
            assert set(found.values()) == {verdict}, takeaway.words


def test_takeaways_have_no_typed_numbers() -> None:
    for takeaway in summary.takeaways():
        assert not re.search(r"\d", NAMES_WITH_DIGITS.sub("", takeaway.words)), takeaway.words


def test_claims_without_a_result_were_not_run() -> None:
    claim = all_claims()[0]
    assert summary.verdict_of(claim, {}) == NOT_RUN
    result = ClaimResult.of(claim.id, "0.5", interval=(0.1, 0.2), models=1_200)
    table = summary.claims_table([claim], {claim.id: result})
    assert "| held " in table
    assert "| 1,200 " in table
    counts = summary.counts_table([claim], {claim.id: result}).splitlines()
    assert counts[2].split("|")[2].strip() == "1"


def test_claim_tested_twice_is_refused() -> None:
    entry = {"id": all_claims()[0].id, "verdict": "held", "figures": ""}
    with pytest.raises(ValueError, match="tested on two pages"):
        summary.results_by_id({"a": {"claims": [entry]}, "b": {"claims": [entry]}})


def test_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="must contain the lines"):
        summary.replace_block("# Results\n", "new")
    text = f"a\n{summary.START}\nold\n{summary.END}\nb\n"
    assert summary.replace_block(text, "new") == "a\nnew\nb\n"


def test_scale_adds_up() -> None:
    pages: dict[str, dict[str, Any]] = {
        "a": {"scale": {"models": 3, "evaluations": 10}},
        "b": {"scale": None},
    }
    assert summary.scale_sentence(pages).startswith(
        "The 1 studies have 3 models and 10 evaluations"
    )
