"""A problem of one's own: what its file may hold, what is refused, and that every claim answers."""

from __future__ import annotations

import contextlib
import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import tokenmargin as tm
from tests.instances import fig1a, fig1b, fig3
from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.embeddings.claims.thm5_lemma14_18_selection import on_the_border
from tokenmargin.papers.maxmargin.claims.thm2_3_convergence import THEOREM_3
from tokenmargin.papers.optimiser_geometry.claims.steepest_adam import three_classes
from tokenmargin.theory import Applies, Problem, load_problem, problem_of_arrays
from tokenmargin.theory.problem import FIELDS, given
from tokenmargin.theory.problem_check import answer
from tokenmargin.theory.registry import claims


def arrays_of(data: tm.EmbeddedSequences) -> dict[str, np.ndarray]:
    return {"tokens": data.tokens, "labels": data.labels, "head": data.head, "keys": data.keys}


def one_input() -> dict:
    """Fig. 1(b) with all that a claim of [M] can ask for."""
    beside = {"start": [4e10, 0.0], "selection": [1], "start_v": [0.0, 0.0, 1.0], "p": [120.0, 0.0], "q": [1.0, 0.0]}
    return arrays_of(fig1b()) | beside | {"pi": 0.5}


def documents() -> dict:
    case = on_the_border()
    counts = case.dataset.counts.toarray()
    return {"counts": counts, "labels": case.dataset.labels, "eta0": case.eta0, "log10_d": case.log10_d, "seed": 1}


def classes_with_queries() -> dict:
    """Three classes as tokens, points as queries: what the claims on W and on linear classifiers ask for."""
    points = three_classes()
    tokens = np.broadcast_to(np.eye(3), (4, 3, 3))
    beside = {"start": np.zeros(6), "selection": points.classes}
    return {"tokens": tokens, "queries": points.features, "labels": np.ones(4), "head": [1.0, 0.5, 0.0]} | beside


# --- every claim answers ----------------------------------------------------------------------------------------------


def test_a_claim_of_another_package_that_cannot_be_asked_leaves_the_others_answered():
    alone = answer(replace(claims()["maxmargin-thm1"], of_problem=None), problem_of_arrays(arrays_of(fig1b())))
    assert alone.outcome.applies is Applies.NOT_DECIDED
    assert "gives it no `of_problem`" in alone.outcome.because


#: Claims on sequences of token ids, for which a problem file has no arrays yet; `check --problem` says so of each.
OF_SEQUENCES = ("global", "reach", "retrieval", "linear", "convex", "squared")
WITHOUT_A_FILE = {f"next_token-{name}" for name in OF_SEQUENCES} | {"transformers_as_svms-several"}


def test_every_claim_can_be_asked_and_names_only_fields_of_a_file():
    assert claims().keys() >= WITHOUT_A_FILE
    for claim in claims().values():
        assert (claim.of_problem is None) == (claim.key in WITHOUT_A_FILE), claim.key
        if claim.key in WITHOUT_A_FILE:
            continue
        assert claim.of_problem is not None, claim.key
        assert claim.needs, claim.key
        assert set(claim.needs) <= set(FIELDS), claim.key


def test_sequences_alone_get_an_answer_of_every_claim():
    answers = tm.check(fig1b())
    assert [said.key for said in answers] == list(claims())
    for said in answers:
        assert said.is_checked == (not said.needs)
    by_key = {said.key: said for said in answers}
    assert by_key["maxmargin-thm3"].needs == ("start",)
    assert by_key["maxmargin-thm5"].needs == ("selection",)
    assert by_key["maxmargin-thm5-flow"].needs == ("selection", "start_v")
    assert by_key["embeddings-thm5"].needs == ("counts", "eta0", "log10_d")
    assert by_key["maxmargin-thm1"].outcome.holds


