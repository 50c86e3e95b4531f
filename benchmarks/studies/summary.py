"""Write the summary of all claims of the papers into docs/results.md: `python -m benchmarks.studies.summary`.

The verdicts are read from the files docs/results/studies/NAME.json, which the pages write. What a
practitioner should take away is in takeaways.toml; each sentence names the claims that it rests on.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._results import RESULTS, markdown_table
from benchmarks.studies._claims import (
    NO_VERDICT,
    NOT_RUN,
    PAPERS,
    VERDICTS,
    Claim,
    ClaimResult,
    all_claims,
    read_results,
)
from benchmarks.studies._pages import PAGES

PAGE = RESULTS.parent / "results.md"
PICTURE = RESULTS / "claims.png"
TAKEAWAYS_FILE = Path(__file__).with_name("takeaways.toml")
START, END = "<!-- claims: start -->", "<!-- claims: end -->"
COLORS = ("#2a7f4f", "#b3392f", "#c9a227", "#9aa0a6", "#dfe1e5")
INTRODUCTION = (
    "Five papers are reproduced: NI ({NI}), MS ({MS}), ATC ({ATC}), DG ({DG}) and AO ({AO}). Each row "
    "below is one of their claims. A claim is *held* if the 95 % interval of the difference lies on "
    "the paper's side of 0, *refuted* if it lies on the other side, and otherwise *undecided*. The "
    "intervals are bootstrap intervals over models, and over test domains where there are at least "
    "eight. There is *no verdict* if the true accuracies of a study are too unreliable to order its "
    "models, or if a measure is missing or undefined, and *not run* if the study was not run. The "
    "claims were listed in "
    "[claims.toml](../benchmarks/studies/claims.toml) before the studies were run."
)


@dataclass(frozen=True)
class Takeaway:
    """Sentence for practitioners, with the ids of the claims that it rests on, by verdict."""

    words: str
    claims: Mapping[str, Sequence[str]]


def takeaways() -> list[Takeaway]:
    """Return the sentences of takeaways.toml."""
    table = tomllib.loads(TAKEAWAYS_FILE.read_text())
    return [
        Takeaway(
            entry["words"], {verdict: entry[verdict] for verdict in VERDICTS if verdict in entry}
        )
        for entry in table["takeaway"]
    ]


def results_by_id(pages: Mapping[str, Mapping[str, Any]]) -> dict[str, ClaimResult]:
    """Return the stored result of each claim; a claim is tested on the page of its study only."""
    found = {}
    for name, page in pages.items():
        for entry in page["claims"]:
            result = ClaimResult(**entry)
            if result.id in found:
                raise ValueError(f"The claim {result.id!r} is tested on two pages, one is {name}.")
            found[result.id] = result
    return found


def verdict_of(claim: Claim, results: Mapping[str, ClaimResult]) -> str:
    """Return the verdict on a claim; `NOT_RUN` if no page has tested it."""
    return results[claim.id].verdict if claim.id in results else NOT_RUN


def counts_table(claims: Sequence[Claim], results: Mapping[str, ClaimResult]) -> str:
    """Return the number of claims by paper and verdict."""
    counts = Counter((claim.paper, verdict_of(claim, results)) for claim in claims)
    rows = [
        (paper, *(str(counts[paper, verdict]) for verdict in VERDICTS),
         str(sum(counts[paper, verdict] for verdict in VERDICTS)))
        for paper in PAPERS
    ]  # fmt: skip
    totals = [sum(counts[paper, verdict] for paper in PAPERS) for verdict in VERDICTS]
    rows.append(("all", *map(str, totals), str(sum(totals))))
    return markdown_table(("paper", *VERDICTS, "claims"), rows)


def claims_table(claims: Sequence[Claim], results: Mapping[str, ClaimResult]) -> str:
    """Return one row per claim, by paper."""
    head = ("verdict", "claim", "place", "here", "95 % interval", "in the paper", "models", "page")
    ordered = sorted(claims, key=lambda claim: list(PAPERS).index(claim.paper))
    rows = [_claim_row(claim, results.get(claim.id)) for claim in ordered]
    return markdown_table(head, [tuple(cell.replace("|", "\\|") for cell in row) for row in rows])


def _claim_row(claim: Claim, result: ClaimResult | None) -> tuple[str, ...]:
    place = f"{claim.paper} {claim.place}"
    if result is None:
        return (NOT_RUN, claim.words, place, "", "", claim.published, "", claim.study)
    needed = f"; to decide: {result.needed}" if result.needed else ""
    models = "" if result.models is None else f"{result.models:,}"
    link = f"[{claim.study}](results/studies/{claim.study}.md)"
    return (f"{result.verdict}{needed}", claim.words, place, result.figures, result.interval,
            claim.published, models, link)  # fmt: skip


def scale_sentence(pages: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the total scale of the pages that have one."""
    scales = [page["scale"] for page in pages.values() if page.get("scale")]
    models, evaluations = (sum(scale[key] for scale in scales) for key in ("models", "evaluations"))
    return (
        f"The {len(scales)} studies have {models:,} models and {evaluations:,} evaluations in all."
    )


