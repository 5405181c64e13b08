"""Every condition of the kernel of certificates at its boundary, on problems that are solved by hand.

Units, margins and points have denominators that differ, so that none can stand in for another.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tokenmargin.verify.kernel import (
    SINE_LIMIT,
    Direction,
    Point,
    Problem,
    Refuted,
    bound,
    bracket,
    infeasible,
    limit,
    sines,
    within,
)

#: Keys (0, 0), (1, 2) and (5, 5) times 2, the last masked; token 1 is to lead token 0 by 2/3: p* = (2, 4)/15.
ONE = Problem([[[0, 0], [2, 4], None]], 2, [[1]], [2], 3)
PAIR = (0, 1, 0)
UNIT, LEAST = Fraction(1), Fraction(4, 45)  # |p*|^2 = (2/3)^2 / 5


def refused(words: str):
    return pytest.raises(Refuted, match=words)


class TestProblems:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"margins": [2, 2]}, "differ in inputs"),
            ({"selected": [[1], [1]]}, "differ in inputs"),
            ({"keys": [], "selected": [], "margins": []}, "there is no input"),
            ({"margins": [-1]}, "a margin is negative"),
            ({"keys": [[[0, 0], [2, 4, 1], None]]}, "differ in width"),
            ({"unit": 0}, "denominator"),
            ({"over": 0}, "denominator"),
            ({"unit": -1, "over": 1}, "denominator"),
            ({"unit": 1, "over": -1}, "denominator"),
            ({"selected": [[]]}, "selects no token"),
            ({"selected": [[1, 1]]}, "selects no token"),
            ({"selected": [[3]]}, "selects no token"),
            ({"selected": [[-2]]}, "selects no token"),
            ({"selected": [[2]]}, "selects no token"),
            ({"selected": [[True]]}, "selects no token"),
        ],
    )
    def test_what_is_none(self, change, words):
        with refused(words):
            replace(ONE, **change)

    def test_what_is_one_just_so(self):
        assert replace(ONE, margins=[0], unit=1, over=1).pairs() == [PAIR]
        assert replace(ONE, selected=[[0]]).pairs() == [(0, 0, 1)]
        assert Point([1], 1).over == 1
        for over in (0, -1):
            with refused("denominator"):
                Point([1], over)

    def test_what_is_asked(self):
        keys = [[[1], [2], [3], None, [7]], [[4], [5], None, None, None]]
        problem = Problem(keys, 1, [[2, 0, 4], [1]], [1, 1], 1)
        assert problem.pairs() == [(0, 2, 1), (1, 1, 0)]
        assert problem.ties() == [(0, 2, 0), (0, 2, 4)]
        assert problem.row((0, 2, 1)) == [1]
        assert problem.row((1, 1, 0)) == [1]
        assert problem.pull({(0, 2, 1): 2, (0, 2, 4): 3, (1, 1, 0): 5}) == [2 - 12 + 5]


class TestPairs:
    def test_the_shortest_and_a_longer_one(self):
        assert bracket(ONE, Point([2, 4], 15), {PAIR: 7}, {}) == (LEAST, LEAST)
        assert bracket(ONE, Point([2, 5], 15), {PAIR: 7}, {}) == (LEAST, Fraction(29, 225))
        with refused("does not separate token 1 from token 0 of input 0"):
            bracket(ONE, Point([2, 4], 16), {PAIR: 7}, {})
        for width in ([2], [2, 4, 0]):
            with pytest.raises(ValueError, match="argument 2"):  # of zip: nothing of another width is cut to fit
                bracket(ONE, Point(width, 15), {PAIR: 7}, {})

    def test_the_least_that_weights_can_ask(self):
        assert bound(Problem([[[0], [1]]], 1, [[1]], [1], 1), {PAIR: 1}, {}) == 1

    def test_pairs_that_are_not_asked_prove_nothing(self):
        for weights, ties in (({(0, 0, 1): 1}, {}), ({PAIR: 1, (0, 1, 2): 1}, {}), ({PAIR: 1}, {PAIR: 1})):
            with refused("not asked of p"):
                bound(ONE, weights, ties)

    def test_weights_are_not_negative_and_not_all_zero(self):
        two = Problem([[[0, 0], [2, 4], [2, 0]]], 2, [[1]], [2], 3)
        assert two.low({PAIR: 1, (0, 1, 2): 0}, {}, two.pairs()) == LEAST
        for weights, words in (
            ({PAIR: 3, (0, 1, 2): -1}, "a weight is negative"),
            ({}, "or there is none"),
            ({PAIR: 0}, "nothing is asked"),
        ):
            with refused(words):
                two.low(weights, {}, two.pairs())
        with refused("nothing is asked"):
            replace(two, margins=[0]).low({PAIR: 1}, {}, two.pairs())

    def test_ties_are_kept(self):
        tied = Problem([[[0, 0], [2, 4], [2, 2]]], 2, [[1, 2]], [2], 3)
        tie = (0, 1, 2)
        # p = (2/3, 0): the pair's weight 2 and the tie's -4 add up to (2, 4) 2 - (0, 2) 4 = (4, 0).
        assert bracket(tied, Point([2, 0], 3), {PAIR: 2}, {tie: -4}) == (Fraction(4, 9), Fraction(4, 9))
        with refused("does not keep tokens 1 and 2 of input 0 tied"):
            bracket(tied, Point([2, 4], 15), {PAIR: 1}, {})

    def test_a_bound_is_no_less_than_what_one_pair_asks(self):
        two = Problem([[[0, 0], [2, 4], [2, 0]], [[9, 9], [0, 0], [1, 1]]], 2, [[1], [0]], [2, 0], 3)
        far = (0, 1, 2)  # (0, 2): |p|^2 >= (2/3)^2 / 4 = 1/9, more than the 4/45 of the other
        assert bound(two, {far: 3}, {}) == Fraction(1, 9)
        with refused("less than what one pair alone"):
            bound(two, {PAIR: 3}, {})
        assert bound(two, {PAIR: 0, far: 1}, {}) == Fraction(1, 9)

    def test_what_cancels_is_a_proof_that_there_is_no_p(self):
        against = Problem([[[0, 0], [2, 4]], [[2, 4], [0, 0]]], 2, [[1], [1]], [2, 2], 3)
        infeasible(against, {PAIR: 5, (1, 1, 0): 5}, {})
        with refused("do not cancel"):
            infeasible(against, {PAIR: 5, (1, 1, 0): 4}, {})
        with refused("differences cancel"):
            bound(against, {PAIR: 5, (1, 1, 0): 5}, {})
        with refused("a weight is negative"):
            infeasible(against, {PAIR: -1, (1, 1, 0): -1}, {})


def straight(*others: list[int], over: int = 3) -> Problem:
    """Key (1, 0) times 10 leads key (0, 0), and these; margins are 1, so p* = (1, 0) where they ask for no more."""
    return Problem([[[10, 0], [0, 0], *others]], 10, [[0]], [over], over)


def scored(*scores: float) -> list[dict[int, Fraction]]:
    return [{t: Fraction(score) for t, score in enumerate(scores)}]


AHEAD = Point([4, 0], 4)  # (1, 0)
ASIDE = Point([10, 1], 10)  # (1, 1/10): no shorter p is proved than 1, so that p* is within 1/10 of it


class TestLimits:
    def test_the_plainest(self):
        assert limit(straight(), scored(1, 0), AHEAD, {(0, 0, 1): 2}, {}) == Direction(UNIT, UNIT, 0, True)
        with refused("a margin of a limit is not 1"):
            limit(replace(straight(), margins=[2]), scored(1, 0), AHEAD, {(0, 0, 1): 2}, {})

    def test_what_holds_p_back_scores_less(self):
        with refused("token 1 of input 0 holds p back"):
            limit(straight([-10, 0]), scored(1, 2, 0), AHEAD, {(0, 0, 1): 2}, {})
        with refused("not asked of p"):  # a token that ties is left out, and pulls on nothing
            limit(straight([-10, 0]), scored(1, 1, 0), AHEAD, {(0, 0, 1): 2}, {})

    @pytest.mark.parametrize(("key", "fine"), [([0, 7], False), ([-1, 0], True), ([-10, 0], True)])
    def test_a_token_of_higher_score_is_further_behind_than_the_margin(self, key, fine):
        given = (straight(key), scored(1, 0, 2), AHEAD, {(0, 0, 1): 2}, {})
        if fine:
            assert limit(*given).left_out == 0
        else:
            with refused("token 2 of input 0 holds p back"):
                limit(*given)

    @pytest.mark.parametrize(("key", "fine"), [([9, 0], True), ([10, 3], False), ([11, 0], False), ([40, 0], False)])
    def test_a_token_that_ties_in_score_is_left_out_if_it_stays_behind(self, key, fine):
        given = (straight(key), scored(1, 0, 1), AHEAD, {(0, 0, 1): 2}, {})
        if fine:
            assert limit(*given) == Direction(UNIT, UNIT, 1, True)
        else:
            with refused("token 2 of input 0 holds p back"):
                limit(*given)

    def test_the_least_step_behind_is_behind(self):
        """In whole numbers a token that ties is behind by 1."""
        nearest = limit(straight([9, 0], over=1), scored(1, 0, 1), Point([1, 0], 1), {(0, 0, 1): 1}, {})
        assert nearest == Direction(UNIT, UNIT, 1, True)

    def test_a_token_ties_with_what_its_own_input_selects(self):
        """Scores that would tie with those of the other input, or at the place of the other input, tie with nothing."""
        keys = [[[10, 0], [0, 0], None], [[10, 0], [0, 0], [0, 9]]]
        problem = Problem(keys, 10, [[0], [0]], [3, 3], 3)
        scores = [
            {0: Fraction(1), 1: Fraction(-1)},
            {0: Fraction(-1), 1: Fraction(-2), 2: Fraction(-3)},
        ]
        assert limit(problem, scores, AHEAD, {(0, 0, 1): 1, (1, 0, 1): 1}, {}) == Direction(UNIT, UNIT, 0, True)
        scores = [{0: Fraction(-2), 1: Fraction(-3)}, scores[1]]
        assert limit(problem, scores, AHEAD, {(0, 0, 1): 1, (1, 0, 1): 1}, {}) == Direction(UNIT, UNIT, 0, True)

    @pytest.mark.parametrize(
        ("key", "score", "fine"),
        [
            ([-10, 0], 2, True),  # behind by 2 where 1 is asked: 1^2 > 2^2 / 100
            ([-1, 0], 2, False),  # by 1.1: (1/10)^2 < 1.1^2 / 100
            ([-2, 0], 2, True),  # by 1.2: (2/10)^2 > 1.2^2 / 100
            ([8, 0], 1, True),  # ties, behind by 2/10: (2/10)^2 > (2/10)^2 / 100
            ([10, 1], 1, False),  # ties, ahead by 1/100
            ([40, 0], 1, False),  # ties, far ahead
        ],
    )
    def test_where_p_is_not_exact_a_token_is_behind_by_more_than_is_unsure(self, key, score, fine):
        given = (straight(key), scored(1, 0, score), ASIDE, {(0, 0, 1): 2}, {})
        if fine:
            found = limit(*given)
            assert (found.low, found.high) == (1, Fraction(101, 100))
        else:
            with refused("token 2 of input 0 holds p back"):
                limit(*given)

    def test_exactly_as_unsure_as_it_is_behind_is_not_behind(self):
        """p = (1, 3/4), p* = (1, 0): unsure by 3/4, and a token behind by 3/4 |row|, row along p* alone."""
        p, key = Point([4, 3], 4), [-30, 0]  # behind by 4: (4 - 1)^2 = 9 = 4^2 (9/16)
        with refused("token 2"):
            limit(straight(key), scored(1, 0, 2), p, {(0, 0, 1): 2}, {})
        assert limit(straight([-31, 0]), scored(1, 0, 2), p, {(0, 0, 1): 2}, {}).high == Fraction(25, 16)

    def test_selected_tokens_have_one_score_each_input_by_itself(self):
        keys = [[[10, 10], [10, -10], [0, 0]], [[10, 0], [0, 0], None]]
        problem = Problem(keys, 10, [[0, 1], [0]], [3, 3], 3)
        scores = [{0: Fraction(1), 1: Fraction(1), 2: Fraction(0)}, {0: Fraction(5), 1: Fraction(4)}]
        weights, ties = {(0, 0, 2): 2}, {(0, 0, 1): -1}
        assert limit(problem, scores, AHEAD, weights, ties) == Direction(UNIT, UNIT, 0, False)
        with refused("differ in score"):
            limit(problem, [{**scores[0], 1: Fraction(2)}, scores[1]], AHEAD, weights, ties)
        with refused("exactly"):
            limit(problem, scores, Point([5, 0], 4), weights, ties)

    def test_copies_of_a_selected_key_are_one_key(self):
        problem = Problem([[[10, 0], [10, 0], [0, 0]]], 10, [[0, 1]], [3], 3)
        assert limit(problem, scored(1, 1, 0), ASIDE, {(0, 0, 2): 2}, {}).single

    @pytest.mark.parametrize(
        ("first", "second", "weight", "tie", "fine"),
        [
            ([10, 30], [10, -30], 2, -1, True),
            ([10, 30], [10, 0], 1, -1, True),  # the second key alone pulls
            ([10, 30], [10, 10], 2, -3, False),  # more than all of it
            ([10, 10], [10, 20], 1, 1, False),  # a negative share
            ([10, 0], [10, 30], 1, 0, True),
        ],
    )
    @pytest.mark.parametrize("more", [0, 50])
    def test_ties_pull_on_p_by_shares_of_what_their_input_pulls(self, first, second, weight, tie, fine, more):
        """(first - 0) weight + (first - second) tie is along (1, 0); another input pulls along it as well."""
        keys = [[first, second, [0, 0]], [[10, 0], [0, 0], None]]
        problem = Problem(keys, 10, [[0, 1], [0]], [3, 3], 3)
        scores = [{0: Fraction(1), 1: Fraction(1), 2: Fraction(0)}, {0: Fraction(1), 1: Fraction(0)}]
        given = (problem, scores, AHEAD, {(0, 0, 2): weight, (1, 0, 1): more}, {(0, 0, 1): tie})
        if fine:
            assert limit(*given) == Direction(UNIT, UNIT, 0, False)
        else:
            with refused("the ties of input 0 pull on p by themselves"):
                limit(*given)


class TestAngles:
    def test_sines(self):
        found = Fraction(3), Fraction(4)
        assert sines(Point([1, 1], 7), Point([2, 0], 3), *found) == (Fraction(1, 2), Fraction(1, 4))
        assert sines(Point([3, 0], 7), Point([2, 0], 3), Fraction(4), Fraction(4)) == (0, 0)
        assert sines(Point([1, 0], 1), Point([1, 0], 1), Fraction(4), Fraction(4)) == (0, 0)
        with pytest.raises(ValueError, match="argument 2"):
            sines(Point([1], 1), Point([1, 0], 1), *found)
        for velocity in ([0, 1], [-1, 0]):
            with refused("does not point along p"):
                sines(Point(velocity, 1), Point([2, 0], 3), *found)

    def test_roots_add_up(self):
        quarter = Fraction(1, 4)
        assert within(quarter, quarter, Fraction(1))
        assert not within(quarter, quarter, Fraction(99, 100))
        assert within(quarter, Fraction(1, 9), Fraction(25, 36))
        assert not within(quarter, Fraction(1, 9), Fraction(24, 36))
        assert within(Fraction(0), quarter, quarter)
        assert within(Fraction(0), Fraction(0), Fraction(0))
        assert not within(Fraction(2), Fraction(2), Fraction(1))  # what is left is negative, and its square large
        assert Fraction(1, 1_000_000) == SINE_LIMIT
