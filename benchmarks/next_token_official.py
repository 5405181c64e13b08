"""The official runs of [N] on their own data sets: correlations that they print, beside ours.

The repository draws its data by torch from seed 1. Drawn in the same order, the token numbers, labels and variances of
starts are those that it prints, so that its ten numbers can be compared one by one. "plain" is its own step in plain
float64 by autodiff; "ours" is the same step computed from logarithms, which round differently once attention is
saturated, where the local runs stop.

    python -m benchmarks.next_token_official
"""

from __future__ import annotations

from itertools import count

import numpy as np
import torch

from tokenmargin import NextTokenRisk, NormalizedDescent, graph_svm
from tokenmargin.attention import MatrixRisk
from tokenmargin.papers.next_token._instances import SHAPE
from tokenmargin.papers.next_token.figures import global_acyclic_convergence, local_convergence
from tokenmargin.papers.next_token.figures._datasets import cosines, descended
from tokenmargin.papers.next_token.figures.local_convergence import EPSILON, general_head_of, local_correlation

GLOBAL, LOCAL = global_acyclic_convergence.PRINTED[True], local_convergence.PRINTED


def drawn() -> NextTokenRisk:
    """The next cyclic data set of torch's stream."""
    n, T, V, d = SHAPE
    for _ in count():
        E = torch.nn.functional.normalize(torch.randn(V, d).double(), dim=-1)
        ids = torch.multinomial(torch.ones(n, V), T, replacement=False)
        labels = torch.multinomial(torch.ones(V), n, replacement=True)
        for own, row in zip(labels, ids, strict=True):
            if own not in row:
                own.copy_(row[torch.randint(T, (1,))][0])
        risk = NextTokenRisk(ids.numpy(), labels.numpy(), E.numpy())
        if not risk.graph.is_acyclic:
            return risk
    raise AssertionError


def linear_layer() -> np.ndarray:
    """A start as a linear layer has it."""
    return np.asarray(torch.nn.Linear(SHAPE[3], SHAPE[3], bias=False).weight.detach().double().numpy())


def ten(layers: int) -> tuple[list[NextTokenRisk], np.ndarray]:
    """Data sets and starts; so many more layers are drawn after each."""
    torch.manual_seed(1)
    risks, starts = [], []
    for _ in range(10):
        risks.append(drawn())
        starts.append(linear_layer())
        for _ in range(layers):
            linear_layer()
    return risks, np.stack(starts)


def plain_local(plain: NextTokenRisk, start: np.ndarray, lr: float, steps: int) -> np.ndarray:
    """The official local run: squared loss of a softmax over the vocabulary, in plain float64."""
    E = torch.tensor(plain.embeddings)
    X = E[torch.tensor(plain.rows.padded()[0])]
    own = torch.nn.functional.one_hot(torch.tensor(plain.rows.labels), num_classes=len(E)).double()
    W = torch.tensor(start, requires_grad=True)
    for _ in range(steps):
        share = torch.softmax(X[:, -1:] @ W.T @ X.transpose(1, 2), dim=-1)
        read = torch.softmax((E @ (share @ X).transpose(1, 2)).squeeze(-1), dim=-1)
        loss = (own * (1.0 - read) ** 2).sum(dim=1).mean()
        (gradient,) = torch.autograd.grad(loss, W)
        with torch.no_grad():
            W -= lr * (gradient / (gradient.norm() + torch.finfo(torch.float64).eps))
    return W.detach().numpy()


def show(name: str, printed: tuple[float, ...], **found: list[float]) -> None:
    """A line for each way of computing, and how far it is from the printed one at most."""
    print(f"{name:<24}", " ".join(f"{x:.4f}" for x in printed), f" mean {np.mean(printed):.5f}")
    for way, numbers in found.items():
        off = float(np.abs(np.subtract(numbers, printed)).max())
        print(f"  {way:<22}", " ".join(f"{x:.4f}" for x in numbers), f" mean {np.mean(numbers):.5f}, {off:.0e} off")


def main() -> None:
    """Global runs, then local ones."""
    torch.set_num_threads(1)
    risks, starts = ten(1)
    ends = descended(risks, starts, NormalizedDescent(0.01), 4000, 4000)[:, -1]
    solved = [graph_svm(risk.graph, risk.embeddings).matrix for risk in risks]
    ours = [float(cosines(W[None], own)[0]) for W, own in zip(ends, solved, strict=True)]
    show("global, printed", GLOBAL, ours=ours)

    risks, starts = ten(2)
    heads: list[MatrixRisk] = [general_head_of(risk) for risk in risks]
    ends = descended(heads, starts, NormalizedDescent(0.1, EPSILON), 2000, 2000)[:, -1]
    plain = [plain_local(risk, start, 0.1, 2000) for risk, start in zip(risks, starts, strict=True)]
    found = {"ours": ends, "plain": plain}
    show(
        "local, printed",
        LOCAL,
        **{way: [local_correlation(r, W) for r, W in zip(heads, own, strict=True)] for way, own in found.items()},
    )


if __name__ == "__main__":
    main()
