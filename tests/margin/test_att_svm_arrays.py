"""(ATT-SVM) as arrays against one solution object at a time, infeasible and nearly dependent problems included."""

import numpy as np
import pytest

from tokenmargin._isometry import isometric_rows
from tokenmargin.data.problem_batch import ProblemBatch
from tokenmargin.data.selection import Selection
from tokenmargin.margin import Status, att_svm, neighbor_score_gap, neighbors
from tokenmargin.margin.att_svm_arrays import att_svm_arrays, neighbor_score_gaps


@pytest.mark.parametrize("d", [2, 5, 30])
def test_arrays_are_the_problems_one_by_one(rng, d):
    batch = ProblemBatch(rng.normal(size=(40, 3, 4, d)), rng.normal(size=(40, 3, 4)))
    alpha = rng.integers(4, size=(40, 3))
    answer = att_svm_arrays(batch.keys, alpha)
    gaps = neighbor_score_gaps(batch.scores, alpha, answer.neighbors).min(axis=1)
    for j in range(40):
        alone = att_svm(batch[j], Selection.from_indices(alpha[j], 4))
        assert bool(answer.solved[j]) == (alone.status is Status.OPTIMAL)
        np.testing.assert_array_equal(answer.neighbors[j], neighbors(alone))
        if answer.solved[j]:
            np.testing.assert_allclose(answer.p[j], alone.p, atol=1e-9 * np.linalg.norm(alone.p))
            assert gaps[j] == pytest.approx(neighbor_score_gap(alone), rel=1e-12)
    assert answer.solved.any()
    assert d > 2 or not answer.solved.all()  # some selections in the plane cannot be separated


def test_isometric_rows_keep_inner_products_of_nearly_dependent_rows_too(rng):
    rows = rng.normal(size=(3, 4, 9))
    rows[1, 3] = rows[1, 0] + 1e-9 * rng.normal(size=9)
    rows[2, 3] = rows[2, 0]
    short = isometric_rows(rows)
    assert short.shape == (3, 4, 4)
    np.testing.assert_allclose(short @ np.swapaxes(short, 1, 2), rows @ np.swapaxes(rows, 1, 2), atol=1e-13)
    apart = np.linalg.norm(rows[1, 3] - rows[1, 0])
    assert np.linalg.norm(short[1, 3] - short[1, 0]) == pytest.approx(apart, rel=1e-5)  # Cholesky would lose it


@pytest.mark.parametrize("exponents", [(515, 515, 515), (-545, -545, -545), (515, -545, 0)])
def test_isometric_rows_of_any_size(rng, exponents):
    """2^515 is about 1e155, whose square overflows, and that of 2^-545 vanishes; rows may even differ in size."""
    rows, units = rng.normal(size=(2, 3, 7)), 2.0 ** np.array(exponents)[:, None]
    rows[1, 2] = rows[1, 0] + 1e-9 * rng.normal(size=7)  # through QR
    np.testing.assert_array_equal(isometric_rows(units * rows) / units, isometric_rows(rows))
