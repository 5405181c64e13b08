"""Certificates of finite, mixed and joint limits: true ones are verified, and what a forger makes of them is not."""

from __future__ import annotations

import copy
import json
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

import tokenmargin as tm
from tests.test_verify import resealed
from tests.test_verify_norms import by_node
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory import write_certificate
from tokenmargin.theory._certificate_limits import LOSSES
from tokenmargin.verify import verify
from tokenmargin.verify._intervals import Grid, less, negative, size
from tokenmargin.verify._stationary import demand_rank
from tokenmargin.verify.kernel import Refuted

BITS = 192

#: Digits of the decimals that exponentials are compared with.
DIGITS = 90


def held(seed: int, loss: tm.losses.Loss | None = None) -> tm.attention.Limit:
    """The limit of six inputs in two dimensions, of unlike units, far from the origin, or of whole keys."""
    rng = np.random.default_rng(seed)
    unit, shift = ((1.0, 0.0), (1e6, 0.0), (1e-6, 0.0), (1.0, 100.0))[seed % 4]
    keys = rng.integers(-2, 3, size=(6, 3, 2)) if seed % 3 == 0 else rng.normal(size=(6, 3, 2))
    data = tm.EmbeddedSequences((keys + shift) * unit, rng.choice([-1, 1], size=6), rng.normal(size=2) / unit)
    return tm.follow(tm.AttentionRisk(data, loss or tm.losses.logistic), np.zeros(2), tm.Flow()).limit


def part_held(seed: int) -> tm.attention.Limit:
    """Four inputs that pull on two of four coordinates, and two whose first token is best and ahead in the others."""
    rng = np.random.default_rng(seed)
    still = np.concatenate([rng.normal(size=(4, 3, 2)), np.zeros((4, 3, 2))], axis=2)
    ahead = np.abs(rng.normal(size=(2, 3, 2))) * np.array([0, -1, -1])[None, :, None]
    keys = np.concatenate([still, np.concatenate([rng.normal(size=(2, 3, 2)), ahead], axis=2)])
    gamma = rng.normal(size=(6, 3))
    gamma[4:, 0] = 3.0
    data = tm.EmbeddedSequences(gamma[:, :, None], np.ones(6), [1.0], keys=keys)
    return tm.follow(tm.AttentionRisk(data), np.zeros(4), tm.Flow()).limit


def of_next_tokens(seed: int) -> tm.attention.Limit:
    rng = np.random.default_rng(seed)
    rows = [rng.choice(5, 4, replace=False) for _ in range(7)]
    risk = tm.NextTokenRisk(rows, [rng.choice(row) for row in rows], rng.normal(size=(5, 5)) / 2)
    return tm.follow(risk, np.zeros((5, 5)), tm.Flow()).limit


def of_both(seed: int) -> tm.attention.Limit:
    rng = np.random.default_rng(seed)
    data = tm.EmbeddedSequences(rng.normal(size=(3, 3, 4)), rng.choice([-1, 1], size=3), rng.normal(size=4))
    start = 0.01 * rng.normal(size=4), 0.01 * rng.normal(size=4)
    speeds = ((1.0, 1.0), (3.0, 1.0), (0.2, 1.0))[seed % 3]
    return tm.follow(tm.JointRisk(data, speeds=speeds), start, tm.Flow()).limit


def content_of(limit: tm.attention.Limit, tmp_path) -> dict:
    write_certificate(limit, tmp_path / "limit.json")
    return json.loads((tmp_path / "limit.json").read_text())


#: The first seeds whose limit is of this kind, of each law.
LAWS = {"finite": held, "mixed": part_held, "label_log": of_next_tokens, "joint": of_both}
KINDS = {"finite": "finite", "mixed": "mixed", "label_log": "mixed", "joint": "diverges"}


def first(law: str, count: int) -> list[tm.attention.Limit]:
    found = []
    for seed in range(12 * count):
        limit = LAWS[law](seed)
        found += [limit] if limit.kind.value == KINDS[law] else []
        if len(found) == count:
            return found
    raise AssertionError(f"{law}: {len(found)} of {count}")


