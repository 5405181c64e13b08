"""The max-margin problem of a corpus: how long at full size, and against two peers.

Documents are drawn with Zipf's frequencies and tokens that lean to one label. The model looks like one in training:
E = N(0, I/d) plus each token's signed frequency times v, as in [E, (5)], and p = N(0, I/d) plus v. Prints rounds, the
size of the support and the KKT residuals over all documents.

The peers: Clarabel handed every distinct pair, on a small corpus; and, for each round of constraint generation that is
continued from the one before, daqp started with the rows that carried the last answer. The working sets of that
comparison are recorded from real searches: the corpus above, Gaussian points in the order of a random vector, and the
IMDB reviews where they are found.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.corpus_svm [documents] [d]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import clarabel
import daqp
import numpy as np
import scipy.sparse as sp

from benchmarks.alternating import alternate
from tokenmargin.data.statistics import token_statistics
from tokenmargin.data.token_selection import CorpusSelection, corpus_selection
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import DataAbsentError, MissingExtraError
from tokenmargin.margin import _constraint_generation as constraint_generation
from tokenmargin.margin._warm_active_set import continue_active_set
from tokenmargin.margin.corpus_svm import CORPUS_TOLERANCE, corpus_svm, token_pairs
from tokenmargin.theory import one_minus_cosine

V = 7352
TOKENS_A_DOCUMENT = 130
SMALL = (1000, 32)  #: documents and width of the comparison with Clarabel
PAIRS_PER_DIMENSION = 2.5  #: of Gaussian points: a few more than the first working set holds, so that few arrive later
TIMED = 3  #: rounds of ours and the peer in turns


def zipf_corpus(rng: np.random.Generator, n: int) -> TokenDataset:
    """n documents, half of either label; frequencies fall like 1/rank, half of the tokens lean to one label."""
    frequency = 1.0 / (np.arange(V) + 20.0) ** 0.9
    lean = rng.normal(size=V) * 0.35 * (rng.random(V) < 0.5)
    lengths = np.clip(rng.lognormal(np.log(TOKENS_A_DOCUMENT), 0.6, size=n), 8, 900).astype(int)
    labels = np.where(np.arange(n) % 2, 1, -1)
    rows, ids = [], []
    for sign in (-1, 1):
        mine = np.flatnonzero(labels == sign)
        cumulated = np.cumsum(frequency * np.exp(sign * lean))
        draws = rng.random(int(lengths[mine].sum())) * cumulated[-1]
        ids.append(np.minimum(np.searchsorted(cumulated, draws), V - 1))
        rows.append(np.repeat(mine, lengths[mine]))
    places = np.concatenate(rows), np.concatenate(ids)
    return TokenDataset(sp.coo_array((np.ones(len(places[0]), np.int32), places), shape=(n, V)), labels)


def stepped_model(rng: np.random.Generator, dataset: TokenDataset, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings that lean along v by their token's signed frequency, and a query that has begun to look for it."""
    v = rng.normal(size=d)
    v /= np.linalg.norm(v)
    alpha = token_statistics(dataset).signed_frequency
    E = rng.normal(size=(len(alpha), d)) / np.sqrt(d) + np.multiply.outer(alpha / np.abs(alpha).max(), v)
    return E, rng.normal(size=d) / np.sqrt(d) + v


def by_clarabel(dataset: TokenDataset, E: np.ndarray, selection: CorpusSelection) -> np.ndarray:
    """Every distinct pair a row, as one would hand it to a solver."""
    pairs = token_pairs(dataset, selection)
    m, d = len(pairs), E.shape[1]
    rows = sp.csc_matrix(E[pairs.under] - E[pairs.over])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(np.eye(d)), np.zeros(d), rows, -np.ones(m), [clarabel.NonnegativeConeT(m)], settings
    )
    return np.asarray(solver.solve().x)


def continued_by_daqp(rows: np.ndarray, held: np.ndarray) -> np.ndarray:
    """The peer of `continue_active_set`: daqp reads its first active set off the signs of `dual_start`."""
    m, d = rows.shape
    norms = np.linalg.norm(rows, axis=1)
    longest = float((1 / norms).max())
    signs = np.zeros(m)
    signs[held] = -1.0
    p, _, flag, _ = daqp.solve(
        np.eye(d),
        np.zeros(d),
        rows / norms[:, None],
        np.full(m, 1e30),
        1 / norms / longest,
        np.zeros(m, dtype=np.int32),
        primal_tol=1e-11,
        dual_tol=1e-12,
        dual_start=signs,
    )
    assert flag == 1
    return np.asarray(p) * longest


