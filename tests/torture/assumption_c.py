"""Assumption C on degenerate problems: every answer against the definition, at the p that lose the least margin.

`python -m tests.torture.assumption_c 1000` prints for each law how many were yes, no, left undecided and wrong.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from tests.references import exact_loss_rate, label_margins, loss_rates
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.papers.maxmargin import AssumptionC, assumption_c
from tokenmargin.theory import Applies

Drawn = tuple[EmbeddedSequences, Selection]
COUNT = 1000

#: Rounding of (Gamma - margin)/q in float64 where q is at least `LEAST_MIXED`, in units of Gamma.
ROUNDING, LEAST_MIXED = 1e-7, 1e-7

#: A no is borne out where some p loses less than this share of Gamma beside what it mixes.
VANISHED = 1e-3


# --- Laws -------------------------------------------------------------------------------------------------------------


def sizes(rng: np.random.Generator) -> tuple[int, int, int, int]:
    """(n, T, k, d)."""
    n, T, k, d = rng.integers([1, 1, 1, 1], [4, 4, 4, 4])
    return int(n), int(T), int(k), int(d)


def best(data: EmbeddedSequences) -> Selection:
    """The choice of largest label margin, the first of several."""
    signed = data.labels[:, None, None] * data.tokens
    choices = (
        np.array(np.meshgrid(*(np.flatnonzero(row) for row in data.mask), indexing="ij")).reshape(len(signed), -1).T
    )
    margins = label_margins(signed[np.arange(len(signed)), choices])
    return Selection.from_indices(choices[margins.argmax()], data.n_places)


def of(tokens: np.ndarray, labels: np.ndarray, keys: np.ndarray | None, mask: np.ndarray | None = None):
    return EmbeddedSequences(tokens, labels, np.ones(tokens.shape[2]), keys, mask)


def generic(rng: np.random.Generator) -> Drawn:
    """Tokens and keys N(0, I), keys of their own or the tokens; the best choice."""
    n, T, k, d = sizes(rng)
    keys = rng.normal(size=(n, T, d)) if rng.random() < 0.7 else None
    data = of(rng.normal(size=(n, T, k)), rng.choice([-1.0, 1.0], size=n), keys)
    return data, best(data)


def shorter(rng: np.random.Generator) -> Drawn:
    """Nearly parallel first tokens, all others shorter: many a yes."""
    n, T, k, d = sizes(rng)
    labels, tokens = rng.choice([-1.0, 1.0], size=n), rng.normal(size=(n, T, k))
    tokens *= rng.uniform(0.3, 1, size=(n, T, 1)) / np.linalg.norm(tokens, axis=2, keepdims=True)
    tokens[:, 0] = labels[:, None] * (np.eye(k)[0] + 0.3 * rng.normal(size=(n, k)))
    return of(tokens, labels, rng.normal(size=(n, T, d))), Selection.from_indices([0] * n, T)


def zero_duals(rng: np.random.Generator) -> Drawn:
    """One selected token is the classifier itself; the others lie on its margin, with dual 0, on either side."""
    n, T, k, d = sizes(rng)
    n, k = max(n, 2), max(k, 2)
    tokens, labels = rng.integers(-2, 3, size=(n, T, k)).astype(float), rng.choice([-1.0, 1.0], size=n)
    tokens[:, :, 0] = rng.integers(-1, 1, size=(n, T))  # costly, by whole numbers
    tokens[:, 0, 0] = 1.0
    tokens[0, 0, 1:] = 0.0
    keys = rng.integers(-2, 3, size=(n, T, d)).astype(float) if rng.random() < 0.7 else rng.normal(size=(n, T, d))
    return of(labels[:, None, None] * tokens, labels, keys), Selection.from_indices([0] * n, T)


def many_duals(rng: np.random.Generator) -> Drawn:
    """More selected tokens on the margin than it takes: optimal weights are not unique."""
    n, (_, T, _, d) = 4, sizes(rng)
    tokens = rng.integers(-2, 3, size=(n, T, 2)).astype(float)
    tokens[:, :, 0] = rng.integers(-1, 2, size=(n, T)) if rng.random() < 0.5 else rng.integers(-1, 1, size=(n, T))
    tokens[:, 0] = np.column_stack([np.ones(n), rng.integers(-2, 3, size=n)])
    keys = rng.integers(-2, 3, size=(n, T, d)).astype(float) if rng.random() < 0.7 else rng.normal(size=(n, T, d))
    return of(tokens, np.ones(n), keys), Selection.from_indices([0] * n, T)


def duplicates(rng: np.random.Generator) -> Drawn:
    """An input again, with the same keys or others, and a token again, with the same key or another."""
    data, _ = generic(rng)
    tokens, keys, labels = data.tokens.copy(), data.keys.copy(), data.labels.copy()
    if rng.random() < 0.6:
        tokens[-1], labels[-1] = tokens[0], labels[0]
        keys[-1] = keys[0] if rng.random() < 0.5 else keys[-1]
    if rng.random() < 0.6:
        tokens[0, -1] = tokens[0, 0]
        keys[0, -1] = keys[0, 0] if rng.random() < 0.5 else keys[0, -1]
    data = of(tokens, labels, keys)
    return data, best(data)


def whole(rng: np.random.Generator) -> Drawn:
    """Small whole numbers; the best choice or any."""
    n, T, k, d = sizes(rng)
    most = rng.integers(1, 4)
    tokens, keys = (rng.integers(-most, most + 1, size=(n, T, width)).astype(float) for width in (k, d))
    data = of(tokens, rng.choice([-1.0, 1.0], size=n), keys)
    return data, best(data) if rng.random() < 0.7 else Selection.from_indices(rng.integers(T, size=n), T)


def near_ties(rng: np.random.Generator) -> Drawn:
    """Degenerate problems with some numbers a little off."""
    data, selection = (whole, zero_duals, many_duals, duplicates)[rng.integers(4)](rng)
    off = 10.0 ** -rng.integers(3, 16)
    noise = [off * rng.normal(size=x.shape) * (rng.random(x.shape) < 0.3) for x in (data.tokens, data.keys)]
    return of(data.tokens + noise[0], data.labels, data.keys + noise[1]), selection


def ragged(rng: np.random.Generator) -> Drawn:
    """Inputs of one token beside others, masked places between."""
    data, _ = (generic, whole, duplicates)[rng.integers(3)](rng)
    mask = rng.random(data.mask.shape) < 0.6
    mask[np.arange(len(mask)), rng.integers(data.n_places, size=len(mask))] = True
    data = of(data.tokens, data.labels, data.keys, mask)
    return data, best(data)


def one_input(rng: np.random.Generator) -> Drawn:
    """One input, or one token in each."""
    data, _ = (generic, whole)[rng.integers(2)](rng)
    some = (slice(None), slice(0, 1)) if rng.random() < 0.2 else (slice(0, 1), slice(None))
    data = of(data.tokens[some], data.labels[some[0]], data.keys[some])
    return data, best(data)


def rescaled(rng: np.random.Generator) -> Drawn:
    """Tokens and keys in other units, each input's keys in its own; another origin of the keys."""
    data, selection = (shorter, whole, zero_duals)[rng.integers(3)](rng)
    unit, own = 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.choice([0.0, -6.0, 6.0])
    keys = own * (data.keys + rng.integers(-3, 4, size=(data.n_inputs, 1, data.width)))
    return of(unit * data.tokens, data.labels, keys), selection


