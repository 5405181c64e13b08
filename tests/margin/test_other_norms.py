"""Margin problems in every norm: closed forms, certified values, brackets taken again by hand, and what is refused."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import tokenmargin as tm
from tests.torture import norm_margins
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status, Unique, least_norm, pair_svm
from tokenmargin.margin._other_norms import GAP_TOLERANCE
from tokenmargin.norms import L2, Lp, Max, Norm, Nuclear, Spectral, Sum
from tokenmargin.sources.locate import DATA_VARIABLE

#: Closed forms are met to the gap that an answer is held to.
HAND = 1e-8

#: Instances of self-attention with values that were certified elsewhere, as (lower, upper) bounds.
INSTANCES = Path(os.environ.get(DATA_VARIABLE, ".")) / "geometries.npz"
NAMES = ("vis1", "vis2", "local1", "local2", "local3")
needs_instances = pytest.mark.skipif(
    not INSTANCES.is_file(), reason=f"${DATA_VARIABLE} has no geometries.npz: no values that were certified elsewhere"
)


@pytest.fixture(scope="module")
def certified():
    with np.load(INSTANCES) as file:
        return dict(file)


NORMS = {
    "fro": L2(),
    "nuc": Nuclear(),
    "spec": Spectral(),
    "max": Max(),
    "l1": Sum(),
    "l1.75": Lp(1.75),
    "l3": Lp(3.0),
}
OTHERS = [norm for norm in NORMS.values() if norm != L2()]


def by_name(norms):
    return pytest.mark.parametrize("norm", norms, ids=lambda norm: norm.name)


def taken_again(norm, shape, rows, rhs, ties, answer):
    """N(W) and the dual value, from the numbers of an answer alone."""
    assert (rows @ answer.p >= rhs - HAND * np.maximum(rhs, answer.value * np.linalg.norm(rows, axis=1))).all()
    assert np.abs(ties @ answer.p).max(initial=0.0) <= HAND * answer.value * max(1.0, np.abs(ties).max(initial=0.0))
    assert answer.duals.min() >= 0
    pull = (answer.duals @ rows + answer.tie_duals @ ties).reshape(shape)
    return norm.value(answer.p.reshape(shape)), answer.duals @ rhs / norm.dual.value(pull)


def drawn(rng, m, q, shape):
    """Rows that some matrix puts above 0, and ties that it keeps."""
    d = int(np.prod(shape))
    w = rng.normal(size=d)
    ties = rng.normal(size=(q, d))
    ties -= np.outer(ties @ w, w) / (w @ w)
    rows = rng.normal(size=(m, d))
    return rows * np.sign(rows @ w)[:, None], ties


@needs_instances
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", NORMS)
def test_values_are_inside_the_certified_brackets(certified, name, key):
    X, Y, Z, v, selected = (certified[f"{name}_{part}"] for part in ("X", "Y", "Z", "v", "selected"))
    data = tm.CrossSequences(X, queries=Z, labels=Y, head=v)
    best = tm.att_svm(data, tm.Selection.from_indices(selected, T=X.shape[1]), norm=NORMS[key])
    low, high = json.loads(str(certified["values_json"]))[name][key]
    assert best.is_optimal(GAP_TOLERANCE)
    assert low <= best.value <= high
    assert best.matrix.shape == (X.shape[2], Z.shape[1])
    many = key == "spec" and name.startswith("local")  # six queries of ten numbers: what no row sees may have any value
    assert best.unique is (Unique.NO if many else Unique.YES)
    assert best.is_least


@by_name(OTHERS)
@pytest.mark.parametrize(("m", "q", "shape"), [(6, 0, (3, 4)), (12, 2, (4, 3)), (30, 3, (5, 5)), (4, 1, (6, 1))])
def test_the_bracket_closes_with_ties_and_relaxed_rows(rng, norm, m, q, shape):
    rows, ties = drawn(rng, m, q, shape)
    rhs = np.where(np.arange(m) % 3 == 2, 0.0, 1.0 + rng.random(m))
    answer = least_norm(rows, rhs, ties, norm=norm, shape=shape)
    assert answer.status is Status.OPTIMAL
    high, low = taken_again(norm, shape, rows, rhs, ties, answer)
    assert high == pytest.approx(answer.value, rel=1e-12)
    assert abs(high - low) <= GAP_TOLERANCE * high


@by_name(OTHERS)
def test_foreign_norms_are_longer(rng, norm):
    """What is shortest in one norm is no shorter in another than what is shortest there."""
    rows, ties = drawn(rng, 8, 0, (3, 3))
    found = {other: least_norm(rows, np.ones(8), ties, norm=other, shape=(3, 3)) for other in NORMS.values()}
    for other in found.values():
        assert norm.value(other.matrix) >= found[norm].value * (1 - GAP_TOLERANCE)


@by_name(list(NORMS.values()))
def test_one_pair_in_closed_form(rng, norm):
    """The shortest W with <A, W> >= 1 is the steepest direction of A over N_*(A)."""
    A = np.outer(rng.normal(size=3), rng.normal(size=4))
    answer = pair_svm([A.ravel()], norm=norm, shape=(3, 4))
    assert answer.value == pytest.approx(1 / norm.dual.value(A), rel=HAND)
    np.testing.assert_allclose(answer.matrix, norm.steepest(A) / norm.dual.value(A), atol=HAND * answer.value)


@pytest.mark.parametrize(
    ("norm", "value", "unique"),
    [
        ("frobenius", np.sqrt(2), Unique.YES),
        ("nuclear", 2.0, Unique.NO),  # [[1, a], [a, 1]] for every |a| <= 1
        ("spectral", 1.0, Unique.YES),
        ("max", 1.0, Unique.NO),  # the entries off the diagonal are free
        ("sum", 2.0, Unique.YES),
    ],
)
def test_two_pairs_in_closed_form(norm, value, unique):
    answer = pair_svm([[1, 0, 0, 0], [0, 0, 0, 1.0]], norm=norm, shape=(2, 2))
    assert answer.value == pytest.approx(value, rel=HAND)
    assert answer.unique is unique
    assert answer.rank == 2
    np.testing.assert_allclose(answer.matrix, np.eye(2), atol=1e-6)  # the least Frobenius point where there are others
    assert answer.unique.value in answer.explain() or norm == "frobenius"


@by_name([Nuclear(), Spectral(), Max(), Sum()])
def test_a_no_is_proved_by_another_array_that_is_as_short_and_longer_in_euclid(norm):
    seen = dict.fromkeys(Unique, 0)
    for seed in range(25):
        rng = np.random.default_rng(seed)
        shape = [(2, 2), (3, 2), (3, 3), (2, 4), (4, 4)][seed % 5]
        left, right = (rng.integers(-2, 3, size=(3, size)).astype(float) for size in shape)
        rows = np.einsum("ki,kj->kij", left, right).reshape(3, -1)
        rows = rows * np.where(rows @ rng.normal(size=rows.shape[1]) < 0, -1.0, 1.0)[:, None]
        answer = least_norm(rows, np.ones(3), norm=norm, shape=shape)
        if answer.status is not Status.OPTIMAL:
            continue
        seen[answer.unique] += 1
        assert (answer.unique is Unique.NO) is (answer.other is not None)
        if answer.other is not None:
            other = answer.other
            assert (rows @ other).min() >= 1 - GAP_TOLERANCE
            assert norm.value(other.reshape(shape)) <= answer.value * (1 + GAP_TOLERANCE)
            assert np.linalg.norm(other - answer.p) > 1e-4 * np.linalg.norm(answer.p)
            assert answer.is_least
            assert np.linalg.norm(other) > np.linalg.norm(answer.p)
            assert "least Euclidean length is given" in answer.explain()
    assert seen[Unique.NO] >= (0 if norm == Nuclear() else 5)
    assert seen[Unique.YES] >= 1
    assert seen[Unique.NOT_DECIDED] <= 2


def test_what_no_row_sees_is_free_in_the_spectral_norm_alone():
    """One pair e1 e1' of a matrix of 2 x 2: |diag(1, a)| is 1 for every |a| <= 1, and longer in every other norm."""
    for norm in NORMS.values():
        answer = pair_svm([[1.0, 0, 0, 0]], norm=norm, shape=(2, 2))
        assert answer.unique is (Unique.NO if norm in (Spectral(), Max()) else Unique.YES)
        np.testing.assert_allclose(answer.matrix, [[1, 0], [0, 0]], atol=HAND)


