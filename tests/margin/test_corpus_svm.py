"""The max-margin problem of a corpus: against the dense problem, its invariances, and its ways of being impossible."""

import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.data.token_selection import CorpusSelection, corpus_selection
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import _constraint_generation as constraint_generation
from tokenmargin.margin._constraint_generation import continued
from tokenmargin.margin._exact_verdict import PLAIN_EXPONENT
from tokenmargin.margin.att_svm import att_svm
from tokenmargin.margin.corpus_svm import CORPUS_TOLERANCE, corpus_svm
from tokenmargin.margin.solution import Status

#: Two active-set solutions of one problem, each right to about 1e-12 in units of |p|; supports of condition 1e3.
SAME_POINT = 1e-9


def corpus(rng, n=14, V=16, d=5):
    """Random documents, embeddings and query."""
    counts = (rng.random((n, V)) < 0.35) * rng.integers(1, 4, size=(n, V))
    counts[:, 0] += counts.sum(axis=1) == 0
    names = [f"w{s}" for s in range(V)]
    return TokenDataset(counts, np.arange(n) % 2, names), rng.normal(size=(V, d)), rng.normal(size=d)


def dense(dataset, E, selection):
    """The slow twin: every document as a padded sequence, every constraint a row."""
    counts = dataset.counts.toarray()
    chosen = np.zeros(counts.shape, dtype=bool)
    rows = np.repeat(np.arange(len(counts)), np.diff(dataset.counts.indptr))
    chosen[rows, dataset.counts.indices] = selection.chosen
    sequences = EmbeddedSequences(np.tile(E, (len(counts), 1, 1)), dataset.labels, np.ones(E.shape[1]), mask=counts > 0)
    return att_svm(sequences, Selection(chosen))


def same(p, q):
    return float(np.linalg.norm(p - q)) <= SAME_POINT * float(np.linalg.norm(q))


@pytest.fixture
def few_at_a_time(monkeypatch):
    """Working sets of a few pairs, so that small problems take many rounds."""
    monkeypatch.setattr(constraint_generation, "FEWEST_ADDED", 2)
    monkeypatch.setattr(constraint_generation, "ADDED_PER_DIMENSION", 0)
    monkeypatch.setattr(constraint_generation, "KEPT_PER_DIMENSION", 0)


@given(st.integers(0, 10**6), st.sampled_from([2, 5, 12, 40]))
def test_the_dense_problem_has_the_same_answer(seed, d):
    dataset, E, p = corpus(np.random.default_rng(seed), d=d)
    selection = corpus_selection(dataset, E, p)
    answer, slow = corpus_svm(dataset, E, selection, start=p), dense(dataset, E, selection)
    assert answer.status is slow.status is Status.OPTIMAL
    assert same(answer.p, slow.p)
    np.testing.assert_allclose(answer.margin, slow.margin, rtol=1e-9)
    assert answer.n_asked == len(slow.triples)
    assert answer.n_constraints == len({(s, t) for _, s, t in slow.triples.tolist()})
    assert answer.is_optimal(CORPUS_TOLERANCE)
    np.testing.assert_allclose(answer.token_weights @ E, answer.p, atol=1e-9 * answer.value)


@given(st.integers(0, 10**6))
def test_ties_are_kept_as_in_the_dense_problem(seed):
    rng = np.random.default_rng(seed)
    dataset, E, p = corpus(rng, d=6)
    E = np.round(E)
    p = np.round(2 * p) + (np.round(2 * p) == 0)
    selection = corpus_selection(dataset, E, p)
    answer, slow = corpus_svm(dataset, E, selection, start=p), dense(dataset, E, selection)
    assert answer.status is slow.status
    if slow.status is Status.OPTIMAL:
        assert same(answer.p, slow.p)
        logits = E @ answer.p
        assert np.abs(logits[answer.ties[:, 0]] - logits[answer.ties[:, 1]]).max(initial=0.0) <= 1e-10
        assert len(answer.ties) >= (selection.n_ties > 0)


@pytest.mark.parametrize("start", ["query", "none", "wrong"])
@pytest.mark.parametrize("seed", range(5))
def test_many_small_rounds_reach_the_same_answer(few_at_a_time, seed, start):
    rng = np.random.default_rng(seed)
    dataset, E, p = corpus(rng, n=40, V=30, d=8)
    selection = corpus_selection(dataset, E, p)
    first = {"query": p, "none": None, "wrong": -p}[start]
    told = []
    answer = corpus_svm(dataset, E, selection, start=first, progress=lambda *now: told.append(now))
    assert same(answer.p, dense(dataset, E, selection).p)
    seen = answer.rounds
    assert len(seen) > 3
    assert told == [(done.number, None, "rounds of constraint generation") for done in seen]
    assert [done.number for done in seen] == list(range(1, len(seen) + 1))
    # Half of the tolerance is left to what the search computes in another frame.
    assert all((done.worst > CORPUS_TOLERANCE / 2) == (done.violated > 0) for done in seen)
    assert seen[-1].violated == 0
    lower, upper = ([getattr(r, name) for r in seen] for name in ("lower", "upper"))
    assert (np.diff(lower) > 0).all()  # so no working set can come twice
    assert lower[-1] <= min(upper) * (1 + 1e-12)
    if start == "query":
        assert (np.diff(upper) <= 0).all()
        assert len(set(upper[:-1])) > 1  # the feasible vector moves before the end
        np.testing.assert_allclose(upper[-1], answer.value, rtol=1e-9)
    else:
        assert upper == [np.inf] * len(seen)


