"""Verdicts on Assumptions B, C and D, with what leads to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from tests.answers._drawn import drawn, whole
from tests.instances import fig3
from tests.papers.maxmargin.claims.test_assumption_d import drawn as bent
from tests.torture.assumption_c import LAWS as c_laws
from tests.torture.assumption_d import LAWS as d_laws
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import LinearHead, QuadraticHead, ReLUHead
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import TooLargeError
from tokenmargin.margin import selected_label_svm
from tokenmargin.papers.maxmargin.claims import assumption_c as c
from tokenmargin.papers.maxmargin.claims import assumption_d as d
from tokenmargin.papers.maxmargin.claims._assumption_b import assumption_b
from tokenmargin.papers.maxmargin.claims._exact_selection import ExactSelection, OwnOrder
from tokenmargin.papers.maxmargin.claims.order_cells import trial_points_of


def said_of(verdict: Any) -> dict[str, Any]:
    """Every field but the sentence's numbers."""
    told = {one.name: getattr(verdict, one.name) for one in fields(verdict) if one.name != "because"}
    return told | {"because": " ".join(verdict.because.split()[:3])}


def of_c(data: EmbeddedSequences, selection: Selection) -> dict[str, Any]:
    """The verdict, and all that the problem knows of itself on the way to it."""
    place = OwnOrder(data, selection)
    exact = ExactSelection(place.sequences, place.selection)
    if not exact.label.square:
        return said_of(c.assumption_c(data, selection))
    problem = c._Problem(place, selected_label_svm(place.sequences, place.selection), exact)
    told: dict[str, Any] = {name: getattr(problem, name) for name in ("gamma", "near", "twins", "leads", "order")}
    told |= {name: getattr(problem, name) for name in ("free", "level", "costly", "carries", "is_selectable")}
    told["rates"] = [problem.local_rate(of_means) for of_means in (False, True)]
    points = trial_points_of(place.sequences, (), place.key_unit)
    try:
        found = problem.refuted_at_points(points) or problem.refuted_on_a_ray() or problem.proved()
        told |= said_of(found)
    except TooLargeError:
        told["because"] = "too large"
    return told | {"asked": problem.margins_left, "next": problem.next_best, "excused": problem.excused}


def of_d(risk: HeadRisk, lipschitz: float | None = None) -> dict[str, Any]:
    """The verdict with the quotients of each input, and the points that are tried."""
    told: dict[str, Any] = {"verdict": said_of(d.assumption_d(risk, risk.optimal, lipschitz))}
    if risk.optimal.is_single:
        order = OwnOrder(risk.sequences, risk.optimal)
        own = HeadRisk(order.as_given, risk.head, risk.loss)
        told["quotients"] = [d._input_quotients(own, i, lipschitz) for i in range(own.sequences.n_inputs)]
        told["points"] = d._points(own, order.selection)[:5]
        told["term"] = d._largest_term(own.head, own.sequences.tokens[0])
    return told


def padded() -> EmbeddedSequences:
    """Padding, and optimal tokens that score above 0."""
    data = drawn(1)[0]
    return EmbeddedSequences(data.tokens, data.labels, [2.0, 0.0, 0.0], keys=data.keys, mask=data.mask)


MATRIX = np.array([[0.1, 0.05, 0.0], [0.05, -0.1, 0.0], [0.0, 0.0, 0.02]])
HEADS = {"linear": LinearHead(np.array([2.0, 0.0, 0.0])), "bent": QuadraticHead(MATRIX, np.array([2.0, 0.0, 0.0]))}
STEEP = ReLUHead(np.eye(3)[[0, 1]] * [[1.0], [0.0]], np.full(2, 4.0), np.array([2.0, -2.0]))


def problems() -> dict[str, Callable[[], Any]]:
    """By assumption and name."""
    found: dict[str, Callable[[], Any]] = {"halved": halved, "B": of_b, "C on support": on_support}
    found["curvatures"] = lambda: [d.curvature_bound(head, sign) for head in HEADS.values() for sign in (1.0, -1.0)]
    found |= {f"C whole {seed}": lambda seed=seed: of_c(*whole(seed)) for seed in range(10)}
    found |= {f"C drawn {seed}": lambda seed=seed: of_c(*drawn(seed)) for seed in range(3)}
    one = Selection.from_indices([1, 1, 1], 2)
    found |= {f"C fig3 {x:g}": lambda x=x: of_c(fig3((0.5, x)), one) for x in (1.0, 1.5)}
    found |= {f"D padded {name}": lambda head=head: of_d(HeadRisk(padded(), head)) for name, head in HEADS.items()}
    found |= {f"D bent {number}": lambda number=number: of_d(bent(number)) for number in range(8)}
    laws = [(law, number) for number in range(8) for law in c_laws]
    found |= {f"C {law} {number}": partial(of_law, c_laws[law], number, short_c) for law, number in laws}
    laws = [(law, number) for number in range(6) for law in d_laws if law != "cancelling"]
    found |= {f"D {law} {number}": partial(of_law, d_laws[law], number, short_d) for law, number in laws}
    found["D without a constant"] = lambda: of_d(HeadRisk(padded(), STEEP))
    return found | {"D with a constant": lambda: of_d(HeadRisk(padded(), STEEP), 0.5)}


def of_law(draw: Callable[[np.random.Generator], Any], number: int, answer: Callable[[Any], Any]) -> Any:
    """The answer to a problem that torture draws."""
    return answer(draw(np.random.default_rng([40, number])))


def short_c(problem: tuple[EmbeddedSequences, Selection]) -> dict[str, Any]:
    """What does not depend on the number of tokens."""
    told, long = of_c(*problem), ("twins", "leads", "order", "free", "level", "costly", "carries", "violation")
    return {key: value for key, value in told.items() if key not in long}


def short_d(risk: HeadRisk) -> dict[str, Any]:
    """Without the points."""
    return {key: value for key, value in of_d(risk).items() if key != "points"}


def halved() -> np.ndarray:
    """Parts of a simplex, cut where tokens are farthest apart."""
    parts = np.random.default_rng(35).dirichlet(np.ones(3), size=(4, 3))
    return d._halved(parts, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]]))


def of_b() -> list[bool]:
    """Whether the others share a score."""
    rows = [np.array(row)[None, :, None] for row in ([1.0, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 0.0], [1.0])]
    scores = [EmbeddedSequences(row, [1], [1.0]) for row in rows]
    return [assumption_b(data) for data in (*scores, fig3((0.5, 1.0)), drawn(0)[0], whole(0)[0])]


def on_support() -> list[Any]:
    """The inputs that are left."""
    return [c.on_support(*drawn(seed))[1].chosen for seed in range(4)]
