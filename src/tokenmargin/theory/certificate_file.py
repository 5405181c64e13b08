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
from tokenmargin._rationals import dot
from tokenmargin.attention import Limit
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection, score_tie_widths, scores
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import MarginSolution, Status
from tokenmargin.margin.certificate import WholeRows
from tokenmargin.norms import L2
from tokenmargin.theory._exact_proof import Proof, bound, exact_proof, norm_name, norm_proof
from tokenmargin.verify import FORMAT, NORM, VERSION, digest, seal, verify

#: A solution further than this from the exact one, relative to it, is not the one that would be proved: float64 leaves
#: 1e-9 of well-posed rows (KKT_TOLERANCE), and the root of that of rows that are nearly dependent.
SAME_SOLUTION = 1e-4


@checked
def write_certificate(answer: Any, path: str | Path) -> None:
    """Write what proves an optimal margin, an infeasible selection or a diverging limit.

    Args:
        answer: a solution of `att_svm` and its kin, optimal or infeasible, or a limit that diverges.
        path: path of the file, JSON.

    Raises:
        InvalidInputError: if exact arithmetic does not bear the answer out, or it is of another kind.
    """
    if not isinstance(answer, MarginSolution | Limit):
        raise InvalidInputError(
            f"there is no certificate file for a {type(answer).__name__}: give a solution of att_svm and its kin, or "
            "the limit of a run of p that diverges."
        )
    content = _limit(answer) if isinstance(answer, Limit) else _solution(answer)
    content = {"format": FORMAT, "version": VERSION, **content}
    content["problem"]["digest"] = digest(content["problem"])
    content["seal"] = seal(content)
    verdict = verify(content)
    if not verdict.verified:
        raise InvalidInputError(f"there is nothing to certify: {verdict.because[:-1]}; no file was written.")
    write_text(Path(path), json.dumps(content, indent=1) + "\n")


def _solution(solution: MarginSolution) -> dict[str, Any]:
    margins = np.ones(solution.sequences.n_inputs)
    margins[solution.triples[:, 0]] = solution.required
    if solution.status is Status.OPTIMAL and solution.norm != L2():
        return _in_norm(solution, margins)
    problem = _problem(solution.sequences, solution.selection, margins)
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
    problem = _problem(data, solution.selection, margins) | named
    if isinstance(data, CrossSequences):
        problem |= {"keys": _keys(data.tokens, data.mask), "queries": [_texts(query) for query in data.queries]}
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


def _limit(limit: Limit) -> dict[str, Any]:
    if len(limit.risk.blocks) > 1:
        raise InvalidInputError(
            f"there is no certificate file for a limit of {' and '.join(limit.risk.blocks)} together: give one of p."
        )
    if not limit.diverges:
        raise InvalidInputError(
            f"there is nothing to certify: the limit is {limit.kind.value}; give one that diverges."
        )
    whole = limit.risk.felt(limit.point)
    problem = _problem(whole, limit.selection, np.ones(whole.n_inputs))
    gamma = _scores(whole, limit.selection)
    problem["scores"] = [_texts(row) for row in gamma]
    found = _separation(limit, whole)
    if found.p is None:
        raise InvalidInputError(
            "there is nothing to certify: no p is proved to separate the tokens that the velocity selects, exactly."
        )
    proof = {
        "velocity": _texts(limit.velocity),
        "sine_square": found.sine_square(limit.velocity),
        **Proof("limit", found.weights, found.tie_weights, found.p).as_json(),
    }
    return {"kind": "limit", "problem": problem, "proof": proof}


def _separation(limit: Limit, sequences: EmbeddedSequences) -> Proof:
    """The shortest p that separates every selected token from those of another score; from the first, if they tie.

    Where p keeps selected tokens tied, a multiplier of one of them is one of the first, and of the tie between the two.
    """
    chosen, first = limit.selection.chosen, limit.selection.representatives.tolist()
    felt = limit.sequences.mask & ~chosen
    ties = [[i, first[i], s] for i, s in np.argwhere(chosen).tolist() if s != first[i]]
    pairs = [[i, s, t] for i, t in np.argwhere(felt).tolist() for s in np.flatnonzero(chosen[i]).tolist()]
    weight = dict(zip(limit.support, limit.support_weights.tolist(), strict=True))
    every = WholeRows(sequences.keys, pairs, [], [1.0] * len(pairs))
    found = exact_proof(every, limit.velocity, np.array([weight.get((i, s, t), 0.0) for i, s, t in pairs]), np.zeros(0))
    if not ties:
        return found
    pairs = [pair for pair in pairs if pair[1] == first[pair[0]]]
    asked = WholeRows(sequences.keys, pairs, ties, [1.0] * len(pairs))
    if found.p is not None and not any(dot(tie, found.p.whole) for tie in asked.ties):
        return found.from_the_first(first)
    return exact_proof(asked, limit.velocity, np.zeros(len(pairs)), np.zeros(len(ties)))


def _scores(sequences: EmbeddedSequences, selection: Selection) -> np.ndarray:
    """Scores, 0 where masked; what ties with the selected token up to rounding, as `follow` has it, ties exactly.

    Tokens of one key tie by the mean of their scores.
    """
    gamma = np.where(sequences.mask, scores(sequences), 0.0)
    widths, keys = score_tie_widths(sequences), sequences.keys
    for i, chosen in enumerate(selection.representatives.tolist()):
        alike = (keys[i][:, None] == keys[i][None]).all(axis=2) & sequences.mask[i] & sequences.mask[i][:, None]
        mean = np.where(sequences.mask[i], (alike * gamma[i]).sum(axis=1) / np.maximum(alike.sum(axis=1), 1), np.inf)
        tied = np.abs(mean - mean[chosen]) <= widths[i]
        if (tied & ~alike[chosen]).any() and (gamma[i, tied] != gamma[i, chosen]).any():
            gamma[i, tied] = mean[chosen]
    return gamma


def _problem(sequences: EmbeddedSequences, selection: Selection, margins: np.ndarray) -> dict[str, Any]:
    keys = _keys(sequences.keys, sequences.mask)
    selected = [np.flatnonzero(row).tolist() for row in selection.chosen]
    blocks = [["p", sequences.width]]
    return {"norm": NORM, "blocks": blocks, "keys": keys, "selected": selected, "margins": _texts(margins)}


def _keys(keys: np.ndarray, mask: np.ndarray) -> list[list[list[str] | None]]:
    """Keys of every token, None where masked."""
    return [
        [_texts(key) if there else None for key, there in zip(tokens, present, strict=True)]
        for tokens, present in zip(keys, mask, strict=True)
    ]


def _texts(numbers: np.ndarray) -> list[str]:
    """Floats in hexadecimal, 0 without a sign."""
    return [(float(number) + 0.0).hex() for number in numbers.tolist()]
