"""Texts of a certificate at the boundaries of what is read, and the sentences in which a verdict is put."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from typing import Any

import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.verify import (
    FORMAT,
    VERSION,
    Verdict,
    _folded,
    _parsing,
    seal,
    verify,
)
from tokenmargin.verify._parsing import digest, read_certificate
from tokenmargin.verify._words import asked, between, root, weights_of
from tokenmargin.verify.kernel import Point, Problem, Refuted
from tokenmargin.verify.lengths import Matrix


def hexes(*numbers: float) -> list[str]:
    return [float(x).hex() for x in numbers]


def ratio(above: int, below: int = 1) -> list[str]:
    return [hex(above), hex(below)]


def problem(norm: str = "L2", **changes: Any) -> dict[str, Any]:
    """Keys (0, 0), (1, 2): token 1 leads by 1/2, so p* = (1, 2)/10; changes are made before it is named."""
    made = {
        "norm": norm,
        "blocks": [["p", 2]],
        "keys": [[hexes(0, 0), hexes(1, 2)]],
        "selected": [[1]],
        "margins": hexes(0.5),
        **changes,
    }
    return {**made, "digest": digest(made)}


def certificate(kind: str, given: dict[str, Any], **proof: Any) -> dict[str, Any]:
    made = {"format": FORMAT, "version": VERSION, "kind": kind, "problem": given, "proof": proof}
    return {**made, "seal": seal(made)}


P, DUALS = {"whole": ["0x1", "0x2"], "over": "0xa"}, [[0, 1, 0, "0x1"]]


def said(kind: str, given: dict[str, Any], **proof: Any) -> Verdict:
    return verify(certificate(kind, given, **proof))


class TestTexts:
    def test_whole_numbers(self):
        longest = "0x" + "f" * (2**16 - 2)
        assert _parsing.whole(longest) == 16 ** (2**16 - 2) - 1
        assert _parsing.whole("-0x10") == -16
        for text in (longest + "f", "10", "0X1", "0x", "0xG", "+0x1", "--0x1", "0x1 ", 16, None):
            with pytest.raises(Refuted):
                _parsing.whole(text)

    def test_ratios(self):
        assert _parsing.ratio(["0x3", "0x1"]) == 3
        assert _parsing.ratio(["-0x3", "0x2"]) == Fraction(-3, 2)
        for texts in (["0x1"], ["0x1", "0x1", "0x1"], ["0x1", "0x0"], ["0x1", "-0x1"], "0x", {"a": 1}):
            with pytest.raises(Refuted):
                _parsing.ratio(texts)

    def test_floats(self):
        for value in (0.0, 1.0, -1.5, 5e-324, 1.7976931348623157e308):
            assert _parsing.real(value.hex()) == value
        for text in (
            "-0x0.0p+0",
            "inf",
            "nan",
            "0x1p0",
            "0x1.0p+0",
            "0x2.0000000000000p+0",
            1.0,
            "1.0",
            "0x" + "0" * 40,
        ):
            with pytest.raises(Refuted):
                _parsing.real(text)

    def test_counts(self):
        assert _parsing.count(0) == 0
        for value in (-1, True, 1.0, "1"):
            with pytest.raises(Refuted):
                _parsing.count(value)

    def test_weights(self):
        rows = [[0, 1, 2, "0x5"], [0, 1, 3, "-0x5"], [4, 1, 2, "0x0"]]
        assert _parsing.weights(rows) == {(0, 1, 2): 5, (0, 1, 3): -5, (4, 1, 2): 0}
        for bad in ([[0, 1, 2]], [[0, 1, 2, "0x1", "0x1"]], [*rows, rows[0]], ["0123"]):
            with pytest.raises(Refuted):
                _parsing.weights(bad)

    def test_mean_scores(self):
        given = Problem([[[1, 2], [1, 2], [3, 4], None], [[5, 6], None, None, None]], 1, [[2], [0]], [1, 1], 1)
        zero = hexes(0)[0]
        found = _parsing.mean_scores(given, [hexes(1, 4, 7, 9), [*hexes(8), zero, zero, zero]])
        assert found == [{0: Fraction(5, 2), 1: Fraction(5, 2), 2: 7}, {0: 8}]
        for bad in ([hexes(1, 4, 7, 9)], [hexes(1, 4, 7), hexes(1, 2, 3, 4)]):
            with pytest.raises(Refuted):
                _parsing.mean_scores(given, bad)

    def test_what_is_shown_is_short(self):
        assert _parsing.shown("x" * 61) == "x" * 60
        assert _parsing.shown(10**18 - 1) == "9" * 18
        assert _parsing.shown(10**18) == _parsing.shown(-(10**18)) == "a large number"


class TestFiles:
    def read(self, text: str, tmp_path) -> dict:
        (tmp_path / "c.json").write_text(text)
        return read_certificate(tmp_path / "c.json")

    def test_names_that_are_said_twice_and_numbers_that_are_not_exact(self, tmp_path):
        start = f'{{"format": "{FORMAT}", "version": {VERSION}'
        assert self.read(start + ', "n": 999999999}', tmp_path)["n"] == 999_999_999
        for more, words in (
            (', "a": 1, "b": 1, "b": 2}', "'b' is said twice"),
            (', "n": 1000000000}', "counts more"),
            (', "n": 1.0}', "not exact"),
            (', "n": NaN}', "not exact"),
        ):
            with pytest.raises(InvalidInputError, match=words):
                self.read(start + more, tmp_path)

    @pytest.mark.parametrize(
        "change", [{"format": "x"}, {"format": 1}, {"version": VERSION + 1}, {"version": VERSION - 1}]
    )
    def test_another_format_or_version(self, change):
        with pytest.raises(InvalidInputError, match=r"its (format|version) is"):
            _parsing.check_format({"format": FORMAT, "version": VERSION, **change})
        assert VERSION == 2

    def test_a_long_file_is_not_read(self, tmp_path):
        for size, words in ((2**26 + 1, "longer than 64 MiB"), (2**26, "Expecting value")):
            (tmp_path / "c.json").touch()
            os.truncate(tmp_path / "c.json", size)
            with pytest.raises(InvalidInputError, match=words):
                read_certificate(tmp_path / "c.json")


class TestProblems:
    def test_units_and_margins(self):
        keys = [[hexes(0.5, 0), None, hexes(1, 0.125)], [hexes(3, 0), hexes(0, 0), hexes(0, 1)]]
        made = _parsing.problem_of(problem(keys=keys, selected=[[0, 2], [1]], margins=hexes(0.75, 2)), "bracket")
        assert made == Problem([[[4, 0], None, [8, 1]], [[24, 0], [0, 0], [0, 8]]], 8, [[0, 2], [1]], [3, 8], 4)

    def test_keys_of_one_number(self):
        given = problem(keys=[[hexes(0), hexes(1)]], blocks=[["p", 1]])
        assert _parsing.problem_of(given, "bracket").keys == [[[0], [1]]]

    def test_the_order_of_names_is_no_part_of_what_a_problem_says(self):
        made = problem()
        assert digest(dict(reversed(made.items()))) == made["digest"]

    @pytest.mark.parametrize(
        "change",
        [
            {"blocks": [["p", 3]]},
            {"blocks": [["p", 2], ["p", 2]]},
            {"blocks": [["q", 2]]},
            {"blocks": [["W", 2]]},
            {"blocks": [["p", 1, 2]]},
            {"blocks": [["W", 1, 1, 2]]},
            {"blocks": [["W", 2, 2]]},
            {"blocks": [["W", 0, 2]]},
            {"blocks": [["W", -1, -2]]},
            {"blocks": [["p", True]]},
            {"blocks": "p2"},
            {"keys": [[[], []]], "blocks": [["p", 0]]},
            {"keys": [[hexes(0), hexes(1, 2)]]},
            {"norm": "l4/2"},
            {"norm": "L3"},
            {"norm": None},
        ],
    )
    def test_blocks_and_norms_that_are_not_known(self, change):
        with pytest.raises(Refuted):
            _parsing.problem_of(problem(**change), "bracket")

    def test_blocks_that_are(self):
        for blocks, shape in (([["p", 2]], (2, 1)), ([["W", 1, 2]], (1, 2)), ([["W", 2, 1]], (2, 1))):
            given = problem(blocks=blocks)
            assert _parsing.problem_of(given, "bracket").keys == [[[0, 0], [1, 2]]]
            assert _parsing.shape_of(given) == shape

    def test_queries(self):
        made = {"blocks": [["W", 2, 3]], "queries": [hexes(1, 0.25, 3)]}
        found = _parsing.problem_of(problem(keys=[[hexes(0, 0), hexes(0.5, 2)]], **made), "bracket")
        assert (found.keys, found.unit) == ([[[0] * 6, [4, 1, 12, 16, 4, 48]]], 8)
        far = _parsing.problem_of(problem(blocks=[["W", 2, 2]], queries=[hexes(1e300, 2.0**-900)]), "bracket")
        assert far.keys[0][1] == [int(1e300) * 2**900, 1, 2 * int(1e300) * 2**900, 2]  # beyond every float
        for change in (
            {"queries": [hexes(1, 2)]},
            {"queries": []},
            {"queries": [hexes(1, 2, 3)] * 2},
            {"blocks": [["W", 3, 2]]},
            {"blocks": [["p", 6]]},
        ):
            with pytest.raises(Refuted, match="blocks"):
                _parsing.problem_of(problem(**{**made, **change}), "bracket")

    def test_as_many_numbers_as_are_checked(self, monkeypatch):
        made = problem(blocks=[["W", 2, 3]], queries=[hexes(1, 2, 3)])
        monkeypatch.setattr(_parsing, "NUMBERS_LIMIT", 12)
        _parsing.problem_of(made, "bracket")
        monkeypatch.setattr(_parsing, "NUMBERS_LIMIT", 11)
        with pytest.raises(Refuted, match="12 numbers"):
            _parsing.problem_of(made, "bracket")

    def test_as_much_work_as_is_done(self, monkeypatch):
        """Four entries of a 30-bit digit, numbers of two: (4 1 + 2 2) 2, and 5 products of 3 digits."""
        made = _parsing.problem_of(problem(), "bracket")
        assert (_parsing.WORK_LIMIT, _parsing.NUMBERS_LIMIT, _parsing.BITS_LIMIT) == (4_000_000_000, 2**22, 2**18)
        for products, work in ((0, 16), (5, 16 + 5 * 9)):
            monkeypatch.setattr(_parsing, "WORK_LIMIT", work)
            _parsing.demand_affordable(made, [2**30], products)
            monkeypatch.setattr(_parsing, "WORK_LIMIT", work - 1)
            with pytest.raises(Refuted, match="too long"):
                _parsing.demand_affordable(made, [2**30], products)
        longer = _parsing.problem_of(problem(keys=[[hexes(0, 0), hexes(2.0**-35, 2)]]), "bracket")
        for limit, fine in ((4 * 2 + 2, True), (4 * 2 + 1, False)):  # four entries of two digits, numbers of one
            monkeypatch.setattr(_parsing, "WORK_LIMIT", limit)
            if fine:
                _parsing.demand_affordable(longer, [1])
            else:
                with pytest.raises(Refuted, match="too long"):
                    _parsing.demand_affordable(longer, [1])
        monkeypatch.setattr(_parsing, "WORK_LIMIT", 6)
        _parsing.demand_affordable(made, [2**29 - 1, -1])
        with pytest.raises(Refuted, match="too long"):
            _parsing.demand_affordable(made, [2**29])

    def test_all_numbers_of_a_proof_are_counted(self, monkeypatch):
        """p is 2 x 3 and K, Q are 2 x 2 and 3 x 2: products of rows of 3 at most, (6 + 4 + 6) 3."""
        seen = []
        monkeypatch.setattr(_parsing, "demand_affordable", lambda *given: seen.append(given))
        wide = Problem([[[0] * 6, [1] * 6]], 1, [[1]], [1], 1)
        proof = {"duals": [[0, 1, 0, "0x5"]], "tie_duals": [[0, 1, 2, "0x7"]]}
        p = {"whole": ["0x2"] * 6, "over": "0x3"}
        parts = ({"K": Matrix([[11, 12], [13, 14]], 15)}, {"Q": Matrix([[1, 2], [3, 4], [5, 6]], 8)})
        weights_of(wide, proof, "duals", p, (2, 3), parts)
        assert seen == [(wide, [2] * 6 + [3, 5, 7, 15, 11, 12, 13, 14, 8, 1, 2, 3, 4, 5, 6], 48)]

    def test_witnesses(self):
        assert _parsing.witness(None, "max") == {}
        with pytest.raises(Refuted, match="needs no witness"):
            _parsing.witness({}, "max")
        found = _parsing.witness({"L": [hexes(0.5, 1)], "s": [hexes(3)]}, "spectral")
        assert found == {"L": Matrix([[1, 2]], 2), "s": Matrix([[3]], 1)}
        for bad in ([], [[]]):
            with pytest.raises(Refuted, match="empty"):
                _parsing.witness({"L": bad, "s": [hexes(3)]}, "spectral")
        assert _folded([1, 2, 3, 4, 5, 6], 7, (2, 3)) == Matrix([[1, 2, 3], [4, 5, 6]], 7)


class TestWords:
    @pytest.mark.parametrize(
        ("square", "down", "up"),
        [
            (Fraction(4), "2", "2"),
            (Fraction(2), "1.414", "1.415"),
            (Fraction(1, 4), "0.5", "0.5"),
            (Fraction(2, 10**60), "1.414e-30", "1.415e-30"),
            (Fraction(2 * 10**60), "1.414e+30", "1.415e+30"),
            (Fraction(9999**2 + 1), "9999", "1e+4"),
            (Fraction(1, 9), "0.3333", "0.3334"),
            (Fraction(0), "0", "0"),
            (Fraction(12345**2), "1.234e+4", "1.235e+4"),
            (Fraction(12340**2), "1.234e+4", "1.234e+4"),
        ],
    )
    def test_roots_are_rounded_outward(self, square, down, up):
        assert (root(square, digits=4), root(square, up=True, digits=4)) == (down, up)

    def test_twelve_digits(self):
        assert root(Fraction(2)) == "1.41421356237"

    def test_what_was_asked(self):
        given = _parsing.problem_of(problem(), "bracket")
        assert asked(given) == "separates 1 pair by 0.5"
        two = Problem([[[0], [1], [2]], [[1], [3], None]], 1, [[2], [1]], [2, 3], 2)
        assert asked(two) == "separates 3 pairs by margins of 1 to 1.5"
        assert asked(two, 1) == "separates 2 pairs by margins of 1 to 1.5"
        assert asked(Problem([[[0], [1], [2]]], 1, [[2, 1]], [2], 2)) == "separates 1 pair by 1 and keeps 1 tied"
        assert between(Fraction(4), Fraction(9)) == "2 <= |p*| <= 3 (relative width 0.63)"

    def test_the_shortest(self):
        told = said("shortest", problem(), p=P, duals=DUALS, tie_duals=[])
        name = problem()["digest"][:12]
        assert told.verified
        assert told.because.endswith(f"0.22360679775 (problem {name}).") or "0.223606797749" in told.because
        longer = said("shortest", problem(), p={**P, "over": "0x9"}, duals=DUALS, tie_duals=[])
        assert not longer.verified
        assert "p is not proved to be the shortest" in longer.because

    def test_a_bracket_may_be_the_one_that_is_proved_or_wider(self):
        exact = {"p": {**P, "over": "0x9"}, "duals": DUALS, "tie_duals": []}  # 1/20 and 5/81
        for low, high, fine in (
            (ratio(1, 20), ratio(5, 81), True),
            (ratio(1, 21), ratio(5, 80), True),
            (ratio(2, 39), ratio(5, 81), False),
            (ratio(1, 20), ratio(5, 82), False),
            (ratio(0), ratio(5, 81), False),
            (["-0x1", "0x1"], ratio(5, 81), False),
        ):
            told = said("bracket", problem(), **exact, low=low, high=high)
            assert told.verified == fine, told.because
            assert fine or "the bracket is not the one that is proved" in told.because
        told = said("bracket", problem(), **exact, low=ratio(1, 20), high=ratio(5, 81))
        assert "so that p* is within 0.109 of p" in told.because  # the root of 5/81 - 1/20 = .1083...

    def test_a_bound_may_be_the_one_that_is_proved_or_less(self):
        for low, fine in ((ratio(1, 20), True), (ratio(1, 21), True), (ratio(2, 39), False), (ratio(0), False)):
            told = said("bound", problem(), weights=DUALS, tie_weights=[], low=low)
            assert told.verified == fine, told.because

    def test_brackets_in_other_norms(self):
        """In the norm max p = (1, 1)/6 is shortest, as max |p| 3 >= 1/2; the sum of the row is 3."""
        p = {"whole": ["0x1", "0x1"], "over": "0x6"}
        common = {"p": p, "duals": DUALS, "tie_duals": [], "above": None, "below": None}
        for low, high, fine in (
            (ratio(1, 6), ratio(1, 6), True),
            (ratio(1, 7), ratio(1, 5), True),
            (ratio(1, 6), ratio(1, 7), False),
            (ratio(1, 5), ratio(1, 4), False),
            (ratio(0), ratio(1, 6), False),
        ):
            told = said("bracket", problem("max"), **common, low=low, high=high)
            assert told.verified == fine, told.because
            assert fine or "is not one" in told.because or "is not proved" in told.because
        wide = said("bracket", problem("max"), **common, low=ratio(1, 8), high=ratio(1, 4)).because
        assert "0.125 <= |p*| <= 0.25 (relative width 1)" in wide
        exact = said("bracket", problem("max"), **common, low=ratio(1, 6), high=ratio(1, 6)).because
        assert "exactly" in exact
        for change, words in (
            ({"p": {"whole": ["0x1"], "over": "0x6"}}, "not as wide"),
            ({"p": {"whole": ["0x1", "0x1"], "over": "0x7"}}, "does not separate"),
            ({"duals": [[0, 1, 0, "0x0"]]}, "nothing is asked"),
        ):
            told = said("bracket", problem("max"), **{**common, **change}, low=ratio(1, 8), high=ratio(1, 4))
            assert words in told.because
        for kind in ("shortest", "bound"):
            assert not said(kind, problem("max"), p=P, duals=DUALS, tie_duals=[]).verified

    def test_a_norm_with_witnesses(self):
        """One number: 1/2 = (3/4)^2 - 1/16, so at most 9/16 + 1/16; and the dual norm of the difference 1 is 1."""
        made = problem("nuclear", keys=[[hexes(0), hexes(1)]], blocks=[["W", 1, 1]])
        proof = {
            "p": {"whole": ["0x1"], "over": "0x2"},
            **{"duals": DUALS, "tie_duals": [], "low": ratio(1, 2), "high": ratio(5, 8)},
            "above": {"K": [hexes(0.75)], "Q": [hexes(0.75)]},
            "below": {"L": [hexes(0)], "s": [hexes(1)]},
        }
        assert said("bracket", made, **proof).verified, said("bracket", made, **proof).because
        for change in ({"high": ratio(4, 8)}, {"low": ratio(51, 100)}, {"above": proof["below"]}):
            assert not said("bracket", made, **{**proof, **change}).verified

    def test_limits(self):
        keys, scores = [[hexes(0, 0), hexes(1, 0), hexes(0.5, 0)]], [hexes(0, 1, 1)]
        made = {"keys": keys, "margins": hexes(1), "scores": scores}
        p = {"whole": ["0x1", "0x0"], "over": "0x1"}
        common = {"p": p, "duals": DUALS, "tie_duals": []}
        told = said("limit", problem(**made), velocity=hexes(3, 0), sine_square=ratio(0), **common)
        assert told.verified, told.because
        assert "separates 1 pair by 1 and leaves 1 behind that tie in score, and" in told.because
        assert "locally optimal [M, Def. 2] without these" in told.because
        # The sine of (1, 1e-6 (1 -+ 1e-3)): within what a velocity may be off, and beyond it.
        for off, fine in ((0.999e-6, True), (1.001e-6, False)):
            square = Fraction(off) ** 2
            stated = ratio(square.numerator, square.denominator)
            told = said("limit", problem(**made), velocity=hexes(1, off), sine_square=stated, **common)
            assert told.verified == fine, told.because
        most = said("limit", problem(**made), velocity=hexes(3, 0), sine_square=ratio(1, 10**12), **common)
        assert most.verified, most.because
        wider = said("limit", problem(**made), velocity=hexes(3, 0, 0), sine_square=ratio(0), **common)
        assert not wider.verified
        assert "a part of the proof is missing or is not what it should be" in wider.because
        told = said("limit", problem(**made), velocity=hexes(1, 1e-7), sine_square=ratio(1, 10**15), **common)
        assert "further from p than is stated" in told.because

    def test_infeasible(self):
        keys = [[hexes(0, 0), hexes(1, 2)], [hexes(1, 2), hexes(0, 0)]]
        made = problem(keys=keys, selected=[[1], [1]], margins=hexes(1, 1))
        weights = [[0, 1, 0, "0x1"], [1, 1, 0, "0x1"]]
        told = said("infeasible", made, weights=weights, tie_weights=[])
        assert told.verified
        assert "because 2 weighted differences of keys cancel exactly" in told.because
        tied = problem(keys=[[hexes(1), hexes(2), hexes(0)]], selected=[[0, 1]], blocks=[["p", 1]])
        told = said("infeasible", tied, weights=[[0, 0, 2, "0x1"]], tie_weights=[[0, 0, 1, "0x1"]])
        assert told.verified, told.because
        assert "because 2 weighted differences of keys cancel exactly" in told.because


def test_damage_is_found_and_names_are_known():
    whole = certificate("shortest", problem(), p=P, duals=DUALS, tie_duals=[])
    assert verify(whole).verified
    assert "seal" in verify({**whole, "kind": "bound"}).because
    for change in ({"kind": "proof"}, {"kind": 3}, {"more": 1}):
        changed = {**whole, **change}
        told = verify({**changed, "seal": seal(changed)})
        assert not told.verified
        assert "which is not known here" in told.because
    broken = {**whole, "proof": {**whole["proof"], "p": {"whole": 5, "over": "0x1"}}}
    told = verify({**broken, "seal": seal(broken)})
    assert not told.verified
    hollow = {**whole, "problem": {**whole["problem"], "digest": 7}}
    assert not verify({**hollow, "seal": seal(hollow)}).verified
    wider = {**whole, "problem": {**whole["problem"], "blocks": [[]]}}
    assert not verify({**wider, "seal": seal(wider)}).verified
    short = {name: value for name, value in whole.items() if name != "proof"}
    assert "'proof'" in verify({**short, "seal": seal(short)}).because
    assert json.loads(json.dumps(whole)) == whole
    assert Point([1], 1) == _parsing.point({"whole": ["0x1"], "over": "0x1"})
