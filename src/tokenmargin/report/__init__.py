"""Saved results, fits, comparisons and probes as self-contained HTML pages; the claims as a page of the documents."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.report.claims_page import claims_page
    from tokenmargin.report.compare_page import compare_page
    from tokenmargin.report.fit_page import fit_page
    from tokenmargin.report.probe_page import ProbeOrigin, probe_page
    from tokenmargin.report.results_page import write_page

__all__ = ["ProbeOrigin", "claims_page", "compare_page", "fit_page", "probe_page", "write_page"]

found_on_demand(__name__, __file__)
