"""What was found, as one HTML page that needs nothing else: no network, no server, no files."""

from oodometer.report.assessed import assessment_page
from oodometer.report.comparison import Comparison, comparison_page
from oodometer.report.page import check_available, check_writable, write_page

__all__ = [
    "Comparison",
    "assessment_page",
    "check_available",
    "check_writable",
    "comparison_page",
    "write_page",
]
