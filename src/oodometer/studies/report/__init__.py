"""HTML pages, charts and tables of studies and of toy problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.studies.report._covariate_or_label_page import covariate_or_label_page
    from oodometer.studies.report._skews_page import skews_page
    from oodometer.studies.report._spurious_page import spurious_page
    from oodometer.studies.report._study_page import study_page
    from oodometer.studies.report._toy_page import sphere_page

__all__ = [
    "covariate_or_label_page",
    "skews_page",
    "sphere_page",
    "spurious_page",
    "study_page",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "covariate_or_label_page": "_covariate_or_label_page",
            "skews_page": "_skews_page",
            "sphere_page": "_toy_page",
            "spurious_page": "_spurious_page",
            "study_page": "_study_page",
        },
    )
