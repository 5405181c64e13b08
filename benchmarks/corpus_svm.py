"""The max-margin problem of a corpus: how long at full size, and against a peer.

Documents are drawn with Zipf's frequencies and tokens that lean to one label. The model looks like one in training:
E = N(0, I/d) plus each token's signed frequency times v, as in [E, (5)], and p = N(0, I/d) plus v. Prints rounds, the
size of the support and the KKT residuals over all documents.

The peer is Clarabel, handed every distinct pair, on a small corpus.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.corpus_svm [documents] [d]
"""

from __future__ import annotations

import sys
import time

import clarabel
import numpy as np
import scipy.sparse as sp

from tokenmargin.data.statistics import token_statistics
from tokenmargin.data.token_selection import CorpusSelection, corpus_selection
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.margin.corpus_svm import corpus_svm, token_pairs
from tokenmargin.theory import one_minus_cosine

V = 7352
TOKENS_A_DOCUMENT = 130
SMALL = (1000, 32)  #: documents and width of the comparison with Clarabel


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
        f"{end - middle:.2f} s; |p| {answer.value:.8g} and {np.linalg.norm(other):.8g}, "
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


if __name__ == "__main__":
    main()
