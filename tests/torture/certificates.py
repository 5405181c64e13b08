"""Genuine answers of many laws, written as certificates: how many are proved exactly, and what the rest say.

`python -m tests.torture.certificates 1600` prints a line for each law of solutions and of limits: how many came from
the solver, and how many were proved exactly (the shortest p, or that there is none), by a bracket, by a bound, or were
not written, and why.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import tokenmargin as tm
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory import write_certificate
from tokenmargin.verify import verify_file

COUNT = 1600
#: Share of genuine answers that are proved exactly.
LEAST_EXACT = 0.99
#: What a certificate states where nothing weaker would do.
EXACT = ("shortest", "infeasible", "limit")


def _keys(rng: np.random.Generator, ties: bool = False) -> tuple[np.ndarray, tm.Selection]:
    """Normal keys of d from 1 to 30, and the tokens that a random p selects, or half the time others."""
    n, T, d = int(rng.integers(1, 9)), int(rng.integers(2, 7)), int(rng.integers(1, 31))
    keys = rng.normal(size=(n, T, d))
    picked = (keys @ rng.normal(size=d)).argmax(axis=1) if rng.random() < 0.7 else rng.integers(T, size=n)
    chosen = np.eye(T, dtype=bool)[picked]
    if ties:
        chosen |= rng.random((n, T)) < 0.2
    return keys, tm.Selection(chosen)


def _of(keys: np.ndarray) -> tm.EmbeddedSequences:
    return tm.EmbeddedSequences.from_scores(keys, np.zeros(keys.shape[:2]))


def normal(rng: np.random.Generator) -> tm.MarginSolution:
    """One token of each input."""
    keys, selection = _keys(rng)
    return tm.att_svm(_of(keys), selection)


def tied(rng: np.random.Generator) -> tm.MarginSolution:
    """Several tokens of some inputs."""
    keys, selection = _keys(rng, ties=True)
    return tm.att_svm(_of(keys), selection)


def relaxed(rng: np.random.Generator) -> tm.MarginSolution:
    """Margin 0 for some inputs."""
    keys, selection = _keys(rng, ties=rng.random() < 0.3)
    return tm.relaxed_svm(_of(keys), selection, rng.random(len(keys)) < 0.4)


def scaled(rng: np.random.Generator) -> tm.MarginSolution:
    """Inputs in units that differ by up to 10^12."""
    keys, selection = _keys(rng, ties=rng.random() < 0.3)
    return tm.att_svm(_of(keys * 10.0 ** rng.uniform(-6, 6, size=(len(keys), 1, 1))), selection)


def whole(rng: np.random.Generator) -> tm.MarginSolution:
    """Small whole numbers: repeated keys, rows that depend on each other, zero duals."""
    keys, selection = _keys(rng, ties=rng.random() < 0.3)
    return tm.att_svm(_of(np.round(keys)[:, :, :4]), selection)


def nearly(rng: np.random.Generator) -> tm.MarginSolution:
    """Tokens that nearly repeat others of their input."""
    keys, selection = _keys(rng)
    keys[:, -1] = keys[:, 0] * (1 + 10.0 ** rng.uniform(-13, -6) * rng.normal(size=keys[:, 0].shape))
    return tm.att_svm(_of(keys), selection)


def rows(rng: np.random.Generator) -> tm.MarginSolution:
    """Rows z against 0, as pairs and labels have it; some of them asked level."""
    m, d = int(rng.integers(1, 20)), int(rng.integers(1, 31))
    z = rng.normal(size=(m, d)) + rng.normal(size=d) * rng.choice([0.0, 1.0])
    chosen = np.zeros((m, 2), dtype=bool)
    chosen[:, 0] = True
    chosen[1:, 1] = rng.random(m - 1) < 0.15
    return tm.att_svm(_of(np.stack([z, np.zeros_like(z)], axis=1)), tm.Selection(chosen))


def shifted(rng: np.random.Generator) -> tm.MarginSolution:
    """Another origin for each input, far away."""
    keys, selection = _keys(rng)
    return tm.att_svm(_of(keys + 10.0 ** rng.uniform(0, 6) * rng.normal(size=(len(keys), 1, keys.shape[2]))), selection)


def _limit(keys: np.ndarray, scores: np.ndarray, rng: np.random.Generator) -> tm.Limit:
    data = tm.EmbeddedSequences.from_scores(keys, scores)
    start = np.zeros(keys.shape[2]) if rng.random() < 0.5 else 3 * rng.normal(size=keys.shape[2])
    return tm.follow(tm.AttentionRisk(data), start, tm.Flow()).limit


def limits(rng: np.random.Generator) -> tm.Limit:
    """Normal keys and scores."""
    n, T, d = ((2, 3, 2), (4, 6, 5), (3, 4, 8), (2, 4, 12))[int(rng.integers(4))]
    return _limit(rng.normal(size=(n, T, d)), rng.normal(size=(n, T)), rng)


def tied_limits(rng: np.random.Generator) -> tm.Limit:
    """Whole numbers for keys and scores: repeated keys, equal rows in several inputs, scores that tie."""
    n, T, d = ((2, 3, 2), (3, 4, 3))[int(rng.integers(2))]
    return _limit(rng.integers(-2, 3, (n, T, d)).astype(float), rng.integers(0, 3, (n, T)).astype(float), rng)


def scaled_limits(rng: np.random.Generator) -> tm.Limit:
    """Keys times 10^-6 to 10^6."""
    n, T, d = ((2, 3, 2), (4, 6, 5))[int(rng.integers(2))]
    return _limit(rng.normal(size=(n, T, d)) * 10.0 ** rng.uniform(-6, 6), rng.normal(size=(n, T)), rng)


SOLUTIONS = (normal, tied, relaxed, scaled, whole, nearly, rows, shifted)
LIMITS = (limits, tied_limits, scaled_limits)


def outcome(answer: tm.MarginSolution | tm.Limit, path: Path) -> tuple[str, float]:
    """What the certificate of an answer states, or why there is none; and how long verifying took."""
    settled = answer.diverges if isinstance(answer, tm.Limit) else answer.status in SETTLED
    if not settled:
        return "nothing asked or decided", 0.0
    try:
        write_certificate(answer, path)
    except InvalidInputError as why:
        return f"not written: {' '.join(str(why).split()[:24])}", 0.0
    begin = time.perf_counter()
    verdict = verify_file(path)
    taken = time.perf_counter() - begin
    kind = json.loads(path.read_text(encoding="utf-8"))["kind"]
    if kind == "limit" and "relative width" in verdict.because:
        kind = "limit of a bracket"
    return (kind if verdict.verified else f"REFUSED: {verdict.because}"), taken


SETTLED = (tm.Status.OPTIMAL, tm.Status.INFEASIBLE)


def main(count: int = COUNT, seed: int = 0) -> int:
    """Print the counts of every law; the number of laws in which fewer than `LEAST_EXACT` are proved exactly."""
    failures, total = 0, Counter[bool]()
    with tempfile.TemporaryDirectory() as folder:
        for law in (*SOLUTIONS, *LIMITS):
            rng = np.random.default_rng([seed, (*SOLUTIONS, *LIMITS).index(law)])
            tally, slowest = Counter[str](), 0.0
            for _ in range(count // len(SOLUTIONS)):
                stated, taken = outcome(law(rng), Path(folder) / "certificate.json")
                tally[stated] += 1
                slowest = max(slowest, taken)
            asked = sum(tally.values()) - tally["nothing asked or decided"]
            proved = sum(tally[kind] for kind in EXACT)
            total += Counter({True: proved, False: asked - proved})
            failures += proved < LEAST_EXACT * asked
            print(
                f"{law.__name__}: {proved} of {asked} proved exactly, slowest {slowest:.2f} s; {dict(tally)}",
                flush=True,
            )
    print(f"in all {total[True]} of {total.total()} proved exactly")
    return failures


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