def continued_rounds(search: Callable[[], object]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and held rows of every round of a search that was continued from the round before."""
    seen = []

    def record(rows: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        answer = continue_active_set(rows, held)
        if answer is not None:
            seen.append((rows, held))
        return answer

    with patch.object(constraint_generation, "continue_active_set", record):
        search()
    return seen


def gaussian_search(rng: np.random.Generator, d: int) -> object:
    """The shortest vector that orders pairs of Gaussian points as a random vector does."""
    m = int(PAIRS_PER_DIMENSION * max(d, constraint_generation.FEWEST_ADDED // 2))
    points, w = rng.normal(size=(2 * m, d)) / np.sqrt(d), rng.normal(size=d)
    pairs = np.arange(2 * m).reshape(m, 2)
    scores = points @ w
    pairs = np.where((scores[pairs[:, 0]] > scores[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    ties = np.zeros((0, 2), dtype=np.int64)
    return constraint_generation.least_norm_order(points, pairs, ties, CORPUS_TOLERANCE / 2, start=w)


def imdb_search(rng: np.random.Generator, d: int) -> object:
    """The problem of the stepped model on the IMDB reviews."""
    from tokenmargin.experiments.embeddings.reviews import reviews

    dataset = reviews("imdb").dataset
    E, p = stepped_model(rng, dataset, d)
    return corpus_svm(dataset, E, corpus_selection(dataset, E, p), start=p)


def print_continued(name: str, search: Callable[[], object]) -> None:
    """Ours against daqp on every continued round, in turns, with the distance of the two answers."""
    for rows, held in continued_rounds(search):
        answer = continue_active_set(rows, held)
        assert answer is not None
        other = continued_by_daqp(rows, held)
        apart = np.linalg.norm(answer[0] - other) / np.linalg.norm(other)
        ratio = alternate(
            f"{name}, {len(rows)} x {rows.shape[1]}, {len(held)} held",
            lambda rows=rows, held=held: continue_active_set(rows, held),
            lambda rows=rows, held=held: continued_by_daqp(rows, held),
            rounds=TIMED,
        )
        print(f"{ratio}   p to {apart:.0e}", flush=True)


def print_continuations(dataset: TokenDataset, E: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> None:
    """The comparison of continued rounds on all three kinds of working sets."""
    d = E.shape[1]
    selection = corpus_selection(dataset, E, p)
    print("rounds that are continued: daqp's time over ours")
    for start in (p, None):
        print_continued("Zipf", lambda start=start: corpus_svm(dataset, E, selection, start=start))
    print_continued("Gaussian", lambda: gaussian_search(rng, d))
    try:
        print_continued("IMDB", lambda: imdb_search(rng, d))
    except (DataAbsentError, MissingExtraError) as absent:
        print(f"IMDB: {absent}")


def main() -> None:
    """Print the tables."""
    n, d = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000, int(sys.argv[2]) if len(sys.argv) > 2 else 256
    rng = np.random.default_rng(0)
    small = zipf_corpus(rng, SMALL[0])
    E, p = stepped_model(rng, small, SMALL[1])
    selection = corpus_selection(small, E, p)
    begin = time.perf_counter()
    answer = corpus_svm(small, E, selection, start=p)
    middle = time.perf_counter()
    other = by_clarabel(small, E, selection)
    end = time.perf_counter()
    print(
        f"n={SMALL[0]}, d={SMALL[1]}, {answer.n_constraints} pairs: ours {middle - begin:.2f} s, Clarabel on all rows "
        f"{end - middle:.2f} s; |p| {answer.norm:.8g} and {np.linalg.norm(other):.8g}, "
        f"1 - cosine {one_minus_cosine(answer.p, other):.1e}"
    )
    dataset = zipf_corpus(rng, n)
    E, p = stepped_model(rng, dataset, d)
    begin = time.perf_counter()
    selection = corpus_selection(dataset, E, p)
    print(f"n={n}, d={d}, {dataset.counts.nnz / n:.0f} distinct tokens a document")
    print(
        f"selection {time.perf_counter() - begin:.2f} s, {selection.n_ties} ties, narrowest {selection.narrowest:.1e}"
    )
    begin = time.perf_counter()
    for start in (p, None):
        answer = corpus_svm(dataset, E, selection, start=start)
        seconds, begin = time.perf_counter() - begin, time.perf_counter()
        print(
            f"{'from nothing' if start is None else 'from the query'}: {seconds:.2f} s, {len(answer.rounds)} "
            f"rounds, {answer.n_constraints} pairs, {answer.n_active} active, {answer.status.name}, residual "
            f"{answer.residuals.worst:.1e}, cosine to the query {1 - one_minus_cosine(answer.p, p):.6f}"
        )
    print_continuations(dataset, E, p, rng)


if __name__ == "__main__":
    main()