def test_a_face_too_wide_for_its_least_point_is_said():
    rows = np.zeros((3, 900))
    rows[0, 0] = rows[1, 1] = 1.0
    rows[2, :4] = 1.0, 1.0, 1.0, 0.5  # asks the third and fourth entries to be more than 0
    answer = least_norm(rows, np.array([1.0, 1.0, 3.0]), norm="max", shape=(30, 30))
    assert answer.unique is not Unique.YES
    assert not answer.is_least
    assert "least Euclidean length" in answer.explain()
    foot = pair_svm(np.eye(900)[:1], norm="max", shape=(30, 30))  # no row forbids 0 wherever nothing is asked
    assert foot.unique is Unique.NO
    assert foot.is_least
    np.testing.assert_allclose(foot.p, np.arange(900) < 1, atol=HAND)


@by_name([Nuclear(), Spectral()])
def test_rotations_of_rows_and_columns_turn_the_answer(rng, norm):
    rows, _ = drawn(rng, 7, 0, (3, 4))
    left, right = (np.linalg.qr(rng.normal(size=(k, k)))[0] for k in (3, 4))
    turned = np.array([(left @ row.reshape(3, 4) @ right).ravel() for row in rows])
    one, other = (least_norm(each, np.ones(7), norm=norm, shape=(3, 4)) for each in (rows, turned))
    assert other.value == pytest.approx(one.value, rel=GAP_TOLERANCE)
    if one.unique is Unique.YES:
        np.testing.assert_allclose(other.matrix, left @ one.matrix @ right, atol=1e-4 * one.value)


