"""Saved results as one self-contained HTML page, and the claims as a page of the documents."""

from tokenmargin.report.claims_page import claims_page
from tokenmargin.report.results_page import write_page

__all__ = ["claims_page", "write_page"]
