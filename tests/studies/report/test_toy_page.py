"""Page of the hypersphere toy."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import vl_convert

from oodometer.core.errors import InputError
from oodometer.studies.report._toy_page import (
    first_zero_crossing,
    sphere_chart,
    sphere_page,
    tau_summary,
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