@pytest.mark.parametrize(("law", "count"), [("finite", 24), ("mixed", 12), ("label_log", 8), ("joint", 12)])
def test_every_certified_limit_has_a_certificate_that_is_verified(law, count, tmp_path):
    seen = Counter()
    for limit in first(law, count):
        try:
            content = content_of(limit, tmp_path)
        except InvalidInputError:  # logits in the hundreds, where no second derivative is left in floats
            seen["refused"] += 1
            continue
        verdict = verify(content)
        assert verdict.verified, verdict.because
        seen[content["kind"]] += 1
    kind = "joint" if law == "joint" else KINDS[law]
    assert seen[kind] + seen["refused"] == count
    assert seen["refused"] <= count // 20


def test_what_stops_is_proved_for_every_loss_that_is_known(tmp_path):
    for loss in (tm.losses.exponential, tm.losses.correlation):
        limit = next(found for found in (held(seed, loss) for seed in range(12)) if found.finite)
        content = content_of(limit, tmp_path)
        assert content["problem"]["loss"] == LOSSES[type(loss)]
        assert verify(content).verified


def test_the_stationary_point_that_is_proved_is_where_two_pulls_balance(tmp_path):
    """Keys 1 and 0 with scores 2 and 0, and keys -1 and 0 with 1 and 0: one root, found by bisection in 90 digits."""
    from tests.attention.test_mixed import problem

    limit = tm.follow(tm.AttentionRisk(problem([(2.0, 0.0), (1.0, 0.0), (1.0, 0.0)])), [0.0, 0.0], tm.Flow()).limit
    content = content_of(limit, tmp_path)
    with localcontext() as context:
        context.prec = DIGITS

        def pull(x: Decimal) -> Decimal:
            def one(gap: int, logit: Decimal) -> Decimal:
                s = 1 / (1 + (-logit).exp())
                return gap * s * (1 - s) / (1 + (gap * s).exp())

            return one(2, x) - one(1, -x)

        low, high = Decimal(-5), Decimal(5)
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if pull(middle) > 0 else (low, middle)
        said = Fraction(float.fromhex(content["proof"]["point"][0])) - Fraction(low)
    assert abs(said) <= Fraction(float.fromhex(content["proof"]["half"][0]))


# --- forgers ----------------------------------------------------------------------------------------------------------


def scaled(texts: list, factor: float) -> list:
    return [(float.fromhex(text) * factor + 0.0).hex() for text in texts]


def point_moved(c):
    j = c["proof"]["columns"][0]
    x = float.fromhex(c["proof"]["point"][j])
    c["proof"]["point"][j] = (x + 1e-4 * (1.0 + abs(x))).hex()


def half_tiny(c):
    c["proof"]["half"] = scaled(c["proof"]["half"], 1e-9)


def half_huge(c):
    c["proof"]["half"] = scaled(c["proof"]["half"], 1e9)


def half_negative(c):
    c["proof"]["half"] = scaled(c["proof"]["half"], -1.0)


def factor_of_nothing(c):
    c["proof"]["factor"] = [scaled(row, 0.0) for row in c["proof"]["factor"]]


def factor_of_another_hessian(c):
    c["proof"]["factor"] = [scaled(row, 2.0) for row in c["proof"]["factor"]]


def column_left_out(c):
    del c["proof"]["columns"][-1], c["proof"]["half"][-1], c["proof"]["factor"][-1]
    c["proof"]["factor"] = [row[:-1] for row in c["proof"]["factor"]]


def column_twice(c):
    c["proof"]["columns"][-1] = c["proof"]["columns"][0]


def loss_of_another_name(c):
    c["problem"]["loss"] = "correlation"


def score_of_a_selected_token(c):
    i, chosen = next((i, chosen) for i, chosen in enumerate(c["problem"]["selected"]) if len(chosen) > 1)
    told = c["problem"]["scores"][i]
    told[chosen[0]] = (float.fromhex(told[chosen[0]]) + 1e-3).hex()


def no_bits(c):
    c["proof"]["bits"] = 8


def too_many_bits(c):
    c["proof"]["bits"] = 1 << 20


def one_token_fewer(c):
    chosen = next(chosen for chosen in c["problem"]["selected"] if len(chosen) > 1)
    del chosen[-1]


def score_of_what_holds_back(c):
    for i, scores in enumerate(c["problem"]["scores"]):
        for t, score in enumerate(scores):
            if t not in c["problem"]["selected"][i]:
                scores[t] = (float.fromhex(score) + 100.0).hex()


def margin_of_two(c):
    c["problem"]["margins"] = scaled(c["problem"]["margins"], 2.0)