@by_name([Nuclear(), Spectral()])
def test_a_vector_is_one_column(rng, norm):
    rows, ties = drawn(rng, 5, 1, (6,))
    plain, answer = least_norm(rows, np.ones(5), ties), least_norm(rows, np.ones(5), ties, norm=norm)
    assert answer.value == pytest.approx(plain.value, rel=GAP_TOLERANCE)
    assert answer.matrix.shape == (6,)


@pytest.mark.parametrize("law", norm_margins.LAWS, ids=lambda law: law.__name__)
def test_no_law_scale_or_move_makes_an_answer_wrong(law):
    said = set()
    for seed, norm in enumerate(norm_margins.NORMS):
        status, wrong = norm_margins.checked(law, seed, norm)
        said.add(status)
        assert wrong == [], (seed, norm)
    assert "OPTIMAL" in said


@by_name(OTHERS)
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_change_no_digit_of_the_verdict(rng, norm, scale):
    rows, ties = drawn(rng, 6, 1, (3, 3))
    one, other = (least_norm(s * rows, np.ones(6), s * ties, norm=norm, shape=(3, 3)) for s in (1.0, scale))
    assert other.status is Status.OPTIMAL
    assert scale * other.value == pytest.approx(one.value, rel=GAP_TOLERANCE)


@by_name(list(NORMS.values()))
def test_a_proof_that_there_is_none_holds_for_every_norm(norm):
    data = tm.EmbeddedSequences([[[1.0], [0.0]], [[0.0], [1.0]]], [1, 1], [1.0])
    answer = tm.att_svm(data, tm.Selection.from_indices([0, 0], 2), norm=norm)
    assert answer.is_infeasible
    assert answer.certificate.exact
    assert answer.certificate.verify(data.keys)
    assert answer.margin == 0.0


@by_name(OTHERS)
def test_problems_over_tokens_take_a_norm(rng, norm):
    X, Z = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 2))
    data = tm.CrossSequences(X, queries=Z, labels=[1, -1], head=rng.normal(size=3))
    found = tm.local_margins(data, norm=norm)
    assert found
    assert all(solution.is_optimal(GAP_TOLERANCE) for solution in found)
    relaxed = tm.relaxed_svm(data, found[0].selection, [True, False], norm=norm)
    assert relaxed.value <= found[0].value * (1 + GAP_TOLERANCE)
    tied = tm.Selection([[True, True, False], [True, False, False]])
    both = tm.att_svm(data, tied, norm=norm)
    assert both.status is Status.OPTIMAL
    logits = data.logits(both.p)
    assert logits[0, 0] == pytest.approx(logits[0, 1], abs=1e-8 * both.value)
    assert repr(norm.name) in both.explain()


