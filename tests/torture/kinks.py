"""Flows behind heads with kinks, of ten laws, beside 100,000 small steps of gradient descent from the same start.

`python -m tests.torture kinks --count 1000` prints for each law the kinds of limits, how many stalled and why, and how
many ended higher than the descent. Each of these is tried again with steps a tenth and a hundredth as long: the flow is
what short steps tend to, so the descent must then end where the flow does, or higher.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter

import jax
import numpy as np

from tests.kinked_problems import LAWS, Descent, Problem
from tokenmargin import Flow
from tokenmargin.attention import follow_all

COUNT, STEPS, RATE = 1000, 100_000, 0.02
#: How much higher an end may be: rounding of the risk.
HIGHER = 1e-9
#: Share of ends that may be higher than the descent's.
OTHER_BRANCH = 0.01


def drawn(law: str, count: int, seed: int) -> list[Problem]:
    """Problems of a law."""
    rng = np.random.default_rng([seed, zlib.crc32(law.encode())])
    return [LAWS[law](rng) for _ in range(count)]


def main(count: int = COUNT, seed: int = 0, steps: int = STEPS) -> int:
    """Number of failures: stalls without a reason of their own, and higher ends that no shorter steps explain."""
    jax.config.update("jax_enable_x64", True)
    each, failures, higher_ends = -(-count // len(LAWS)), 0, 0
    for law in LAWS:
        problems, begin = drawn(law, each, seed), time.perf_counter()
        runs = follow_all([one.risk for one in problems], [one.start for one in problems], Flow())
        took = time.perf_counter() - begin
        descent = Descent(problems)
        below = descent.values(descent.run(RATE, steps))
        ends = np.array([run.risk.value(run.final) for run in runs])
        kinds = Counter(run.limit.kind.value for run in runs)
        reasons = Counter(run.limit.reason for run in runs if run.limit.stalled)
        unnamed = sum(number for reason, number in reasons.items() if "Neither" in reason)
        higher = np.flatnonzero(ends > below + HIGHER)
        left = unexplained([problems[j] for j in higher], ends[higher], steps) if len(higher) else []
        failures, higher_ends = failures + unnamed + len(left), higher_ends + len(higher)
        print(f"{law}: {dict(kinds)}; higher {len(higher)}, not explained {len(left)}; {took:.0f} s", flush=True)
        for reason, number in reasons.items():
            print(f"    {number} x {reason}")
        for j in higher:
            print(f"    problem {j}: flow {ends[j]:.9g}, descent {below[j]:.9g}, {runs[j].limit}")
    print(f"higher ends: {higher_ends} of {each * len(LAWS)}")
    return failures + int(higher_ends > OTHER_BRANCH * each * len(LAWS))


def unexplained(problems: list[Problem], ends: np.ndarray, steps: int) -> list[int]:
    """Numbers of those that descents with shorter steps still end below."""
    left = np.arange(len(problems))
    for shorter in (10, 100):
        descent = Descent([problems[j] for j in left])
        below = descent.values(descent.run(RATE / shorter, steps * min(shorter, 30)))
        left = left[ends[left] > below + HIGHER]
        if not len(left):
            break
    return left.tolist()
