"""One HTML page that says what a run gained."""

from isotune.report.page import write_report

__all__ = ["write_report"]
