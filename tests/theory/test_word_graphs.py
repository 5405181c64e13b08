"""Words that compete and words that are ruled out, on a corpus whose answer is known."""

import numpy as np
import pytest

from tokenmargin.attention import LimitKind
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import word_contexts
from tokenmargin.theory import word_graphs
from tokenmargin.theory.word_competition import Standing, word_competitions

#: After "of" comes "the" twice where "a" stands too, and "a" once where "the" does; "cat" and "saw" never come.
TEXTS = ["the a cat of the", "a saw the of the", "the cat a of a", "cat one of one", "one the of one"]


@pytest.fixture(scope="module")
def contexts():
    return word_contexts(TEXTS, window=4)


def test_log_odds_are_those_of_the_counts_and_the_rest_is_ruled_out(contexts):
    last = contexts.names.index("of")
    (found,) = word_competitions(contexts.rows, [last])
    assert found.n_sequences == 5
    words = {word.word: word for word in found.main.words}
    assert set(words) == {"the", "a"}
    assert words["the"].log_odds == 0.0
    assert found.n_compete == 2
    assert words["a"].log_odds == pytest.approx(-np.log(2.0), abs=1e-9)
    assert words["the"].share == pytest.approx(2 / 3, abs=1e-9)
    assert (words["the"].chosen, words["the"].present) == (2, 4)
    assert {word.word for word, _ in found.standing(Standing.RULED_OUT)} == {"cat", "saw", "of"}
    assert all(rate >= 1 - 1e-9 for _, rate in found.standing(Standing.RULED_OUT))
    assert {word.word for word, _ in found.standing(Standing.WINS)} == {"one"}
    floor = -(2 * np.log(2 / 3) + np.log(1 / 3)) / 5
    assert found.floor == pytest.approx(floor, abs=1e-9)
    assert found.start > found.floor
    assert found.proven_within < 1e-6
    assert found.training is not None
    assert found.training.limit is LimitKind.MIXED
    assert found.training.agrees


def test_a_sample_is_solved_and_what_competes_in_all_windows_is_counted(contexts, monkeypatch):
    import sys

    monkeypatch.setattr(sys.modules["tokenmargin.theory.word_competition"], "MOST_SEQUENCES", 2)
    last = contexts.names.index("of")
    found = [word_competitions(contexts.rows, [last], trained=0, seed=seed)[0] for seed in range(8)]
    assert {(one.n_sequences, one.n_solved) for one in found} == {(5, 2)}
    of_the = [one for one in found if one.main.words[0].word == "the"]
    assert {one.n_compete for one in of_the} == {2}
    assert 1 in {len(one.main.words) for one in of_the}


def test_the_corpus_in_numbers_and_in_plain_values(contexts):
    found = word_graphs(contexts.rows, contexts.bigrams, contexts.n_words, lasts=2, trained=0)
    assert found.competitions[0].last == "of"
    assert found.n_sequences == len(contexts.rows.lengths)
    assert not found.is_acyclic
    assert 0 < found.tied_share < 1
    assert sum(found.component_sizes[:1]) == 2
    near = found.neighbours[0]
    assert near.support == 3
    assert {word: count for word, count, _ in near.first} == {"the": 2, "one": 2, "a": 1}
    assert near.floor == pytest.approx(-(2 * 0.4 * np.log(0.4) + 0.2 * np.log(0.2)))
    told = found.to_json()
    assert told["competitions"][0]["components"][0]["standing"] == "main"
    assert "No training was followed" in told["sentences"][-1]
    with pytest.raises(InvalidInputError, match="no window ends in 'zebra'"):
        word_graphs(contexts.rows, contexts.bigrams, contexts.n_words, after=["zebra"])
