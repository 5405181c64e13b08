"""Which method finds tokens that are known to decide? Texts of the K-level law [E, (33)-(35)], whose levels are known.

Every token of a text is drawn from the law of its label; smaller delta_k is *more* informative. Three things vary: the
number of texts, the noise (a share of labels that is flipped after the texts were drawn) and the rarity (the share of a
text's tokens that are relevant, delta tilde). Each method names as many tokens as were planted, those that matter
most to it, with a sign. Of level k,

    recall = named tokens of level k with the right sign / tokens of level k,
    precision = the same / (the same + named tokens that are irrelevant or have the wrong sign).

As printed, the law makes irrelevant tokens far more frequent than relevant ones (see the errata), so that counting
alone would give the planted tokens away. Here there are as many irrelevant tokens as make all equally frequent, unless
asked otherwise; the control "rarity alone" shows what counting finds.

`python -m benchmarks.planted_verdicts` runs the study, prints its sentences and its table, and with `--out FOLDER`
writes them and all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import t as student

from tokenmargin._checks import checked, positive, whole_number
from tokenmargin._progress import Progress, silent
from tokenmargin._provenance import manifest
from tokenmargin.classify.baseline import fit_tfidf_logistic
from tokenmargin.classify.token_fit import fit_tokens
from tokenmargin.comparison.comparing import RECORDED
from tokenmargin.comparison.comparison import Interval
from tokenmargin.comparison.corpus_methods import CORPUS_METHODS, Learnt
from tokenmargin.comparison.explained import explained_texts
from tokenmargin.comparison.methods import METHODS, RAN, Description, run
from tokenmargin.comparison.text_methods import SAMPLED, Knowledge
from tokenmargin.data.synthetic import KLevel, k_level
from tokenmargin.errors import InvalidInputError

#: A small law of four levels, from hardly to almost surely informative.
SMALL_LAW = KLevel(irrelevant=320, sizes=(10, 10, 10, 10), levels=(0.4, 0.3, 0.15, 0.02), T=60)


#: What is asked for the tokens: the methods, and a control.
ASKED = METHODS | {
    "rarity": Description("rarity alone", "the tokens that occur least often first: knows nothing of labels, no sign")
}

#: Numbers without a sign: theirs need not be right.
WITHOUT_SIGN = ("attention", "random", "rarity")


@checked
@dataclass(frozen=True)
class PlantedSettings:
    """What is drawn.

    Args:
        law: sizes, levels and length of the texts; its `relevant_share` is replaced by each of `rarity`.
        n: numbers of texts, even.
        noise: shares of labels that are flipped, below a half.
        rarity: shares of a text's tokens that are relevant.
        as_printed: whether the law's own number of irrelevant tokens is kept, which makes them more frequent or rarer
            than planted ones.
        repeats: draws of everything, behind the intervals.
        explained: texts over which methods of single texts are averaged.
        sampled: texts that SHAP's sampling explainers and LIME explain; 0 leaves them out, as they take long.
        budget: seconds a method may take.
        seed: of everything random.
    """

    law: KLevel = SMALL_LAW
    n: tuple[int, ...] = (200, 1000)
    noise: tuple[float, ...] = (0.0, 0.2)
    rarity: tuple[float, ...] = (0.05, 0.2)
    as_printed: bool = False
    repeats: int = 4
    explained: int = 100
    sampled: int = 0
    budget: float = 60.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Ranges in which there is something to find."""
        if not (self.n and self.noise and self.rarity):
            raise InvalidInputError("give at least one number of texts, one noise and one rarity.")
        for n in self.n:
            whole_number(n, "n", 1)
        if min(self.n) < 20 or any(n % 2 for n in self.n):
            raise InvalidInputError(f"n={self.n}: give even numbers of texts, at least 20.")
        if not all(0 <= share < 0.5 for share in self.noise):
            raise InvalidInputError(f"noise={self.noise}: a share of flipped labels lies between 0 and a half.")
        if not all(0 < share < 1 for share in self.rarity):
            raise InvalidInputError(f"rarity={self.rarity}: a share of relevant tokens lies between 0 and 1.")
        for name, least in (("repeats", 2), ("explained", 1), ("sampled", 0), ("seed", 0)):  # no interval of one repeat
            whole_number(getattr(self, name), name, least)
        positive(self.budget, "budget")

    @classmethod
    def full(cls) -> PlantedSettings:
        """More texts, noises, rarities and draws: minutes."""
        return cls(n=(200, 1000, 5000), noise=(0.0, 0.1, 0.3), rarity=(0.02, 0.05, 0.2), repeats=10)

    def law_of(self, rarity: float) -> KLevel:
        """The law with this share of relevant tokens, and all tokens equally frequent unless it is kept as printed.

        A planted token has delta tilde / (2 sum of sizes) of all places, an irrelevant one (1 - delta tilde) / their
        number.
        """
        irrelevant = self.law.irrelevant if self.as_printed else round(2 * sum(self.law.sizes) * (1 - rarity) / rarity)
        return replace(self.law, relevant_share=rarity, irrelevant=max(irrelevant, 1))