def other_way(c):
    c["proof"]["velocity"] = scaled(c["proof"]["velocity"], -1.0)


def weight_negative(c):
    row = c["proof"]["duals"][0]
    row[3] = "-" + row[3]


def weights_off(c):
    c["proof"]["duals"][0][3] = hex(2 * int(c["proof"]["duals"][0][3], 16))


def squared_loss(c):
    c["problem"]["loss"] = "label_squared"


def v_the_other_way(c):
    c["proof"]["v"]["velocity"] = scaled(c["proof"]["v"]["velocity"], -1.0)


def p_the_other_way(c):
    c["proof"]["p"]["velocity"] = scaled(c["proof"]["p"]["velocity"], -1.0)


def label_turned(c):
    c["problem"]["labels"][0] = (-float.fromhex(c["problem"]["labels"][0])).hex()


def margin_moved(c):
    c["problem"]["margins"][0] = (float.fromhex(c["problem"]["margins"][0]) - 1e-6).hex()


def token_of_higher_score(c):
    (i, s, t, _) = c["proof"]["p"]["duals"][0]
    best, own = c["problem"]["tokens"][i][s], c["problem"]["tokens"][i][t]
    v = c["proof"]["v"]["p"]["whole"]
    sign = float.fromhex(c["problem"]["labels"][i])
    step = [sign * int(x, 16) / int(c["proof"]["v"]["p"]["over"], 16) for x in v]
    c["problem"]["tokens"][i][t] = [(float.fromhex(b) + x).hex() for b, x in zip(best, step, strict=True)]
    assert own != c["problem"]["tokens"][i][t]


def speeds_negative(c):
    c["problem"]["rate"] = (-1.0).hex()


def duals_of_v_for_p(c):
    c["proof"]["p"]["duals"] = c["proof"]["v"]["duals"]


STOPPING = (
    *(point_moved, half_tiny, half_huge, half_negative, factor_of_nothing, factor_of_another_hessian, column_left_out),
    *(column_twice, loss_of_another_name, score_of_a_selected_token, no_bits, too_many_bits, one_token_fewer),
)
MOVING = (score_of_what_holds_back, margin_of_two, other_way, weight_negative, weights_off, squared_loss)
BOTH = (
    *(v_the_other_way, p_the_other_way, label_turned, margin_moved, token_of_higher_score, speeds_negative),
    duals_of_v_for_p,
)
FORGERS = [("finite", way) for way in STOPPING] + [("mixed", way) for way in (*STOPPING, *MOVING)]
FORGERS += [("joint", way) for way in BOTH]


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("genuine")
    return {law: [content_of(limit, folder) for limit in first(law, 4)] for law in ("finite", "mixed", "joint")}


@pytest.mark.parametrize(("law", "way"), FORGERS, ids=lambda given: given if isinstance(given, str) else given.__name__)
def test_what_a_forger_makes_of_it_is_not_verified(law, way, genuine):
    for content in genuine[law]:
        assert verify(resealed(copy.deepcopy(content))).verified
        forged = copy.deepcopy(content)
        way(forged)
        verdict = verify(resealed(forged))
        assert not verdict.verified, verdict
        assert "is not what it should be" not in verdict.because, verdict


def test_the_second_verifier_agrees_on_all_of_them(genuine, tmp_path):
    contents = [content for found in genuine.values() for content in found]
    true = len(contents)
    for law, way in FORGERS:
        contents.append(copy.deepcopy(genuine[law][len(contents) % 4]))
        way(contents[-1])
    texts = [json.dumps(resealed(content)) for content in contents]
    assert by_node(texts, tmp_path) == [True] * true + [False] * len(FORGERS)


def test_a_maximum_is_no_limit_whatever_is_said_of_its_hessian(genuine):
    """All scores turned: the point is stationary with the linear loss, and a maximum where it was a minimum."""
    limit = next(found for found in (held(seed, tm.losses.correlation) for seed in range(12)) if found.finite)
    point = np.asarray(limit.point)
    turned = tm.EmbeddedSequences(limit.risk.sequences.keys, -limit.risk.sequences.labels, limit.risk.sequences.head)
    from tokenmargin.theory.krawczyk import proven_stationary

    found = proven_stationary(tm.AttentionRisk(turned, tm.losses.correlation).field, point)
    assert not found.is_proven