def test_orders_and_copies_do_not_matter(rng):
    dataset, E, p = corpus(rng)
    first = corpus_svm(dataset, E, corpus_selection(dataset, E, p))
    counts, labels = dataset.counts.toarray(), dataset.labels
    rows = np.concatenate((rng.permutation(len(counts)), [3, 3, 5]))
    columns = rng.permutation(counts.shape[1])
    other = TokenDataset(7 * counts[rows][:, columns], labels[rows])
    again = corpus_svm(other, E[columns], corpus_selection(other, E[columns], p))
    assert same(again.p, first.p)
    assert again.n_constraints == first.n_constraints < again.n_asked


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_and_a_common_part_of_all_embeddings_do_not_matter(rng, scale):
    dataset, E, p = corpus(rng)
    selection = corpus_selection(dataset, E, p)
    shifted = E + 2.0**33
    moved = corpus_svm(dataset, scale * shifted, selection)
    back = corpus_svm(dataset, shifted - 2.0**33, selection)  # exact: the same differences as in `shifted`
    assert moved.status is back.status is Status.OPTIMAL
    # Scaling by a power of ten rounds embeddings of size 1e10 to 1e-6, the identity does not.
    assert np.linalg.norm(scale * moved.p - back.p) <= (SAME_POINT if scale == 1 else 1e-4) * back.value


class TestTheJudgeDoesNotBelieveTheSolver:
    """An answer with one thing wrong is not called optimal, and the residual that says why is the right one."""

    #: Two documents, one with a tie; p = (1, 0), in the units in which the solver works too: the spread is 1.
    dataset = TokenDataset([[1, 1, 0], [1, 0, 1]], [0, 1])
    E = np.array([[1.0, 0.5], [1.0, -0.5], [0.0, 0.0]])

    @pytest.mark.parametrize(
        ("wrong", "residual"),
        [
            ({"p": np.array([0.9, 0.0])}, "primal"),
            ({"p": np.array([1.0, 0.1])}, "primal"),  # breaks the tie only
            ({"p": np.array([2.0, 0.0])}, "stationarity"),
            ({"duals": np.array([-1.0])}, "dual"),
            ({"duals": np.array([2.0])}, "gap"),
            ({"tie_duals": np.array([0.5])}, "stationarity"),
        ],
    )
    def test_it(self, monkeypatch, wrong, residual):
        def solver(*arguments, **options):
            return replace(constraint_generation.least_norm_order(*arguments, **options), **wrong)

        # The package exports a function of the module's name, so the module is asked for by its full name.
        monkeypatch.setattr(sys.modules["tokenmargin.margin.corpus_svm"], "least_norm_order", solver)
        answer = corpus_svm(self.dataset, self.E, corpus_selection(self.dataset, self.E, [1.0, 0.0]))
        assert answer.status is Status.UNDECIDED
        assert getattr(answer.residuals, residual) > 0.05


def test_the_direction_is_feasible_and_no_longer_than_the_query(rng):
    dataset, E, p = corpus(rng, n=30, V=25, d=6)
    selection = corpus_selection(dataset, E, p)
    answer = corpus_svm(dataset, E, selection)
    assert corpus_selection(dataset, E, answer.p) == selection
    assert corpus_selection(dataset, E, answer.p).narrowest >= selection.narrowest
    assert 0 < answer.direction @ p / np.linalg.norm(p) < 1
    np.testing.assert_allclose(answer.direction @ answer.p, answer.value)
    assert answer.support(1)[0][0] in dataset.vocabulary
    assert len(answer.support()) == answer.n_active <= answer.n_tight
    assert f"'{answer.support(1)[0][0]}' over" in answer.explain()


@pytest.mark.parametrize("width", [1e-5, 1e-7, 1e-10, 1e-13])
def test_near_copies_of_the_top_token(rng, width):
    """Told apart they make p long, tied they take a direction away from it; either way the answer is proved."""
    dataset, E, p = corpus(rng, n=40, V=20, d=10)
    first, second = np.argsort(-(E @ p))[:2]
    E[second] = E[first] + width * rng.normal(size=10)
    selection = corpus_selection(dataset, E, p)
    assert (selection.n_ties > 0) == (width < 1e-9)
    answer = corpus_svm(dataset, E, selection, start=p)
    assert answer.status is Status.OPTIMAL
    assert (answer.value > 1e-2 / width) == (width > 1e-9)


