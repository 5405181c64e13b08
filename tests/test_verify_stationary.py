"""Where training stops, as certificates prove it: derivatives beside decimals, every condition at its boundary."""

from __future__ import annotations

import contextlib
import copy
import itertools
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest

from tests.test_verify import resealed
from tokenmargin.verify import FORMAT, VERSION, _stationary, _trained, verify
from tokenmargin.verify._intervals import Grid
from tokenmargin.verify._stationary import LEAST_BITS, LOSSES, MOST_BITS, Box, _Risk, demand_rank, stationary
from tokenmargin.verify.kernel import Point, Problem, Refuted

BITS, DIGITS = 256, 70

#: Keys in thirds, of three inputs: three tokens, of which two are selected by the second input, and one token alone.
KEYS = [[[1, -2], [3, 0], [0, 5]], [[2, 2], [-1, 4], [7, 7]], [[1, 1]]]
SELECTED = [[0, 1, 2], [0, 1], [0]]
UNIT, P = 3, Point([2, -1], 5)
SCORES = [[Fraction(1, 2), Fraction(1, 5), Fraction(2, 3)], [Fraction(1, 7), Fraction(3, 4)], [Fraction(1, 3)]]
PROBLEM = Problem(KEYS, UNIT, SELECTED, [1, 1, 1], 1)

VALUES = {
    "logistic": lambda f: (1 + (-f).exp()).ln(),
    "exponential": lambda f: (-f).exp(),
    "correlation": lambda f: -f,
    "label_log": lambda f: -f.ln(),
    "label_squared": lambda f: (1 - f) ** 2 / 2,
}


def box(columns=(0, 1), half=(Fraction(1, 10**6), Fraction(1, 10**5)), factor=((1, 0), (0, 1)), bits=BITS) -> Box:
    return Box(list(columns), list(half), [[Fraction(x) for x in row] for row in factor], bits)


def decimal(x) -> Decimal:
    return Decimal(Fraction(x).numerator) / Decimal(Fraction(x).denominator)


def output(i: int, c: list[Decimal], columns, units) -> Decimal:
    """f of an input at p + sum_j c_j u_j e_j, from its definition."""
    p = [decimal(Fraction(x, P.over)) for x in P.whole]
    for move, j, unit in zip(c, columns, units, strict=True):
        p[j] += move * unit
    powers = [
        sum(decimal(Fraction(k, UNIT)) * x for k, x in zip(KEYS[i][s], p, strict=True)).exp() for s in SELECTED[i]
    ]
    return sum(x * decimal(s) for x, s in zip(powers, SCORES[i], strict=True)) / sum(powers)


def derivatives(loss: str, at: list[Decimal], columns, units) -> tuple[list[Decimal], list[list[Decimal]]]:
    """Gradient and Hessian of the risk by central differences in many digits."""
    step, every = Decimal(10) ** -15, range(len(columns))

    def risk(*moves: tuple[int, int]) -> Decimal:
        c = [x + sum((sign * step for j, sign in moves if j == k), Decimal(0)) for k, x in enumerate(at)]
        return sum(VALUES[loss](output(i, c, columns, units)) for i in range(len(KEYS)))

    gradient = [(risk((j, 1)) - risk((j, -1))) / (2 * step) for j in every]
    signs = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
    hessian = [[sum(s * risk((j, a), (k, b)) for a, b, s in signs) / (4 * step**2) for k in every] for j in every]
    return gradient, hessian


def holds(interval, value: Decimal, slack: float = 1e-25) -> bool:
    low, high = (decimal(Fraction(end, 1 << BITS)) for end in interval)
    return low - decimal(Fraction(slack)) <= value <= high + decimal(Fraction(slack))


@pytest.mark.parametrize("loss", VALUES)
@pytest.mark.parametrize("columns", [(0, 1), (1, 0)])
def test_derivatives_are_those_of_the_risk_at_the_point_and_all_over_the_box(loss, columns):
    given = box(columns)
    risk = _Risk.of(PROBLEM, SCORES, loss, P, given)
    assert risk.units == [{0: Fraction(3, 3), 1: Fraction(3, 7)}[j] for j in columns]
    with localcontext() as context:
        context.prec = DIGITS
        units = [decimal(u) for u in risk.units]
        for half in ([Fraction(0)] * 2, given.half):
            gradient, hessian, outputs = risk.derivatives(half)
            assert hessian[0][1] == hessian[1][0]
            for signs in itertools.product((-1, 1), repeat=2) if half[0] else [(0, 0)]:
                at = [decimal(h) * sign for h, sign in zip(half, signs, strict=True)]
                first, second = derivatives(loss, at, columns, units)
                assert all(map(holds, gradient, first))
                assert all(holds(hessian[j][k], second[j][k]) for j in (0, 1) for k in (0, 1))
                assert all(holds(outputs[i], output(i, at, columns, units)) for i in range(len(KEYS)))
            widths = [b - a for a, b in (*gradient, *hessian[0], *hessian[1], *outputs)]
            assert max(widths) <= (1 << BITS) * sum(half) * 16 + 2**20


