"""The study of random trials against the official setting: a PyTorch loop, a thousand steps, then cvxopt.

The peer is timed on a few trials of each width and extrapolated to the number of trials, which is said. The flow behind
`decided` is compared with SciPy's Radau on the same field to the same norm, both compiled once a shape.
"""

from __future__ import annotations

import time
from contextlib import suppress

import equinox as eqx
import jax
import numpy as np

from benchmarks.att_svm import by_cvxopt
from tokenmargin import AttentionRisk, Flow, Selection, follow_all
from tokenmargin.theory.trials import Study, run_trials, trial

WIDTHS = (2, 5, 10, 100, 300, 500)
TRIALS, PEER_TRIALS, RADAU_TRIALS, RADAU_NORM = 1000, 2, 3, 1e6


def peer_trial(sequences, steps: int, lr: float) -> None:
    """One trial as the official notebook runs it: autograd, normalised by hand, then a QP."""
    import torch

    tokens = torch.tensor(np.array(sequences.tokens))
    labels, head = torch.tensor(np.array(sequences.labels)), torch.tensor(np.array(sequences.head))
    p = torch.zeros(tokens.shape[2], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([p], lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        attention = torch.softmax(tokens @ p, dim=1)
        output = (attention[:, :, None] * tokens).sum(dim=1) @ head
        torch.nn.functional.softplus(-labels * output).mean().backward()
        p.grad /= p.grad.norm() + 1e-12
        optimiser.step()
    alpha = (tokens @ p).argmax(dim=1).numpy()
    with suppress(ValueError):  # cvxopt raises on some infeasible problems; the notebook would stop there
        by_cvxopt(sequences, Selection.from_indices(alpha, sequences.n_tokens))


def seconds(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# Compiled once a shape, like ours.
_field = eqx.filter_jit(lambda system, y: system.field(y))
_jacobian = eqx.filter_jit(lambda system, y: system.field_and_jacobian(y)[1])


def radau_trial(sequences) -> None:
    """The same field to the same norm by SciPy's Radau."""
    from scipy.integrate import solve_ivp

    system = AttentionRisk(sequences).in_span[0]

    def reached(_, y):
        return float(np.linalg.norm(y) - RADAU_NORM)

    reached.terminal = True
    solve_ivp(
        lambda _, y: np.asarray(_field(system, y)),
        (0.0, 1e12),
        np.zeros(system.keys.shape[2]),
        method="Radau",
        jac=lambda _, y: np.asarray(_jacobian(system, y)),
        rtol=1e-9,
        atol=1e-4,
        events=reached,
    )


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    study = Study()
    print(f"{TRIALS} trials a width, n=4, T=6, 1000 steps; peer timed on {PEER_TRIALS} trials a width and extrapolated")
    for d in WIDTHS:
        run_trials(study, 0, d, range(TRIALS), "stable")  # compile
        follow_all([AttentionRisk(trial(study, 0, d, j)) for j in range(200)], np.zeros((200, d)), Flow())
        ratios, radau = [], []
        data = [trial(study, 0, d, j) for j in range(max(PEER_TRIALS, RADAU_TRIALS))]
        peer_trial(data[0], 10, 1.0)
        radau_trial(data[0])
        for _ in range(2):  # in turns
            ours = seconds(lambda d=d: run_trials(study, 0, d, range(TRIALS), "stable"))
            peer = seconds(lambda data=data: [peer_trial(x, study.steps, study.lr) for x in data[:PEER_TRIALS]])
            ratios.append(peer / PEER_TRIALS * TRIALS / ours)
            risks = [AttentionRisk(trial(study, 0, d, j)) for j in range(TRIALS)]
            decided = seconds(lambda risks=risks, d=d: follow_all(risks, np.zeros((TRIALS, d)), Flow()))
            by_radau = seconds(lambda data=data: [radau_trial(x) for x in data[:RADAU_TRIALS]])
            radau.append(by_radau / RADAU_TRIALS * TRIALS / decided)
        print(
            f"d={d:<4} stable {min(ratios):6.0f}x to {max(ratios):.0f}x PyTorch + cvxopt;  "
            f"decided {min(radau):5.0f}x to {max(radau):.0f}x SciPy's Radau"
        )


if __name__ == "__main__":
    main()
