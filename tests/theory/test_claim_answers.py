"""Every claim gives one of four answers on any problem, and the same one in any unit of the keys.

`python -m tests.torture fuzz_claims` asks all of them on two hundred extreme problems.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.instances import fig1a, fig1b, fig3
from tests.torture.fuzz_claims import problem, said, scaled
from tokenmargin import EmbeddedSequences, Selection
from tokenmargin.errors import NotDecidedError
from tokenmargin.margin import Status, global_margin
from tokenmargin.papers.embeddings.case import EmbeddingCase
from tokenmargin.papers.embeddings.claims.lemma2_12_first_step import LEMMA_12, small_dataset
from tokenmargin.papers.embeddings.claims.lemma13_17_descent import LEMMA_13, score_gap
from tokenmargin.papers.maxmargin._cones import in_cone
from tokenmargin.papers.maxmargin.claims.lemma8_dominance import LEMMA_8, DominanceCase
from tokenmargin.papers.maxmargin.claims.thm1_4_7_paths import THEOREM_1, PathCase, in_general_position
from tokenmargin.papers.maxmargin.claims.thm2_3_convergence import THEOREM_2, Run
from tokenmargin.papers.maxmargin.claims.thm5_6_joint import FLOW_5, FLOW_6, JointRun
from tokenmargin.papers.maxmargin.claims.thm8_lemma14_heads import LEMMA_14
from tokenmargin.theory import Applies, problem_of_arrays
from tokenmargin.theory.claim import ROUNDING, beyond_rounding, numbers_watched, unless_solved, worst_of
from tokenmargin.theory.problem_check import answer
from tokenmargin.theory.registry import claims

#: Claims of [M], and of [E] on sequences, that follow no flow: quick on any problem.
STILL = (
    "maxmargin-thm1",
    "maxmargin-thm8",
    "maxmargin-lemma2",
    "maxmargin-lemma3",
    "maxmargin-lemma5",
    "maxmargin-lemma7",
    "maxmargin-lemma7-l3",
    "maxmargin-lemma8",
    "maxmargin-lemma14",
    "embeddings-lemma3",
    "embeddings-lemma17",
    "embeddings-lemma20",
)


# --- numbers that leave float64 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scores", [1e-300, 1e-12, 1e3, 1e5, 1e150, 1e300])
def test_no_size_of_scores_raises_or_refutes(scores):
    """A slope of e^-1000 is 0 in float64, and a constant was divided by it."""
    asked = problem_of_arrays(scaled(problem((1, 3, 2), 1), scores=scores))
    answers = {key: said(key, asked) for key in STILL}
    assert set(answers.values()) <= {"holds", "no", "not decided"}, answers


@pytest.mark.parametrize("keys", [1e-300, 1e-150, 1e-20, 1e20, 1e150])
def test_keys_of_any_size_get_the_answers_of_ordinary_ones(keys):
    """By a power of two, exactly, at one place for all claims; a norm squared would be 0 or infinite."""
    base = problem((1, 3, 2), 1)
    ordinary = problem_of_arrays(base)
    size = float(2.0 ** np.round(np.log2(keys)))
    asked = problem_of_arrays(scaled(base, keys=size))
    there, here = ([said(key, one) for key in STILL] for one in (asked, ordinary))
    assert there == here
    assert here.count("holds") >= 7


def test_a_power_of_two_is_taken_out_of_keys_tokens_and_points():
    base = problem((2, 3, 2), 1)
    asked = problem_of_arrays(scaled(base, keys=2.0**-400) | {"speeds": [1.0, 2.0**400]})
    ordinary = problem_of_arrays(base | {"speeds": [1.0, 1.0]})
    there = asked.in_ordinary_units()
    ratio = there.sequences.keys[0, 0, 0] / ordinary.sequences.keys[0, 0, 0]
    assert np.frexp(ratio)[0] == 0.5  # a power of two
    np.testing.assert_array_equal(there.sequences.keys, ratio * ordinary.sequences.keys)
    np.testing.assert_array_equal(np.array(there.p) * ratio, ordinary.p)
    assert there.speeds == (1.0, 1.0 / ratio)
    assert ordinary.in_ordinary_units() is ordinary
    tokens = {"tokens": 2.0**300 * fig1a().tokens, "labels": fig1a().labels, "head": 2.0**-300 * fig1a().head}
    tied = problem_of_arrays(tokens | {"start_v": 2.0**-300 * np.ones(3)}).in_ordinary_units()
    assert tied.sequences.keys_are_tokens
    assert 1 <= np.abs(tied.sequences.tokens).max() < 2
    np.testing.assert_array_equal(tied.sequences.tokens @ tied.sequences.head, fig1a().tokens @ fig1a().head)
    with pytest.raises(NotDecidedError, match="1e308"):
        problem_of_arrays(base | {"keys": 1e300 * base["keys"], "p": [1e300, 0.0]}).in_ordinary_units()


def test_a_number_that_leaves_float64_decides_nothing():
    for leave in (
        lambda: 1.0 / 0.0,
        lambda: np.exp(np.float64(1e4)),
        lambda: np.log(np.zeros(1)),
        lambda: np.linalg.svd(np.full((2, 2), np.nan)),
    ):
        with pytest.raises(NotDecidedError, match="float64"), numbers_watched():
            leave()
    broken = replace(THEOREM_1, hypotheses=lambda _: 1 / 0)
    assert broken.check(THEOREM_1.inside()).applies is Applies.NOT_DECIDED
    with pytest.raises(KeyError), numbers_watched():  # a fault of ours is none of the problem's
        raise KeyError


def test_a_solution_that_was_not_found_is_not_called_infeasible():
    solution = global_margin(fig1a())
    assert unless_solved(solution, "") is None
    for status, applies in ((Status.TRIVIAL, Applies.NO), (Status.UNDECIDED, Applies.NOT_DECIDED)):
        assert unless_solved(replace(solution, status=status), "It has none.")[0] is applies


# --- signs within their rounding --------------------------------------------------------------------------------------


def test_a_miss_that_rounding_explains_decides_nothing():
    assert beyond_rounding(-1.0, 1.0) == 0.0
    assert beyond_rounding(ROUNDING / 2, 1.0) == ROUNDING / 2
    assert np.isnan(beyond_rounding(1e-3, 1e-2))
    assert beyond_rounding(1e-3, 1e-4) == 1e-3


def test_what_is_missed_beyond_doubt_is_not_excused_by_what_is_not_known():
    assert worst_of([0.0, 1e-12]) == 1e-12
    assert np.isnan(worst_of([0.0, float("nan")]))
    assert worst_of([0.5, float("nan")]) == 0.5
    assert np.isnan(worst_of([ROUNDING, float("nan")]))


@pytest.mark.parametrize("size", [1e6, 1e9, 1e12])
def test_inputs_of_other_sizes_refute_nothing(size):
    """A float p meets the rows of the long keys to 1e-16 |p| of them, which may be more than the margin."""
    base = problem((2, 3, 2), 3)
    keys = base["keys"] * np.array([size, 1 / size])[:, None, None]
    asked = problem_of_arrays(base | {"keys": keys})
    for key in ("maxmargin-thm1", "maxmargin-thm8", "embeddings-lemma3", "embeddings-lemma20"):
        assert said(key, asked) in ("holds", "no", "not decided"), key


@pytest.mark.parametrize("gap", [1e-9, 1e-10, 1e-11, 2e-12, 1.1e-12])
def test_scores_just_above_a_tie_are_not_decided(gap):
    """[M, Thm 1] was refuted there: the risk at R p_mm beside that of the best tokens is rounding."""
    data = fig1b()
    close = EmbeddedSequences.from_scores(data.keys, np.array([[1.0, 1.0 - gap, 1.0 - 3 * gap]]), data.mask)
    assert THEOREM_1.check(PathCase(close)).applies is Applies.NOT_DECIDED
    near = EmbeddedSequences.from_scores(data.keys, np.array([[1.0, 1.0 - 1e-6, 1.0 - 3e-6]]), data.mask)
    assert THEOREM_1.check(PathCase(near)).holds
    tied = EmbeddedSequences.from_scores(data.keys, np.array([[1.0, 1.0, 0.0]]), data.mask)
    assert THEOREM_1.check(PathCase(tied)).applies is Applies.NO


def test_scores_that_are_small_all_together_are_decided():
    data = fig1b()
    small = EmbeddedSequences.from_scores(data.keys, 1e-12 * np.array([[1.0, 0.5, 0.0]]), data.mask)
    assert THEOREM_1.check(PathCase(small)).holds


def test_margins_that_differ_by_rounding_are_not_compared():
    outcome = LEMMA_8.inside()
    same = DominanceCase(outcome.sequences, outcome.q, outcome.q, 1e6)
    assert LEMMA_8.check(same).applies is Applies.NOT_DECIDED


def test_a_cone_is_narrower_than_the_rounding_of_a_cosine():
    axis, aside = np.array([1.0, 0.0]), 1e-9
    away = aside**2 / 2  # 1 - cos
    assert in_cone([1.0, aside], axis, 1.01 * away)
    assert not in_cone([1.0, aside], axis, 0.99 * away)


def test_keys_that_are_nearly_dependent_are_in_general_position():
    """By exact elimination where a singular value is small; dependent ones are found out."""
    keys = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 2.0**-40]]])
    assert in_general_position(EmbeddedSequences(keys, [1], [1.0, 0.0]))
    keys[0, 2, 1] = 0.0
    assert in_general_position(EmbeddedSequences(keys, [1], [1.0, 0.0])) is False


# --- what has not settled, and what asks nothing ----------------------------------------------------------------------


@pytest.mark.parametrize(("claim", "third"), [(FLOW_5, (0.5, 1.0)), (FLOW_6, (0.5, 1.5))])
def test_a_joint_run_that_has_not_settled_refutes_nothing(claim, third):
    """From p = 1e7 (.9, .3) a run that ends at |v| = 1e6 ends before p has turned: it goes on, or decides nothing."""
    selection = Selection.from_indices([1, 1, 1], 2)
    for size in (1.0, 1e7, 1e9):
        outcome = claim.check(JointRun(fig3(third), selection, (-1.0, 0.0), (0.9 * size, 0.3 * size)))
        assert (outcome.applies, outcome.holds) in [(Applies.YES, True), (Applies.NOT_DECIDED, None)][: 1 + (size > 1)]


def test_one_token_an_input_asks_nothing_of_theorem_2():
    for n in (1, 3):
        data = EmbeddedSequences(np.arange(2.0 * n).reshape(n, 1, 2), np.ones(n), [1.0, 0.0])
        outcome = THEOREM_2.check(Run(data, (1.0, 0.0)))
        assert outcome.applies is Applies.NO
        assert "nothing" in outcome.because


# --- [E] --------------------------------------------------------------------------------------------------------------


def test_lemma_13_where_a_dot_product_of_long_vectors_had_no_digits():
    """eta0 = 1000 and d = 10^120: the descent of the proof is 1e-20 to 1e-52 beside vectors of length 200."""
    counts = {"counts": [[1, 0, 1], [0, 1, 1]], "labels": [1, -1]}
    for seed in range(3):
        asked = problem_of_arrays(counts | {"eta0": 1000.0, "log10_d": 120.0, "seed": seed})
        outcome = answer(claims()["embeddings-lemma13"], asked).outcome
        assert outcome.holds, outcome


def test_documents_of_one_token_are_outside_the_theorem():
    """They meet Assumption 4 and (10) as printed, and p stays where it was: |p| does not grow."""
    asked = problem_of_arrays({"counts": [[1, 0], [0, 1]], "labels": [1, -1], "eta0": 1000.0, "log10_d": 120.0})
    for number in ("thm5", "lemma13", "lemma14", "lemma18", "lemma19", "lemma21"):
        outcome = answer(claims()[f"embeddings-{number}"], asked).outcome
        assert outcome.applies is Applies.NO, number
        assert "one token" in outcome.because


def test_lemma_13_concludes_that_p_grows_and_its_proof_that_scores_are_apart():
    case = LEMMA_13.inside()
    assert LEMMA_13.check(case).holds
    assert score_gap(case) >= 1.0
    assert score_gap(replace(case, eta0=1e-30)) < 1.0  # no step: the scores are where they were drawn
    stays = LEMMA_13.mutate(LEMMA_13.observe(case))
    assert LEMMA_13.conclude(case, stays).holds is False


@pytest.mark.parametrize("eta0", [4.0, 1e3, 1e5])
def test_lemma_12_holds_where_the_loss_is_below_the_smallest_float(eta0):
    from tokenmargin.first_step.bounds import loss_bound_log10_d

    data = small_dataset()
    case = EmbeddingCase(data, eta0, loss_bound_log10_d(data.vocabulary_size, 0.1, eta0), seed=2)
    assert LEMMA_12.check(case).holds
    seen = LEMMA_12.observe(case)
    assert LEMMA_12.conclude(case, LEMMA_12.mutate(seen)).holds is False


def test_lemma_14_with_a_score_that_is_zero_up_to_rounding_is_not_decided():
    base = problem((1, 3, 2), 1)
    tokens = base["tokens"].copy()
    tokens[:, :, 0], tokens[:, :, 1], tokens[:, :, 2] = 1.0, -1.0, 0.0
    tokens[0, 0, 0] += 1e-15
    asked = problem_of_arrays(base | {"tokens": tokens, "head": np.ones(3)})
    assert LEMMA_14.check(LEMMA_14.instance_of(asked)).applies is not Applies.YES
