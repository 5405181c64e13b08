"""Synthetic texts: the K-level model of [E, (33)-(35)] and data that meets [E, Assumption 4]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, fits_in_memory, whole_number
from tokenmargin._notebook import Told
from tokenmargin.data.statistics import TokenClass, token_statistics
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError, TooLargeError

__all__ = [
    "FIG2_LEVELS",
    "Assumption4",
    "KLevel",
    "assumption4",
    "k_level",
    "single_relevant",
]

#: delta_k of [E, Fig. 2]; smaller is *more* informative, as P(y | s) = 1 - delta_k [E, (35)].
FIG2_LEVELS = (0.45, 0.35, 0.3, 0.25, 0.2, 0.1, 0.05, 0.02)


#: Texts, tokens, or their product, of a data set of Assumption 4: its tokens are exchanged one by one.
MOST_RELEVANT = 2**20


@checked
@dataclass(frozen=True)
class KLevel:
    """The K-level law of tokens given the label [E, (33)-(34)], defaults those of [E, Fig. 2].

    The paper prints sizes 4 + 2^(k-1), which do not add up to |S| = 2048; 4 + 2^k do (see the errata).

    Args:
        irrelevant: number of irrelevant tokens.
        sizes: number of tokens of each level, for each sign.
        relevant_share: the chance that a token is relevant (delta tilde).
        levels: delta_k of each level: the chance that a relevant token of level k sits in a text of the wrong sign.
        T: tokens of a text.
    """

    irrelevant: int = 964
    sizes: tuple[int, ...] = tuple(4 + 2**k for k in range(1, 9))
    relevant_share: float = 0.05
    levels: tuple[float, ...] = FIG2_LEVELS
    T: int = 256

    def __post_init__(self) -> None:
        """Check that shares lie between 0 and 1 and that sizes are positive."""
        if len(self.sizes) != len(self.levels) or not self.sizes:
            raise InvalidInputError(
                f"{len(self.sizes)} sizes but {len(self.levels)} levels: give one size and one delta for each level."
            )
        fits_in_memory(self.irrelevant + 2 * sum(self.sizes), "the vocabulary of this law", "ask for fewer tokens")
        whole_number(self.T, "T", 1)
        if min(self.sizes) < 1 or self.irrelevant < 1 or self.T < 1:
            raise InvalidInputError("every level, the irrelevant tokens and T need at least one token.")
        if not 0 < self.relevant_share < 1 or not all(0 < delta < 1 for delta in self.levels):
            raise InvalidInputError("relevant_share and every delta must lie strictly between 0 and 1.")

    @property
    def level_of(self) -> np.ndarray:
        """Level of each token, shape (V,): 0 irrelevant, +k and -k for tokens of level k of either sign."""
        relevant = np.repeat(np.arange(1, len(self.sizes) + 1), self.sizes)
        return np.concatenate([np.zeros(self.irrelevant, dtype=int), relevant, -relevant])

    @property
    def vocabulary_size(self) -> int:
        """V = |S|."""
        return self.irrelevant + 2 * sum(self.sizes)

    @checked
    def law(self, y: int) -> np.ndarray:
        """P(s | y), shape (V,) [E, (34)], with the delta tilde that its third case lacks in print."""
        level, deltas = self.level_of, np.array(self.levels)
        delta = deltas[np.abs(level) - 1]  # of an irrelevant token: unused
        right = np.where(np.sign(level) == y, 1 - delta, delta)
        relevant = self.relevant_share * right / sum(self.sizes)
        return np.where(level == 0, (1 - self.relevant_share) / self.irrelevant, relevant)

    @checked
    def posterior(self, y: int) -> np.ndarray:
        """P(y | s) when both labels are as likely, shape (V,) [E, (35)]."""
        level, deltas = self.level_of, np.array(self.levels)
        delta = deltas[np.abs(level) - 1]
        return np.where(level == 0, 0.5, np.where(np.sign(level) == y, 1 - delta, delta))


@checked
def k_level(rng: np.random.Generator, n: int, law: KLevel | None = None) -> TokenDataset:
    """n texts of T tokens drawn independently from the K-level law; labels alternate, so that classes are balanced.

    Args:
        rng: the random stream; `np.random.default_rng(seed)`.
        n: number of texts; even, so that both classes have n/2.
        law: sizes and shares; those of [E, Fig. 2] when absent. `law.level_of` tells the level of each token.
    """
    law = KLevel() if law is None else law
    whole_number(n, "n", -(2**62))
    fits_in_memory(max(n, 0) * law.T, f"a data set of {n} texts of {law.T} tokens", "ask for fewer texts")
    if n < 2 or n % 2:
        raise InvalidInputError(f"n = {n}: give an even number of texts, at least 2, half of them of each class.")
    labels = np.where(np.arange(n) % 2 == 0, 1, -1)
    ids = np.empty((n, law.T), dtype=np.int32)
    for y in (1, -1):
        rows = labels == y
        ids[rows] = _draw(rng, law.law(y), (int(rows.sum()), law.T))
    level = law.level_of
    names = [("+" if k > 0 else "-") + f"{abs(k)}.{j}" if k else f"0.{j}" for j, k in enumerate(level.tolist())]
    return TokenDataset.from_token_ids(ids, labels, names)


def _draw(rng: np.random.Generator, law: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Independent draws by inverting the cumulative law: one uniform number a token."""
    edges = np.cumsum(law)
    return np.searchsorted(edges / edges[-1], rng.random(size), side="right").astype(np.int32)


