"""Saved results and fits as self-contained HTML pages, and the claims as a page of the documents."""

from tokenmargin.report.claims_page import claims_page
from tokenmargin.report.fit_page import fit_page
from tokenmargin.report.results_page import write_page

__all__ = ["claims_page", "fit_page", "write_page"]