@pytest.mark.parametrize("bits", [5, 8])
@pytest.mark.parametrize("loss", VALUES)
def test_slopes_are_enclosed_to_the_last_of_few_bits(loss, bits):
    grid = Grid(bits)
    first = {
        "logistic": lambda f: -1 / (1 + f.exp()),
        "exponential": lambda f: -(-f).exp(),
        "correlation": lambda f: Decimal(-1),
        "label_log": lambda f: -1 / f,
        "label_squared": lambda f: f - 1,
    }[loss]
    second = {
        "logistic": lambda f: f.exp() / (1 + f.exp()) ** 2,
        "exponential": lambda f: (-f).exp(),
        "correlation": lambda f: Decimal(0),
        "label_log": lambda f: 1 / f**2,
        "label_squared": lambda f: Decimal(1),
    }[loss]
    for a in range(1 << bits - 2, 2 << bits, max(1, (1 << bits) // 16)):
        for b in (a, a + 1, a + (1 << bits) // 4):
            found = LOSSES[loss](grid, (a, b))
            for end in (a, b):
                f = Decimal(end) / 2**bits
                for (low, high), value in zip(found, (first(f), second(f)), strict=True):
                    assert low <= value * 2**bits <= high
        if loss == "correlation":
            assert found == ((-(1 << bits),) * 2, (0, 0))


def test_the_least_number_that_is_divided_by_and_the_largest_exponents():
    grid, most = Grid(8), 8 << 8
    assert grid.inverse((1, 5)) == (2**16 // 5, 2**16)
    with pytest.raises(Refuted, match="may be 0"):
        grid.inverse((0, 5))
    with pytest.raises(Refuted, match="too large"):
        grid.exp((0, most))
    assert grid.exp((-most, -most)) == (0, 1)
    for x in (1 - most, most - 1, 0, 1, -1):
        low, high = grid.exp((x, x))
        assert low <= (Decimal(x) / 2**8).exp() * 2**8 <= high
        assert low >= 0


def test_no_inputs_pull_on_nothing():
    risk = _Risk(Grid(8), "logistic", [Fraction(1)] * 2, [])
    assert risk.derivatives([Fraction(1), Fraction(1, 2)]) == ([(0, 0)] * 2, [[(0, 0)] * 2] * 2, [])


def test_what_is_far_behind_is_small_and_what_is_far_ahead_stands_for_all():
    """Logits of thousands apart: attention of the others is enclosed by 0 and one last bit, and nothing overflows."""
    far = Problem([[[4000], [0], [-4000]]], 1, [[1, 0, 2]], [1], 1)
    given = Box([0], [Fraction(1, 10**9)], [[Fraction(1)]], LEAST_BITS)
    for p, best in ((Point([1], 1), Fraction(1, 2)), (Point([-1], 1), Fraction(2, 3))):
        gradient, hessian, outputs = _Risk.of(far, SCORES[:1], "correlation", p, given).derivatives(given.half)
        ((low, high),) = outputs
        top = [Fraction(1, 2), Fraction(1, 5), Fraction(2, 3)]
        del best
        assert any(low <= score * 2**LEAST_BITS <= high for score in top)
        assert max(map(abs, (*gradient[0], *hessian[0][0]))) <= 16
        assert high - low <= 16


@dataclass
class Told:
    """A risk whose derivatives are told."""

    gradient: Any
    hessian: Any
    units: list[Fraction]

    def derivatives(self, half: list[Fraction]) -> Any:
        """The gradient at the point, the Hessian over the box."""
        return (None, self.hessian, [(1, 3)]) if any(half) else (self.gradient, None, None)


def judged(monkeypatch, gradient, hessian, given: Box, units=(Fraction(1), Fraction(2))):
    """`stationary` with derivatives that are told, in units of one over 2^bits."""
    monkeypatch.setattr(_stationary._Risk, "of", lambda *_: Told(gradient, hessian, list(units)[: len(given.columns)]))
    return stationary(PROBLEM, SCORES, "logistic", P, given)


class TestKrawczyk:
    ONE = 1 << LEAST_BITS

    def box(self, half=(8, 16), factor=((1, 0), (0, 1))):
        """A box of so many last bits."""
        return box(half=[Fraction(h, self.ONE) for h in half], factor=factor, bits=LEAST_BITS)

    def hessian(self, a=0, b=0, c=0, d=0):
        one = self.ONE
        return [[(one - a, one - a), (b, b)], [(c, c), (one - d, one - d)]]

    @pytest.mark.parametrize("sign", [1, -1])
    def test_the_step_alone(self, monkeypatch, sign):
        for first, second, stays in ((7, 15, True), (8, 0, False), (0, 16, False), (9, 0, False)):
            gradient = [(sign * first,) * 2, (sign * second,) * 2]
            if stays:
                found = judged(monkeypatch, gradient, self.hessian(), self.box())
                assert found.radius_square == Fraction(8**2 + 32**2, self.ONE**2)
                assert found.outputs == [(Fraction(1, self.ONE), Fraction(3, self.ONE))]
            else:
                with pytest.raises(Refuted, match="Krawczyk"):
                    judged(monkeypatch, gradient, self.hessian(), self.box())

    def test_the_hessian_that_is_off(self, monkeypatch):
        """One less in one of its entries takes as much of the step as the box is wide there, and no more."""
        quarter = self.ONE // 4
        none = [(0, 0), (0, 0)]
        for name, room in (("a", (6, 16)), ("b", (4, 16)), ("c", (8, 14)), ("d", (8, 12))):
            for sign in (1, -1):
                off = self.hessian(**{name: sign * quarter})
                for j in (0, 1):
                    step = list(none)
                    step[j] = ((room[j] - 1),) * 2
                    judged(monkeypatch, step, off, self.box())
                    step[j] = (room[j],) * 2
                    with pytest.raises(Refuted, match="Krawczyk"):
                        judged(monkeypatch, step, off, self.box())

    def test_the_factor(self, monkeypatch):
        """Y = B B', with B = [[2, 1], [0, 1]]: [[5, 1], [1, 1]], times its inverse [[1, -1], [-1, 5]] / 4."""
        q = self.ONE // 4
        inverse = [[(q, q), (-q, -q)], [(-q, -q), (5 * q, 5 * q)]]
        factor = ((2, 1), (0, 1))
        judged(monkeypatch, [(1, 1), (2, 2)], inverse, self.box(factor=factor))  # steps 7 and 3
        for gradient in ([(1, 1), (3, 3)], [(2, 2), (0, 0)], [(0, 0), (16, 16)]):
            with pytest.raises(Refuted, match="Krawczyk"):
                judged(monkeypatch, gradient, inverse, self.box(factor=factor))

    def test_the_last_bit_of_the_hessian(self, monkeypatch):
        """One last bit between the columns takes as much of a step as the other column is wide: 4 of 9."""
        given = box(half=[Fraction(9, self.ONE), Fraction(4)], bits=LEAST_BITS)
        for sign in (1, -1):
            judged(monkeypatch, [(4, 4), (0, 0)], self.hessian(b=sign), given)
            with pytest.raises(Refuted, match="Krawczyk"):
                judged(monkeypatch, [(5, 5), (0, 0)], self.hessian(b=sign), given)
        given = box(half=[Fraction(4), Fraction(9, self.ONE)], bits=LEAST_BITS)
        for sign in (1, -1):
            with pytest.raises(Refuted, match="Krawczyk"):
                judged(monkeypatch, [(0, 0), (5, 5)], self.hessian(c=sign), given)
            judged(monkeypatch, [(0, 0), (4, 4)], self.hessian(c=sign), given)

    def test_a_half_width_between_two_numbers_is_the_lower(self, monkeypatch):
        judged(monkeypatch, [(7, 7), (0, 0)], self.hessian(), self.box((Fraction(17, 2), 16)))
        with pytest.raises(Refuted, match="Krawczyk"):
            judged(monkeypatch, [(8, 8), (0, 0)], self.hessian(), self.box((Fraction(17, 2), 16)))

    def test_wide_intervals_are_as_bad_as_their_worst(self, monkeypatch):
        none = [(0, 0), (0, 0)]
        wide = self.hessian()
        wide[0][0] = (self.ONE // 2, self.ONE * 5 // 4)
        judged(monkeypatch, [(-3, 2), (0, 0)], wide, self.box())
        with pytest.raises(Refuted, match="Krawczyk"):
            judged(monkeypatch, [(-4, 2), (0, 0)], wide, self.box())
        wide[1][0] = (-self.ONE, self.ONE)
        judged(monkeypatch, [(0, 0), (7, 7)], wide, self.box())
        with pytest.raises(Refuted, match="Krawczyk"):
            judged(monkeypatch, [(0, 0), (8, 8)], wide, self.box())
        assert none == [(0, 0), (0, 0)]


class TestBoxes:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"columns": []}, "no columns"),
            ({"columns": [0, 0]}, "one of them twice"),
            ({"half": [Fraction(1)]}, "half width"),
            ({"half": [Fraction(1), Fraction(0)]}, "half width"),
            ({"half": [Fraction(-1), Fraction(1)]}, "half width"),
            ({"factor": [[Fraction(1)] * 2]}, "not square"),
            ({"factor": [[Fraction(1)] * 2, [Fraction(1)]]}, "not square"),
            ({"bits": LEAST_BITS - 1}, "bits"),
            ({"bits": MOST_BITS + 1}, "bits"),
        ],
    )
    def test_what_is_none(self, change, words):
        with pytest.raises(Refuted, match=words):
            replace(box(), **change)

    def test_what_is_one_just_so(self):
        assert (LEAST_BITS, MOST_BITS) == (128, 4096)
        for bits in (LEAST_BITS, MOST_BITS):
            assert box(bits=bits).bits == bits
        one = box(columns=[1], half=[Fraction(1)], factor=[[1]])
        assert one.columns == [1]

    def test_its_columns_are_those_of_keys_that_differ(self):
        for j in (-1, 2):
            with pytest.raises(Refuted, match="no such column"):
                _Risk.of(PROBLEM, SCORES, "logistic", P, box(columns=(0, j)))
        flat = Problem([[[1, 5], [2, 5]]], 1, [[0, 1]], [1], 1)
        told = [[Fraction(0), Fraction(1)]]
        with pytest.raises(Refuted, match="no difference of keys"):
            _Risk.of(flat, told, "logistic", P, box())
        one = box(columns=[0], half=[Fraction(1, 10**6)], factor=[[1]])
        assert _Risk.of(flat, told, "logistic", P, one).units == [1]
        with pytest.raises(Refuted, match="out of the columns"):
            _Risk.of(PROBLEM, SCORES, "logistic", P, one)

    def test_a_loss_that_is_not_known(self):
        with pytest.raises(Refuted, match=f"loss '{'x' * 40}' are not known"):
            stationary(PROBLEM, SCORES, "x" * 50, P, box())

    def test_rank_is_that_of_rows_which_need_not_be_in_order(self):
        demand_rank([[0, 0, 0], [0, 2, 4], [0, 3, 6], [5, 1, 1], [5, 3, 5]], 2, 3)
        for more in ([0, 0, 1], [0, 1, 0], [1, 0, 0]):
            with pytest.raises(Refuted, match="out of the columns"):
                demand_rank([[0, 2, 4], [5, 1, 1], more], 2, 3)
        with pytest.raises(Refuted, match="out of the columns"):
            demand_rank([[7, 7, 7]], 0, 3)
        demand_rank([[10**30, 10**30 + 1], [3, 5], [4, 4]], 2, 2)


# --- files ------------------------------------------------------------------------------------------------------------


def hexes(*numbers: float) -> list[str]:
    return [(float(x) + 0.0).hex() for x in numbers]


#: An input whose middle token scores most attends to it most at p = 0, whatever the loss; in two directions.
STOPPED_KEYS = [[[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], [[0.0, 2.0], [0.0, 0.0], [0.0, -2.0]]]
STOPPED_SCORES = [[0.25, 1.0, 0.25], [0.25, 1.0, 0.25]]


def content(kind: str, problem: dict, proof: dict) -> dict:
    return resealed({"format": FORMAT, "version": VERSION, "kind": kind, "problem": problem, "proof": proof})


def problem_of(keys, scores, selected, **more) -> dict:
    width = len(keys[0][0])
    problem = {
        **{"norm": "L2", "blocks": [["p", width]], "keys": [[hexes(*key) for key in row] for row in keys]},
        **{"selected": selected, "margins": hexes(*[1.0] * len(keys)), "digest": ""},
    }
    return problem | ({} if scores is None else {"scores": [hexes(*row) for row in scores]}) | more


def slopes(loss: str, f: float) -> float:
    with localcontext() as context:
        context.prec = DIGITS
        step, f = Decimal(10) ** -20, decimal(Fraction(f))
        return float((VALUES[loss](f - step) - VALUES[loss](f + step)) / (2 * step))


def stopping(loss: str = "logistic", half: float = 1e-9) -> dict:
    """p = 0 in the plane: f = .25 + .75 / (1 + 2 cosh c) has f' = 0 and f'' = -.75 * 2 / 9 in units of the column."""
    bend = slopes(loss, 0.5) * 0.75 * 2 / 9
    proof = {
        **{"point": hexes(0.0, 0.0), "columns": [0, 1], "half": hexes(half, half)},
        **{"factor": [hexes(bend**-0.5, 0.0), hexes(0.0, bend**-0.5)], "bits": BITS},
    }
    problem = problem_of(STOPPED_KEYS, STOPPED_SCORES, [[1, 0, 2], [1, 2, 0]], loss=loss)
    return content("finite", problem, proof)


def changed(given: dict, *path: Any, to: Any) -> dict:
    forged = copy.deepcopy(given)
    place = forged
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return resealed(forged)


class TestFinite:
    @pytest.mark.parametrize("loss", VALUES)
    def test_a_stop_of_every_loss(self, loss):
        verdict = verify(stopping(loss))
        assert verdict.verified, verdict.because
        assert verdict.because.startswith(
            f"within 1.12e-9 of p the risk with the loss {loss} has exactly one stationary point, a strict local "
            "minimum in the 2 directions in which keys of one input differ (problem "
        )

    def test_refused(self):
        true = stopping()
        for forged, words in (
            (
                changed(true, "problem", "selected", to=[[0, 1], [1, 2, 0]]),
                "is not selected, though all keep attention",
            ),
            (changed(true, "problem", "loss", to="hinge"), "loss 'hinge' are not known"),
            (changed(true, "problem", "loss", to=3), "loss '3' are not known"),
            (changed(true, "proof", "point", to=hexes(1e-8, 0.0)), "Krawczyk"),
            (changed(true, "proof", "point", to=hexes(0.0)), "not as wide as the keys"),
            (changed(true, "proof", "point", to=hexes(0.0, 0.0, 0.0)), "not as wide as the keys"),
            (changed(true, "proof", "columns", to=[0, -1]), "stands where the number of a token"),
            (changed(true, "proof", "bits", to=True), "stands where the number of a token"),
            (changed(true, "problem", "scores", to=[hexes(0.25, 1.0, 0.25)]), "differ in inputs"),
        ):
            verdict = verify(forged)
            assert not verdict.verified
            assert words in verdict.because, verdict.because

    def test_a_box_up_to_a_millionth_of_a_logit(self):
        """Half widths of both columns are added; what a box of that size does not say is refused, though it is true."""
        assert Fraction(1, 10**6) == _trained.LOGIT_LIMIT
        assert verify(stopping(half=4.9e-7)).verified
        verdict = verify(stopping(half=5.1e-7))
        assert "the box is too large" in verdict.because

    def test_work_is_counted_before_it_is_done(self, monkeypatch):
        """Three tokens in two inputs and two columns: 2 * 6 * 2 * 22 + 2^3 products of intervals."""
        monkeypatch.setattr(_trained, "PRODUCTS_LIMIT", 536)
        assert verify(stopping()).verified
        monkeypatch.setattr(_trained, "PRODUCTS_LIMIT", 535)
        assert "a box of 2 columns with 6 tokens takes too long" in verify(stopping()).because

    def test_columns_that_are_too_many_are_refused_at_once(self):
        """216^3 products alone are more than ten million."""
        many = stopping()
        row = hexes(*[1.0] * 216)
        proof = many["proof"] | {"columns": list(range(216)), "half": row, "factor": [row] * 216}
        assert "a box of 216 columns" in verify(resealed(many | {"proof": proof})).because

    def test_what_elimination_takes_is_counted_where_there_are_fewer_columns_than_numbers(self, monkeypatch):
        told = []
        own = _trained._parsing.demand_affordable
        monkeypatch.setattr(
            _trained._parsing, "demand_affordable", lambda *given: (told.append(given[2:]), own(*given))
        )
        assert verify(stopping()).verified
        assert told == [(0,)]
        told.clear()
        assert verify(moving()).verified
        assert told[0] == (6 * 3 * 2**3,)

    def test_one_direction_is_said_in_the_singular(self):
        one = stopping()
        problem = problem_of([[[1.0], [0.0], [-1.0]]], [[0.25, 1.0, 0.25]], [[1, 0, 2]], loss="logistic")
        proof = one["proof"] | {"point": hexes(0.0), "columns": [0], "half": hexes(1e-9)}
        proof["factor"] = [proof["factor"][0][:1]]
        verdict = verify(content("finite", problem, proof))
        assert "minimum in the 1 direction in which" in verdict.because, verdict.because


def moving(**change: Any) -> dict:
    """The same in three coordinates: in the third one a fourth token of score .25 is behind by 2: p* = (0, 0, 1/2)."""
    true = stopping()
    behind = [[*key, 0.0] for key in STOPPED_KEYS[0]] + [[0.0, 0.0, -2.0]]
    keys = [behind, [[*key, 0.0] for key in STOPPED_KEYS[1]]]
    scores = [[*STOPPED_SCORES[0], 0.25], STOPPED_SCORES[1]]
    problem = problem_of(keys, scores, [[1, 0, 2], [1, 2, 0]], loss="logistic")
    proof = {
        **true["proof"],
        **{"point": hexes(0.0, 0.0, 0.0), "velocity": hexes(0.0, 0.0, 1.0), "sine_square": ["0x0", "0x1"]},
        **{"along": {"whole": ["0x0", "0x0", "0x1"], "over": "0x2"}, "duals": [[0, 1, 3, "0x1"]], "tie_duals": []},
    }
    return content("mixed", problem, proof | change)


class TestMixed:
    def test_true(self):
        verdict = verify(moving())
        assert verdict.verified, verdict.because
        assert "one stationary point" in verdict.because
        assert "of the selected tokens" in verdict.because
        assert (
            "up to an angle of sine 0 the rest moves along the shortest p* that separates 1 pair by 1"
            in verdict.because
        )

    def test_refused(self):
        true = moving()
        half = hexes(0.5)[0]
        squared = changed(true, "problem", "loss", to="label_squared")
        for forged, words in (
            (changed(true, "problem", "margins", to=[half, half]), "a margin of a limit is not 1"),
            (squared, "its slope vanishes"),
            (changed(true, "proof", "velocity", to=hexes(0.0, 0.0, -1.0)), "does not point along p"),
            (changed(true, "proof", "velocity", to=hexes(0.0, 1e-3, 1.0)), "the velocity is elsewhere"),
            (changed(true, "proof", "velocity", to=hexes(0.0, 1.0)), "not as wide as p"),
            (changed(true, "proof", "sine_square", to=["0x1", "0x2"]), "stated too large"),
            (changed(true, "proof", "along", "over", to="0x4"), "the file was changed"),
        ):
            verdict = verify(forged)
            assert not verdict.verified, verdict
            if words != "the file was changed":
                assert words in verdict.because, verdict.because

    def test_what_holds_back_scores_less_than_the_selected_ones_together(self):
        """Together they score .25 + .75 / 3 = .5 at the stationary point; the token behind has to have less."""
        for score, stays in ((0.4999, True), (0.5, False), (0.75, False), (-3.0, True)):
            verdict = verify(changed(moving(), "problem", "scores", 0, 3, to=hexes(score)[0]))
            assert verdict.verified == stays, verdict.because
            assert stays or "token 3 of input 0 holds p back" in verdict.because

    def test_an_input_of_one_selected_token_scores_as_much_as_that_exactly(self):
        for score, stays in ((0.375, True), (0.5, False)):
            forged = moving()
            forged["problem"]["keys"].append([hexes(0.0, 0.0, 0.0), hexes(0.0, 0.0, -2.0)])
            forged["problem"]["scores"].append(hexes(0.5, score))
            forged["problem"]["selected"].append([0])
            forged["problem"]["margins"].append(hexes(1.0)[0])
            assert verify(resealed(forged)).verified == stays

    def test_what_is_behind_by_more_than_asked_may_score_anything(self):
        """A fifth token, behind by 2.5 along p*: 1.25 where 1 is asked; then one that is behind by 1 as well."""
        true = moving()
        for depth, stays in ((-2.5, True), (-2.0, False)):
            forged = copy.deepcopy(true)
            forged["problem"]["keys"][0].append(hexes(0.0, 0.0, depth))
            forged["problem"]["scores"][0].append(hexes(5.0)[0])
            verdict = verify(resealed(forged))
            assert verdict.verified == stays, verdict.because

    def test_beyond_is_sure_only_by_more_than_p_star_may_be_off(self):
        """The row is (0, 0, 2.5) with unit 2 and p = (0, 0, 1/2): 1/4 beyond; |row|^2 = 6.25, so that off < 1/100."""
        keys = [[[0, 0, 0], [0, 0, 1]], [[0, 0, 0], [0, 0, -5]]]
        problem = Problem(keys, 2, [[0], [0]], [9, 3], 3)
        p, pair = Point([0, 0, 2], 4), (1, 0, 1)

        def is_behind(asked: Problem, p: Point, off: Fraction, **how: bool) -> bool:
            with contextlib.suppress(Refuted):
                asked.demand_behind(pair, False, p, off, **how)
                return True
            with pytest.raises(Refuted, match="token 1 of input 1 holds p back"):
                asked.demand_behind(pair, False, p, off, **how)
            return False

        assert not is_behind(problem, p, Fraction(1, 100))
        assert is_behind(problem, p, Fraction(1, 101))
        assert is_behind(problem, p, Fraction(0))
        assert not is_behind(problem, Point([0, 0, 2], 5), Fraction(0))  # exactly 1: not beyond
        assert not is_behind(problem, Point([0, 0, -2], 4), Fraction(1, 101))
        wider = replace(problem, margins=[9, 2])  # 2/3 asked: 7/12 beyond
        assert is_behind(wider, p, Fraction(7, 30) ** 2 - Fraction(1, 10**6))
        assert not is_behind(wider, p, Fraction(7, 30) ** 2)
        assert is_behind(wider, p, Fraction(1, 4) - Fraction(1, 10**6), tied=True)  # 0 asked: 5/4 beyond
        assert not is_behind(wider, p, Fraction(1, 4), tied=True)
        problem.demand_behind(pair, True, Point([0, 0, -2], 4), Fraction(1))

    def test_an_angle_is_within_what_is_stated(self):
        """The velocity is (3, 4), p along (1, 0): the square of the sine is 16/25, and 1e-12 is the most."""
        proof = {"velocity": hexes(1.0, 2.0**-30), "sine_square": ["0x1", hex(2**60 + 1)]}
        exact = Fraction(1), Fraction(1)
        assert _trained._angle(proof, Point([1, 0], 1), *exact) == "9.32e-10"
        proof["sine_square"] = ["0x1", hex(2**60 + 2)]
        with pytest.raises(Refuted, match="elsewhere"):
            _trained._angle(proof, Point([1, 0], 1), *exact)
        proof["sine_square"] = ["0x1", hex(10**12)]
        assert _trained._angle(proof, Point([1, 0], 1), *exact) == "0.000001"
        proof["sine_square"] = ["0x1", hex(10**12 - 1)]
        with pytest.raises(Refuted, match="too large"):
            _trained._angle(proof, Point([1, 0], 1), *exact)

    @pytest.mark.parametrize(
        "square", [Fraction(2), Fraction(1, 3), Fraction(10**40, 7), Fraction(3, 10**50), Fraction(4)]
    )
    def test_roots_are_between_two_numbers_that_are_close(self, square):
        low, high = _trained._root_between(square)
        assert low**2 <= square <= high**2
        assert 0 < high - low <= low / 2**60
        assert _trained._root_between(Fraction(4)) == (2, 2 + Fraction(1, 2**65))


def both(rate: float = 0.5, margin: float = 1.0, **change: Any) -> dict:
    """Two inputs in four coordinates of x: v* = (1, 1/2), label margins 1 and 1, or more where labels leave room.

    Tokens (1, 0), (-1, 0) of label 1 and (0, -2), (0, 2) of label -1; keys 2 e_i and 0: p* = (1/2, 1/2).
    """
    problem = problem_of(
        [[[2.0, 0.0], [0.0, 0.0]], [[0.0, 2.0], [0.0, 0.0]]],
        None,
        [[0], [0]],
        blocks=[["v", 2], ["p", 2]],
        tokens=[[hexes(1.0, 0.0), hexes(-1.0, 0.0)], [hexes(0.0, -2.0), hexes(0.0, 2.0)]],
        labels=hexes(1.0, -1.0),
        rate=hexes(rate)[0],
    )
    problem["margins"] = hexes(margin, margin)
    straight = {"sine_square": ["0x0", "0x1"], "tie_duals": []}
    proof = {
        "v": {
            **straight,
            **{"velocity": hexes(2.0, 1.0), "p": {"whole": ["0x2", "0x1"], "over": "0x2"}},
            # weights in proportion to 4 : 1, as v* = sum_i w_i Y_i x_i
            "duals": [[0, 0, 1, "0x4"], [1, 0, 1, "0x1"]],
        },
        "p": {
            **straight,
            **{"velocity": hexes(1.0, 1.0), "p": {"whole": ["0x1", "0x1"], "over": "0x2"}},
            "duals": [[0, 0, 1, "0x1"], [1, 0, 1, "0x1"]],
        },
    }
    return content("joint", problem, proof | change)


def roomy(rate: float, margin: float, whole: tuple[int, int], over: int) -> dict:
    """The same with tokens 3 times as long in the second input, along v* too: label margin 3 and |v*| = |p*| scaled."""
    given = both(rate)
    problem, proof = given["problem"], given["proof"]
    # v* = (1/2, 0): the second token is (6, 0), whose label margin is 3.
    problem["tokens"] = [[hexes(2.0, 0.0), hexes(-1.0, 0.0)], [hexes(-6.0, 0.0), hexes(3.0, 0.0)]]
    problem["margins"] = hexes(1.0, margin)
    proof["v"]["velocity"], proof["v"]["p"] = hexes(1.0, 0.0), {"whole": ["0x1", "0x0"], "over": "0x2"}
    proof["v"]["duals"] = [[0, 0, 1, "0x1"]]
    first, second = whole
    proof["p"]["velocity"] = hexes(first / over, second / over)
    proof["p"]["p"] = {"whole": [hex(first), hex(second)], "over": hex(over)}
    proof["p"]["duals"] = [[0, 0, 1, hex(first)]] + ([[1, 0, 1, hex(second)]] if second else [])
    return resealed(given)


class TestJoint:
    def test_true(self):
        verdict = verify(both())
        assert verdict.verified, verdict.because
        assert (
            "v points along the shortest v* with Y v'x >= 1 for the selected token of each of 2 inputs"
            in verdict.because
        )
        assert "as the ratio 0.5 of speeds asks of it" in verdict.because
        assert "<=" not in verdict.because.replace(">=", "")

    def test_margins_are_what_the_ratio_of_speeds_leaves(self):
        """With a label margin of 3 it is 1 - 4 c |p*|, and p* = (1/2, that/2): 0 where nothing is left."""
        assert verify(roomy(0.75, 0.0, (1, 0), 2)).verified  # 1 - 4 * .75 * .5 < 0
        assert verify(roomy(0.0, 1.0, (1, 1), 2)).verified
        # m = 1 - 4 c sqrt(1 + m^2) / 2: with m = 3/4, sqrt = 5/4 and c = 1/10.
        rate = 0.1
        assert verify(roomy(rate, 0.75, (4, 3), 8)).verified
        for wrong in (0.2, 0.11, 0.1 + 1e-8, 0.1 - 1e-8):
            verdict = verify(roomy(wrong, 0.75, (4, 3), 8))
            assert "the margin of input 1 is not the one that the ratio of speeds leaves it" in verdict.because

    def test_refused(self):
        true = both()
        tied = copy.deepcopy(true)
        tied["problem"]["selected"][0] = [0, 1]
        for forged, words in (
            (resealed(tied), "several tokens"),
            (changed(true, "problem", "rate", to=hexes(-0.5)[0]), "the ratio of speeds is negative"),
            (changed(true, "problem", "labels", to=hexes(1.0, -2.0)), "neither 1 nor -1"),
            (changed(true, "problem", "labels", to=hexes(1.0)), "differ in inputs"),
            (changed(true, "problem", "labels", to=hexes(1.0, 1.0)), "does not separate"),
            (changed(true, "problem", "tokens", 0, 1, to=None), "not at the same places"),
            (changed(true, "problem", "blocks", to=[["v", 3], ["p", 2]]), "as wide as the block of v"),
            (changed(true, "proof", "v", "duals", 0, 3, to="0x5"), "v is not proved to be the shortest"),
            (changed(true, "proof", "v", "velocity", to=hexes(1.0, 1.0)), "the velocity is elsewhere"),
            (changed(true, "proof", "p", "velocity", to=hexes(1.0, 1.1)), "the velocity is elsewhere"),
            (changed(true, "problem", "margins", to=hexes(0.5, 0.5)), "the margin of input 0"),
            (changed(true, "proof", "v", "more", to=1), "not known here"),
            (changed(true, "proof", "p", "more", to=1), "not known here"),
        ):
            verdict = verify(forged)
            assert not verdict.verified, verdict
            assert words in verdict.because, verdict.because

    def test_what_holds_p_back_scores_less_under_v_star(self):
        """v* = (1, 1/2): the selected token of the first input scores 1; the other may score less, not as much."""
        for first, stays in ((0.999, True), (1.0, False), (1.5, False)):
            verdict = verify(changed(both(), "problem", "tokens", 0, 1, to=hexes(first, 0.0)))
            assert verdict.verified == stays, verdict.because
            assert stays or "token 1 of input 0 holds p back" in verdict.because
        further = changed(both(), "problem", "tokens", 0, 1, to=hexes(1.5, 0.0))
        further["problem"]["keys"][0].append(hexes(-0.5, 0.0))
        further["problem"]["tokens"][0].append(hexes(9.0, 0.0))
        further["problem"]["tokens"][0][1] = hexes(0.0, 0.0)
        assert verify(resealed(further)).verified  # behind by 1.25 where 1 is asked

    def test_one_input_alone(self):
        one = both()
        for name in ("keys", "tokens", "labels", "selected", "margins"):
            del one["problem"][name][1]
        for part, whole in (("v", ["0x1", "0x0"]), ("p", ["0x1", "0x0"])):
            own = one["proof"][part]
            own["velocity"], own["p"] = hexes(1.0, 0.0), {"whole": whole, "over": {"v": "0x1", "p": "0x2"}[part]}
            own["duals"] = own["duals"][:1]
        verdict = verify(resealed(one))
        assert verdict.verified, verdict.because

    def test_a_ratio_of_speeds_of_nothing(self):
        assert verify(changed(both(), "problem", "rate", to=hexes(0.0)[0])).verified

    @pytest.mark.parametrize(("off", "stays"), [(0.9e-9, True), (1.1e-9, False)])
    def test_margins_are_floats_and_may_be_off_by_as_much(self, off, stays):
        given, m = both(rate=0.0, margin=1.0 + off), int((1.0 + off) * 2**52)
        given["proof"]["p"]["p"] = {"whole": [hex(m)] * 2, "over": hex(2**53)}
        assert verify(resealed(given)).verified == stays

    def test_a_p_in_a_bracket_is_told_as_one(self):
        """p is off the shortest by 2^-40 in a direction in which nothing is asked: the same margins, up to 2^-40."""
        given = both()
        p = given["proof"]["p"]
        p["p"] = {"whole": [hex(2**40 + 1), hex(2**40)], "over": hex(2**41)}
        p["sine_square"] = ["0x1", hex(10**12)]
        p["velocity"] = hexes(1.0, 1.0)
        verdict = verify(resealed(given))
        assert verdict.verified, verdict.because
        assert "<= |p*| <=" in verdict.because
