"""Proof of a limit in a certificate file: duals of a direction, a Krawczyk test of where p stops, or duals of both."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np

from tokenmargin._rationals import dot
from tokenmargin.attention import Correlation, Exponential, LabelLog, LabelSquared, Limit, Logistic, PairField, Role
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection, score_tie_widths, scores
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status, att_svm, rate_direction, selected_label_svm
from tokenmargin.margin.att_svm import att_svm_with_margins
from tokenmargin.margin.certificate import WholeRows
from tokenmargin.norms import L2
from tokenmargin.theory._certificate_problem import numbers_of_tokens, problem_of_keys, sealed, texts, with_queries
from tokenmargin.theory._exact_proof import Proof, exact_proof
from tokenmargin.theory.krawczyk import FinitePoint, proven_finite
from tokenmargin.verify import verify

#: The losses whose slopes the verifier knows.
LOSSES: dict[type, str] = {
    Logistic: "logistic",
    Exponential: "exponential",
    Correlation: "correlation",
    LabelLog: "label_log",
    LabelSquared: "label_squared",
}

#: Bits of the verifier's intervals, beside those that a small Hessian and scores of the loss ask for.
BITS = 256

#: Widenings of the box that floats found, tried in turn: scores and keys were rounded in another order there.
WIDER = (1.0, 10.0, 100.0, 1000.0)


def content_of_limit(limit: Limit) -> dict[str, Any]:
    """Kind, problem and proof of a limit."""
    if limit.stalled:
        raise InvalidInputError(f"there is nothing to certify: no limit was. {limit.reason}")
    if len(limit.risk.blocks) > 1:
        return _joint(limit)
    return _diverging(limit) if limit.diverges else _stopping(limit)


def _diverging(limit: Limit) -> dict[str, Any]:
    whole = limit.risk.felt(limit.point)
    problem = problem_of_keys(whole, limit.selection, np.ones(whole.n_inputs))
    gamma = _scores(whole, limit.selection)
    problem["scores"] = [texts(row) for row in gamma]
    found = _separation(limit, whole)
    if found.p is None:
        raise InvalidInputError(
            "there is nothing to certify: no p is proved to separate the tokens that the velocity selects, exactly."
        )
    proof = {
        "velocity": texts(limit.velocity),
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


# --- where p stops ----------------------------------------------------------------------------------------------------


def _stopping(limit: Limit) -> dict[str, Any]:
    """A finite limit, or a mixed one: a box around the stationary point, and the direction of the rest."""
    field, name = limit.risk.field, LOSSES.get(type(getattr(limit.risk, "loss", None)))
    if type(field) is not PairField or name is None:
        raise InvalidInputError(
            "there is no certificate file for where p stops under this risk: give one of fixed scores, with one of the "
            f"losses {', '.join(LOSSES.values())}."
        )
    found = proven_finite(limit)
    if not found.columns:
        raise InvalidInputError(f"there is nothing to certify: {found.reason}.")
    whole = limit.risk.felt(limit.point)
    kept = Selection(whole.mask) if limit.finite else limit.selection
    problem = problem_of_keys(whole, kept, np.ones(whole.n_inputs))
    if isinstance(whole, CrossSequences):
        problem |= {"blocks": [["W", *whole.shape]], **with_queries(whole)}
    gamma = np.where(whole.mask, scores(whole), 0.0)
    problem |= {"scores": [texts(row) for row in gamma], "loss": name}
    rest = _rest(limit, whole) if limit.mixed else {}
    for wider in WIDER:
        proof = _box(found, wider, float(np.abs(gamma).max())) | rest
        content = {"kind": limit.kind.value, "problem": problem, "proof": proof}
        if verify(sealed(content)).verified:
            break
    return content


def _box(found: FinitePoint, wider: float, largest: float) -> dict[str, Any]:
    assert found.factor is not None
    smallest = float(np.square(found.factor).sum(axis=1).max())  # one over the least eigenvalue, or so
    return {
        "point": texts(found.point),
        "columns": list(found.columns),
        "half": texts([wider * found.half_width] * len(found.columns)),
        "factor": [texts(row) for row in found.factor],
        "bits": BITS + max(0, ceil(log2(smallest))) + ceil(largest),
    }


def _rest(limit: Limit, whole: EmbeddedSequences) -> dict[str, Any]:
    """The direction in which the rest goes: the shortest p that keeps the selected tokens tied."""
    solution = att_svm(whole, limit.selection)
    if solution.status is not Status.OPTIMAL:
        raise InvalidInputError(f"there is nothing to certify: {solution.explain()}")
    found = exact_proof(solution.exact_rows, solution.p, solution.duals, solution.tie_duals)
    told = _told(found, limit.velocity)
    return {"along": told.pop("p"), **told}


def _told(found: Proof, velocity: np.ndarray) -> dict[str, Any]:
    """A direction with its duals, and the angle of a velocity to it."""
    if found.p is None:
        raise InvalidInputError("there is nothing to certify: no p is proved to do what is asked, exactly.")
    proof = Proof("limit", found.weights, found.tie_weights, found.p).as_json()
    return {"velocity": texts(velocity), "sine_square": found.sine_square(velocity), **proof}


# --- v and p ----------------------------------------------------------------------------------------------------------


def _joint(limit: Limit) -> dict[str, Any]:
    """Both directions, and the margins that the ratio of speeds leaves to p."""
    if [block.role for block in limit.risk.blocks.values()] != [Role.HEAD, Role.QUERY]:
        raise InvalidInputError(
            f"there is no certificate file for a limit of {' and '.join(limit.risk.blocks)} together: give one of p, "
            "or of v and p."
        )
    data, selection = limit.sequences, limit.selection
    (v, head), (p, query) = limit.risk.blocks.items()
    rate = head.speed / query.speed
    labels = selected_label_svm(data, selection)
    margins = _margins_left(data, selection, rate)
    solution = att_svm_with_margins(data, selection, margins, L2())
    if not (labels.is_optimal() and solution.is_optimal()):
        raise InvalidInputError(f"there is nothing to certify: {labels.explain()} {solution.explain()}")
    chosen = data.tokens[np.arange(data.n_inputs), selection.representatives] * data.labels[:, None]
    pairs = [[i, 0, 1] for i in range(data.n_inputs)]
    features = WholeRows(np.stack([chosen, np.zeros_like(chosen)], axis=1), pairs, [], [1.0] * data.n_inputs)
    of_v = exact_proof(features, labels.v, labels.duals, np.zeros(0))
    of_p = exact_proof(solution.exact_rows, solution.p, solution.duals, solution.tie_duals)
    problem = problem_of_keys(data, selection, margins)
    problem |= {
        "blocks": [["v", head.size], *problem["blocks"]],
        "tokens": numbers_of_tokens(data.tokens, data.mask),
        "labels": texts(data.labels),
        "rate": float(rate).hex(),
    }
    proof = {
        name: _told(found, limit.blocks[block].velocity) for name, block, found in (("v", v, of_v), ("p", p, of_p))
    }
    return {"kind": "joint", "problem": problem, "proof": proof}


def _margins_left(data: EmbeddedSequences, selection: Selection, rate: float) -> np.ndarray:
    """max(0, 1 - rate (m_i - 1) |p*| / |v*|) for each input, |p*| being that of the solution with these margins."""
    labels, strict = selected_label_svm(data, selection), att_svm(data, selection)
    if not (labels.is_optimal() and strict.is_optimal()):
        raise InvalidInputError(f"there is nothing to certify: {labels.explain()} {strict.explain()}")
    spare = rate * labels.label_margin * np.where(labels.support, 0.0, labels.margins - 1.0)
    inputs, chosen, others = strict.triples.T
    apart = (data.keys[inputs, chosen] - data.keys[inputs, others]) @ rate_direction(data, selection, rate)
    return np.maximum(1.0 - spare / float((apart + spare[inputs]).min()), 0.0)
