"""The graph of what proofs rest on: every claim named exists, none rests on itself, colours say the evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from tokenmargin.report._claims_graph import COLOURS, WIDEST, claims_graph, rows_of, standing
from tokenmargin.theory import Evidence, claims
from tokenmargin.theory.law import NO_TRAINING

COUNTS = {"drawn": 20, "inside": 20, "held": 20, "refuted": 0, "not_decided": 0, "asked": {}, "failed": {}}


def counted(**changes: Any) -> Evidence:
    given: dict[str, Any] = {
        "key": "k",
        "law": "a law",
        "seed": 0,
        "ratio": None,
        "commit": "",
        "versions": {},
        **COUNTS,
        **changes,
    }
    return Evidence(**given)


def test_what_a_proof_uses_is_a_claim_of_the_same_paper():
    every = claims()
    used = [(claim, key) for claim in every.values() for key in claim.uses]
    assert len(used) >= 15
    for claim, key in used:
        assert every[key].paper == claim.paper


def test_a_claim_stands_above_all_that_it_uses():
    every = list(claims().values())
    rows = rows_of(every)
    level = {key: row for row, keys in enumerate(rows) for key in keys}
    assert sum(map(len, rows)) == len(level) == len({k for c in every if c.uses for k in (c.key, *c.uses)})
    assert all(level[claim.key] < level[key] for claim in every for key in claim.uses)


def test_a_circle_is_named():
    first, second = list(claims().values())[:2]
    round_about = [replace(first, uses=(second.key,)), replace(second, uses=(first.key,))]
    with pytest.raises(ValueError, match="rests on itself"):
        rows_of(round_about)


def test_the_colour_is_what_the_evidence_says():
    assert standing(None) == "no evidence"
    assert standing([counted()]) == "held wherever it was decided"
    assert standing([counted(not_decided=5)]) == "held, and often not decided"
    assert standing([counted(), counted(refuted=1)]) == "refuted on an instance"
    assert standing([counted(asked={NO_TRAINING: 20}, failed={NO_TRAINING: 0})]) == "held, and would without training"


def test_the_picture_has_a_box_for_each_and_a_line_for_each_use():
    every = list(claims().values())
    tree = ElementTree.fromstring(claims_graph(every, {every[0].key: [counted(refuted=1)]}))
    space = "{http://www.w3.org/2000/svg}"
    pictures = list(tree.iter(f"{space}svg"))
    assert len(pictures) == len({claim.paper for claim in every if claim.uses})
    assert sum(len(picture.findall(f"{space}path")) for picture in pictures) == sum(len(claim.uses) for claim in every)
    boxes = [(k, box) for k, picture in enumerate(pictures) for box in picture.findall(f"{space}a")]
    assert len(boxes) == sum(map(len, rows_of(every)))
    for _, box in boxes:  # nothing is cut at an edge
        assert 0 <= float(box[0].get("x")) <= WIDEST - float(box[0].get("width"))
    fills = {box.get("href"): box[0].get("fill") for _, box in boxes}
    assert fills[f"#{every[0].key}"] == COLOURS["refuted on an instance"]
    corners = {(k, box[0].get("x"), box[0].get("y")) for k, box in boxes}
    assert len(corners) == len(boxes)
    assert claims_graph([replace(every[0], uses=())], {}) == ""