def takeaways_list() -> str:
    """Return the sentences with the ids of their claims."""
    lines = []
    for takeaway in takeaways():
        cited = [
            f"{verdict}: {', '.join(f'`{name}`' for name in names)}"
            for verdict, names in takeaway.claims.items()
        ]
        lines.append(f"1. {takeaway.words} ({'; '.join(cited)})")
    return "\n".join(lines)


def decided_sentence(claims: Sequence[Claim], results: Mapping[str, ClaimResult]) -> str:
    """Return how many of the tested claims are undecided."""
    counts = Counter(verdict_of(claim, results) for claim in claims)
    tested = sum(counts[verdict] for verdict in VERDICTS[:3])
    without = counts[NO_VERDICT] + counts[NOT_RUN]
    return (
        f"Of {tested} claims with a verdict, {counts['held']} are held, {counts['refuted']} refuted "
        f"and {counts['undecided']} undecided; {without} have no verdict or were not run."
    )


def block(pages: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the generated part of the page."""
    claims, results = all_claims(), results_by_id(pages)
    return "\n\n".join([
        START,
        "## Claims of the papers",
        INTRODUCTION.format(**PAPERS),
        f"{decided_sentence(claims, results)} {scale_sentence(pages)}",
        counts_table(claims, results),
        f"![Verdicts on the claims of each paper, by study](results/{PICTURE.name})",
        "### What to take away",
        takeaways_list(),
        "### All claims",
        claims_table(claims, results),
        END,
    ])  # fmt: skip


def replace_block(page: str, new: str) -> str:
    """Replace the generated part of a page."""
    before, _, rest = page.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{PAGE.name} must contain the lines {START!r} and {END!r}.")
    return f"{before}{new}{after}"


def picture(pages: Mapping[str, Mapping[str, Any]]) -> Any:
    """Plot the number of claims by study and verdict, one panel per paper."""
    import altair as alt

    results = results_by_id(pages)
    counts = Counter((c.paper, c.study, verdict_of(c, results)) for c in all_claims())
    values = [
        {"paper": paper, "study": study, "verdict": verdict, "claims": count,
         "order": VERDICTS.index(verdict)}
        for (paper, study, verdict), count in counts.items()
    ]  # fmt: skip
    scale = alt.Scale(domain=list(VERDICTS), range=list(COLORS))
    return (
        alt.Chart({"values": values})
        .mark_bar()
        .encode(
            x=alt.X("claims:Q", title="claims"),
            y=alt.Y("study:N", title=None),
            color=alt.Color("verdict:N", scale=scale, title=None, sort=list(VERDICTS)),
            order="order:Q",
        )
        .properties(width=420, height={"step": 18})
        .facet(row=alt.Row("paper:N", title=None, sort=list(PAPERS)))
        .resolve_scale(y="independent")
    )


def main() -> int:
    pages = read_results(PAGES)
    PAGE.write_text(replace_block(PAGE.read_text(), block(pages)))
    picture(pages).save(PICTURE, scale_factor=1.5)
    print(decided_sentence(all_claims(), results_by_id(pages)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
