"""No verdict of any figure is passed by a model that learnt nothing, in whatever place of the figure it stands.

A verdict that an untrained model passes says nothing about training, and one that looks at a single place lets a false
model stand in the others. Every figure of the registry is here; see `tests/experiments/feeds.py` for what stands where.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from tests.experiments.false_models import KINDS, Fed
from tests.experiments.feeds import FEEDS
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.experiments.registry import experiments

#: What a verdict says that a false model does not pass: an expectation of ours, or what the paper says.
REFUSED = {Verdict.FAILS, Verdict.FINDING}


@cache
def fed(name: str) -> Fed:
    return FEEDS[name]()


def is_of(words: tuple[str, ...], name: str) -> bool:
    return any(each in name for each in words)


def unlike(one: float, other: float) -> bool:
    return one != other and not (one != one and other != other)


def test_every_figure_is_fed():
    assert experiments()
    assert set(FEEDS) == set(experiments())


#: What takes longest to compile, of kinds that other figures have as well.
LONG = ("maxmargin-fig3", "maxmargin-path", "optimiser_geometry-counterexamples", "transformers_as_svms-vis1")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in FEEDS])
class TestFalseModels:
    def test_right_models_pass(self, name):
        figure = fed(name)
        found = figure.judged({})
        assert found
        missed = {each for each, (_, verdict) in found.items() if verdict is not Verdict.HOLDS}
        assert {each for each in missed if not is_of(figure.needs_size, each)} == set()
        exceptions = (*figure.of_the_solver, *figure.pooled, *figure.needs_size, *(words for _, words in figure.blind))
        assert all(any(words in each for each in found) for words in exceptions)

    def test_a_false_model_is_seen_in_every_place(self, name):
        """Every verdict whose value it changes refuses it, and there is one; the solver's are not touched."""
        figure = fed(name)
        right = {each: found for each, found in figure.judged({}).items() if found[1] is Verdict.HOLDS}
        unseen = []
        for place, kind in product(figure.places, KINDS):
            now = figure.judged({place: kind})
            changed = {each for each in right if unlike(now[each][0], right[each][0])}
            refused = {each for each in right if now[each][1] in REFUSED}
            blind = tuple(words for which, words in figure.blind if which == kind)
            passed = {each for each in changed - refused if not is_of((*figure.pooled, *blind), each)}
            touched = {each for each in changed if is_of(figure.of_the_solver, each)}
            if passed or touched or (not refused and place not in figure.shown):
                unseen.append((place, kind, sorted(passed | touched) or "nothing fails"))
        assert unseen == []

    @pytest.mark.parametrize("kind", KINDS)
    def test_every_verdict_fails_where_all_models_are_false(self, name, kind):
        figure = fed(name)
        blind = tuple(words for which, words in figure.blind if which == kind)
        everywhere = dict.fromkeys((place for place in figure.places if place not in figure.shown), kind)
        passed = {each for each, (_, verdict) in figure.judged(everywhere).items() if verdict not in REFUSED}
        assert {each for each in passed if not is_of((*blind, *figure.of_the_solver), each)} == set()
