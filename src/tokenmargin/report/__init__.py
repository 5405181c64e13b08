"""Saved results as one self-contained HTML page, and the claims as a page of the documents."""

from tokenmargin.report.results_page import write_page

__all__ = ["write_page"]
