"""Saved results, fits and comparisons as self-contained HTML pages, and the claims as a page of the documents."""

from tokenmargin.report.claims_page import claims_page
from tokenmargin.report.compare_page import compare_page
from tokenmargin.report.fit_page import fit_page
from tokenmargin.report.planted_page import planted_page
from tokenmargin.report.results_page import write_page

__all__ = ["claims_page", "compare_page", "fit_page", "planted_page", "write_page"]
