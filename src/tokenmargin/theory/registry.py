"""Every claim by its key, found by its whole name or by a unique ending of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any

from tokenmargin.errors import InvalidInputError
from tokenmargin.theory.claim import Claim
from tokenmargin.theory.paper import Paper, papers

#: Names that a complaint about an unknown name proposes at most.
MOST_PROPOSED = 6


def claims(paper: str | None = None) -> dict[str, Claim[Any, Any]]:
    """Claims by key: theorems before lemmas, by number, paper by paper.

    Args:
        paper: key of one paper, whose modules alone are imported; all papers when absent.
    """
    chosen = papers() if paper is None else [found_name(paper, papers(), "paper")]
    return {claim.key: claim for key in chosen for claim in _claims_of(key)}


@cache
def _claims_of(paper: str) -> tuple[Claim[Any, Any], ...]:
    own = papers()[paper]
    found: list[Claim[Any, Any]] = own.load(own.claims, "CLAIMS", Claim)
    check_names(own, [(claim.key, claim.paper) for claim in found])
    return tuple(sorted(found, key=_place))


def _place(claim: Claim[Any, Any]) -> tuple[bool, int]:
    number = re.search(r"\d+", claim.label)
    return not claim.label.startswith("Thm"), int(number[0]) if number else 0


def check_names(paper: Paper, found: Iterable[tuple[str, str]]) -> None:
    """Raise InvalidInputError unless the (name, cited paper) pairs begin with the paper's key, cite it, and differ."""
    names: set[str] = set()
    for name, cited in found:
        if not name.startswith(f"{paper.key}-") or cited != paper.cited_as or name in names:
            raise InvalidInputError(
                f"{name!r}, cited as [{cited}], cannot be one of the paper {paper.key!r}: its names are different, "
                f"begin with '{paper.key}-' and cite [{paper.cited_as}]."
            )
        names.add(name)


def found_name(wanted: str, names: Iterable[str], kind: str) -> str:
    """The one name that is `wanted`, or ends with it after a hyphen: "maxmargin-thm3" for "thm3".

    Raises:
        InvalidInputError: with the candidates, if there are several or none.
    """
    known = list(names)
    ending = [wanted] if wanted in known else [name for name in known if name.endswith(f"-{wanted}")]
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise InvalidInputError(f"{wanted!r} is the ending of more than one {kind}: write {' or '.join(ending)}.")
    # A name is near where it is, or where the part after the key of its paper is.
    parts = {name: (name, name.partition("-")[2]) for name in known}
    near = get_close_matches(wanted, {part for both in parts.values() for part in both}, MOST_PROPOSED)
    nearest = [name for name in known if set(near) & set(parts[name])]
    listed = f"the nearest are {', '.join(nearest)}" if nearest else f"there are {', '.join(known)}"
    raise InvalidInputError(f"no {kind} is called {wanted!r}: {listed}; tokenmargin list shows what each is.")
