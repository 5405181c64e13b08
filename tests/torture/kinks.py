"""Flows behind heads with kinks, of ten laws, beside 100,000 small steps of gradient descent from the same start.

`python -m tests.torture.kinks --count 1000 --processes 8 --folder kinks` prints a table: for each law the kinds of
limits, how many stalled and why, and how many ended higher than the descent. Each of these is tried again with steps a
tenth and a hundredth as long: the flow is what short steps tend to, so the descent must then end where the flow does,
or higher. A piece of the study is a file of the folder; those that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import zlib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import jax
import numpy as np

from tests.kinked_problems import LAWS, Descent, Problem
from tokenmargin import Flow
from tokenmargin.attention import follow_all

COUNT, STEPS, RATE = 1000, 100_000, 0.02
#: Problems of a piece.
PIECE = 25
#: How much higher an end may be: rounding of the risk.
HIGHER = 1e-9
#: Share of ends that may be higher than the descent's.
OTHER_BRANCH = 0.01
#: How often shorter the steps are that show whether an end is of another branch.
SHORTER = (10, 100)


def drawn(law: str, numbers: range, seed: int = 0) -> list[Problem]:
    """Problems of a law, by their numbers."""
    return [LAWS[law](np.random.default_rng([seed, zlib.crc32(law.encode()), j])) for j in numbers]


def pieces(count: int) -> list[tuple[str, range]]:
    """Every law with the numbers of its problems, in pieces, so that laws take turns."""
    each = -(-count // len(LAWS))
    return [(law, range(at, min(at + PIECE, each))) for at in range(0, each, PIECE) for law in LAWS]


def compared(law: str, numbers: range, seed: int, steps: int) -> list[dict]:
    """What became of each problem of a piece."""
    problems, begin = drawn(law, numbers, seed), time.process_time()
    runs = follow_all([one.risk for one in problems], [one.start for one in problems], Flow())
    took = (time.process_time() - begin) / len(problems)
    descent = Descent(problems)
    below = descent.values(descent.run(RATE, steps))
    ends = np.array([run.risk.value(run.final) for run in runs])
    higher = np.flatnonzero(ends > below + HIGHER)
    left = set(higher[unexplained([problems[j] for j in higher], ends[higher], steps)].tolist())
    return [
        {
            "law": law,
            "number": numbers[j],
            "kind": run.limit.kind.value,
            "reason": run.limit.reason,
            "kinks": len(run.limit.kinks),
            "flow": float(ends[j]),
            "descent": float(below[j]),
            "higher": j in higher,
            "explained": j not in left,
            "seconds": took,
        }
        for j, run in enumerate(runs)
    ]


def unexplained(problems: list[Problem], ends: np.ndarray, steps: int) -> list[int]:
    """Numbers of those that descents with shorter steps still end below."""
    left = np.arange(len(problems))
    for shorter in SHORTER:
        if len(left):
            descent = Descent([problems[j] for j in left])
            below = descent.values(descent.run(RATE / shorter, steps * min(shorter, 30)))
            left = left[ends[left] > below + HIGHER]
    return left.tolist()


def computed(piece: tuple[str, range], folder: Path, seed: int, steps: int) -> str:
    """The file of a piece, computed if it is not there."""
    jax.config.update("jax_enable_x64", True)
    law, numbers = piece
    file = folder / f"{law.replace(' ', '-')}-{seed}-{numbers.start}-{numbers.stop}.json"
    if not file.exists():
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(compared(law, numbers, seed, steps), indent=0))
        unfinished.replace(file)
    return file.name


def study(folder: Path, count: int, seed: int, steps: int = STEPS, processes: int = 1) -> list[dict]:
    """Every row of the study, computed in so many processes."""
    folder.mkdir(parents=True, exist_ok=True)
    each = partial(computed, folder=folder, seed=seed, steps=steps)
    todo, names = pieces(count), []
    if processes == 1:
        names = [each(piece) for piece in todo]
    else:
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
            for name in pool.map(each, todo):
                names.append(name)
                print(f"{len(names)} of {len(todo)}: {name}", file=sys.stderr, flush=True)
    return [row for name in names for row in json.loads((folder / name).read_text())]


def table(rows: list[dict]) -> list[str]:
    """The rows of the study by law, as Markdown, and what stalled and ended higher one by one."""
    columns = ("problems", "diverges", "finite", "mixed", "stalled", "at kinks", "higher", "of those unexplained")
    lines = [f"| law | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for law in (*LAWS, "all"):
        own = [row for row in rows if law in (row["law"], "all")]
        kinds = Counter(row["kind"] for row in own)
        told = [len(own), *(kinds[kind] for kind in columns[1:5]), sum(row["kinks"] > 0 for row in own)]
        told += [sum(row["higher"] for row in own), sum(not row["explained"] for row in own)]
        lines.append(f"| {law} | {' | '.join(map(str, told))} |")
    stalled = Counter((row["law"], _kind_of(row["reason"])) for row in rows if row["kind"] == "stalled")
    lines += ["", *(f"- {number} x {law}: {reason}" for (law, reason), number in sorted(stalled.items()))]
    for row in rows:
        if row["higher"] or is_unnamed(row):
            lines.append(
                f"- {row['law']} {row['number']}: {row['kind']}, flow {row['flow']:.9g}, descent {row['descent']:.9g}"
                f"{'' if row['explained'] else ', NOT EXPLAINED'}: {row['reason']}"
            )
    return lines


def _kind_of(reason: str) -> str:
    """A reason without the units and shares that it names."""
    head, *tail = reason.split("unit ")
    return head + ("..." + tail[-1].partition(")")[2] if tail else "")


def is_unnamed(row: dict) -> bool:
    """True if a run stalled without a reason of its own."""
    return row["kind"] == "stalled" and "Neither" in row["reason"]


def failures(rows: list[dict]) -> int:
    """Stalls without a reason of their own, higher ends that no shorter steps explain, and 1 if too many are higher."""
    higher = sum(row["higher"] for row in rows)
    wrong = sum(is_unnamed(row) or not row["explained"] for row in rows)
    return wrong + int(higher > OTHER_BRANCH * len(rows))


def main(count: int = COUNT, seed: int = 0, steps: int = STEPS) -> int:
    """Number of failures, as `failures` counts them."""
    with tempfile.TemporaryDirectory() as folder:
        rows = study(Path(folder), count, seed, steps)
    print("\n".join(table(rows)))
    return failures(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.torture.kinks")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True)
    known = parser.parse_args()
    found = study(known.folder, known.count, known.seed, known.steps, known.processes)
    print("\n".join(table(found)))
    sys.exit(int(failures(found) > 0))
