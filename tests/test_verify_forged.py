"""The verifier against forgers: what is false by construction, what means two things, what would run for hours."""

from __future__ import annotations

import copy
import json
import random
import time

import pytest

from tests.forged_certificates import FALSE, closed, content, draw, truth
from tokenmargin.errors import InvalidInputError
from tokenmargin.verify import verify, verify_file

#: Of each way of being false; `python -m tests.torture.forgeries` draws 10,000 in all.
PER_WAY = 25


@pytest.mark.parametrize("way", FALSE, ids=lambda way: way.__name__)
def test_what_is_false_by_construction_is_not_verified(way):
    rng = random.Random(way.__name__)
    for _ in range(PER_WAY):
        forged = closed(copy.deepcopy(way(rng, draw(rng))))
        verdict = verify(forged)
        assert not verdict.verified, json.dumps(forged)
        assert "is not what it should be" not in verdict.because, verdict  # refused for its meaning, not for its form


def test_true_twins_are_verified():
    rng = random.Random(1)
    kinds = set()
    for _ in range(60):
        true = truth(rng)
        verdict = verify(true)
        assert verdict.verified, (verdict, json.dumps(true))
        kinds.add(true["kind"])
    assert kinds == {"shortest", "bracket", "bound", "limit"}


def rows(*listed: tuple[float, ...], kind: str, **proof: object) -> dict:
    """A certificate about rows z with p'z >= 1: an input each, with z selected over 0."""
    zero = [(0.0).hex()] * len(listed[0])
    problem = {
        "norm": "L2",
        "blocks": [["p", len(zero)]],
        "keys": [[[float(x).hex() for x in row], zero] for row in listed],
        "selected": [[0]] * len(listed),
        "margins": [(1.0).hex()] * len(listed),
    }
    return closed({"format": "tokenmargin certificate", "version": 2, "kind": kind, "problem": problem, "proof": proof})


def test_statements_that_contradict_are_not_both_verified():
    """Rows (1,0), (0,1e10), (0,-1e10): p = (1,0) misses two of them by all that they ask, little beside |row|."""
    wide = ((1.0, 0.0), (0.0, 1e10), (0.0, -1e10))
    p = {"whole": ["0x1", "0x0"], "over": "0x1"}
    for kind, more in (("shortest", {}), ("bracket", {"low": ["0x1", "0x1"], "high": ["0x1", "0x1"]})):
        verdict = verify(rows(*wide, kind=kind, p=p, duals=[[0, 0, 1, "0x1"]], tie_duals=[], **more))
        assert not verdict.verified
        assert "does not separate token 0 from token 1 of input 1" in verdict.because
    none = rows(*wide, kind="infeasible", weights=[[1, 0, 1, "0x1"], [2, 0, 1, "0x1"]], tie_weights=[])
    assert verify(none).verified


def test_a_limit_that_repels_is_not_verified_though_another_input_has_its_row():
    """Keys 1 and 0 twice, scores (1, .9) and (0, 100): along +1 the second input loses far more than one gains."""
    for scores, holds in (((1.0, 0.9), (0.0, 100.0)), False), (((1.0, 0.9), (100.0, 0.0)), True):
        made = rows((1.0,), (1.0,), kind="limit")
        made["problem"]["scores"] = [[x.hex() for x in row] for row in scores]
        made["proof"] = {
            "velocity": [(1.0).hex()],
            "sine_square": ["0x0", "0x1"],
            "p": {"whole": ["0x1"], "over": "0x1"},
            "duals": [[0, 0, 1, "0x1"]],
            "tie_duals": [],
        }
        verdict = verify(closed(made))
        assert verdict.verified is holds
        assert ("token 1 of input 1 holds p back" in verdict.because) is not holds


def test_a_bound_is_no_proof_of_infeasibility_and_never_less_than_one_row_asks():
    """Rows 1/447 and -1 nearly cancel with weights that lost one: the first row alone asks for 447."""
    opposite = ((1 / 447.0, 0.0), (-1.0, 2.0**-40))
    weights = [[0, 0, 1, "0x1"], [1, 0, 1, "0x1"]]
    verdict = verify(rows(*opposite, kind="infeasible", weights=weights, tie_weights=[]))
    assert "do not cancel" in verdict.because
    verdict = verify(rows(*opposite, kind="bound", weights=weights, tie_weights=[], low=["0x1", "0x64"]))
    assert "less than what one pair alone asks for" in verdict.because
    verdict = verify(rows(*opposite, kind="bound", weights=weights[:1], tie_weights=[], low=["0x1", "0x64"]))
    assert verdict.verified
    assert verdict.because.startswith("any p that separates 2 pairs by 1 has norm at least 0.1;")
    assert "whether there is one is not proved" in verdict.because


def test_a_sentence_says_the_bracket_that_was_stated_and_rounds_it_outward():
    p = {"whole": ["0x1"], "over": "0x3"}
    stated = {"low": ["0x1", "0x10"], "high": ["0x1", "0x9"]}
    made = rows((4.0,), kind="bracket", p=p, duals=[[0, 0, 1, "0x1"]], tie_duals=[], **stated)
    said = verify(made).because
    assert "0.25 <= |p*| <= 0.333333333334" in said
    assert "within 0.221 of p" in said  # the root of 1/9 - 1/16, .2205
    assert "that p is the shortest is not proved" in said


