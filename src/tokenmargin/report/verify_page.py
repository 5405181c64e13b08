"""A page that verifies certificates: a second verifier, in JavaScript, complete in one file and offline."""

from __future__ import annotations

from tokenmargin.report._render import render


def verify_page() -> str:
    """The page in HTML: drop a certificate on it, and it says whether its proof holds, in exact arithmetic.

    Its verifier shares no line with `tokenmargin.verify`: what both accept was checked twice.
    """
    return render("verify.html")
