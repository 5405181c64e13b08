"""Next tokens: graphs of a million sequences, the log-loss flow per step beside the logistic one, (Graph-SVM) beside
cvxpy, and descent beside torch.

The peer of the descent is what the authors' repository does, written anew: normalised steps by autodiff in torch, in
float64, on minus the log of the label's attention. Every pair is timed in turns in one process, in CPU time. Matrix
products on several threads wait for each other where cores are shared, and then cost seconds instead of milliseconds:

    OMP_NUM_THREADS=1 python -m benchmarks.next_token
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.alternating import alternate
from tokenmargin import AttentionRisk, Flow, NextTokenRisk, NormalizedDescent, TokenGraph, compare, follow, graph_svm
from tokenmargin.attention import follow_all, logistic
from tokenmargin.data import EmbeddedSequences
from tokenmargin.sources import next_token_parts, write_parquet

PROBLEMS, SEQUENCES, TOKENS, VOCABULARY, WIDTH, STEPS = 32, 6, 4, 6, 8, 4000

#: (sequences, tokens of each, vocabulary, width, norm) of margin problems beside cvxpy; no W keeps the narrow ones.
SHAPES = (
    (6, 4, 6, 8, "frobenius"),
    (60, 4, 20, 24, "frobenius"),
    (200, 5, 40, 24, "frobenius"),
    (60, 4, 20, 4, "frobenius"),
    (20, 4, 10, 12, "nuclear"),
    (20, 4, 10, 12, "spectral"),
    (20, 4, 10, 12, "max"),
)


def random_risk(seed: int, n: int = SEQUENCES, T: int = TOKENS, V: int = VOCABULARY, d: int = WIDTH) -> NextTokenRisk:
    """Random sequences, labels among their tokens, and unit embeddings, as the paper draws them."""
    rng = np.random.default_rng(seed)
    sequences = np.array([rng.permutation(V)[:T] for _ in range(n)])
    labels = sequences[np.arange(n), rng.integers(0, T, n)]
    E = rng.normal(size=(V, d))
    return NextTokenRisk(sequences, labels, E / np.linalg.norm(E, axis=1, keepdims=True))


def graphs() -> None:
    """The graph of a million sequences of eight tokens, from memory and from Parquet files, with the largest memory."""
    sequences = np.random.default_rng(0).integers(0, 10_000, (1_000_000, 8))
    labels = sequences[:, 3]
    begin = time.process_time()
    graph = TokenGraph(sequences, labels)
    sizes = graph.n_components, int(graph.component_sizes[0])
    took = time.process_time() - begin
    with TemporaryDirectory() as folder:
        shards = [Path(folder) / f"{j}.parquet" for j in range(4)]
        for shard, rows, next_tokens in zip(shards, np.split(sequences, 4), np.split(labels, 4), strict=True):
            write_parquet(shard, [{"sequence": rows.tolist(), "label": next_tokens.tolist()}])
        begin = time.process_time()
        parts = TokenGraph.from_parts(next_token_parts(shards))
        read = time.process_time() - begin
    assert (parts.triples == graph.triples).all()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"graph of a million sequences: {graph.n_edges:,} edges in {took:.1f} s, {sizes[0]:,} components of up to "
        f"{sizes[1]:,} tokens; from four Parquet files, without components, {read:.1f} s; largest memory of it all, "
        f"data and writing included, {memory:.1f} GiB"
    )


def flows_per_step() -> None:
    """Time of a step of the flow with the log-loss over that with the logistic loss, same keys and scores."""
    risks = [random_risk(seed) for seed in range(PROBLEMS)]
    data = [EmbeddedSequences.from_scores(r.sequences.keys, r.sequences.tokens[:, :, 0]) for r in risks]
    plain = [AttentionRisk(own, logistic) for own in data]
    starts = [np.zeros(WIDTH * WIDTH)] * PROBLEMS
    taken: dict[str, list[int]] = {"log": [], "logistic": []}

    def by(kind: str) -> Callable[[], None]:
        def run() -> None:
            runs = follow_all(risks if kind == "log" else plain, starts, Flow())
            taken[kind] = [one.n_steps for one in runs]

        return run

    times = alternate("flow", by("log"), by("logistic"), 5, time.process_time)
    per_step = {"log": np.median(times.ours) / sum(taken["log"])}
    per_step["logistic"] = np.median(times.peer) / sum(taken["logistic"])
    print(
        f"flow, {PROBLEMS} problems: log-loss {1e6 * per_step['log']:.0f} us a step ({sum(taken['log'])} steps), "
        f"logistic {1e6 * per_step['logistic']:.0f} us ({sum(taken['logistic'])} steps), "
        f"ratio {per_step['log'] / per_step['logistic']:.2f} a step"
    )


def by_cvxpy(graph: TokenGraph, E: np.ndarray, norm: str) -> float:
    """(Graph-SVM) by cvxpy with Clarabel; infinite where there is no W."""
    import cvxpy

    size = {
        "frobenius": lambda W: cvxpy.norm(W, "fro"),
        "nuclear": cvxpy.normNuc,
        "spectral": cvxpy.sigma_max,
        "max": lambda W: cvxpy.max(cvxpy.abs(W)),
    }[norm]
    W = cvxpy.Variable((E.shape[1],) * 2)
    ask = [(E[a] - E[b]) @ W @ E[k] >= 1 for k, a, b in graph.apart]
    tie = [(E[a] - E[b]) @ W @ E[k] == 0 for k, a, b in graph.ties]
    problem = cvxpy.Problem(cvxpy.Minimize(size(W)), [*ask, *tie])
    return float(problem.solve(solver=cvxpy.CLARABEL))


def beside_cvxpy(n: int, T: int, V: int, d: int, norm: str) -> None:
    """(Graph-SVM) of one shape, ours and cvxpy's."""
    risk = random_risk(0, n, T, V, d)
    values: dict[str, float] = {}

    def ours() -> None:
        found = graph_svm(risk.graph, risk.embeddings, norm)
        values["ours"] = float("inf") if found.is_infeasible else found.value

    def theirs() -> None:
        values["cvxpy"] = by_cvxpy(risk.graph, risk.embeddings, norm)

    times = alternate("(Graph-SVM)", ours, theirs, 3, time.process_time)
    apart, ties = len(risk.graph.apart), len(risk.graph.ties)
    same = (
        "no W, both say" if values["ours"] == values["cvxpy"] else f"{values['ours'] / values['cvxpy'] - 1:+.1e} apart"
    )
    print(
        f"(Graph-SVM), {norm}, {apart} inequalities and {ties} ties: ours {1e3 * np.median(times.ours):.1f} ms, cvxpy "
        f"with Clarabel {1e3 * np.median(times.peer):.1f} ms, {np.median(times.ratios):.0f} times; {same}"
    )


