"""The picture does not depend on n: a verdict of right models at every n, and of no others."""

from itertools import combinations

import numpy as np
import pytest

from tests.experiments.false_models import KINDS
from tests.experiments.feeds import synthetic
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.papers.embeddings.figures import fig02_synthetic

N, SHARES = ("1600", "3200", "6400"), ("0.5", "1")


@pytest.fixture(scope="module")
def figure():
    return synthetic()


def independence(numbers):
    """The verdicts on independence of n, by number of steps and overlap."""
    return {number.name: number.verdict("paper") for number in numbers if "1 - least correlation" in number.name}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("false", [each for size in (1, 2, 3) for each in combinations(N, size)], ids="+".join)
def test_false_models_at_any_of_the_n_are_seen(figure, kind, false):
    """All of them, too: models that learnt the same wrong thing are alike."""
    found = independence(figure.numbers({(n, share): kind for n in false for share in SHARES}))
    assert len(found) == 4
    assert set(found.values()) == {Verdict.FAILS}


def test_right_models_of_other_n_are_alike(figure):
    found = independence(figure.numbers({}))
    assert set(found.values()) == {Verdict.HOLDS}


def test_correlations_between_every_two_n_are_printed():
    config = fig02_synthetic.Settings(n=10, other_n=(20, 40), step_shares=(1.0,))
    level = np.array([0, 0, 1, -1, 2, -2, 3, -3])
    runs = {}
    for n, bent in (("10", 0.2), ("20", 0.5), ("40", 1.0)):
        up = np.abs(level) + bent * (np.abs(level) == 3)
        tokens = {"level": level, "posterior_difference": level / 4, "with_query": up, "with_head": np.sign(level) * up}
        runs[n] = {"1": {"tokens": tokens, "records": {"loss": np.ones(1), "accuracy": np.ones(1)}}}
    numbers, sentences = fig02_synthetic.judged(config, runs)
    said = next(sentence for sentence in sentences if "<E_s, p>: correlation" in sentence)
    expected = np.corrcoef([0, 1, 2, 3.2], [0, 1, 2, 4])[0, 1]
    assert f"{expected:.4f} (n = 10 and 40)" in said
    assert "(n = 10 and 20)" in said
    assert "(n = 20 and 40)" in said
    least = next(number for number in numbers if "<E_s, p>: least correlation" in number.name)
    assert least.value == pytest.approx(expected)
    for which, false in (("with_head", -level), ("with_query", 0.0 * level)):
        other = {"tokens": runs["20"]["1"]["tokens"] | {which: false}, "records": runs["20"]["1"]["records"]}
        found = independence(fig02_synthetic.judged(config, runs | {"20": {"1": other}})[0])
        assert sorted(verdict.value for verdict in found.values()) == ["fails", "holds"], "of the one overlap alone"
