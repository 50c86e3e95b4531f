"""What was found, as one HTML page that needs nothing else: no network, no server, no files."""

from oodometer.report._assessment_page import assessment_page
from oodometer.report.demo_page import Comparison, comparison_page
from oodometer.report.page import check_available, check_writable, write_page

__all__ = [
    "Comparison",
    "assessment_page",
    "check_available",
    "check_writable",
    "comparison_page",
    "write_page",
]