@dataclass(frozen=True)
class PlantedRow:
    """A method under one set of conditions; means over draws with 95% intervals."""

    method: str
    status: str  #: "ran", or why not
    found: Interval | None = None  #: the share of planted tokens among the named, all levels, right sign
    precision: tuple[Interval, ...] = ()  #: of each level
    recall: tuple[Interval, ...] = ()  #: of each level
    behind_best: Interval | None = None  #: what the best method finds more, on the same draws
    is_best: bool = False  #: the best, or not to be told from it


@dataclass(frozen=True)
class PlantedCell:
    """One set of conditions."""

    n: int
    noise: float
    rarity: float
    occurrences: float  #: of a planted token in all texts, expected
    rows: tuple[PlantedRow, ...]

    def row(self, method: str) -> PlantedRow:
        """Of a method."""
        return next(row for row in self.rows if row.method == method)


@dataclass(frozen=True)
class PlantedStudy:
    """The answers under all conditions."""

    settings: PlantedSettings
    cells: tuple[PlantedCell, ...]
    command: str = ""
    manifest: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values, the manifest apart: it has a file of its own."""
        plain = asdict(self)
        plain.pop("manifest")
        return plain | {"methods": {key: m._asdict() for key, m in ASKED.items()}}


def planted_study(
    settings: PlantedSettings | None = None, *, command: str = "", progress: Progress = silent
) -> PlantedStudy:
    """Draw texts under each set of conditions, and ask every method for the planted tokens."""
    settings = settings or PlantedSettings()
    conditions = list(product(settings.n, settings.noise, settings.rarity))
    cells = []
    for done, (n, noise, rarity) in enumerate(conditions):
        law = settings.law_of(rarity)
        draws = [_draw(settings, law, n, noise, [settings.seed, done, repeat]) for repeat in range(settings.repeats)]
        occurrences = n * law.T * rarity / (2 * sum(law.sizes))
        cells.append(PlantedCell(n, noise, rarity, occurrences, _rows(draws, len(law.levels))))
        progress(done + 1, len(conditions), "looking for planted tokens")
    return PlantedStudy(settings, tuple(cells), command, manifest(command, {}, asdict(settings), RECORDED))


#: Of one draw: by method why it did not run, or what it found: all, then precision and recall of each level.
Draw = dict[str, str | np.ndarray]


def _draw(settings: PlantedSettings, law: KLevel, n: int, noise: float, seed: Sequence[int]) -> Draw:
    """One draw of texts: what each method finds in it."""
    rng = np.random.default_rng(seed)
    dataset = k_level(rng, n, law)
    targets = (np.asarray(dataset.labels) > 0).astype(np.int64)
    flipped = rng.permutation(n)[: round(noise * n)]
    targets[flipped] = 1 - targets[flipped]
    ours = fit_tokens(dataset.counts, targets, 2)
    tfidf = fit_tfidf_logistic(dataset.counts, targets, seed=seed[-1])
    learnt = Learnt(dataset.counts, targets, 2, ours, tfidf)
    numbers = {key: method(learnt) for key, method in CORPUS_METHODS.items()}
    known = Knowledge(learnt, numbers, seed=seed[-1])
    found: Draw = {}
    for key in ASKED:
        told = numbers[key][:, 0] if key in numbers else _over_texts(key, known, settings)
        if isinstance(told, str):
            found[key] = told
        else:
            # A stream of its own for each, so that what one finds does not depend on which others ran.
            found[key] = judge(told, law.level_of, np.random.default_rng([*seed, 7]), is_signed=key not in WITHOUT_SIGN)
    return found


def _over_texts(key: str, known: Knowledge, settings: PlantedSettings) -> np.ndarray | str:
    """What a method of single texts says of each token, mean over the texts that hold it; or why it does not."""
    learnt = known.learnt
    if key == "random":
        return np.random.default_rng([settings.seed, known.seed, 6]).random(learnt.counts.shape[1])
    if key == "rarity":
        return 1.0 / (1.0 + np.asarray(learnt.counts.sum(axis=0)))
    if key in SAMPLED and not settings.sampled:
        return "not run: takes long; --sampled N asks it of N texts"
    texts = learnt.counts[: settings.sampled if key in SAMPLED else settings.explained]
    # A linear explainer speaks of the linear classifier, all others of ours.
    classifier = learnt.tfidf if key == "shap_linear" else learnt.attention
    judged = explained_texts("", "", classifier, texts)
    outcome = run(key, judged, known, settings.budget)
    if outcome.numbers is None:
        return outcome.status
    towards = np.where(judged.predicted[judged.row_of] == 1, outcome.numbers, -outcome.numbers)
    V, indices = judged.counts.shape[1], judged.counts.indices
    held = np.maximum(np.bincount(indices, minlength=V), 1)
    return np.bincount(indices, weights=towards, minlength=V) / held


def judge(numbers: np.ndarray, level_of: np.ndarray, rng: np.random.Generator, *, is_signed: bool = True) -> np.ndarray:
    """Of as many tokens as were planted, those with the largest numbers: all, then precision and recall of each level.

    Args:
        numbers: of each token, shape (V,); NaN counts as 0.
        level_of: 0 for irrelevant tokens, +k and -k for planted ones, shape (V,).
        rng: breaks ties.
        is_signed: whether the sign has to be right.

    Returns:
        Shape (1 + 2 K,).
    """
    size, planted = np.abs(np.nan_to_num(numbers)), level_of != 0
    named = np.zeros(len(size), dtype=bool)
    named[np.lexsort((rng.random(len(size)), -size))[: planted.sum()]] = True
    right = named & planted
    if is_signed:
        right &= np.sign(np.nan_to_num(numbers)) == np.sign(level_of)
    wrong = int((named & ~right).sum())
    levels = np.abs(level_of)
    hits = np.bincount(levels[right], minlength=int(levels.max()) + 1)[1:]
    there = np.bincount(levels[planted], minlength=int(levels.max()) + 1)[1:]
    with np.errstate(invalid="ignore"):
        precision = hits / (hits + wrong)
    return np.concatenate([[right.sum() / planted.sum()], precision, hits / there])


def _rows(draws: Sequence[Draw], n_levels: int) -> tuple[PlantedRow, ...]:
    """Means over draws, and which method is best."""
    reasons = {key: next((draw[key] for draw in draws if isinstance(draw[key], str)), "") for key in ASKED}
    numbers = {key: np.array([draw[key] for draw in draws]) for key in ASKED if not reasons[key]}
    best = max((key for key in numbers), key=lambda key: numbers[key][:, 0].mean())
    rows = []
    for key in ASKED:
        if key not in numbers:
            rows.append(PlantedRow(key, str(reasons[key])))
            continue
        behind = _interval(numbers[best][:, 0] - numbers[key][:, 0])
        levels = [_interval(column) for column in numbers[key].T[1:]]
        rows.append(
            PlantedRow(
                key,
                RAN,
                _interval(numbers[key][:, 0]),
                tuple(levels[:n_levels]),
                tuple(levels[n_levels:]),
                behind,
                behind[1] <= 0,
            )
        )
    return tuple(rows)


def _interval(values: np.ndarray) -> Interval:
    """A mean over draws with its 95% interval (Student's); what is not defined in a draw is left out of it."""
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return (float(values.mean()) if len(values) else float("nan"), float("nan"), float("nan"))
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    half = float(student.ppf(0.975, len(values) - 1)) * error
    return mean, mean - half, mean + half
