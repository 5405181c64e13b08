"""Pickles of CIFAR-10, right and hostile ones, changed at random: read or refused, and the process lives.

Every batch of them is read in a process of its own, so that one that breaks memory is seen and named.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter

import numpy as np

from tests.papers.maxmargin.vit.hostile_pickles import HOSTILE, original
from tests.torture._call import outcome
from tests.torture._mutation import mutated
from tokenmargin.papers.maxmargin.vit._plain_pickle import plain_values

#: Mutated pickles of one process.
BATCH = 500

#: Longer ones teach nothing that these do not, and take their time.
LONGEST = 30_000


def seeds() -> list[bytes]:
    """What is changed: a right file, twice as likely as all hostile ones together, and those."""
    short = [raw for raw in HOSTILE.values() if len(raw) < LONGEST]
    right = original(np.arange(3072, dtype=np.uint8).reshape(1, 3072), [3])
    small = original(np.zeros((0, 3072), np.uint8), [])
    return [right, small] * len(short) + short


def batch(count: int, seed: int) -> Counter[str]:
    """Read so many changed pickles here; how they ended."""
    rng, corpus, ends = random.Random(seed), seeds(), Counter[str]()
    for number in range(count):
        data = mutated(rng.choice(corpus), corpus, rng)
        said = outcome(plain_values, {"raw": data})
        ends[said] += 1
        if said not in ("answered", "refused"):
            print(f"  pickle {number} of seed {seed}, {said}: {data[:400].hex()}", flush=True)
    return ends


def main(count: int = 10_000, seed: int = 0) -> int:
    """The number of failures among so many pickles."""
    failures, ends = 0, Counter[str]()
    for part in range(-(-count // BATCH)):
        own, share = seed * 10_000 + part, min(BATCH, count - part * BATCH)
        program = f"import json; from tests.torture.pickles import batch; print(json.dumps(batch({share}, {own})))"
        ended = subprocess.run([sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, text=True)
        *told, last = ended.stdout.splitlines() or ["{}"]
        print("\n".join(told), end="\n" if told else "")
        if ended.returncode != 0:
            name = signal.Signals(-ended.returncode).name if ended.returncode < 0 else ended.returncode
            print(f"  seed {own} ended with {name}: {ended.stderr[-1500:]}", flush=True)
            failures += 1
            continue

        ends.update(json.loads(last))
    failures += sum(times for said, times in ends.items() if said not in ("answered", "refused"))
    print(f"{sum(ends.values())} changed pickles: {dict(ends)}")
    return failures


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