def test_with_all_fields_every_claim_is_checked_and_none_fails():
    asked = sorted(claims().keys() - WITHOUT_A_FILE)
    maxmargin = {said.key: said for said in tm.check(problem_of_arrays(one_input()), asked) if said.is_checked}
    embeddings = {said.key: said for said in tm.check(problem_of_arrays(documents()), asked) if said.is_checked}
    matrices = [key for key, claim in claims().items() if "queries" in claim.needs]
    cross = {
        said.key: said for said in tm.check(problem_of_arrays(classes_with_queries()), matrices) if said.is_checked
    }
    assert maxmargin.keys() | embeddings.keys() | cross.keys() == set(asked)
    assert not maxmargin.keys() & embeddings.keys()
    assert not cross.keys() & (maxmargin.keys() | embeddings.keys())
    assert cross["optimiser_geometry-steepest"].outcome.holds
    for said in (*maxmargin.values(), *embeddings.values(), *cross.values()):
        assert said.outcome.holds is not False, said
        assert said.outcome.because
    for key in ("maxmargin-thm1", "maxmargin-thm3", "maxmargin-lemma7", "maxmargin-lemma3", "maxmargin-lemma14"):
        assert maxmargin[key].outcome.holds, key
    assert all(said.outcome.holds for said in embeddings.values())


def test_queries_make_a_matrix_of_p_in_any_unit_of_tokens_and_queries():
    given_arrays = classes_with_queries()
    plain = problem_of_arrays(given_arrays)
    assert plain.cross is not None
    assert plain.cross.shape == (3, 2)
    assert problem_of_arrays(one_input()).cross is None
    large = problem_of_arrays(given_arrays | {"queries": 2.0**40 * np.asarray(given_arrays["queries"])})
    ordinary = large.in_ordinary_units()
    assert ordinary.cross is not None
    np.testing.assert_array_equal(ordinary.cross.keys, large.cross.keys / 2.0**40)
    with pytest.raises(InvalidInputError, match="leave one out"):
        problem_of_arrays(given_arrays | {"keys": np.zeros((4, 3, 6))})


def test_joint_claims_on_fig3():
    joint = {"selection": [1, 1, 1], "start_v": [-1.0, 0.0], "start": [0.0, -1.0]}
    keys = ["maxmargin-thm5", "maxmargin-thm6"]
    for ending in ("", "-flow"):
        asked = [key + ending for key in keys]
        strict, _ = tm.check(problem_of_arrays(arrays_of(fig3((0.5, 1.0))) | joint), asked)
        assert strict.outcome.holds
        _, relaxed = tm.check(problem_of_arrays(arrays_of(fig3((0.5, 1.5))) | joint), asked)
        assert relaxed.outcome.holds
        slow = problem_of_arrays(arrays_of(fig3((0.5, 1.5))) | joint | {"speeds": [0.5, 1.0]})
        _, too_slow = tm.check(slow, asked)
        assert too_slow.outcome.applies is Applies.NO
    (below,) = tm.check(slow, ["maxmargin-thm6-below"])
    assert below.outcome.holds


def test_the_unit_of_the_keys_changes_no_verdict():
    data, beside = fig1b(), {"p": [0.6, 0.8], "selection": [2]}
    keys = ["maxmargin-thm1", "maxmargin-thm4", "maxmargin-thm7", "maxmargin-lemma14"]
    for scale in (1e-3, 1.0, 1e3):
        answers = tm.check(problem_of_arrays(arrays_of(data) | beside | {"keys": scale * data.keys}), keys)
        assert [said.outcome.holds for said in answers] == [True] * len(keys), scale


def test_degenerate_problems_are_answered_and_never_refuted():
    """One token, one key for all, ties, a mask, 0 for p and q: no claim fails, and none raises."""
    one_token = {"tokens": [[[1.0, 0.0]]], "labels": [1], "head": [1.0, -1.0]}
    one_key = {"tokens": np.ones((2, 3, 2)), "labels": [1, -1], "head": [1.0, 0.0]}
    masked = {"tokens": [[[1.0, 0.0], [0.0, 0.5], [9.0, 9.0]]], "labels": [1], "head": [1.0, 0.0]}
    masked |= {"mask": [[True, True, False]]}
    for arrays in (one_token, one_key, masked):
        shape = np.shape(arrays["tokens"])[:2]
        chosen = np.zeros(shape, dtype=bool)
        chosen[:, : min(2, shape[1])] = True
        zeros = {"p": [0.0, 0.0], "q": [0.0, 0.0], "start": [0.0, 0.0], "start_v": [0.0, 1.0], "pi": 0.5}
        for said in tm.check(problem_of_arrays(arrays | zeros | {"selection": chosen})):
            assert said.outcome is None or said.outcome.holds is not False, (said, shape)


def test_what_did_not_settle_refutes_nothing():

    from tokenmargin.attention import LimitKind

    claim = claims()["maxmargin-thm2"]
    stalled = replace(claim, observe=lambda run: (replace(claim.observe(run)[0], kind=LimitKind.STALLED),))
    outcome = stalled.check(claim.inside())
    assert outcome.applies is Applies.NOT_DECIDED
    assert outcome.holds is None


