"""Certificates that are false by construction, or prove nothing: none may be verified, and of true ones every one.

Every other one is in a norm that is not Euclidean.

`python -m tests.torture.forgeries 10000` prints how many of each way of being false there were, and were accepted.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from tests import forged_certificates, forged_norms
from tokenmargin.verify import verify

COUNT = 10_000


def main(count: int = COUNT, seed: int = 0) -> int:
    """The number of false certificates that were accepted, and of true ones that were not; a tenth are true."""
    rng = random.Random(seed)
    drawn, accepted = Counter[str](), Counter[str]()
    for k in range(count):
        name, content = (forged_certificates, forged_norms)[k % 2].forgery(rng)
        drawn[name] += 1
        accepted[name] += verify(content).verified
    true = [(forged_certificates, forged_norms)[k % 2].truth(rng) for k in range(count // 10)]
    refused = sum(not verify(content).verified for content in true)
    for name, number in sorted(drawn.items()):
        print(f"{name}: {accepted[name]} of {number} accepted")
    print(f"{accepted.total()} of {count} false ones accepted, {refused} of {count // 10} true ones refused")
    return accepted.total() + refused


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
