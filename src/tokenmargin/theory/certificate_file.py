"""Certificates as files: what proves a margin, an infeasible selection or a limit, in numbers without rounding.

`tokenmargin verify FILE`, or `tokenmargin.verify.verify_file`, checks them in exact arithmetic, without this package's
solvers. JSON with floats and whole numbers in hexadecimal; nothing in it is executed on reading.

No p in floats meets its constraints exactly. From the rows that a solution holds tight the exact one is solved for, in
rationals; where they are too many, p is projected on what has to hold exactly, scaled until the rest holds, and what is
stated is a bracket. What the verifier does not confirm is not written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._atomic import write_text
from tokenmargin._checks import checked
from tokenmargin.attention import Limit
from tokenmargin.data import CrossSequences
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import MarginSolution, Status
from tokenmargin.margin.certificate import WholeRows
from tokenmargin.norms import L2
from tokenmargin.theory._certificate_limits import content_of_limit
from tokenmargin.theory._certificate_problem import problem_of_keys, sealed, with_queries
from tokenmargin.theory._exact_proof import Proof, bound, exact_proof, norm_name, norm_proof
from tokenmargin.verify import verify

#: A solution further than this from the exact one, relative to it, is not the one that would be proved: float64 leaves
#: 1e-9 of well-posed rows (KKT_TOLERANCE), and the root of that of rows that are nearly dependent.
SAME_SOLUTION = 1e-4


@checked
def write_certificate(answer: Any, path: str | Path) -> None:
    """Write what proves an optimal margin, an infeasible selection or a limit.

    Args:
        answer: a solution of `att_svm` and its kin, optimal or infeasible, or a limit that was certified.
        path: path of the file, JSON.

    Raises:
        InvalidInputError: if exact arithmetic does not bear the answer out, or it is of another kind.
    """
    if not isinstance(answer, MarginSolution | Limit):
        raise InvalidInputError(
            f"there is no certificate file for a {type(answer).__name__}: give a solution of att_svm and its kin, or "
            "the limit of a run."
        )
    content = content_of_limit(answer) if isinstance(answer, Limit) else _solution(answer)
    content = sealed(content)
    verdict = verify(content)
    if not verdict.verified:
        raise InvalidInputError(f"there is nothing to certify: {verdict.because[:-1]}; no file was written.")
    write_text(Path(path), json.dumps(content, indent=1) + "\n")


def _solution(solution: MarginSolution) -> dict[str, Any]:
    margins = np.ones(solution.sequences.n_inputs)
    margins[solution.triples[:, 0]] = solution.required
    if solution.status is Status.OPTIMAL and solution.norm != L2():
        return _in_norm(solution, margins)
    problem = problem_of_keys(solution.sequences, solution.selection, margins)
    asked = WholeRows(
        solution.sequences.keys, solution.triples.tolist(), solution.tie_triples.tolist(), solution.required.tolist()
    )
    if solution.status is Status.OPTIMAL:
        found = exact_proof(asked, solution.p, solution.duals, solution.tie_duals)
        _demand_the_same(solution, found)
    elif solution.certificate is not None:
        found = bound(asked, solution.certificate)
        if found.kind == "infeasible":  # in every norm; a bound is one of the Euclidean length
            problem |= _named(solution)
    else:
        raise InvalidInputError(
            f"there is nothing to certify: {solution.explain()} Give a solution that is optimal or infeasible."
        )
    return {"kind": found.kind, "problem": problem, "proof": found.as_json()}


def _in_norm(solution: MarginSolution, margins: np.ndarray) -> dict[str, Any]:
    """A bracket in another norm; keys with queries are written as tokens and queries, whose products nobody rounds."""
    data, named = solution.sequences, _named(solution)
    found = norm_proof(solution)
    if found is None:
        raise InvalidInputError("there is nothing to certify: no p next to the solution does what is asked, exactly.")
    proof, witnesses = found
    _demand_the_same(solution, proof)
    problem = problem_of_keys(data, solution.selection, margins) | named
    if isinstance(data, CrossSequences):
        problem |= with_queries(data)
    return {"kind": proof.kind, "problem": problem, "proof": {**proof.as_json(), **witnesses}}


def _named(solution: MarginSolution) -> dict[str, Any]:
    """The norm and the block of parameters of a solution."""
    shape = solution.matrix.shape
    return {"norm": norm_name(solution.norm), "blocks": [["W" if len(shape) == 2 else "p", *shape]]}


def _demand_the_same(solution: MarginSolution, found: Proof) -> None:
    """Raise if what would be proved is not the solution."""
    if found.kind == "infeasible" or (found.p is not None and found.distance(solution.p) > SAME_SOLUTION):
        raise InvalidInputError(
            "there is nothing to certify: the solution holds up to rounding of the keys, and exactly "
            f"{'there is no p' if found.p is None else 'the shortest p is another'}. Ties that rounding parts are "
            "the usual cause: make the keys of tied tokens exact."
        )