def test_limits_without_a_proof_are_refused_in_words(tmp_path):
    rng = np.random.default_rng(0)
    data = tm.EmbeddedSequences(rng.normal(size=(6, 3, 2)), rng.choice([-1, 1], size=6), rng.normal(size=2))
    own = tm.losses.CustomLoss(lambda u: np.logaddexp(0.0, -u) if isinstance(u, float) else tm.losses.logistic.value(u))
    run = tm.follow(tm.AttentionRisk(data, own), np.zeros(2), tm.Flow())
    assert run.limit.finite
    with pytest.raises(InvalidInputError, match="one of the losses logistic"):
        write_certificate(run.limit, tmp_path / "own.json")
    short = tm.follow(tm.AttentionRisk(data), np.zeros(2), tm.Descent(lr=1e-3), steps=3).limit
    with pytest.raises(InvalidInputError, match="no limit was"):
        write_certificate(short, tmp_path / "short.json")
    assert not list(tmp_path.iterdir())


# --- arithmetic -------------------------------------------------------------------------------------------------------


def test_exponentials_are_enclosed_to_the_last_bits():
    grid, rng = Grid(BITS), np.random.default_rng(5)
    with localcontext() as context:
        context.prec = 3 * DIGITS
        for x in (0.0, 1.0, -1.0, 2.0**-60, 130.0, -130.0, 1 / 16, -1 / 16, *rng.normal(size=40) * 30):
            low, high = grid.exp(grid.of(Fraction(float(x))))
            true = Fraction(Decimal(float(x)).exp()) * 2**BITS
            assert low <= true <= high
            assert high - low <= 2**-80 * high + 4
    assert grid.exp((-(1000 << BITS), -(900 << BITS))) == (0, 1)
    with pytest.raises(Refuted, match="too large"):
        grid.exp((0, 1000 << BITS))


def test_products_and_inverses_hold_all_that_they_may_be():
    grid, rng = Grid(16), np.random.default_rng(6)
    for _ in range(200):
        a, b = (tuple(sorted(rng.integers(-400_000, 400_000, size=2).tolist())) for _ in range(2))
        low, high = grid.times(a, b)
        for x in a:
            for y in b:
                assert low <= Fraction(x * y, 2**16) <= high
        if a[0] > 0:
            assert grid.inverse(a)[0] <= Fraction(2**32, a[1]) <= Fraction(2**32, a[0]) <= grid.inverse(a)[1]
    with pytest.raises(Refuted, match="may be 0"):
        grid.inverse((0, 5))


@pytest.mark.parametrize("bits", [4, 8, 12])
def test_exponentials_of_few_bits_are_inside_too(bits):
    """Where the last bit is large, a rest of the series that is left out or an end that is rounded inward shows."""
    grid = Grid(bits)
    for x in range(-2 << bits, (2 << bits) + 1, max(1, (1 << bits) // 64)):
        low, high = grid.exp((x, x))
        true = (Decimal(x) / 2**bits).exp() * 2**bits
        assert low <= true <= high


def test_sums_differences_and_sizes_hold_all_that_they_may_be():
    grid, rng = Grid(16), np.random.default_rng(7)
    for _ in range(100):
        a, b, c, d = (tuple(sorted(rng.integers(-400_000, 400_000, size=2).tolist())) for _ in range(4))
        assert grid.sum([a, b, c]) == (a[0] + b[0] + c[0], a[1] + b[1] + c[1])
        assert less(a, b) == (min(x - y for x in a for y in b), max(x - y for x in a for y in b))
        assert negative(a) == (min(-x for x in a), max(-x for x in a))
        assert size(a) == max(map(abs, a))
        low, high = grid.product([a, b], [c, d])
        ends = [Fraction(x * z + y * w, 2**16) for x in a for z in c for y in b for w in d]
        assert low <= min(ends) <= max(ends) <= high
        assert (min(ends) - low, high - max(ends)) < (2, 2)
    assert grid.one == (2**16, 2**16)


def test_more_directions_than_columns_are_noticed():
    demand_rank([[1, 2, 3], [2, 4, 6], [0, 0, 0]], 1, 3)
    demand_rank([[1, 0], [0, 1], [5, 7]], 2, 2)
    with pytest.raises(Refuted, match="out of the columns"):
        demand_rank([[1, 2, 3], [2, 4, 6], [0, 0, 1]], 1, 3)
