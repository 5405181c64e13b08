"""No answer of a proof, a certificate or a verdict changes unseen: see `tests/answers`."""

import json

import pytest

from tests.answers.ledger import LEDGER, differences, plain, problems

PROBLEMS, ANSWERS = problems(), json.loads(LEDGER.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_answer_is_that_of_the_ledger(name):
    assert not differences(ANSWERS[name], plain(PROBLEMS[name]()))[:5]


def test_the_ledger_has_an_answer_to_each_problem_and_no_other():
    assert list(PROBLEMS) == list(ANSWERS)
    assert len(ANSWERS) > 50


def test_what_differs_is_seen():
    old = {"a": [1.0, 2, "x", None, True], "b": {"c": 1e-20}}
    assert not differences(old, {"a": [1.0 + 1e-9, 2, "x", None, True], "b": {"c": 0.0}})
    for change in ({"a": [1.0 + 1e-5, 2, "x", None, True]}, {"a": [1.0, 3, "x", None, True]}, {"a": [1.0, 2]}):
        assert differences(old, old | change)
    assert differences(old, {"a": old["a"]})