def margins() -> None:
    """(Graph-SVM): small beside cvxpy, and of more than 10^5 constraints by constraint generation."""
    for shape in SHAPES:
        beside_cvxpy(*shape)
    rng = np.random.default_rng(0)
    n, V, d = 24_000, 200, 16
    E = rng.normal(size=(V, d)) / d**0.5
    planted, sequences = rng.normal(size=(d, d)), rng.integers(0, V, (n, 8))
    logits = np.einsum("ntd,de,ne->nt", E[sequences], planted, E[sequences[:, -1]])
    begin = time.process_time()
    graph = TokenGraph(sequences, sequences[np.arange(n), logits.argmax(axis=1)])
    built = time.process_time()
    found = graph_svm(graph, E)
    print(
        f"(Graph-SVM), {len(graph.apart):,} inequalities: graph {built - begin:.2f} s, solved in "
        f"{time.process_time() - built:.1f} s, KKT residual {found.residuals.worst:.0e}"
    )


def by_torch(risk: NextTokenRisk, lr: float, steps: int) -> np.ndarray:
    """Normalised descent by autodiff: what the authors' repository does."""
    import torch

    E = torch.tensor(risk.embeddings)
    ids = torch.tensor(risk.rows.padded()[0])
    labels = torch.tensor(risk.rows.labels)
    X, z = E[ids], E[torch.tensor(risk.rows.last)]
    W = torch.zeros(E.shape[1], E.shape[1], dtype=torch.float64, requires_grad=True)
    on_label = (ids == labels[:, None]).double()
    for _ in range(steps):
        share = torch.softmax(torch.einsum("ntd,de,ne->nt", X, W, z), dim=1)
        loss = -torch.log((share * on_label).sum(dim=1)).mean()
        (gradient,) = torch.autograd.grad(loss, W)
        with torch.no_grad():
            W -= lr * gradient / (gradient.norm() + 2.2e-16)
    return W.detach().numpy()


def descents() -> None:
    """4,000 normalised steps beside torch; and what the limit adds."""
    risk = random_risk(1)
    ends: dict[str, np.ndarray] = {}

    def ours() -> None:
        run = follow(risk, np.zeros((WIDTH, WIDTH)), NormalizedDescent(0.01), steps=STEPS, every=STEPS)
        ends["ours"] = np.asarray(run.final)

    def theirs() -> None:
        ends["torch"] = by_torch(risk, 0.01, STEPS)

    times = alternate("descent", ours, theirs, 3, time.process_time)
    apart = np.linalg.norm(ends["ours"] - ends["torch"]) / np.linalg.norm(ends["torch"])
    W = graph_svm(risk.graph, risk.embeddings).matrix

    def correlation(a: np.ndarray) -> float:
        return float((a * W).sum() / np.linalg.norm(a) / np.linalg.norm(W))

    limit = follow(risk, np.zeros((WIDTH, WIDTH)), Flow()).limit
    print(
        f"descent, {STEPS} steps: ours {np.median(times.ours):.2f} s, torch {np.median(times.peer):.2f} s, ends "
        f"{apart:.0e} apart; correlation with (Graph-SVM) there {correlation(ends['torch']):.5f}, of the limit "
        f"1 - {compare(limit).velocity_error:.0e}"
    )


def main() -> None:
    """Run all parts."""
    graphs()
    flows_per_step()
    margins()
    descents()


if __name__ == "__main__":
    main()
