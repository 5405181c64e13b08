"""The playground: tokens in the plane that are dragged, and limits and max-margin directions that move along."""

from __future__ import annotations

from tokenmargin.report._render import render


def playground_page() -> str:
    """The page as HTML, which computes all that it shows by scripts of its own and asks for nothing."""
    return render("playground.html")