# --- what is no certificate -------------------------------------------------------------------------------------------


def a_true_one() -> dict:
    return closed(content(draw(random.Random(3)), "shortest"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace('"version": 2', '"version": true'), "version is True"),
        (lambda text: text.replace('"version": 2', '"version": 2, "version": 2'), "'version' is said twice"),
        (lambda text: text.replace('"kind"', '"kind": "infeasible", "kind"'), "'kind' is said twice"),
        (lambda text: text.replace('"version": 2', '"version": 2.0'), "not exact"),
        (lambda text: text.replace('"version": 2', '"version": NaN'), "not exact"),
        (lambda text: text.replace('"version": 2', '"version": -Infinity'), "not exact"),
        (lambda text: text.replace('"version": 2', '"version": 1e999999999'), "not exact"),
        (lambda text: text.replace('"version": 2', f'"version": {"9" * 5000}'), "counts more"),
        (lambda text: text.replace('"version": 2', '"version": 1'), "version is 1 and not 2"),
        (lambda text: text.replace("tokenmargin certificate", "other"), "format is 'other'"),
        (lambda text: "[" * 200_000, "is no certificate"),
        (lambda text: '{"a":' * 200_000, "is no certificate"),
        (lambda text: text + " " * (1 << 26), "longer than 64 MiB"),
        (lambda text: text[:-1], "delimiter"),
    ],
)
def test_a_file_that_means_two_things_or_none_is_no_certificate(change, words, tmp_path):
    path = tmp_path / "c.json"
    path.write_text(change(json.dumps(a_true_one())), encoding="utf-8")
    with pytest.raises(InvalidInputError, match=words):
        verify_file(path)


BIG = hex(1 << (1 << 19))


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (("problem", "norm"), "nuclear", "speaks of L2, not of nuclear"),
        (("problem", "norm"), "taxi", "the norm is 'taxi', and only L2"),
        (("problem", "norm"), "l4/4", "the norm is 'l4/4'"),
        (("problem", "norm"), "l3/4", "the norm is 'l3/4'"),
        (("problem", "norm"), ["L2"], "the norm is"),
        (("problem", "blocks"), [["K", 2], ["Q", 2]], "blocks of parameters"),
        (("problem", "blocks"), [["p", True]], "blocks of parameters"),
        (("problem", "selected", 0, 0), True, "number of a token"),
        (("problem", "selected", 0, 0), -1, "number of a token"),
        (("problem", "later"), 1, "'later', which is not known"),
        (("proof", "later"), 1, "'later', which is not known"),
        (("later",), 1, "'later', which is not known"),
        (("kind",), "likely", "'likely', which is not known"),
        (("kind",), ["shortest"], "not known"),
        (("problem", "margins", 0), "0x1p0", "as float.hex"),
        (("problem", "margins", 0), "-0x0.0p+0", "as float.hex"),
        (("problem", "margins", 0), "inf", "as float.hex"),
        (("problem", "margins", 0), "nan", "as float.hex"),
        (("problem", "margins", 0), "0x1.0p+99999", "as float.hex"),
        (("problem", "margins", 0), 1, "as float.hex"),
        (("proof", "p", "over"), "0x0", "denominator is not positive"),
        (("proof", "p", "over"), "-0x1", "denominator is not positive"),
        (("proof", "p", "over"), "1", "whole number in hexadecimal"),
        (("proof", "p", "over"), "0x1p3", "whole number in hexadecimal"),
        (("proof", "p", "over"), True, "whole number in hexadecimal"),
        (("proof", "p", "over"), BIG, "whole number in hexadecimal"),
        (("proof", "duals", 0, 1), True, "number of a token"),
        (("proof", "duals", 0), {}, "input and two tokens"),
        (("proof", "duals"), "x", "a list is needed"),
        (("proof", "p"), [], "p is not an object"),
        (("problem", "keys", 0), [], "selects no token"),
    ],
)
def test_what_is_not_known_or_of_another_kind_is_refused_in_words(where, value, words):
    made = a_true_one()
    place = made
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    verdict = verify(closed(made))
    assert not verdict.verified
    assert words in verdict.because


def test_damage_and_a_wrong_name_are_found():
    made = a_true_one()
    assert "seal" in verify({**made, "kind": "infeasible"}).because
    made["problem"]["digest"] = "0" * 64
    unsealed = {name: value for name, value in made.items() if name != "seal"}
    from tests.forged_certificates import sha

    assert "digest" in verify({**unsealed, "seal": sha(unsealed)}).because


def test_what_would_take_hours_is_refused_at_once():
    """Every number is within its limit; all of them together are not."""
    made = a_true_one()
    long, width = hex(1 << 200_000), 400
    made["problem"]["keys"] = [[[(1.0 + j * 2.0**-1000).hex() if j else (2.0**-1070).hex() for j in range(width)]] * 30]
    made["problem"] |= {"blocks": [["p", width]], "selected": [[0]], "margins": [(1.0).hex()]}
    made["proof"] |= {"p": {"whole": [long] * width, "over": long}, "duals": [[0, 0, 1, long]], "tie_duals": []}
    begin = time.perf_counter()
    assert "too long and too many" in verify(closed(made)).because
    assert time.perf_counter() - begin < 20
