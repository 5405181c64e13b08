"""Against cvxopt, called as a user would: its defaults to 1e-4, its tight tolerances to 1e-7.

At its defaults cvxopt stops at a relative gap of 1e-6, which fixes the margin and the cosine but p itself only to the
square root, 1e-3; so those are what is compared there. With tight tolerances p itself is compared.
"""

import numpy as np
import pytest

from tests.instances import random_sphere
from tokenmargin import Status, att_svm, selection_of
from tokenmargin.theory import one_minus_cosine

cvxopt = pytest.importorskip("cvxopt", reason="parity peer, installed by `make peers`")


@pytest.mark.parametrize("d", [2, 5, 10, 100])
@pytest.mark.parametrize("tight", [False, True], ids=["defaults", "tight"])
def test_same_direction_and_norm(d, tight):
    options = {"abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11, "maxiters": 200} if tight else {}
    rng = np.random.default_rng(d)
    for _ in range(25):
        data = random_sphere(rng, d=d)
        solution = att_svm(data, selection_of(data, rng.normal(size=d)))
        assert solution.status is Status.OPTIMAL
        i, s, t = solution.triples.T
        rows = data.keys[i, s] - data.keys[i, t]
        answer = cvxopt.solvers.qp(
            cvxopt.matrix(np.eye(d)),
            cvxopt.matrix(np.zeros(d)),
            cvxopt.matrix(-rows),
            cvxopt.matrix(-np.ones(len(rows))),
            options={"show_progress": False, **options},
        )
        p = np.array(answer["x"]).ravel()
        if tight:
            assert np.linalg.norm(p - solution.p) <= 1e-7 * np.linalg.norm(solution.p)
        else:
            assert abs(np.linalg.norm(p) * solution.margin - 1) <= 1e-4
            assert one_minus_cosine(p, solution.p) <= 1e-4
