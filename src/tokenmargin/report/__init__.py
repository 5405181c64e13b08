"""Saved results, fits, comparisons, probes and the playground as self-contained HTML pages; claims as a document."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.report.claims_page import claims_page
    from tokenmargin.report.compare_page import compare_page
    from tokenmargin.report.fit_page import fit_page
    from tokenmargin.report.labels_page import labels_page
    from tokenmargin.report.playground_page import playground_page
    from tokenmargin.report.probe_page import ProbeOrigin, probe_page
    from tokenmargin.report.results_page import write_page
    from tokenmargin.report.verify_page import verify_page

__all__ = [
    "ProbeOrigin",
    "claims_page",
    "compare_page",
    "fit_page",
    "labels_page",
    "playground_page",
    "probe_page",
    "verify_page",
    "write_page",
]

found_on_demand(__name__, __file__)