LAWS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "generic": generic,
    "shorter": shorter,
    "zero duals": zero_duals,
    "many duals": many_duals,
    "duplicates": duplicates,
    "whole numbers": whole,
    "near ties": near_ties,
    "masked": ragged,
    "n = 1 or T = 1": one_input,
    "rescaled": rescaled,
}


# --- The definition ---------------------------------------------------------------------------------------------------


def tried_points(data: EmbeddedSequences, selection: Selection, rng: np.random.Generator, count: int) -> np.ndarray:
    """Points of all lengths, and such whose logits behind the selected tokens are, nearly, what is asked for."""
    own = data.keys[np.arange(data.n_inputs), selection.indices][:, None]
    gaps = (own - data.keys)[data.mask & ~selection.chosen]
    unit = float(np.linalg.norm(gaps, axis=1).max(initial=0.0)) or 1.0
    anywhere = rng.normal(size=(count, data.width)) * 10 ** rng.uniform(-1, 2, size=(count, 1)) / unit
    asked = rng.choice([-20.0, -3.0, 0.0, 1.0, 3.0, 6.0, 10.0, 15.0, 20.0, 30.0], size=(len(gaps), count))
    aimed = (np.linalg.pinv(gaps) @ asked).T if len(gaps) else np.zeros((0, data.width))
    return np.concatenate([np.zeros((1, data.width)), anywhere, aimed])


