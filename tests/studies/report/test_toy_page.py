"""Pages of the toys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import vl_convert

from oodometer.core.errors import InputError
from oodometer.studies.report import covariate_or_label_page, skews_page, spurious_page
from oodometer.studies.report._toy_page import (
    first_zero_crossing,
    sphere_chart,
    sphere_page,
    tau_summary,
)
from oodometer.studies.toys import (
    CovariateOrLabelToy,
    SkewRow,
    SkewsToy,
    SpuriousToy,
    covariate_or_label_rows,
    spurious_rows,
)


@dataclass(frozen=True)
class Found:
    distance: float
    ni: float | None
    atc: float | None


ROWS = [Found(0.0, 0.7312, 0.8), Found(1.0, None, 0.2), Found(3.14, -0.8, -0.75)]


def test_page_has_numbers_and_summary() -> None:
    page = sphere_page(ROWS, title="</script><b>toy")
    assert "<title>&lt;/script&gt;&lt;b&gt;toy</title>" in page
    assert "NI-Sphere: τ is 0.73 at 0.00 rad, 0 at 1.50 rad" in page
    assert "ATC-MC: τ is 0.80 at 0.00 rad, 0 at 1.45 rad" in page
    assert '<td class="number">undefined</td>' in page
    assert '<td class="number">−0.75</td>' in page


def test_chart_has_every_defined_point() -> None:
    spec = sphere_chart(ROWS)
    text = json.dumps(spec)
    for value in ("0.7312", "0.2", "-0.75"):
        assert value in text
    assert text.count('"measure": "NI-Sphere"') == 2
    assert text.count('"measure": "ATC-MC"') == 3
    assert '"url"' not in text
    plain = json.loads(text.replace('"container"', "400"))
    assert vl_convert.vegalite_to_svg(plain).startswith("<svg")


def test_no_rows_raise() -> None:
    with pytest.raises(InputError, match="no rows to show"):
        sphere_page([], title="toy")


def test_undefined_tau_is_stated() -> None:
    page = sphere_page([Found(0.0, None, None)], title="toy")
    assert "NI-Sphere: τ is undefined at every distance" in page


def test_line_without_zero_crossing() -> None:
    assert first_zero_crossing([(0.0, 0.3), (1.0, 0.1)]) is None
    assert first_zero_crossing([(0.0, -0.3), (1.0, -0.1)]) is None
    assert first_zero_crossing([(0.0, 0.3), (1.0, 0.0)]) == 1.0
    assert tau_summary("NI", [(0.0, 0.3), (1.0, 0.1)]) == (
        "NI: τ is 0.30 at 0.00 rad, and 0.10 at 1.00 rad."
    )


# Other toys -------------------------------------------------------------------------------------


def chart_specs(page: str) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json" id="[^"]+-spec">(.*?)</script>', page)
    return [json.loads(text) for text in found]


def pages() -> dict[str, str]:
    worlds, skews, spurious = CovariateOrLabelToy(), SkewsToy(sizes=(20, 200)), SpuriousToy()
    skew_list = [SkewRow(20, 0.5, 0.4, 0.2, {10: 1.0, 10_000: 0.3}),
                 SkewRow(200, 0.2, 0.15, 0.0, {10: 1.0, 10_000: 0.25})]  # fmt: skip
    return {
        "worlds": covariate_or_label_page(
            worlds, list(covariate_or_label_rows(worlds, n=200)), title="<b>worlds"
        ),
        "skews": skews_page(skews, skew_list, title="<b>skews"),
        "spurious": spurious_page(
            spurious, list(spurious_rows(spurious, n=400)), n=400, title="<b>spurious"
        ),
    }


def test_pages_of_other_toys_have_summaries_and_drawable_charts() -> None:
    found = pages()
    assert "81.0 % under covariate shift and of 73.8 % under label shift" in found["worlds"]
    assert "still 0.250 after 10,000 epochs of gradient descent" in found["skews"]
    assert "it requires at least 350,563 source rows" in found["spurious"]
    counts = {"worlds": 2, "skews": 4, "spurious": 2}
    for name, page in found.items():
        assert f"<title>&lt;b&gt;{name}</title>" in page
        specs = chart_specs(page)
        assert len(specs) == counts[name]
        for spec in specs:
            plain = json.loads(json.dumps(spec).replace('"container"', "400"))
            assert vl_convert.vegalite_to_svg(plain).startswith("<svg")


def test_weights_of_zero_are_left_out_of_logarithmic_charts() -> None:
    _, max_margin, *_ = chart_specs(pages()["skews"])
    values = [row["y"] for data in max_margin["datasets"].values() for row in data]
    assert values
    assert min(values) > 0


@pytest.mark.parametrize(
    "build",
    [
        lambda: covariate_or_label_page(CovariateOrLabelToy(), [], title="toy"),
        lambda: skews_page(SkewsToy(), [], title="toy"),
        lambda: spurious_page(SpuriousToy(), [], n=100, title="toy"),
    ],
)
def test_other_toys_without_rows_raise(build: Callable[[], str]) -> None:
    with pytest.raises(InputError, match="no rows to show"):
        build()
