"""Token graphs against a slow reference, and what is refused."""

import numpy as np
import pytest

from tests import references
from tokenmargin import TokenGraph
from tokenmargin.data import NextTokens, Relation, _edge_counts, causal_rows
from tokenmargin.errors import InvalidInputError, TokenMarginError
from tokenmargin.sources import next_token_parts, write_parquet

#: The instance of Li et al. that GEOMETRIES of the project name: last 2 ties tokens 0 and 5.
SEQUENCES = np.array([[1, 2, 5, 4], [5, 0, 1, 2], [4, 5, 3, 1], [3, 5, 0, 2], [3, 1, 0, 4], [5, 1, 3, 0]])
LABELS = np.array([1, 5, 5, 0, 1, 3])


def random_rows(seed, n=40, T=5, V=7, lasts=3):
    rng = np.random.default_rng(seed)
    sequences = rng.integers(0, V, (n, T))
    sequences[:, -1] = rng.integers(0, lasts, n)
    return sequences, sequences[np.arange(n), rng.integers(0, T, n)]


@pytest.mark.parametrize("seed", range(20))
def test_edges_components_and_order_are_those_of_the_slow_version(seed):
    sequences, labels = random_rows(seed, n=3 + 2 * seed)
    graph = TokenGraph(sequences, labels)
    edges, components = references.token_graph(sequences.tolist(), labels.tolist())
    assert set(graph.edges) == set(edges)
    for last, own in edges.items():
        assert set(map(tuple, graph.edges[last].tolist())) == own
        assert set(map(frozenset, graph.components[last])) == components[last]
        place = {token: j for j, members in enumerate(graph.components[last]) for token in members}
        above = {(place[a], place[b]) for a, b in own if place[a] != place[b]}
        assert set(graph.order[last]) == above
        levels = graph.levels[last]
        assert all(levels[a] < levels[b] for a, b in above)
        assert list(levels) == sorted(levels)
        for b, level in enumerate(levels):  # the longest chain ends one above
            assert level == max([levels[a] + 1 for a, c in above if c == b], default=0)
    assert graph.is_acyclic == all(len(c) == 1 for own in components.values() for c in own)
    tied = sum(any({a, b} <= c for c in components[k]) for k, own in edges.items() for a, b in own)
    assert graph.tied_share == pytest.approx(tied / max(1, sum(map(len, edges.values()))))
    assert graph.counts.sum() == (sequences != labels[:, None]).sum()


def test_the_published_instance_ties_two_tokens():
    graph = TokenGraph(SEQUENCES, LABELS)
    assert not graph.is_acyclic
    assert graph.ties.tolist() == [[2, 0, 5]]
    assert graph.components[2][0] == (0, 5)
    assert graph.n_edges == 17
    assert graph.relation(2, 0, 5) is Relation.TIED
    assert graph.relation(2, 5, 3) is Relation.ABOVE
    assert graph.relation(2, 3, 5) is Relation.BELOW
    assert graph.relation(2, 1, 3) is Relation.UNRELATED


def test_parts_give_the_graph_of_the_whole(monkeypatch):
    """Also where every part is cut, and merged with what was counted before."""
    sequences, labels = random_rows(5, n=300)
    whole = TokenGraph(sequences, labels)
    monkeypatch.setattr(_edge_counts, "AT_ONCE", 64)
    parts = [(sequences[j : j + 37].tolist(), labels[j : j + 37]) for j in range(0, 300, 37)]
    told = []
    again = TokenGraph.from_parts(parts, progress=lambda *step: told.append(step))
    assert len(told) == len(parts)
    for name in ("triples", "counts", "apart", "ties", "component_sizes"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(again, name))
    assert again.n_sequences == 300


def test_shards_of_a_parquet_corpus_give_the_graph_of_the_whole(tmp_path):
    sequences, labels = random_rows(6, n=200)
    for j in range(2):
        part = slice(100 * j, 100 * (j + 1))
        write_parquet(
            tmp_path / f"{j}.parquet", [{"sequence": sequences[part].tolist(), "label": labels[part].tolist()}]
        )
    files = sorted(tmp_path.glob("*.parquet"))
    again = TokenGraph.from_parts(next_token_parts(files))
    np.testing.assert_array_equal(again.triples, TokenGraph(sequences, labels).triples)
    with pytest.raises(InvalidInputError, match="no column 'next'"):
        TokenGraph.from_parts(next_token_parts(files, labels="next"))


def test_words_and_numbers_make_one_graph():
    names = ["ant", "bee", "cat", "dog", "eel", "fox"]
    words = [[names[t] for t in row] for row in SEQUENCES]
    graph = TokenGraph(words, [names[t] for t in LABELS])
    assert graph.names == tuple(sorted(names))
    np.testing.assert_array_equal(graph.triples, TokenGraph(SEQUENCES, LABELS, names=names).triples)
    assert graph.relation("cat", "ant", "fox") is Relation.TIED
    assert "after" in str(graph)


