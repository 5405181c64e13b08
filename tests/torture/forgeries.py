"""Certificates that are false by construction: none may be verified, and of true ones every one.

`python -m tests.torture.forgeries 10000` prints how many of each way of being false there were, and were accepted.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from tests.forged_certificates import forgery, truth
from tokenmargin.verify import verify

COUNT = 10_000


def main(count: int = COUNT, seed: int = 0) -> int:
    """The number of false certificates that were accepted, and of true ones that were not; a tenth are true."""
    rng = random.Random(seed)
    drawn, accepted = Counter[str](), Counter[str]()
    for _ in range(count):
        name, content = forgery(rng)
        drawn[name] += 1
        accepted[name] += verify(content).verified
    refused = sum(not verify(truth(rng)).verified for _ in range(count // 10))
    for name, number in sorted(drawn.items()):
        print(f"{name}: {accepted[name]} of {number} accepted")
    print(f"{accepted.total()} of {count} false ones accepted, {refused} of {count // 10} true ones refused")
    return accepted.total() + refused


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
