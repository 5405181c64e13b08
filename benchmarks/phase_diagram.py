"""Many problems at once: `follow` with a list against `sweep` with one `follow` a problem; a diagram beside a loop.

    python -m benchmarks.phase_diagram                   throughput, then 25 cells of 200 problems
    python -m benchmarks.phase_diagram --problems 5000   the same cells with 5,000 problems each

The loop is what one writes: normalised gradient descent of all problems of a cell at once, in float64, in PyTorch where
it is installed. Its answer is wrong where it differs from the limit of the flow, each of which carries its certificate.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np

import tokenmargin as tm
from benchmarks.alternating import alternate

NORMS, WIDTHS, STEPS, LR = (0, 10, 30, 60, 100), (2, 3, 4, 6, 8), 2000, 0.1


def problem(norm: float, width: int, seed: int, n: int = 2, T: int = 4):
    rng = np.random.default_rng([seed, n, T, width])
    data = tm.EmbeddedSequences.from_scores(rng.normal(size=(n, T, width)), rng.normal(size=(n, T)))
    way = rng.normal(size=width)
    return data, norm * way / np.linalg.norm(way)


def one_a_point(n: int, T: int, width: int, seed: int) -> dict[str, bool]:
    data, start = problem(1.0, width, seed, n, T)
    return {"best": bool(tm.parallel.selects_best(tm.follow(tm.AttentionRisk(data), start, tm.Flow()).limit))}


def by_sweep(shapes, count: int) -> list[bool]:
    grid = [{"n": n, "T": T, "width": d, "seed": seed} for n, T, d in shapes for seed in range(count)]
    return tm.sweep(one_a_point, grid)["best"].tolist()


def by_list(shapes, count: int) -> list[bool]:
    posed = [problem(1.0, d, seed, n, T) for n, T, d in shapes for seed in range(count)]
    runs = tm.follow([tm.AttentionRisk(data) for data, _ in posed], [start for _, start in posed], tm.Flow())
    return [bool(tm.parallel.selects_best(limit)) for limit in runs.limits]


def throughput() -> None:
    one, many = [(3, 4, 5)], [(n, T, d) for n in (2, 3, 5) for T in (3, 5, 6) for d in (2, 5, 8)]
    assert by_list(many[:3], 4) == by_sweep(many[:3], 4)
    print("times as many problems a second as sweep with one follow a problem:")
    print(alternate("one shape, compiled, 400 problems", lambda: by_list(one, 400), lambda: by_sweep(one, 400), 3))

    def cold(run, shapes, count):
        def timed():
            jax.clear_caches()
            return run(shapes, count)

        return timed

    for count in (4, 40):
        name = f"{len(many)} shapes, {count} of each, cold"
        print(alternate(name, cold(by_list, many, count), cold(by_sweep, many, count), 1), flush=True)


def loop(posed) -> np.ndarray:
    begin = time.perf_counter()
    keys = np.stack([risk.sequences.keys for risk, _ in posed])
    scores = np.stack([risk.sequences.tokens[..., 0] for risk, _ in posed])
    p = np.stack([start for _, start in posed])
    step = by_torch(keys, scores)
    for _ in range(STEPS):
        gradient = step(p)
        p = p - LR * gradient / np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True), 1e-300)
    best = np.einsum("bntd,bd->bnt", keys, p).argmax(axis=2) == scores.argmax(axis=2)
    LOOP_SECONDS.append(time.perf_counter() - begin)
    return best.all(axis=1)


LOOP_SECONDS: list[float] = []


def by_torch(keys, scores):
    try:
        import torch
    except ImportError:
        return lambda p: by_numpy(keys, scores, p)
    K, gamma = torch.from_numpy(keys), torch.from_numpy(scores)

    def gradient(p):
        at = torch.tensor(p, requires_grad=True)
        attention = torch.softmax(torch.einsum("bntd,bd->bnt", K, at), dim=-1)
        torch.nn.functional.softplus(-(attention * gamma).sum(-1)).mean(-1).sum().backward()
        return at.grad.numpy()

    return gradient


def by_numpy(keys, scores, p):
    logits = np.einsum("bntd,bd->bnt", keys, p)
    attention = np.exp(logits - logits.max(axis=2, keepdims=True))
    attention /= attention.sum(axis=2, keepdims=True)
    outputs = (attention * scores).sum(axis=2, keepdims=True)
    return np.einsum("bnt,bntd->bd", -attention * (scores - outputs) / (1 + np.exp(outputs)), keys) / keys.shape[1]


def diagram(problems: int) -> None:
    begin = time.perf_counter()
    found = tm.phase_diagram(problem, x={"norm": NORMS}, y={"width": WIDTHS}, problems=problems, beside={"loop": loop})
    ours = time.perf_counter() - begin - sum(LOOP_SECONDS)
    seconds = f"{ours:.0f} s by the flow, {sum(LOOP_SECONDS):.0f} s by the loop"
    print(f"\n{found.counts.size} cells of {problems} problems: {seconds}")
    print("norm of the start:                 " + "".join(f"{norm:>14}" for norm in NORMS))
    for i, width in enumerate(WIDTHS):
        shares = "".join(f"{found.share[i, j]:>14.3f}" for j in range(len(NORMS)))
        print(f"width {width}: share by the flow        {shares}")
        print("         share by the loop        " + "".join(f"{c / problems:>14.3f}" for c in found.beside["loop"][i]))
        print("         problems it gets wrong   " + "".join(f"{c:>14}" for c in found.differs["loop"][i]))
        print("         undecided by the flow    " + "".join(f"{c:>14}" for c in found.undecided[i]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--only-diagram", action="store_true")
    given = parser.parse_args()
    if not given.only_diagram:
        throughput()
    diagram(given.problems)


if __name__ == "__main__":
    main()
