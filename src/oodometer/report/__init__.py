"""Write results as self-contained HTML pages; `report.terminal` prints them as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.report._assessment_page import assessment_page
    from oodometer.report._invariance_page import invariance_page, ranking_page
    from oodometer.report.demo_page import Comparison, comparison_page
    from oodometer.report.page import check_available, check_writable, write_page

__all__ = [
    "Comparison",
    "assessment_page",
    "check_available",
    "check_writable",
    "comparison_page",
    "invariance_page",
    "ranking_page",
    "write_page",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Comparison": "demo_page",
            "assessment_page": "_assessment_page",
            "check_available": "page",
            "check_writable": "page",
            "comparison_page": "demo_page",
            "invariance_page": "_invariance_page",
            "ranking_page": "_invariance_page",
            "write_page": "page",
        },
    )
