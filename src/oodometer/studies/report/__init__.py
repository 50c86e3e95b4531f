"""HTML pages, charts and tables of studies and of toy problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.report._study_page import study_page
    from oodometer.studies.report._toy_page import sphere_page

__all__ = [
    "sphere_page",
    "study_page",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "sphere_page": "_toy_page",
            "study_page": "_study_page",
        },
    )