@by_name(list(NORMS.values()))
def test_any_one_of_several_tokens_is_the_best_of_all_choices(rng, norm):
    X, Z = rng.normal(size=(2, 4, 2)), rng.normal(size=(2, 2))
    data = tm.CrossSequences(X, queries=Z, labels=[1, -1], head=[1.0, 0.0])
    allowed = np.array([[True, True, False, False], [True, False, True, False]])
    best = tm.margin.att_svm_any(data, allowed, norm=norm)
    values = []
    for a in (0, 1):
        for b in (0, 2):
            kept = allowed.copy()
            kept[0, 1 - a], kept[1, 2 - b] = False, False
            mask = kept | ~allowed  # the other allowed token may be anywhere
            one = tm.CrossSequences(X, queries=Z, labels=[1, -1], head=[1.0, 0.0], mask=mask)
            values.append(tm.att_svm(one, tm.Selection(kept), norm=norm).value)
    assert best.status is Status.OPTIMAL
    assert best.upper == pytest.approx(np.nanmin(values), rel=GAP_TOLERANCE)
    assert best.lower <= best.upper * (1 + GAP_TOLERANCE)
    assert best.norm == norm


@pytest.mark.parametrize("q", [1.001, 1.05, 5.0, 10.0])
def test_powers_near_one_and_large_ones_are_solved(rng, q):
    rows, ties = drawn(rng, 6, 1, (3, 3))
    answer = least_norm(rows, np.ones(6), ties, norm=Lp(q), shape=(3, 3))
    assert answer.is_optimal(GAP_TOLERANCE)
    high, low = taken_again(Lp(q), (3, 3), rows, np.ones(6), ties, answer)
    assert abs(high - low) <= GAP_TOLERANCE * high


@pytest.mark.parametrize("q", [1 + 1e-12, 100.0, 1e6, 1e12])
def test_extreme_powers_are_answered_or_say_what_they_reached(rng, q):
    rows, ties = drawn(rng, 6, 1, (3, 3))
    answer = least_norm(rows, np.ones(6), ties, norm=Lp(q), shape=(3, 3))
    assert answer.status is Status.OPTIMAL or (
        answer.status is Status.UNDECIDED and "misses its dual value by" in answer.explain()
    )
    assert answer.least <= answer.value * (1 + GAP_TOLERANCE)


@needs_instances
def test_the_rank_of_a_low_rank_answer_is_told_by_its_spectrum(certified):
    X, Y, Z, v, selected = (certified[f"local1_{part}"] for part in ("X", "Y", "Z", "v", "selected"))
    data = tm.CrossSequences(X, queries=Z, labels=Y, head=v)
    best = tm.att_svm(data, tm.Selection.from_indices(selected, T=8), norm="nuclear")
    assert best.rank == 3
    assert best.spectrum[3] < 1e-9 * best.spectrum[0]  # a thousandth of what the rank is told by
    assert "rank 3" in best.explain()


@dataclass(frozen=True)
class Doubled(Norm):
    """Twice the Euclidean length, which this package does not know."""

    name = "doubled"
    dual = property(lambda self: self)

    def value(self, array):
        return 2 * L2().value(array)

    def steepest(self, gradient):
        return L2().steepest(gradient) / 2


def test_a_norm_of_your_own_is_answered_with_what_would_do():
    with pytest.raises(InvalidInputError, match=r"norms.Nuclear.*'doubled'.*convex solver"):
        least_norm(np.eye(2), np.ones(2), norm=Doubled())


def test_names_and_shapes_that_do_not_exist():
    with pytest.raises(InvalidInputError, match="no norm 'taxi'"):
        least_norm(np.eye(2), np.ones(2), norm="taxi")
    for shape in ((2, 2), (1, 2, 1)):
        with pytest.raises(InvalidInputError, match="does not fit rows of width 2"):
            least_norm(np.eye(2), np.ones(2), norm="nuclear", shape=shape)
