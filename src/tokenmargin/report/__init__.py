"""Saved results as one self-contained HTML page."""

from tokenmargin.report.results_page import write_page

__all__ = ["write_page"]
