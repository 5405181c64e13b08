"""The nuclear problem as the official notebook solves it: cvxpy, here with a named solver and tolerance.

cvxpy is no dependency of this package. Where it is not installed its columns are empty.
"""

from __future__ import annotations

import contextlib
import warnings
from importlib.util import find_spec

import numpy as np

from tokenmargin.data import CrossSequences, Selection

#: Columns: SCS, which is what cvxpy chooses today where no solver is named, the same asked for more digits, and an
#: interior-point method.
PEERS: dict[str, dict[str, object]] = {
    "SCS, default": {"solver": "SCS"},
    "SCS, eps 1e-8": {"solver": "SCS", "eps": 1e-8, "max_iters": 100_000},
    "Clarabel": {"solver": "CLARABEL"},
}

#: The one of them that takes a second and more of a wide problem.
SLOW = "Clarabel"

#: The notebook counts singular values above this, whatever the size of the matrix.
COUNTED_ABOVE = 1e-7


def installed() -> bool:
    """True if cvxpy and both solvers are here."""
    return all(find_spec(name) is not None for name in ("cvxpy", "scs", "clarabel"))


def peer_rank(data: CrossSequences, selection: Selection, **options: object) -> float:
    """Singular values above `COUNTED_ABOVE` of the matrix that cvxpy returns; NaN where it returns none."""
    import cvxpy

    W = cvxpy.Variable(data.shape)
    asked = [
        (data.tokens[i, s] - data.tokens[i, t]) @ W @ data.queries[i] >= 1
        for i, chosen in enumerate(selection.chosen)
        for s in np.flatnonzero(chosen)
        for t in np.flatnonzero(~chosen)
    ]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.norm(W, "nuc")), asked)
    with warnings.catch_warnings(), contextlib.suppress(cvxpy.SolverError):
        warnings.simplefilter("ignore")
        problem.solve(**options)
    return float("nan") if W.value is None else float(np.linalg.matrix_rank(W.value, tol=COUNTED_ABOVE))