def least_rate(data: EmbeddedSequences, selection: Selection, rng: np.random.Generator, count: int = 400):
    """(the least (Gamma - margin)/q that was found, at which p); None where nothing is ever mixed."""
    points = tried_points(data, selection, rng, count)
    rates, q = loss_rates(data, selection, points)
    rates = np.where(q >= LEAST_MIXED, rates, np.inf)
    if not (q > 0).any():
        return None

    def rate(p: np.ndarray) -> float:
        value, mixed = loss_rates(data, selection, p[None])
        return float(value[0]) if mixed[0] >= LEAST_MIXED else float("inf")

    found = [points[rates.argmin()]]
    for start in points[np.argsort(rates)[:2]]:
        size = float(np.linalg.norm(start)) or 1.0
        with np.errstate(invalid="ignore"):
            found.append(
                size
                * minimize(lambda x, u=size: rate(u * x), start / size, method="Nelder-Mead", options={"maxfev": 120}).x
            )
    return min(((rate(p), p) for p in found), key=lambda pair: pair[0])


def is_borne_out(data: EmbeddedSequences, selection: Selection, p: np.ndarray, gamma: float) -> bool:
    """Whether what is lost at p, or along its ray, vanishes beside what is mixed, in decimals as long as it takes."""
    own = data.keys[np.arange(data.n_inputs), selection.indices][:, None]
    gaps = np.abs(((own - data.keys) @ p)[data.mask & ~selection.chosen])
    units = gaps[gaps > 1e-12 * gaps.max(initial=0.0)] if gaps.any() else np.ones(1)
    points = [0.0, 1.0] + [logits / unit for unit in {units.min(), units.max()} for logits in (10, 30, 100, 300, 1000)]
    return any(
        exact_loss_rate(data, selection, R * p, digits=60 + int(min(R * units.max(), 3000))) <= VANISHED * gamma
        for R in points
    )


def verdict(data: EmbeddedSequences, selection: Selection, found: AssumptionC, rng: np.random.Generator) -> str:
    """The answer, or in which way it is wrong or cannot be told."""
    gamma = float(label_margins((data.labels[:, None, None] * data.tokens)[selection.chosen][None])[0])
    if found.applies is Applies.NOT_DECIDED:
        return "undecided"
    if found.applies is Applies.NO:
        if found.violation is None:
            return "no" if gamma <= 0 else "WRONG no"
        if is_borne_out(data, selection, found.violation, gamma):
            return "no"
        least = least_rate(data, selection, rng, 4000)
        return "no" if least is not None and least[0] <= VANISHED * gamma else "UNSEEN no"
    least = least_rate(data, selection, rng)
    if not found.nu > 0 or (least is not None and least[0] < found.nu - ROUNDING * gamma):
        return "WRONG yes"
    return "yes"


def reordered(data: EmbeddedSequences, selection: Selection, rng: np.random.Generator) -> Drawn:
    """Inputs in another order, and the tokens of each."""
    order, places = rng.permutation(data.n_inputs), rng.permutation(data.n_places)
    keys, mask = data.keys[order][:, places], data.mask[order][:, places]
    return of(data.tokens[order][:, places], data.labels[order], keys, mask), Selection(
        selection.chosen[order][:, places]
    )


def tallied(law: str, seen: Counter[str]) -> int:
    """Print what was said on one law, and count what was wrong or changed with the order."""
    print(f"{law}: " + ", ".join(f"{said} {times}" for said, times in sorted(seen.items()) if times), flush=True)
    return sum(times for said, times in seen.items() if said[:5] in ("WRONG", "REORD"))


def main(count: int = COUNT, seed: int = 0) -> int:
    """How many answers were wrong, or changed with the order of inputs and tokens."""
    bad = 0
    for law, draw in LAWS.items():
        seen: Counter[str] = Counter()
        for number in range(count // len(LAWS)):
            rng = np.random.default_rng([seed, list(LAWS).index(law), number])
            data, selection = draw(rng)
            try:
                found = assumption_c(data, selection)
                again = assumption_c(*reordered(data, selection, rng))
            except ArithmeticError as problem:
                seen["WRONG: raised"] += 1
                print(f"  {law} {number}: {problem!r}")
                continue
            said = verdict(data, selection, found, rng)
            seen[said] += 1
            same = again.applies is found.applies and (not found.nu > 0 or abs(again.nu / found.nu - 1) < 1e-6)
            seen["REORDERED"] += not same
            if said not in ("yes", "no", "undecided") or not same:
                then = f"{again.applies.value} {again.nu:.3g}"
                print(f"  {law} {number}: {said}, nu = {found.nu:.3g}; reordered {then}. {found.because}")
        bad += tallied(law, seen)
    return bad


if __name__ == "__main__":
    sys.exit(int(main(*map(int, sys.argv[1:3])) > 0))  # how many, and a seed
