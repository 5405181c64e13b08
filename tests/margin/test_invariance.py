"""Max-margin answers do not feel the unit of the keys, their offset, a rotation, or another input's scale of scores.

`cone_constants` and the smoothness constant contain the origin by definition and are not asked here.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.data.token_selection import CorpusSelection
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.margin import (
    Status,
    att_svm,
    att_svm_any,
    att_svm_batch,
    corpus_svm,
    directional_margin,
    feasible_selections,
    global_margin,
    is_locally_optimal,
    is_locally_optimal_direction,
    label_svm,
    local_margins,
    neighbors,
    rate_direction,
    relaxed_svm,
    relaxing_rate,
)

#: Keys are multiples of this, so that adding 2^20 or 2^32 rounds nothing: 2^-16 and 2^32 are 49 bits apart.
GRID = 2.0**-16

#: How far two answers to one problem may be apart, relative to their length: residuals are held to 1e-9, and the
#: distance of two nearly optimal points is at worst the root of that; active sets agree far better.
SAME = 1e-8

SEEDS = st.integers(0, 10**6)
EXPONENTS = st.integers(-40, 40)
OFFSETS = st.sampled_from([2.0**20, -(2.0**20), 2.0**32, -(2.0**32)])


class Drawn:
    """Tokens, labels, head, keys beside the tokens, and a selection."""

    def __init__(self, seed, single=True):
        rng = np.random.default_rng(seed)
        n, T, d = (int(rng.integers(low, high)) for low, high in ((1, 4), (2, 5), (1, 5)))
        self.keys = np.round(rng.normal(size=(n, T, d)) / GRID) * GRID
        self.labels = rng.choice([-1.0, 1.0], size=n)
        self.tokens = rng.normal(size=(n, T, 3))
        self.head = rng.normal(size=3)
        chosen = np.arange(T) == rng.integers(T, size=n)[:, None]
        self.selection = Selection(chosen if single else chosen | (rng.random((n, T)) < 0.3))
        self.q = rng.normal(size=d)
        self.turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        self.relaxed = rng.random(n) < 0.3

    def sequences(self, keys):
        return EmbeddedSequences(self.tokens, self.labels, self.head, keys=keys)

    def moved(self, seed, offset):
        """Keys with every input shifted by an offset of its own, exactly."""
        n, _, d = self.keys.shape
        shift = offset * np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], size=(n, 1, d))
        assert (self.keys + shift - shift == self.keys).all()
        return self.keys + shift


def same_vector(a, b):
    """Equal up to `SAME`; NaN where the other is NaN."""
    np.testing.assert_allclose(a, b, rtol=0, atol=SAME * max(np.abs(b).max(initial=0.0), 1e-300))


def same_solution(moved, here, unit, turn=None):
    """Status, selection, neighbours and verdict equal; p in units of 1/`unit`, turned."""
    assert moved.status is here.status
    assert moved.selection == here.selection
    assert neighbors(moved).tolist() == neighbors(here).tolist()
    assert is_locally_optimal(moved) == is_locally_optimal(here)
    same_vector(unit * moved.p, here.p if turn is None else here.p @ turn)
    if here.certificate is not None:
        assert moved.certificate.verify(moved.sequences.keys)


def check_all(drawn, keys, unit, turn=None):
    """Every margin problem on these keys, beside the one on the keys as drawn."""
    here, there = drawn.sequences(drawn.keys), drawn.sequences(keys)
    selection = drawn.selection
    same_solution(att_svm(there, selection), att_svm(here, selection), unit, turn)
    same_solution(att_svm_batch([there] * 2, [selection] * 2)[1], att_svm(here, selection), unit, turn)
    same_solution(global_margin(there), global_margin(here), unit, turn)
    same_solution(relaxed_svm(there, selection, drawn.relaxed), relaxed_svm(here, selection, drawn.relaxed), unit, turn)
    one, other = (
        directional_margin(there, drawn.q if turn is None else drawn.q @ turn),
        directional_margin(here, drawn.q),
    )
    assert one.selection == other.selection
    assert one.neighbors.tolist() == other.neighbors.tolist()
    assert one.is_neighbor_optimal == other.is_neighbor_optimal
    same_vector(np.array([one.margin]), unit * np.array([other.margin]))
    turned = drawn.q if turn is None else drawn.q @ turn
    assert is_locally_optimal_direction(there, turned) == is_locally_optimal_direction(here, drawn.q)
    same_any(att_svm_any(there, selection), att_svm_any(here, selection), unit, turn)
    if selection.is_single:
        check_single(drawn, here, there, unit, turn)


def check_single(drawn, here, there, unit, turn):
    assert feasible_selections(there) == feasible_selections(here)
    for moved, still in zip(local_margins(there), local_margins(here), strict=True):
        same_solution(moved, still, unit, turn)
    classified = label_svm(drawn.tokens[np.arange(len(drawn.labels)), drawn.selection.indices], drawn.labels)
    if classified.status is Status.OPTIMAL and att_svm(here, drawn.selection).status is Status.OPTIMAL:
        expected = rate_direction(here, drawn.selection, 0.3)
        found = rate_direction(there, drawn.selection, 0.3 * unit)  # a rate is |v| over |p|
        same_vector(found, expected if turn is None else expected @ turn)
        rate = relaxing_rate(here, drawn.selection)
        np.testing.assert_allclose(relaxing_rate(there, drawn.selection), unit * rate, rtol=1e-6)


def same_any(moved, here, unit, turn):
    assert moved.status is here.status
    np.testing.assert_allclose(unit * moved.upper, here.upper, rtol=SAME)
    assert len(moved.minimisers) == len(here.minimisers)
    for p, choice in zip(unit * moved.minimisers, moved.choices, strict=True):
        expected = here.minimisers if turn is None else here.minimisers @ turn
        nearest = int(np.linalg.norm(expected - p, axis=1).argmin())
        same_vector(p, expected[nearest])
        assert choice.tolist() == here.choices[nearest].tolist()


@given(SEEDS, st.booleans(), EXPONENTS)
def test_the_unit_of_the_keys(seed, single, k):
    drawn = Drawn(seed, single)
    check_all(drawn, 2.0**k * drawn.keys, 2.0**k)


@given(SEEDS, st.booleans(), OFFSETS)
def test_an_offset_of_the_keys(seed, single, offset):
    drawn = Drawn(seed, single)
    check_all(drawn, drawn.moved(seed, offset), 1.0)


@given(SEEDS, st.booleans())
def test_a_rotation_of_the_keys(seed, single):
    drawn = Drawn(seed, single)
    check_all(drawn, drawn.keys @ drawn.turn, 1.0, drawn.turn)


@given(SEEDS, st.sampled_from([1e-12, 1e12, 1e13]))
def test_the_scale_of_one_inputs_scores(seed, factor):
    drawn = Drawn(seed)
    here = drawn.sequences(drawn.keys)
    drawn.tokens[0] *= factor
    there = drawn.sequences(drawn.keys)
    same_solution(global_margin(there), global_margin(here), 1.0)
    same_solution(att_svm(there, drawn.selection), att_svm(here, drawn.selection), 1.0)
    for moved, still in zip(local_margins(there), local_margins(here), strict=True):
        same_solution(moved, still, 1.0)
    one, other = directional_margin(there, drawn.q), directional_margin(here, drawn.q)
    assert one.is_neighbor_optimal == other.is_neighbor_optimal
    assert is_locally_optimal_direction(there, drawn.q) == is_locally_optimal_direction(here, drawn.q)


@given(SEEDS, EXPONENTS)
def test_the_unit_of_label_features(seed, k):
    rng = np.random.default_rng(seed)
    features, labels = rng.normal(size=(4, 3)), rng.choice([-1, 1], size=4)
    here, there = label_svm(features, labels), label_svm(2.0**k * features, labels)
    assert there.status is here.status
    same_vector(2.0**k * there.v, here.v)
    assert there.support.tolist() == here.support.tolist()


@given(SEEDS, EXPONENTS, st.sampled_from([0.0, 2.0**20, 2.0**32]))
def test_units_offsets_and_rotations_of_a_corpus(seed, k, offset):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 2, size=(4, 6))
    counts[:, 0] += counts.sum(axis=1) == 0
    E = np.round(rng.normal(size=(6, 4)) / GRID) * GRID
    dataset = TokenDataset(counts, [0, 1, 0, 1])
    chosen = rng.random(dataset.counts.nnz) < 0.3
    chosen[dataset.counts.indptr[:-1]] = True
    selection = CorpusSelection(dataset, chosen)
    here = corpus_svm(dataset, E, selection)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    moved, turned = corpus_svm(dataset, 2.0**k * (E + offset), selection), corpus_svm(dataset, E @ turn, selection)
    assert moved.status is turned.status is here.status
    assume(here.status is Status.OPTIMAL)
    same_vector(2.0**k * moved.p, here.p)
    same_vector(turned.p, here.p @ turn)
    assert moved.n_tight == turned.n_tight == here.n_tight
    np.testing.assert_allclose(4.0**k * moved.duals.sum(), here.duals.sum(), rtol=SAME)
    np.testing.assert_allclose(2.0**k * moved.rounds[-1].lower, here.rounds[-1].lower, rtol=SAME)


def test_a_shift_that_is_exact_leaves_the_answer_of_att_svm_any_feasible():
    keys = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[0.5, 1.0], [0.0, 0.0], [0.25, -1.0]]])
    gamma, allowed = np.zeros((2, 3)), [[True, True, False], [True, False, False]]
    here = att_svm_any(EmbeddedSequences.from_scores(keys, gamma), allowed)
    there = att_svm_any(EmbeddedSequences.from_scores(keys + 2.0**32, gamma), allowed)
    same_any(there, here, 1.0, None)
    for p in there.minimisers:
        logits = keys @ p
        best = np.where(allowed, logits, -np.inf).max(axis=1) - np.where(allowed, -np.inf, logits).max(axis=1)
        assert best.min() >= 1 - SAME


class TestLongRows:
    """p = (1, 0); the differences (1.05, 1e8) and (1, 1e8) are 1e8 long and only the second is tight."""

    keys = np.array([[[1.0, 0.0], [0.0, 0.0], [-0.05, -1e8], [0.0, -1e8]]])

    def test_neighbours_are_told_by_the_margin_and_not_by_the_length(self):
        sequences = EmbeddedSequences.from_scores(self.keys, [[1.0, 0.0, 0.0, 0.0]])
        solution = att_svm(sequences, Selection.from_indices([0], 4))
        np.testing.assert_allclose(solution.p, [1.0, 0.0], atol=1e-12)
        assert neighbors(solution).tolist() == [[False, True, False, True]]
        assert directional_margin(sequences, solution.p).neighbors.tolist() == [[False, True, False, True]]

    def test_an_input_of_long_rows_is_not_called_satisfied_too_early(self):
        """(1, 0) gives the second input a margin of 0.95, which is not 1 however long its difference is."""
        keys = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.95, 1e8], [0.0, 0.0]]])
        sequences, selection = EmbeddedSequences.from_scores(keys, np.zeros((2, 2))), Selection.from_indices([0, 0], 2)
        any_of, strict = att_svm_any(sequences, selection), att_svm(sequences, selection)
        np.testing.assert_allclose(any_of.minimisers[0], strict.p, rtol=1e-9)
        assert (keys[1, 0] @ any_of.minimisers[0]) >= 1 - 1e-6


@pytest.mark.parametrize("size", [1e-160, 1e-155, 1e-150, 1e150, 1e155, 1e160])
@pytest.mark.parametrize("seed", range(8))
def test_keys_whose_squares_overflow_or_vanish(size, seed):
    """The rescaled answer, by every way of asking; no warning, no foreign exception."""
    drawn = Drawn(seed, single=seed % 2 == 0)
    here, there, selection = drawn.sequences(drawn.keys), drawn.sequences(size * drawn.keys), drawn.selection
    pairs = [
        (solve(there), solve(here))
        for solve in (
            lambda data: att_svm(data, selection),
            lambda data: att_svm_batch([data], [selection])[0],
            global_margin,
            lambda data: relaxed_svm(data, selection, drawn.relaxed),
        )
    ]
    for found, expected in pairs:
        assert found.status is expected.status
        assert found.explain()
        if found.status is Status.OPTIMAL:
            same_vector(size * found.p, expected.p)
            same_vector(found.direction, expected.direction)
            assert np.isfinite(found.margin)
            assert neighbors(found).tolist() == neighbors(expected).tolist()
    found, expected = att_svm_any(there, selection), att_svm_any(here, selection)
    assert found.status is expected.status
    if found.status is Status.OPTIMAL:
        assert np.isfinite(found.upper)
        same_any(found, expected, size, None)
    same_vector(
        np.array([directional_margin(there, drawn.q).margin / size]), [directional_margin(here, drawn.q).margin]
    )
    assert [one.selection for one in local_margins(there)] == [one.selection for one in local_margins(here)]


@pytest.mark.parametrize("size", [1e-160, 1e-155, 1e-150, 1e150, 1e155, 1e160])
def test_features_and_embeddings_whose_squares_overflow_or_vanish(size):
    features, labels = np.array([[1.0, 0.5], [-2.0, 0.3], [1.0, 2.0]]), [1, -1, 1]
    found, expected = label_svm(size * features, labels), label_svm(features, labels)
    assert found.status is Status.OPTIMAL
    same_vector(size * found.v, expected.v)
    same_vector(found.direction, expected.direction)
    dataset = TokenDataset([[1, 1, 0], [0, 1, 1]], [0, 1])
    selection = CorpusSelection.of_tokens(dataset, [0, 1])
    found, expected = corpus_svm(dataset, size * features, selection), corpus_svm(dataset, features, selection)
    assert found.status is expected.status is Status.OPTIMAL
    assert found.explain()
    same_vector(size * found.p, expected.p)