@pytest.mark.parametrize("share", [0.0, 10.0])
def test_continued_and_fresh_rounds_agree(few_at_a_time, monkeypatch, rng, share):
    calls = []

    def counted(rows, held):
        calls.append(len(held))
        return continued(rows, held)

    monkeypatch.setattr(constraint_generation, "continued", counted)
    monkeypatch.setattr(constraint_generation, "CONTINUED_SHARE", share)
    dataset, E, p = corpus(rng, n=40, V=30, d=8)
    selection = corpus_selection(dataset, E, p)
    answer = corpus_svm(dataset, E, selection)
    assert same(answer.p, dense(dataset, E, selection).p)
    assert len(calls) == (0 if share == 0 else len(answer.rounds) - 1)


@pytest.mark.parametrize("wrong", ["short", "long"])
def test_a_continuation_that_fails_its_residuals_is_not_used(few_at_a_time, monkeypatch, rng, wrong):
    """A vector that violates rows, and one that satisfies all of them but is longer than it need be."""
    dataset, E, p = corpus(rng, n=40, V=30, d=8)
    selection = corpus_selection(dataset, E, p)
    right = dense(dataset, E, selection).p

    def bad(rows, held):
        q = {"short": 0.5, "long": 2.0}[wrong] * right
        return q, np.full(len(rows), q @ q / len(rows))

    monkeypatch.setattr(constraint_generation, "continued", bad)
    answer = corpus_svm(dataset, E, selection)
    assert answer.status is Status.OPTIMAL
    assert same(answer.p, right)


def test_nothing_to_separate():
    dataset = TokenDataset([[1, 1], [1, 1]], [0, 1])
    answer = corpus_svm(dataset, np.ones((2, 3)), corpus_selection(dataset, np.ones((2, 3)), np.ones(3)))
    assert answer.status is Status.TRIVIAL
    assert (answer.p == 0).all()
    assert answer.margin == np.inf
    assert "nothing to separate" in answer.explain()


def test_a_document_that_selects_everything_asks_only_for_its_ties():
    dataset = TokenDataset([[1, 1, 0], [1, 0, 1]], [0, 1])
    E = np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]])
    answer = corpus_svm(dataset, E, corpus_selection(dataset, E, [1.0, 0.0]))
    np.testing.assert_allclose(answer.p, [1.0, 0.0], atol=1e-15)
    assert answer.ties.tolist() == [[0, 1]]
    np.testing.assert_allclose(answer.tie_duals, [-0.5])


def test_demands_in_a_circle_are_named():
    dataset = TokenDataset([[1, 1, 0], [0, 1, 1], [1, 0, 1]], [0, 1, 1], ["good", "bad", "ugly"])
    selection = CorpusSelection.of_tokens(dataset, [0, 1, 2])
    answer = corpus_svm(dataset, np.eye(3), selection)
    assert answer.status is Status.INFEASIBLE
    assert answer.margin == 0.0
    assert answer.conflict.circular
    assert answer.conflict.norm_bound == np.inf
    assert sorted(answer.conflict.documents) == [0, 1, 2]
    assert "circle" in answer.explain()
    assert "'good' over 'bad' (document 0)" in answer.explain()


def test_a_tie_here_and_a_preference_there_are_a_circle():
    dataset = TokenDataset([[1, 1, 1], [1, 1, 0]], [0, 1], ["good", "bad", "ugly"])
    # Document 0 has good and bad level; document 1 asks good over bad.
    answer = corpus_svm(dataset, np.eye(3), CorpusSelection(dataset, [True, True, False, True, False]))
    assert answer.status is Status.INFEASIBLE
    assert answer.conflict.circular
    assert "'good' over 'bad' (document 1)" in answer.explain()
    assert "'bad' level with 'good'" in answer.explain()


@pytest.mark.parametrize("d", [1, 9])
def test_a_token_between_two_others_cannot_be_selected(d):
    dataset = TokenDataset([[1, 1, 1], [1, 1, 1]], [0, 1])
    E = np.outer([0.0, 1.0, 3.0], np.arange(1.0, d + 1))
    answer = corpus_svm(dataset, E, CorpusSelection.of_tokens(dataset, [1, 1]))
    assert answer.status is Status.INFEASIBLE
    assert np.isnan(answer.p).all()
    conflict = answer.conflict
    assert not conflict.circular
    assert conflict.residual <= 1e-12
    weights = {(a, b): w for a, b, w in conflict.asked}
    np.testing.assert_allclose([weights[1, 0], weights[1, 2]], [2 / 3, 1 / 3])
    assert "No p of norm below" in answer.explain()


