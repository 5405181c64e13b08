"""Problems of self-attention with a query for each input: two that [S] draws, and the law of its random ones.

The numbers of the two are those of the official notebooks visualization1 and visualization2, which print their seeds:
float32, so that the digits below are all of them.
"""

from __future__ import annotations

import numpy as np

from tokenmargin.data import CrossSequences, Selection, optimal_selection, scores
from tokenmargin.theory.problem import Problem


def visualization_1() -> CrossSequences:
    """Two inputs of three tokens in the plane; tokens 0 and 2 are optimal, and the nuclear solution has rank 1."""
    tokens = [
        [[-0.9814968, 0.1863952], [-1.1355718, -0.049839072], [-1.4568305, 0.11450518]],
        [[0.6917174, -0.16891584], [0.7323128, -0.017475054], [0.9413471, -0.2896908]],
    ]
    return _given(tokens, [[0.84501135, 0.5347484], [-0.63626397, -0.7714714]], [0.92731994, 0.37426966])


def visualization_2() -> CrossSequences:
    """Two inputs of five tokens in the plane; the first tokens are optimal, and the nuclear solution has rank 2."""
    tokens = [
        [
            [1.0, 0.5],
            [-0.18972462, -0.798354],
            [-0.7976964, 0.30564982],
            [-0.6198048, -0.01682163],
            [-1.1724226, 0.24682678],
        ],
        [
            [1.0, -0.5],
            [-0.757443, 0.10261719],
            [-0.8307859, 0.676377],
            [-0.8131823, 0.0067082397],
            [-0.6131634, -0.05462176],
        ],
    ]
    return _given(tokens, [[-0.53912896, -0.8422232], [0.9525519, 0.30437642]], [0.9771238, 0.21267143])


def _given(tokens: list[list[list[float]]], queries: list[list[float]], head: list[float]) -> CrossSequences:
    X, Z, v = (np.array(part, dtype=np.float32).astype(np.float64) for part in (tokens, queries, head))
    return CrossSequences(X, queries=Z, labels=[1, 1], head=v)


def unit_problem(rng: np.random.Generator, n: int, T: int, d: int) -> CrossSequences:
    """Tokens, queries and head uniform on the sphere, labels by a coin: the law of the official notebooks."""
    head, tokens, queries = (_on_sphere(rng.normal(size=shape)) for shape in ((d,), (n, T, d), (n, d)))
    return CrossSequences(tokens, queries=queries, labels=rng.choice([-1.0, 1.0], size=n), head=head)


def whole_problem(rng: np.random.Generator, n: int, T: int, d: int, largest: int = 2) -> CrossSequences:
    """Tokens, queries and head of whole numbers, which repeat, tie and lie on lines; no query and no head is 0."""
    tokens = rng.integers(-largest, largest + 1, size=(n, T, d))
    queries, head = rng.integers(-largest, largest + 1, size=(n, d)), rng.integers(-largest, largest + 1, size=d)
    queries[:, 0] += (queries == 0).all(axis=1)
    head[0] += (head == 0).all()
    return CrossSequences(tokens, queries=queries, labels=rng.choice([-1.0, 1.0], size=n), head=head)


def uneven_problem(rng: np.random.Generator, n: int, T: int, d: int, most: float = 10.0) -> CrossSequences:
    """A problem of `unit_problem` with coordinates of the tokens and lengths of the queries from 1/most to most."""
    plain = unit_problem(rng, n, T, d)
    stretch, lengths = most ** rng.uniform(-1, 1, size=d), most ** rng.uniform(-1, 1, size=(n, 1))
    tokens, queries = plain.tokens * stretch, plain.queries * lengths
    return CrossSequences(tokens, queries=queries, labels=plain.labels, head=plain.head)


def best_tokens(data: CrossSequences) -> Selection:
    """The token of highest score in each input, and the first of several: as the official notebooks select."""
    return Selection.from_indices(scores(data).argmax(axis=1), data.n_places)


def with_optimal_selection(data: CrossSequences) -> Problem:
    """The problem of separating the tokens of highest score, as a claim is asked about it."""
    return Problem(sequences=data, selection=optimal_selection(data))


def _on_sphere(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
