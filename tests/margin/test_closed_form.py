"""Closed forms: known ones, roots, and that nothing is called exact which is not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tokenmargin as tm
from tokenmargin.margin import ClosedForm
from tokenmargin.norms import L2, Lp, Max, Nuclear, Spectral, Sum

NORMS = (L2(), Nuclear(), Spectral(), Max(), Sum(), Lp(3.0), Lp(1.5))


def two_pairs(norm):
    """Pairs e1 e1' and e2 e2'."""
    data = tm.CrossSequences(
        [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]], queries=np.eye(2), labels=[1, 1], head=[1.0, 0.0]
    )
    return tm.att_svm(data, tm.Selection.from_indices([0, 0], 2), norm)


@pytest.mark.parametrize(
    ("norm", "power", "root"),
    [
        (L2(), 2, 2),
        (Nuclear(), 2, 1),
        (Spectral(), 1, 1),
        (Max(), 1, 1),
        (Sum(), 2, 1),
        (Lp(3.0), 2, 3),
        (Lp(1.5), 4, 3),
    ],
)
def test_two_pairs_as_people_write_them(norm, power, root):
    found = two_pairs(norm).closed_form()
    assert (found.power, found.root) == (power, root)
    assert found.p == ([1, 0], [0, 1])
    assert r"\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}" in found.latex
    assert (r"\sqrt[3]" in found.latex) is (root == 3)
    assert r"\lambda_{0:0>1}" in found.latex


@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm.name)
def test_a_closed_form_does_what_is_asked_and_has_the_value(norm):
    """Whole numbers: what is found is feasible, and its norm is the value; some are found in every norm."""
    count = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, Z = rng.integers(-2, 3, size=(2, 2, 2)).astype(float), rng.integers(-1, 2, size=(2, 2)).astype(float)
        data = tm.CrossSequences(X, queries=Z, labels=[1, 1], head=[1.0, 0.0])
        solution = tm.att_svm(data, tm.Selection.from_indices([0, 0], 2), norm)
        found = solution.closed_form()
        if solution.status is not tm.Status.OPTIMAL:
            assert found is None
            continue
        if found is None:
            continue
        count += 1
        assert float(found.power) ** (1 / found.root) == pytest.approx(solution.value, rel=1e-8)
        flat = [x for row in found.p for x in row]
        for i, s, t in solution.triples.tolist():
            row = [Fraction(x) - Fraction(y) for x, y in zip(data.keys[i, s], data.keys[i, t], strict=True)]
            assert sum(a * b for a, b in zip(row, flat, strict=True)) >= 1
        assert min(found.duals) > 0
    assert count >= 3


def test_what_is_not_the_solution_has_no_closed_form():
    """A longer W, or multipliers that do not prove it, are as rational and are refused."""
    for norm in NORMS[1:]:
        solution = two_pairs(norm)
        assert isinstance(solution.closed_form(), ClosedForm)
        assert solution.moved_to(solution.p * 2).closed_form() is None
        assert solution.moved_to(solution.p + np.array([0, 1.5, -0.25, 0])).closed_form() is None
        assert replace(solution, duals=solution.duals * [1.0, 0.5]).closed_form() is None or norm == Max()
        assert replace(solution, duals=np.array([2.0, -1.0])).closed_form() is None


def test_roots_that_no_ratio_has_are_left_alone():
    rng = np.random.default_rng(0)
    data = tm.CrossSequences(
        rng.normal(size=(2, 3, 2)), queries=rng.normal(size=(2, 2)), labels=[1, 1], head=[1.0, 0.0]
    )
    logits = data.logits(rng.normal(size=4))
    selection = tm.Selection.from_indices(logits.argmax(axis=1), 3)
    for norm in (Nuclear(), Spectral(), Lp(3.0)):
        assert tm.att_svm(data, selection, norm).closed_form() is None
    exact = tm.att_svm(data, selection).closed_form()
    assert exact.root == 2
    assert float(exact.power) ** 0.5 == pytest.approx(tm.att_svm(data, selection).value, rel=1e-12)
