"""Many problems at once: `follow` with a list against `sweep` with one `follow` a problem; a diagram beside a loop.

    python -m benchmarks.phase_diagram throughput                            times as many problems a second
    python -m benchmarks.phase_diagram diagram [--problems 5000] [--kept FOLDER] [--out FOLDER] [--processes 2]
    python -m benchmarks.phase_diagram radau --width 2 --norm 60 --seeds 47 162     the third judge, finer and finer

The loop is what one writes: normalised gradient descent of all problems of a cell at once, in float64, in PyTorch where
it is installed. Where its answer differs from the limit of the flow, a third judge is asked about some of them: SciPy's
Radau, on a field that is written here anew. Directions of limits are compared with the max-margin solutions of the
tokens that they select. All times are of the processor. What is finished lies in --kept, so that the same command goes
on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import jax
import numpy as np

import tokenmargin as tm
from benchmarks.alternating import alternate
from tokenmargin.margin import att_svm_batch
from tokenmargin.parallel import PhaseDiagram, selects_best

NORMS, WIDTHS, STEPS, LR = (0, 10, 30, 60, 100), (2, 3, 4, 6, 8), 2000, 0.1

#: The third judge follows p to so many times the norm of its start (and 1e4 at least), or for so long.
FURTHER, LONGEST = 1e3, 1e8

#: Its relative tolerance; the absolute one, of logits, is a thousand times that.
RADAU_RTOL = 1e-9


def problem(norm: float, width: int, seed: int, n: int = 2, T: int = 4):
    rng = np.random.default_rng([seed, n, T, width])
    data = tm.EmbeddedSequences.from_scores(rng.normal(size=(n, T, width)), rng.normal(size=(n, T)))
    way = rng.normal(size=width)
    return data, norm * way / np.linalg.norm(way)


# --- throughput -------------------------------------------------------------------------------------------------------


def one_a_point(n: int, T: int, width: int, seed: int) -> dict[str, bool]:
    data, start = problem(1.0, width, seed, n, T)
    return {"best": bool(selects_best(tm.follow(tm.AttentionRisk(data), start, tm.Flow()).limit))}


def by_sweep(shapes, count: int) -> list[bool]:
    grid = [{"n": n, "T": T, "width": d, "seed": seed} for n, T, d in shapes for seed in range(count)]
    return tm.sweep(one_a_point, grid)["best"].tolist()


def by_list(shapes, count: int) -> list[bool]:
    posed = [problem(1.0, d, seed, n, T) for n, T, d in shapes for seed in range(count)]
    runs = tm.follow([tm.AttentionRisk(data) for data, _ in posed], [start for _, start in posed], tm.Flow())
    return [bool(selects_best(limit)) for limit in runs.limits]


def throughput(rounds: int) -> None:
    many = [(n, T, d) for n in (2, 3, 5) for T in (3, 5, 6) for d in (2, 5, 8)]
    assert by_list(many[:3], 4) == by_sweep(many[:3], 4)
    print("times as many problems a second of the processor as sweep with one follow a problem:")
    for shape in ((2, 4, 3), (3, 4, 5), (4, 6, 8)):
        name, run = f"(n, T, d) = {shape}, compiled, 400", [shape]
        print(
            alternate(name, partial(by_list, run, 400), partial(by_sweep, run, 400), rounds, time.process_time),
            flush=True,
        )

    def cold(run, count):
        def timed():
            jax.clear_caches()
            return run(many, count)

        return timed

    name = f"{len(many)} shapes, 40 of each, cold"
    print(alternate(name, cold(by_list, 40), cold(by_sweep, 40), 1, time.process_time), flush=True)


# --- a diagram beside a loop ------------------------------------------------------------------------------------------


def loop(posed) -> np.ndarray:
    """Does p select the best tokens, by what one writes: True or False for each problem."""
    keys = np.stack([data.keys for data, _ in posed])
    scores = np.stack([data.tokens[..., 0] for data, _ in posed])
    p = np.stack([start for _, start in posed])
    step = by_torch(keys, scores)
    for _ in range(STEPS):
        gradient = step(p)
        p = p - LR * gradient / np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True), 1e-300)
    best = np.einsum("bntd,bd->bnt", keys, p).argmax(axis=2) == scores.argmax(axis=2)
    return best.all(axis=1)


def by_torch(keys, scores):
    try:
        import torch
    except ImportError:
        return lambda p: by_numpy(keys, scores, p)
    torch.set_num_threads(1)
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


def by_radau(data, start, rtol: float = RADAU_RTOL) -> bool | None:
    """The same by SciPy's Radau on -grad L over the sum of its pairs' weights, in logarithms; None if it gives up."""
    from scipy.integrate import solve_ivp
    from scipy.special import log_softmax

    keys, gamma = data.keys, data.tokens[..., 0]
    apart, ahead = keys[:, :, None] - keys[:, None], gamma[:, :, None] - gamma[:, None]
    with np.errstate(divide="ignore"):
        sizes = np.log(np.abs(ahead))
    until = max(1e4, FURTHER * np.linalg.norm(start))

    def field(_, p):
        log_s = log_softmax(keys @ p, axis=1)
        log_slope = -np.logaddexp(0.0, (np.exp(log_s) * gamma).sum(axis=1))  # of log(1 + exp(-f))
        log_w = log_slope[:, None, None] + log_s[:, :, None] + log_s[:, None, :] + sizes
        weights = np.exp(log_w - log_w.max())
        return np.einsum("ntu,ntud->d", np.sign(ahead) * weights, apart) / weights.sum()

    def reached(_, p):
        return float(np.linalg.norm(p) - until)

    reached.terminal = True
    found = solve_ivp(field, (0.0, LONGEST), start, method="Radau", rtol=rtol, atol=1e3 * rtol, events=reached)
    if found.status < 0:
        return None
    return bool(found.status == 1 and ((keys @ found.y[:, -1]).argmax(axis=1) == gamma.argmax(axis=1)).all())


def radau_again(norm: float, width: int, seeds: list[int]) -> None:
    """What Radau says of some problems of a cell at finer and finer tolerances, beside the flow."""
    for seed in seeds:
        data, start = problem(norm, width, seed)
        flow = bool(selects_best(tm.follow(tm.AttentionRisk(data), start, tm.Flow()).limit))
        said = {f"{rtol:.0e}": by_radau(data, start, rtol) for rtol in (RADAU_RTOL, RADAU_RTOL / 10, RADAU_RTOL / 100)}
        print(f"width {width}, norm {norm:g}, problem {seed}: the flow says {flow}, Radau by rtol {said}", flush=True)


def cell(norm: float, width: int, problems: int, judged: int) -> dict[str, float]:
    """Flow and loop on the same problems of a cell, their seconds, and what two judges say of the flow."""
    posed = [problem(norm, width, seed) for seed in range(problems)]
    _ = tm.follow([data for data, _ in posed[:64]], [start for _, start in posed[:64]], tm.Flow()).limits  # compile
    ticks = [time.process_time()]
    limits = tm.follow([data for data, _ in posed], [start for _, start in posed], tm.Flow()).limits
    said = [selects_best(limit) for limit in limits]
    ticks.append(time.process_time())
    other = loop(posed)
    ticks.append(time.process_time())
    known, best = np.array([one is not None for one in said]), np.array([bool(one) for one in said])
    wrong = np.flatnonzero(known & (best != other))
    asked = [*wrong[:judged].tolist(), *np.flatnonzero(known & (best == other))[: judged // 4].tolist()]
    answers = {j: by_radau(*posed[j]) for j in asked}
    far = [j for j, limit in enumerate(limits) if limit.diverges]
    solutions = att_svm_batch([posed[j][0] for j in far], [limits[j].selection for j in far])
    errors = [
        0.5 * float(np.sum((limits[j].velocity - solution.direction) ** 2)) if solution.is_optimal() else np.inf
        for j, solution in zip(far, solutions, strict=True)
    ]
    return {
        "best": best.sum(),
        "undecided": (~known).sum(),
        "diverges": len(far),
        "loop_best": other.sum(),
        "wrong": len(wrong),
        "radau_says": sum(one is not None for one in answers.values()),
        "radau_gave_up": sum(one is None for one in answers.values()),
        "radau_says_flow": sum(one is not None and one == best[j] for j, one in answers.items()),
        "largest_error": max(errors, default=0.0),
        "flow_seconds": ticks[1] - ticks[0],
        "loop_seconds": ticks[2] - ticks[1],
    }


def diagram(problems: int, judged: int, processes: int, kept: Path | None, out: Path | None) -> None:
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(processes, get_context("spawn"))) if processes > 1 else None
        over, begin = (map if pool is None else pool.map), time.perf_counter()
        found = tm.phase_diagram(
            problem, x={"norm": NORMS}, y={"width": WIDTHS}, problems=problems, map=over, folder=kept
        )
        seconds = time.perf_counter() - begin
        grid = {"width": list(WIDTHS), "norm": list(NORMS), "problems": [problems], "judged": [judged]}
        table = tm.sweep(cell, grid, map=over, folder=kept)
    columns = {name: table[name].reshape(found.counts.shape) for name in table if name not in grid}
    assert (columns["best"] == found.counts).all()
    assert (columns["undecided"] == found.undecided).all()
    print("\n".join(told(found, columns, seconds, processes)), flush=True)
    if out is not None:
        numbers = {name: column.tolist() for name, column in columns.items()}
        whole = {"norms": NORMS, "widths": WIDTHS, "problems": problems, **numbers, "seconds": seconds}
        out.mkdir(parents=True, exist_ok=True)
        (out / "diagram.json").write_text(json.dumps(whole | {"interval": found.interval.tolist()}, indent=1) + "\n")
        draw(found, columns, out / "figure.png")


def told(found: PhaseDiagram, columns: dict[str, np.ndarray], seconds: float, processes: int) -> list[str]:
    """The study in lines, what speaks against us first."""
    c, all_of = columns, found.problems * found.counts.size
    each = [1e3 * c[f"{name}_seconds"].sum() / all_of for name in ("flow", "loop")]
    right = (c["wrong"] == 0).sum()
    lines = [
        f"{found.counts.size} cells of {found.problems} problems of n = 2 inputs of T = 4 tokens.",
        f"Against us first. Undecided by the flow: {c['undecided'].sum()} of {all_of}. Cells in which the loop is "
        f"never wrong, so that nothing was gained: {right} of {c['wrong'].size}. Radau was asked about "
        f"{(c['radau_says'] + c['radau_gave_up']).sum()} problems, most of them where flow and loop differ: it says "
        f"otherwise than the flow in {(c['radau_says'] - c['radau_says_flow']).sum()}, and gave up on "
        f"{c['radau_gave_up'].sum()}.",
        f"Milliseconds of the processor for a problem: {each[0]:.3f} by the flow, {each[1]:.3f} by the loop of {STEPS} "
        "steps, in one thread.",
        f"Largest 1 - cos between the velocity of a limit and the max-margin direction of its tokens, over "
        f"{c['diverges'].sum()} limits: {c['largest_error'].max():.1e}.",
        f"tm.phase_diagram alone: {seconds:.0f} s by the clock, {processes} process(es), compilation included (of what "
        "was not kept before).",
        "norm of the start:                   " + "".join(f"{norm:>16}" for norm in NORMS),
    ]
    for i, width in enumerate(WIDTHS):
        intervals = [f"{low:.3f}-{high:.3f}" for low, high in found.interval[i]]
        rows = {
            f"width {width}: share by the flow": [f"{one:.3f}" for one in found.share[i]],
            "  its 95% interval": intervals,
            "  share by the loop": [f"{one / found.problems:.3f}" for one in c["loop_best"][i]],
            "  problems the loop gets wrong": [str(one) for one in c["wrong"][i]],
            "  seconds, flow and loop": [
                f"{a:.1f}, {b:.1f}" for a, b in zip(c["flow_seconds"][i], c["loop_seconds"][i], strict=True)
            ],
        }
        lines += [f"{name:<37}" + "".join(f"{one:>16}" for one in row) for name, row in rows.items()]
    return lines


def draw(found: PhaseDiagram, columns: dict[str, np.ndarray], path: Path) -> None:
    """Shares by the flow, by the loop, and of problems that the loop gets wrong, as three heat maps."""
    from dataclasses import replace

    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.4), layout="constrained")
    found.plot(axes[0])
    by = replace(found, beside={"the loop": columns["loop_best"]})
    by.plot(axes[1], beside="the loop")
    replace(found, counts=columns["wrong"]).plot(axes[2])
    for ax, title in zip(axes, ("p selects the best tokens: flow", "loop", "the loop is wrong"), strict=True):
        ax.set(title=title, xlabel="norm of the start")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("throughput", "diagram", "radau"))
    parser.add_argument("--rounds", type=int, default=5, help="of the throughput")
    parser.add_argument("--problems", type=int, default=200, help="of a cell")
    parser.add_argument("--judged", type=int, default=12, help="problems of a cell that a third judge is asked about")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kept", type=Path, help="folder of finished cells")
    parser.add_argument("--norm", type=float, default=60.0, help="of the cell that `radau` asks about")
    parser.add_argument("--width", type=int, default=2, help="of the same")
    parser.add_argument("--seeds", type=int, nargs="+", default=[47, 162], help="its problems")
    parser.add_argument("--out", type=Path, help="folder for diagram.json and figure.png")
    given = parser.parse_args()
    if given.what == "throughput":
        throughput(given.rounds)
    elif given.what == "radau":
        radau_again(given.norm, given.width, given.seeds)
    else:
        diagram(given.problems, given.judged, given.processes, given.kept, given.out)


if __name__ == "__main__":
    main()
