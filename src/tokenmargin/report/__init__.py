"""Saved results, fits, comparisons, probes and the playground as self-contained HTML pages; claims as a document."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.report.claims_page import claims_page as claims_page
    from tokenmargin.report.compare_page import compare_page as compare_page
    from tokenmargin.report.fit_page import fit_page as fit_page
    from tokenmargin.report.labels_page import labels_page as labels_page
    from tokenmargin.report.playground_page import playground_page as playground_page
    from tokenmargin.report.probe_page import ProbeOrigin as ProbeOrigin
    from tokenmargin.report.probe_page import probe_page as probe_page
    from tokenmargin.report.results_page import write_page as write_page
    from tokenmargin.report.verify_page import verify_page as verify_page


found_on_demand(__name__, __file__)
