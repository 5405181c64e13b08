"""The study of random trials against the official setting: a PyTorch loop, a thousand steps, then cvxopt.

The peer is timed on a few trials of each width and extrapolated to the number of trials, which is said. The flow behind
`decided` is compared with SciPy's Radau on the same field to the same norm, both compiled once a shape. Widths may be
named: `python -m benchmarks.trials 2 10 500`. `python -m benchmarks.trials figure` tells where the processor time of
Figure 9 goes, compilation apart, from a quarter of its trials; `python -m benchmarks.trials steps` how many steps its
flows take, by Rodas5P and by ode23s.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.att_svm import by_cvxopt
from tokenmargin import AttentionRisk, Flow, Selection
from tokenmargin.attention import _rosenbrock, flow, follow_all, limits_of
from tokenmargin.papers.maxmargin.figures.fig09_10_trials import Settings
from tokenmargin.papers.maxmargin.trials import Study, decide_trials, run_trials, trial, trials

WIDTHS = (2, 5, 10, 100, 300, 500)
TRIALS, PEER_TRIALS, RADAU_TRIALS, RADAU_NORM = 1000, 2, 3, 1e6
ROUNDS, FLOW_ROUNDS = 7, 2


def peer_trial(sequences, steps: int, lr: float) -> None:
    """One trial as the official notebook runs it: autograd, normalised by hand, then a QP."""
    import torch

    torch.set_num_threads(1)  # in its favour: tensors this small only wait for a second thread
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
        by_cvxopt(sequences, Selection.from_indices(alpha, sequences.n_places))


def seconds(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# Compiled once a shape, like ours.
_field = eqx.filter_jit(lambda system, y: system.force(y))
_jacobian = eqx.filter_jit(lambda system, y: system.force_and_jacobian(y)[1])


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


def study_ratios(study: Study, d: int) -> np.ndarray:
    """PyTorch + cvxopt over ours, SVMs included, in turns."""
    data = [trial(study, 0, d, j) for j in range(PEER_TRIALS)]
    run_trials(study, 0, d, range(TRIALS), "stable")  # compile
    peer_trial(data[0], 10, 1.0)
    ratios = []
    for _ in range(ROUNDS):
        ours = seconds(lambda: run_trials(study, 0, d, range(TRIALS), "stable"))
        peer = seconds(lambda: [peer_trial(x, study.steps, study.lr) for x in data])
        ratios.append(peer / PEER_TRIALS * TRIALS / ours)
    return np.array(ratios)


def flow_ratios(study: Study, d: int) -> np.ndarray:
    """SciPy's Radau over the flow behind `decided`, in turns."""
    data = [trial(study, 0, d, j) for j in range(RADAU_TRIALS)]
    follow_all([AttentionRisk(trial(study, 0, d, j)) for j in range(200)], np.zeros((200, d)), Flow())
    radau_trial(data[0])
    ratios = []
    for _ in range(FLOW_ROUNDS):
        risks = [AttentionRisk(trial(study, 0, d, j)) for j in range(TRIALS)]
        decided = seconds(lambda risks=risks: follow_all(risks, np.zeros((TRIALS, d)), Flow()))
        radau = seconds(lambda: [radau_trial(x) for x in data])
        ratios.append(radau / RADAU_TRIALS * TRIALS / decided)
    return np.array(ratios)


def figure_parts(few: int = 250) -> None:
    """Processor seconds of each part of the paper's preset: what compiles once, and the trials, from `few` a width."""
    study = Study()
    fine = replace(study, atol=study.atol / 100)
    seeds = Settings.paper().seeds
    parts = {
        f"printed, {seeds} seeds": (seeds, lambda d, which: run_trials(study, 0, d, which, "printed")),
        "stable": (1, lambda d, which: run_trials(study, 0, d, which, "stable")),
        "decided": (1, lambda d, which: run_trials(study, 0, d, which, "decided")),
        "decided again at atol/100": (1, lambda d, which: decide_trials(fine, 0, d, which)),
    }
    for name, (often, run) in parts.items():
        compiling, running = 0.0, 0.0
        for d in WIDTHS:
            ticks = [time.process_time()]
            for begin in (0, few):
                run(d, range(begin, begin + few))
                ticks.append(time.process_time())
            first, second = np.diff(ticks)
            compiling, running = compiling + max(first - second, 0.0), running + second
        print(f"{name:28} {often * running * TRIALS / few:6.1f} s, compilation {compiling:.1f} s", flush=True)


def figure_steps(few: int = 100) -> None:
    """Attempted steps of a flow at both tolerances, means over `few` trials, by Rodas5P and by ode23s."""
    study, found = Study(), {}
    for name in ("Rodas5P", "ode23s"):
        if name == "ode23s":
            flow.rodas_step, flow.RODAS_POWER = _with_one_end, _rosenbrock.ROSENBROCK_POWER
            jax.clear_caches()
        for atol in (study.atol, study.atol / 100):
            steps, ends = [], []
            for d in WIDTHS:
                problems = trials(study, 0, d, range(few))
                risks = [AttentionRisk(problems[j]) for j in range(few)]
                runs = follow_all(risks, np.zeros((few, problems.keys.shape[3])), Flow(study.until_norm, atol))
                steps.append(np.mean([run.n_steps for run in runs]))
                ends += [(x.kind, x.selection.chosen.tolist()) for x in limits_of(risks, [run.final for run in runs])]
            moved = sum(end != first for end, first in zip(ends, found.setdefault("ends", ends), strict=True))
            by_width = "  ".join(f"d={d}: {mean:.0f}" for d, mean in zip(WIDTHS, steps, strict=True))
            print(f"{name:8} atol {atol:.0e}  {by_width}  ended elsewhere: {moved}", flush=True)


def _with_one_end(*step) -> tuple:
    """ode23s in the shape of `rodas_step`, every point on the way its end."""
    end, error = _rosenbrock.rosenbrock_step(*step)
    return jnp.stack([end] * len(_rosenbrock.PASSED)), error


def main(widths: tuple[int, ...] = WIDTHS) -> None:
    jax.config.update("jax_enable_x64", True)
    study = Study()
    print(
        f"{TRIALS} trials a width, n=4, T=6, 1000 steps; peer timed on {PEER_TRIALS} trials a width and extrapolated; "
        f"median of {ROUNDS} rounds in turns (least to most)"
    )
    for d in widths:
        stable = study_ratios(study, d)
        print(
            f"d={d:<4} stable  {np.median(stable):6.0f}x ({stable.min():.0f} to {stable.max():.0f}) PyTorch + cvxopt",
            flush=True,
        )
    for d in widths:
        flow = flow_ratios(study, d)
        print(
            f"d={d:<4} decided {np.median(flow):6.0f}x ({flow.min():.0f} to {flow.max():.0f}) SciPy's Radau", flush=True
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["figure"]:
        figure_parts()
        sys.exit()
    if sys.argv[1:] == ["steps"]:
        figure_steps()
        sys.exit()
    main(tuple(map(int, sys.argv[1:])) or WIDTHS)
