"""Certificates as files: what proves a margin, an infeasible selection or a limit, in numbers without rounding.

`tokenmargin verify FILE`, or `tokenmargin.verify.verify_file`, checks them in exact arithmetic, without this package's
solvers. JSON with floats in hexadecimal and ratios of whole numbers; nothing in it is executed on reading.
"""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._atomic import write_text
from tokenmargin._checks import checked
from tokenmargin.attention import Limit
from tokenmargin.data import EmbeddedSequences, Selection, scores
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import MarginSolution, Status
from tokenmargin.verify import FORMAT, VERSION, seal

#: What is taken off a computed lower bound on |p|, relative to it, so that rounding cannot push it above the true one.
BOUND_ALLOWANCE = 1e-12


@checked
def write_certificate(answer: Any, path: str | Path) -> None:
    """Write what proves an optimal margin, an infeasible selection or a diverging limit.

    Args:
        answer: a solution of `att_svm` and its kin, optimal or infeasible, or a limit that diverges.
        path: of the file, JSON.
    """
    if not isinstance(answer, MarginSolution | Limit):
        raise InvalidInputError(
            f"there is no certificate file for a {type(answer).__name__}: give a solution of att_svm and its kin, or "
            "the limit of a run of p that diverges."
        )
    content = _limit(answer) if isinstance(answer, Limit) else _solution(answer)
    content = {"format": FORMAT, "version": VERSION, **content}
    content["seal"] = seal(content)
    write_text(Path(path), json.dumps(content, indent=1) + "\n")


def _solution(solution: MarginSolution) -> dict[str, Any]:
    margins = np.ones(solution.sequences.n_inputs)
    margins[solution.triples[:, 0]] = solution.required
    problem = _problem(solution.sequences, solution.selection, margins)
    if solution.status is Status.OPTIMAL:
        # A multiplier of -1e-17 is a zero of the solver; what is written is judged as it stands.
        duals = np.maximum(solution.duals, 0.0)
        proof = {
            "p": _texts(solution.p),
            "duals": _weighted(solution.triples, duals),
            "tie_duals": _weighted(solution.tie_triples, solution.tie_duals),
        }
        return {"kind": "margin", "problem": problem, "proof": proof}
    if solution.certificate is None:
        raise InvalidInputError(
            f"there is nothing to certify: {solution.explain()} Give a solution that is optimal or infeasible."
        )
    return {"kind": "infeasible", "problem": problem, "proof": _conflict(solution, margins)}


def _conflict(solution: MarginSolution, margins: np.ndarray) -> dict[str, Any]:
    found = solution.certificate
    assert found is not None
    proof: dict[str, Any] = {
        "exact": found.exact,
        "pairs": [list(pair) for pair in found.pairs],
        "weights": [str(weight) for weight in found.weights],
        "ties": [list(tie) for tie in found.ties],
        "tie_weights": [str(weight) for weight in found.tie_weights],
    }
    if not found.exact:
        gain = float(sum(w * float(margins[i]) for w, (i, _, _) in zip(found.weights, found.pairs, strict=True)))
        length = sqrt(sum(r * r for r in found.residual(solution.sequences.keys)))
        proof["norm_bound"] = (gain / length * (1 - BOUND_ALLOWANCE)).hex()
    return proof


def _limit(limit: Limit) -> dict[str, Any]:
    if not limit.diverges:
        raise InvalidInputError(
            f"there is nothing to certify: the limit is {limit.kind.value}; give one that diverges."
        )
    problem = _problem(limit.sequences, limit.selection, np.ones(limit.sequences.n_inputs))
    problem["scores"] = [_texts(row) for row in np.where(limit.sequences.mask, scores(limit.sequences), 0.0)]
    ties = np.array(
        [(i, s, t) for i, (s, *others) in enumerate(problem["selected"]) for t in others], dtype=np.int64
    ).reshape(-1, 3)
    support, weights, tie_weights = _multipliers(limit, _on_representatives(limit), ties)
    proof = {
        "velocity": _texts(limit.velocity),
        "support": support.tolist(),
        "weights": _texts(weights),
        "tie_weights": _weighted(ties, tie_weights),
    }
    return {"kind": "limit", "problem": problem, "proof": proof}


def _on_representatives(limit: Limit) -> np.ndarray:
    """The support, every pair from the first selected token of its input: along the velocity all of them are tied."""
    pairs = np.array(limit.support, dtype=np.int64)
    pairs[:, 1] = limit.selection.representatives[pairs[:, 0]]
    return pairs


def _multipliers(limit: Limit, support: np.ndarray, ties: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs, their weights, sum 1, and weights of the ties with which the weighted differences sum to the velocity.

    The weights that the dynamics ends with carry the rounding of logits of size |p|, from which the velocity was freed,
    and what is left of weights that vanish like 1/|p|. The shortest change that makes the two fit, by least squares, is
    added to them; pairs whose weight it takes away are left out. What is left proves the limit, or is refused.
    """
    keys, u, w = limit.sequences.keys.astype(float), limit.velocity, limit.support_weights
    while True:
        i, s, t = np.concatenate([support, ties]).T
        rows = keys[i, s] - keys[i, t]
        pull = w @ rows[: len(w)]
        change = np.linalg.lstsq(rows.T, (pull @ u) * u / (u @ u) - pull, rcond=None)[0]
        fitted = w + change[: len(w)]
        kept = fitted > 0
        if kept.all() or not kept.any():
            total = float(fitted.sum())
            return support, fitted / total, change[len(w) :] / total
        support, w = support[kept], w[kept]


def _problem(sequences: EmbeddedSequences, selection: Selection, margins: np.ndarray) -> dict[str, Any]:
    keys = [
        [_texts(key) if there else None for key, there in zip(tokens, mask, strict=True)]
        for tokens, mask in zip(sequences.keys, sequences.mask, strict=True)
    ]
    selected = [np.flatnonzero(row).tolist() for row in selection.chosen]
    return {"keys": keys, "selected": selected, "margins": _texts(margins)}


def _texts(numbers: np.ndarray) -> list[str]:
    return [float(number).hex() for number in numbers.tolist()]


def _weighted(triples: np.ndarray, weights: np.ndarray) -> list[list[Any]]:
    return [[*triple, float(weight).hex()] for triple, weight in zip(triples.tolist(), weights.tolist(), strict=True)]
