"""Flows of W and of (K, Q): the norms they go to, and the starts from which (K, Q) does not."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.attention import FactoredRisk, Flow, follow
from tokenmargin.papers.transformers_as_svms.claims.nuclear_limit import NUCLEAR, FactoredStart, balanced
from tokenmargin.papers.transformers_as_svms.margins import beside, least_gap, most_attended
from tokenmargin.papers.transformers_as_svms.problems import best_tokens, visualization_1, visualization_2


@pytest.fixture(scope="module")
def from_both_signs() -> dict[float, FactoredStart]:
    return {sign: balanced(sign) for sign in (-1.0, 1.0)}


def test_the_flow_from_equal_factors_keeps_the_sign_of_the_determinant(from_both_signs):
    solution = beside(visualization_2(), np.eye(2), "nuclear", best_tokens(visualization_2())).solution
    assert np.linalg.det(solution.matrix) < 0
    for sign, case in from_both_signs.items():
        path = follow(FactoredRisk(case.sequences, 2), (case.K, case.Q), Flow())
        K, Q = path.blocks["K"], path.blocks["Q"]
        W = K @ np.swapaxes(Q, 1, 2)
        values = np.linalg.svd(W, compute_uv=False)
        told = values[:, 1] > 1e-6 * values[:, 0]  # beyond, the sign is that of the integrator's errors
        assert told.sum() > 10
        assert (np.sign(np.linalg.det(W[told])) == sign).all()
        assert told.all() == (sign < 0)
    reached = {sign: beside(case.sequences, _product(case), "nuclear").ratio for sign, case in from_both_signs.items()}
    assert reached[-1.0] > 0.999
    assert reached[1.0] == pytest.approx(0.93, abs=0.01)
    assert from_both_signs[1.0].dual_size > 1.5


def _product(case: FactoredStart) -> np.ndarray:
    K, Q = case.run.final
    return np.asarray(K @ Q.T)


def test_a_margin_is_the_least_gap_over_the_norm():
    data = visualization_1()
    found = beside(data, np.zeros((2, 2)), "nuclear", best_tokens(data))
    assert np.isnan(found.ratio)
    for norm in ("l2", "nuclear", "spectral"):
        W = found.solution.matrix
        one = beside(data, 3.0 * beside(data, W, norm).solution.matrix, norm)
        assert one.ratio == pytest.approx(1.0, rel=1e-8)
        assert one.cosine == pytest.approx(1.0)
    assert most_attended(data, found.solution.matrix) == best_tokens(data)
    assert least_gap(data, best_tokens(data), found.solution.matrix) == pytest.approx(1.0)
    assert NUCLEAR.of_problem is not None
