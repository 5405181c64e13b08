"""A certificate speaks of data whose every number is the same, and of no others."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.test_verify_stationary import both, hexes, stopping
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import att_svm
from tokenmargin.norms import L2, Lp, Max, Sum
from tokenmargin.theory import write_certificate
from tokenmargin.theory._exact_proof import norm_name
from tokenmargin.theory.certificate_data import _difference_of_keys, _short, speaks_of
from tokenmargin.theory.problem import Problem
from tokenmargin.verify import verify

TOKENS = np.array([[[1.0, -0.0], [-1.0, 0.0]], [[-0.0, -2.0], [0.0, 2.0]]])
KEYS = np.array([[[2.0, -0.0], [0.0, -0.0]], [[0.0, 2.0], [-0.0, 0.0]]])


def data(**change) -> EmbeddedSequences:
    """What `both` speaks of, with zeros of either sign."""
    given = {"tokens": TOKENS, "labels": [1, -1], "head": [0.5, 0.25], "keys": KEYS} | change
    return EmbeddedSequences(given["tokens"], given["labels"], given["head"], given["keys"])


def moved(array: np.ndarray, *place: int) -> np.ndarray:
    """One number by its last bit."""
    other = array.copy()
    other[place] = np.nextafter(other[place], 9.0)
    return other


def test_keys_tokens_labels_and_selection_of_a_joint_limit():
    found = speaks_of(both(), Problem(sequences=data()))
    assert found.verified
    assert found.because == "its keys are those of the data, to the last bit; the selection, [[0], [0]], is its own."
    chosen = Selection.from_indices([0, 0], 2)
    assert "and so is the selection" in speaks_of(both(), Problem(sequences=data(), selection=chosen)).because


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"keys": moved(KEYS, 1, 0, 1)}, "the key of token 0 of input 1 is not that of the data."),
        ({"tokens": moved(TOKENS, 0, 1, 0)}, "the token of token 1 of input 0 is not that of the data."),
        ({"labels": [1, 1]}, "its labels are others."),
        ({"labels": [-1, -1]}, "its labels are others."),
        ({"keys": KEYS[:, :1], "tokens": TOKENS[:, :1]}, "input 0 has 2 tokens, and 1 in the data."),
        ({"keys": KEYS[:1], "tokens": TOKENS[:1], "labels": [1]}, "it has 2 inputs, and the data 1."),
    ],
)
def test_one_thing_that_differs(change, words):
    found = speaks_of(both(), Problem(sequences=data(**change)))
    assert not found.verified
    assert found.because == words


def test_another_selection():
    other = Selection.from_indices([0, 1], 2)
    found = speaks_of(both(), Problem(sequences=data(), selection=other))
    assert not found.verified
    assert found.because == "the selection of input 1 is another."


def test_scores_of_a_limit():
    keys = np.array([[[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], [[0.0, 2.0], [0.0, 0.0], [0.0, -2.0]]])
    for scores, same in (([0.25, 1.0, 0.25], True), ([0.25, 1.0, np.nextafter(0.25, 1)], False)):
        own = EmbeddedSequences.from_scores(keys, [[0.25, 1.0, 0.25], scores])
        found = speaks_of(stopping(), Problem(sequences=own))
        assert found.verified == same
        words = "its keys and scores are those" if same else "the score of token 2 of input 1 is not that of the data."
        assert words in found.because


def test_what_is_not_verified_or_has_no_tokens_is_about_nothing():
    forged = both()
    forged["problem"]["rate"] = hexes(0.25)[0]
    assert not speaks_of(forged, Problem(sequences=data())).verified
    with pytest.raises(InvalidInputError, match="hold no tokens"):
        speaks_of(both(), Problem())


def test_queries():
    tokens, queries = np.array([[[1.0, -0.0], [3.0, 4.0]]]), np.array([[-0.0, 2.0]])
    own = CrossSequences(tokens, queries=queries, labels=[1], head=[1.0, 0.0])
    said = {"keys": [[hexes(1.0, 0.0), hexes(3.0, 4.0)]], "queries": [hexes(0.0, 2.0)]}
    assert _difference_of_keys(said, own) is None
    assert _difference_of_keys(said | {"queries": [hexes(0.0, 3.0)]}, own) == (
        "the query of input 0 is not that of the data"
    )
    other = said | {"keys": [[hexes(1.0, 0.0), hexes(3.0, 5.0)]], "queries": [hexes(0.0, 3.0)]}
    assert _difference_of_keys(other, own) == "the key of token 1 of input 0 is not that of the data"
    assert "the data have none" in str(_difference_of_keys(said, data()))


def test_long_selections_are_cut():
    assert _short({"selected": "x" * 60}) == "x" * 60
    assert _short({"selected": "x" * 61}) == "x" * 57 + "..."


@pytest.mark.parametrize("norm", [L2(), Max(), Sum(), Lp(3.0)])
def test_what_is_infeasible_is_so_in_the_norm_that_was_asked(norm, tmp_path):
    """A key between two others: no p separates it, in whichever norm."""
    between = EmbeddedSequences.from_scores([[[1.0], [0.0], [2.0]]], [[1.0, 0.0, 0.0]])
    write_certificate(att_svm(between, Selection.from_indices([0], 3), norm=norm), tmp_path / "none.json")
    content = json.loads((tmp_path / "none.json").read_text())
    assert content["kind"] == "infeasible"
    assert (content["problem"]["norm"], content["problem"]["blocks"]) == (norm_name(norm), [["p", 1]])
    assert verify(content).verified
