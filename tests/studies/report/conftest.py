from tests.report.conftest import studied

__all__ = ["studied"]