def test_lengths_may_differ_and_a_copy_of_the_label_is_no_rival():
    padded = np.array([[3, 1, -1], [0, 0, 1], [1, -1, -1]])
    rows = NextTokens.of(padded, [3, 0, 1])
    np.testing.assert_array_equal(rows.lengths, [2, 3, 1])
    np.testing.assert_array_equal(rows.last, [1, 1, 1])
    graph = TokenGraph(padded, [3, 0, 1])
    assert set(map(tuple, graph.edges[1].tolist())) == {(3, 1), (0, 1)}
    np.testing.assert_array_equal(rows.padded()[0][rows.padded()[1]], rows.tokens)


def test_a_vocabulary_of_one_a_sequence_of_one_and_a_graph_without_edges_are_answers():
    for sequences, labels in (([[0, 0]], [0]), ([[4]], [4]), ([["a"]], ["a"])):
        graph = TokenGraph(sequences, labels)
        assert graph.n_edges == 0
        assert graph.is_acyclic
        assert graph.tied_share == 0.0
        assert "no edge" in graph.explain()
        assert len(graph.components[int(graph.last_tokens[0])]) == 1


WRONG = {
    "a label that does not occur": (
        ([[0, 1], [1, 2], [2, 2]], [0, 0, 1]),
        r"label of row 1, token 0.*1 other row \(2\)",
    ),
    "no sequences": (([], []), "no sequences"),
    "an empty sequence": (([[0], []], [0, 0]), "sequence 1 is empty"),
    "too few labels": (([[0]], [0, 0]), "one for each"),
    "negative tokens": (([[0, -3]], [0]), "row 0"),
    "fractions": (([[0.5, 1.0]], [1.0]), "whole numbers"),
    "padding inside": ((np.array([[0, -1, 1]]), [0]), "-1 before its end"),
    "words and numbers": (([["a"], [1]], ["a", "b"]), "one kind of tokens"),
    "too many tokens": (([[1 << 40]], [1 << 40]), "numbers from 0"),
    "text instead of tokens": (("abc", "c"), "lists of tokens"),
    "a number instead of tokens": ((3, 3), "lists of tokens"),
    "ragged depth": (([[[0], 1]], [1]), "whole numbers"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_wrong_input_is_refused_by_a_sentence(case):
    (sequences, labels), said = case
    with pytest.raises(TokenMarginError, match=said):
        TokenGraph(sequences, labels)


def test_names_and_questions_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInputError, match="no word twice"):
        TokenGraph([[0]], [0], names=["a", "a"])
    with pytest.raises(InvalidInputError, match="names lack 'b'"):
        TokenGraph([["b"]], ["b"], names=["a"])
    with pytest.raises(InvalidInputError, match="whole vocabulary"):
        TokenGraph.from_parts([([["a"]], ["a"])])
    with pytest.raises(InvalidInputError, match="no parts"):
        TokenGraph.from_parts([])
    graph = TokenGraph(SEQUENCES, LABELS)
    with pytest.raises(InvalidInputError, match="no sequence that ends in '2'"):
        graph.relation(2, 0, 4)
    with pytest.raises(InvalidInputError, match="no name"):
        graph.id_of("x")
    with pytest.raises(InvalidInputError, match="no sequence ends in"):
        graph.plot(5)
    with pytest.raises(KeyError):
        graph.edges[5]


def test_a_causal_mask_shows_what_stands_before():
    sequences, labels = causal_rows([["a", "b", "a", "b", "b"], ["b"], ["b", "a", "a"]])
    assert [row.tolist() for row in sequences] == [["a", "b"], ["a", "b", "a"], ["a", "b", "a", "b"], ["b", "a"]]
    assert labels.tolist() == ["a", "b", "b", "a"]
    sequences, labels = causal_rows(np.array([[0, 1, 2, 0, -1], [0, 0, -1, -1, -1]]), window=2)
    assert [row.tolist() for row in sequences] == [[0]]
    assert labels.tolist() == [0]
    for wrong in ([[0, 1, 2]], [[0]], [], "abc"):
        with pytest.raises(TokenMarginError):
            causal_rows(wrong)
    with pytest.raises(InvalidInputError, match="window"):
        causal_rows([[0, 0]], window=0)


def test_columns_of_a_frame_are_taken():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"before": [["a", "b"], ["b", "a"]], "next": ["a", "b"]}, index=[7, 3])
    assert TokenGraph(frame["before"], frame["next"]).explain() == TokenGraph([[0, 1], [1, 0]], [0, 1]).explain()


def test_it_is_drawn_with_every_component_and_on_axes_of_ones_own():
    graph = TokenGraph(SEQUENCES, LABELS, names=["ant", "bee", "cat", "dog", "eel", "fox"])
    figure = graph.plot("cat")
    said = [text.get_text() for text in figure.axes[0].texts]
    assert "ant, fox" in said
    assert {"bee", "cat", "dog"} <= set(said)
    assert graph.plot("cat", ax=figure.axes[0]) is figure


@pytest.mark.long
def test_a_million_sequences_take_seconds():
    import time

    rng = np.random.default_rng(0)
    n, T, V = 1_000_000, 16, 2000
    sequences = np.minimum(rng.zipf(1.3, size=(n, T)), V) - 1
    labels = sequences[np.arange(n), rng.integers(0, T, n)]
    begin = time.perf_counter()
    graph = TokenGraph(sequences, labels)
    assert graph.n_components > 0
    assert time.perf_counter() - begin < 60
