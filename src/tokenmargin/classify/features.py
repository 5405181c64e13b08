"""Features of texts: words alone, or pairs, triples and characters too; chosen on held-out texts."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._memory import host_bytes
from tokenmargin._progress import Progress, silent
from tokenmargin._types import Map
from tokenmargin.classify._candidates import HELD, Choice, Columns
from tokenmargin.classify._choosing import Chooser
from tokenmargin.classify._objective import Documents
from tokenmargin.classify.prior import Prior
from tokenmargin.classify.token_fit import POWER
from tokenmargin.classify.token_model import checked_counts
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import CUT, CountedTexts, Recipe, count_tokens

#: Characters help less the more texts there are: of more than twice as many they are first tried on so many, and on all
#: where they help there.
CHARACTER_TEXTS = 4000

#: Memory that a fit takes for each number of a token: the pairs of L-BFGS, and what they are computed with.
BYTES_OF_A_NUMBER = 8 * 24


class Features(Enum):
    """Kinds of tokens that are counted in a text."""

    WORDS = "words"
    PAIRS = "words and pairs of words"
    TRIPLES = "words, pairs and triples of words"
    CHARACTERS = "words, pairs of words, and runs of 2 to 5 characters within words"

    @property
    def ngrams(self) -> int:
        """Words of the longest run."""
        return {Features.WORDS: 1, Features.TRIPLES: 3}.get(self, 2)

    @property
    def characters(self) -> int:
        """Characters of the longest run within a word; 0 for none."""
        return 5 if self is Features.CHARACTERS else 0

    def recipe(self, base: Recipe, minimum_count: int) -> Recipe:
        """A recipe that counts these features."""
        return replace(base, ngrams=self.ngrams, characters=self.characters, minimum_count=minimum_count)

    def columns(self, vocabulary: Sequence[str]) -> np.ndarray:
        """The columns of these features among those of a richer recipe, shape (V,) of booleans."""
        return np.array(
            [bool(self.characters) if CUT in name else name.count(" ") < self.ngrams for name in vocabulary], dtype=bool
        )


@checked
@dataclass(frozen=True)
class Candidates:
    """Features and minimum counts that a fit chooses from; a single candidate is taken without a comparison.

    Args:
        features: kinds of tokens to count, the smallest first.
        minimums: tokens seen less often than this are left out, the smallest first.
    """

    features: tuple[Features, ...] = tuple(Features)
    minimums: tuple[int, ...] = (2, 3, 5)

    def __post_init__(self) -> None:
        """Refuse to choose from nothing."""
        if not self.features or not self.minimums or min(self.minimums) < 1:
            raise InvalidInputError(
                "give at least one candidate each of features and of minimums, which are 1 or more."
            )


class ChosenFeatures(NamedTuple):
    """Texts counted in the features that were chosen, what was chosen with them (None: nothing), and why."""

    counted: CountedTexts
    choice: Choice | None
    said: tuple[str, ...]


def choose_features(
    texts: Sequence[str],
    targets: np.ndarray,
    base: Recipe,
    candidates: Candidates,
    *,
    map: Map = builtins.map,
    progress: Progress = silent,
) -> ChosenFeatures:
    """Count texts in the smallest features that do as well as the best on held-out texts.

    Args:
        texts: to learn from.
        targets: the number of each text's class, shape (n,).
        base: recipe of the words; its n-grams, characters and minimum count are replaced by the candidates'.
        candidates: to choose from.
        map: spreads the counting.
        progress: called as progress(done, total, what).
    """
    allowed = [Features.WORDS] if base.word_piece else list(candidates.features)
    minimums = sorted(candidates.minimums)
    is_long = len(allowed) > 1 and Features.CHARACTERS in allowed and len(texts) > 2 * CHARACTER_TEXTS
    if is_long and not _characters_help(texts, targets, base, minimums[0]):
        allowed.remove(Features.CHARACTERS)
    if len(allowed) == len(minimums) == 1:
        counted = count_tokens(texts, allowed[0].recipe(base, minimums[0]), map=map, progress=progress)
        return ChosenFeatures(counted, None, (_left_out(counted),))
    richest = replace(
        max(allowed, key=lambda own: own.ngrams).recipe(base, minimums[0]),
        characters=max(own.characters for own in allowed),
    )
    counted = count_tokens(texts, richest, map=map, progress=progress)
    chooser = _chooser(counted, targets, progress)
    if not chooser.is_able:
        few = count_tokens(texts, allowed[0].recipe(base, minimums[0]), map=map)
        return ChosenFeatures(few, None, (f"read as {allowed[0].value}: too few texts to choose", _left_out(few)))
    total = np.asarray(counted.counts.sum(axis=0)).ravel()
    minimums = _that_fit(minimums, total, int(targets.max()) + 1)
    masks = {own: own.columns(counted.vocabulary) & (total >= minimums[0]) for own in allowed}
    allowed.sort(key=lambda own: int(masks[own].sum()))
    choice = chooser.best([Columns(masks[own], minimums[0]) for own in allowed])
    features, said, minimum = allowed[choice.columns], _compared(allowed, choice), minimums[0]
    if len(minimums) > 1:
        # The first is the whole vocabulary: it is cut only where that is better by more than chance.
        kept = [Columns(masks[features] & (total >= least), least) for least in minimums]
        choice = chooser.best(kept, (choice.prior,), choice.ridge_value, choice.ridge_score)
        minimum = minimums[choice.columns]
    recipe = features.recipe(base, minimum)
    if recipe != richest:
        counted = count_tokens(texts, recipe, map=map, progress=progress)
    return ChosenFeatures(counted, choice, (said, _left_out(counted)))


def _chooser(counted: CountedTexts, targets: np.ndarray, progress: Progress = silent) -> Chooser:
    documents = Documents(checked_counts(counted.counts), targets, np.ones(len(targets)))
    return Chooser(documents, int(targets.max()) + 1, POWER, progress)


def _characters_help(texts: Sequence[str], targets: np.ndarray, base: Recipe, minimum: int) -> bool:
    """True if characters do better than words and pairs by more than chance, on some of the texts."""
    some = np.linspace(0, len(texts) - 1, min(len(texts), CHARACTER_TEXTS)).astype(int)
    counted = count_tokens([texts[row] for row in some], Features.CHARACTERS.recipe(base, minimum))
    chooser = _chooser(counted, targets[some])
    kinds = (Features.WORDS, Features.PAIRS, Features.CHARACTERS)
    masks = [Columns(own.columns(counted.vocabulary), minimum) for own in kinds]
    return chooser.is_able and chooser.best(masks, (Prior.PLAIN,), ridge_score=HELD).columns == len(kinds) - 1


def _that_fit(minimums: list[int], total: np.ndarray, n_classes: int) -> list[int]:
    """The minimums whose tokens a fit has room for; the largest one is always there."""
    free = host_bytes()
    most = np.inf if free is None else free / (2 * BYTES_OF_A_NUMBER * max(1, n_classes if n_classes > 2 else 1))
    return [least for least in minimums if (total >= least).sum() <= most] or minimums[-1:]


def _compared(allowed: Sequence[Features], choice: Choice) -> str:
    """The features that were taken, beside the others, in one line."""
    best, others = choice.of_columns[choice.columns], []
    for features, own in zip(allowed, choice.of_columns, strict=True):
        if own is not best:
            more, error = own.excess(best)
            others.append(f"{features.value}: {abs(more):.3f} ± {error:.3f} {'more' if more >= 0 else 'less'}")
    taken = (
        f"read as {allowed[choice.columns].value}: loss {choice.of_columns[choice.columns].loss:.3f} on held-out texts"
    )
    return f"{taken} ({'; '.join(others)})" if others else taken


def _left_out(counted: CountedTexts) -> str:
    """A phrase with the number of tokens that were too rare."""
    rare = counted.report.distinct_tokens - counted.report.vocabulary
    return f"{rare:,} tokens seen fewer than {counted.recipe.minimum_count} times left out"