def test_the_selection_of_theorem_3_is_that_of_the_start_unless_named():
    instance = THEOREM_3.of_problem(problem_of_arrays(arrays_of(fig1b()) | {"start": [120.0, 0.0]}))
    assert instance.selection == tm.Selection.from_indices([1], 3)
    named = THEOREM_3.of_problem(problem_of_arrays(arrays_of(fig1b()) | {"start": [120.0, 0.0], "selection": [0]}))
    assert named.selection == tm.Selection.from_indices([0], 3)


def test_unknown_keys_and_undeclared_needs_are_named():
    with pytest.raises(InvalidInputError, match="maxmargin-thm99"):
        tm.check(fig1a(), ["maxmargin-thm99"])
    with pytest.raises(InvalidInputError, match="needs"):
        given(Problem().p)


# --- what is refused --------------------------------------------------------------------------------------------------

WRONG = {
    "colour": [1.0],
    "labels": [2.0],
    "head": [np.nan, 0.0, 0.0],
    "tokens": np.full((1, 3, 3), np.inf),
    "keys": np.zeros((1, 2, 2)),
    "mask": np.ones((1, 3)),
    "start": [1.0],
    "selection": [3],
    "start_v": [1.0],
    "speeds": [1.0, 0.0],
    "p": [np.nan, 0.0],
    "q": [[1.0, 0.0]],
    "pi": -1.0,
    "head_matrix": np.zeros((2, 2)),
    "allowed": [[False, False, False]],
    "eta0": 1.0,
    "counts": [[-1, 1]],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_array_is_named(name):
    with pytest.raises(InvalidInputError, match=name):
        problem_of_arrays(one_input() | {name: WRONG[name]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eta0", 0.0),
        ("log10_d", 400.0),
        ("log10_d", 0.1),
        ("seed", 0.5),
        ("delta", 1.0),
        ("labels", [1, 1]),
        ("p", [1.0]),
    ],
)
def test_a_wrong_array_beside_counts_is_named(name, value):
    with pytest.raises(InvalidInputError, match=name):
        problem_of_arrays(documents() | {name: value})


@pytest.mark.parametrize("dtype", ["U3", "complex128", "M8[s]", "V4"])
def test_arrays_that_are_no_numbers_are_refused(dtype):
    for name in ("labels", "tokens", "selection", "pi"):
        with pytest.raises(InvalidInputError, match=name):
            problem_of_arrays(one_input() | {name: np.zeros(1, dtype=dtype)})


def test_damaged_files_are_refused_in_our_words(tmp_path):
    path = tmp_path / "problem.npz"
    whole = io.BytesIO()
    np.savez_compressed(whole, **one_input())
    data = whole.getvalue()
    rng = np.random.default_rng(0)
    cut = [data[:size] for size in (0, 1, 30, len(data) // 2, len(data) - 1)]
    flipped = []
    for _ in range(150):
        changed = bytearray(data)
        for place in rng.integers(0, len(data), size=3).tolist():
            changed[place] ^= 1 << int(rng.integers(0, 8))
        flipped.append(bytes(changed))
    for content in (*cut, *flipped):
        path.write_bytes(content)
        with contextlib.suppress(InvalidInputError):  # a flipped bit of an unused byte may pass; nothing else is raised
            load_problem(path)
    for content in cut:
        path.write_bytes(content)
        with pytest.raises(InvalidInputError) as caught:
            load_problem(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "problem.npz"
    np.savez(path, tokens=np.array([object()]), labels=[1], head=[1.0])
    with pytest.raises(InvalidInputError, match="plain arrays"):
        load_problem(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InvalidInputError, match="without a name"):
        load_problem(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tokens.npy", b"hello")
        archive.writestr("note.txt", b"hello")
    with pytest.raises(InvalidInputError, match=r"problem\.npz"):
        load_problem(path)
    with pytest.raises(InvalidInputError, match="does not exist"):
        load_problem(tmp_path)


def test_the_document_lists_the_fields_of_a_file():
    from pathlib import Path

    page = (Path(__file__).resolve().parents[2] / "docs" / "own-problems.md").read_text()
    for name, what in FIELDS.items():
        assert f"| `{name}` | {what.replace('|', '&#124;')} |" in page