@checked
def single_relevant(
    rng: np.random.Generator,
    n: int,
    T: int,
    *,
    irrelevant: int | None = None,
    repeats: Sequence[int] | None = None,
    negative_repeats: Sequence[int] | None = None,
) -> TokenDataset:
    """A random data set of [E, Assumption 4]: one completely positive or negative token a text, the rest irrelevant.

    The positive texts draw their T - 1 irrelevant tokens; the negative ones hold the same tokens, rearranged, so that
    these have alpha = 0 exactly. With `repeats` = (1, 1, ...) every relevant token is in one text and all alpha_s are
    equal; a relevant token repeated r times has r times that alpha.

    Args:
        rng: the random stream.
        n: number of texts, even.
        T: tokens of a text, at least 2.
        irrelevant: number of irrelevant tokens in the vocabulary, at least T - 1; T when absent.
        repeats: how many texts each positive relevant token is in; adds up to n/2.
        negative_repeats: the same for negative ones; as `repeats` when absent.
    """
    for value, name in ((n, "n"), (T, "T"), (2 if irrelevant is None else irrelevant, "irrelevant")):
        whole_number(value, name, -(2**62))
        if value > MOST_RELEVANT:
            raise TooLargeError(f"{name} = {value} is more than {MOST_RELEVANT}: these are small data sets.")
    if n * T > MOST_RELEVANT:
        raise TooLargeError(f"{n} texts of {T} tokens are more than {MOST_RELEVANT}: these are small data sets.")
    pool = max(T, 2) if irrelevant is None else irrelevant
    if n < 2 or n % 2 or T < 2:
        raise InvalidInputError(f"n = {n} must be even and at least 2, T = {T} at least 2.")
    if pool < T - 1:
        raise InvalidInputError(f"{pool} irrelevant tokens cannot fill T - 1 = {T - 1} places with distinct ones.")
    plus = (1,) * (n // 2) if repeats is None else tuple(repeats)
    minus = plus if negative_repeats is None else tuple(negative_repeats)
    for groups in (plus, minus):
        if sum(groups) != n // 2 or min(groups) < 1:
            raise InvalidInputError(f"repeats {groups} must be positive and add up to n/2 = {n // 2}.")
    positive = np.stack([rng.choice(pool, size=T - 1, replace=False) for _ in range(n // 2)])
    rest = len(plus) + len(minus) + np.concatenate([positive, _rearranged(rng, positive)])
    relevant = np.repeat(np.arange(len(plus) + len(minus)), plus + minus)
    documents = np.concatenate([relevant[:, None], rest], axis=1)
    labels = np.repeat([1, -1], n // 2)
    names = [f"+{j}" for j in range(len(plus))] + [f"-{j}" for j in range(len(minus))]
    dataset = TokenDataset.from_token_ids(documents, labels, names + [f"0.{j}" for j in range(pool)])
    present = np.asarray(dataset.counts.sum(axis=0)) > 0
    return dataset.restrict_vocabulary(present)


def _rearranged(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """The same entries in other rows, each row still without repeats: random exchanges that keep it so."""
    out = rows.copy()
    for _ in range(4 * out.size):
        a, b = rng.integers(len(out), size=2)
        i, j = rng.integers(out.shape[1], size=2)
        if a != b and out[a, i] not in out[b] and out[b, j] not in out[a]:
            out[a, i], out[b, j] = out[b, j], out[a, i]
    return out


@dataclass(frozen=True, repr=False)
class Assumption4(Told):
    """Verdict on [E, Assumption 4] for a data set, with the documents that break it."""

    holds: bool
    broken: dict[int, str]  #: document -> why

    def __bool__(self) -> bool:
        """True if the assumption holds."""
        return self.holds


@checked
def assumption4(dataset: TokenDataset) -> Assumption4:
    """Check that every document holds one completely positive or negative token, once, and else irrelevant ones.

    [E, Assumption 4]
    """
    kind = token_statistics(dataset).token_class
    important = np.abs(kind) == int(TokenClass.COMPLETELY_POSITIVE)
    other = (np.abs(kind) == int(TokenClass.POSITIVE)) & ~important
    found = dataset.counts @ important.astype(np.int64)
    lopsided = dataset.counts @ other.astype(np.int64)
    broken = {}
    for row in np.flatnonzero((found != 1) | (lopsided > 0)).tolist():
        names = dataset.counts.indices[dataset.counts.indptr[row] : dataset.counts.indptr[row + 1]]
        if lopsided[row]:
            culprits = [dataset.vocabulary[s] for s in names if other[s]]
            broken[row] = f"holds tokens neither irrelevant nor of one class only: {', '.join(culprits[:5])}"
        else:
            broken[row] = f"holds {int(found[row])} completely positive or negative tokens, not 1"
    return Assumption4(not broken, broken)