def test_copies_of_a_selected_token_cannot_be_left_out():
    dataset = TokenDataset([[1, 1, 1], [1, 1, 1]], [0, 1])
    E = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]])
    answer = corpus_svm(dataset, E, CorpusSelection.of_tokens(dataset, [0, 0]))
    assert answer.status is Status.INFEASIBLE
    assert answer.conflict.asked == ((0, 1, 1.0),)
    assert answer.conflict.residual == 0.0


def test_a_preference_inside_the_span_of_the_ties_is_impossible():
    dataset = TokenDataset([[1, 1, 0, 0], [0, 0, 1, 1]], [0, 1])
    E = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [0.0, 3.0]])  # E_2 - E_3 = 2 (E_0 - E_1)
    answer = corpus_svm(dataset, E, CorpusSelection(dataset, [True, True, True, False]))
    assert answer.status is Status.INFEASIBLE
    assert answer.conflict.residual <= 1e-12
    assert answer.conflict.tied[0][:2] == (0, 1)
    np.testing.assert_allclose(answer.conflict.tied[0][2], -2.0)


def test_infeasible_agrees_with_the_dense_problem_under_constraint_generation(few_at_a_time, rng):
    statuses = []
    for _ in range(20):
        dataset, E, _ = corpus(rng, n=6, V=12, d=4)
        tokens = [int(rng.choice(dataset.counts[[i]].indices)) for i in range(6)]
        selection = CorpusSelection.of_tokens(dataset, tokens)
        answer, slow = corpus_svm(dataset, E, selection), dense(dataset, E, selection)
        assert answer.status is slow.status
        statuses.append(answer.status)
        if answer.conflict is not None:
            left = sum(w * (E[a] - E[b]) for a, b, w in answer.conflict.asked + answer.conflict.tied)
            assert np.linalg.norm(left) <= 1e-12
            assert min(w for *_, w in answer.conflict.asked) > 0
    assert {Status.INFEASIBLE, Status.OPTIMAL} <= set(statuses)


def test_giving_up_is_said(few_at_a_time, monkeypatch, rng):
    monkeypatch.setattr(constraint_generation, "ROUND_LIMIT", 1)
    dataset, E, p = corpus(rng, n=40, V=30, d=8)
    answer = corpus_svm(dataset, E, corpus_selection(dataset, E, p), start=p)
    assert answer.status is Status.UNDECIDED
    assert answer.residuals.primal > CORPUS_TOLERANCE
    assert "not decided after 1 rounds" in answer.explain()


def test_what_is_refused(rng):
    dataset, E, p = corpus(rng)
    selection = corpus_selection(dataset, E, p)
    with pytest.raises(InvalidInputError, match="embeddings must be"):
        corpus_svm(dataset, E[:-1], selection)
    with pytest.raises(InvalidInputError, match="query must be"):
        corpus_svm(dataset, E, selection, start=p[:-1])
    with pytest.raises(InvalidInputError, match="tolerance"):
        corpus_svm(dataset, E, selection, tolerance=0.0)
    with pytest.raises(InvalidInputError, match="another data set"):
        corpus_svm(dataset.subset(np.arange(8)), E, selection)


@pytest.mark.parametrize("k", [-1, 3, 100, -100, 499, 500, -500, 501, -501, 505, 510])
def test_multipliers_are_in_units_of_the_embeddings(k):
    """Of E times 2^k exactly 4^-k times the multipliers of E, in powers of two where they are no plain floats."""
    dataset, E, p = corpus(np.random.default_rng(3), d=6)
    selection = corpus_selection(dataset, E, p)
    here, there = corpus_svm(dataset, E, selection), corpus_svm(dataset, np.ldexp(E, k), selection)
    assert here.status is there.status is Status.OPTIMAL
    assert here.dual_exponent == 0
    assert here.pairs.tolist() == there.pairs.tolist()
    assert np.ldexp(there.p, k).tolist() == here.p.tolist()
    unit = 2.0 ** np.ceil(np.log2(np.ptp(E, axis=0).max() / 2))  # spreads between 4 and 8 are in units of 4
    is_plain = abs(np.frexp(here.duals.max())[1] - 2 * k) <= PLAIN_EXPONENT
    assert there.dual_exponent == (0 if is_plain else -2 * (k + int(np.log2(unit))))
    for one, other in ((here.duals, there.duals), (here.token_weights, there.token_weights)):
        exact = [Fraction(float(weight)) * Fraction(2) ** there.dual_exponent for weight in other]
        assert exact == [Fraction(float(weight)) / Fraction(4) ** k for weight in one]
    pull = here.duals @ (E[here.pairs[:, 0]] - E[here.pairs[:, 1]])
    np.testing.assert_allclose(pull, here.p, atol=1e-12 * here.value)
