"""Probe of many texts: the words that a model's attention selects, compared with the words that decide.

Texts are read a chunk at a time; only sums, counts of words and a sample are kept, so that memory does not grow with
the number of texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tokenmargin._checks import checked, whole_number
from tokenmargin._intervals import NORMAL_95
from tokenmargin._progress import Progress, silent
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe._text_tallies import MEASURES, TextTallies
from tokenmargin.probe.deciding_words import Decided, DecidingWords
from tokenmargin.probe.measures import QUANTILES
from tokenmargin.probe.query_direction import BASELINE_QUERIES, query_direction
from tokenmargin.probe.text_attention import AttendedBatch, TextAttention
from tokenmargin.probe.text_findings import DecidingHits, Directions, Interval, ShownText, TextProbe, WordRow

#: Texts that are read, attended to and let go together.
CHUNK = 512

#: Words that are listed.
LISTED = 40


@checked
@dataclass(frozen=True)
class ProbeSettings:
    """Settings of a probe of texts.

    Args:
        directions: number of texts drawn at random to compare every head's query with the max-margin direction.
        baseline: number of random queries beside each query.
        sampled: number of texts by which the distribution of a measure is shown.
        shown: number of texts that are shown.
        seed: seed of everything random.
    """

    directions: int = 20
    baseline: int = BASELINE_QUERIES
    sampled: int = 1000
    shown: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise unless all settings are whole numbers that are large enough."""
        for name, least in (("directions", 0), ("baseline", 1), ("sampled", 1), ("shown", 0), ("seed", 0)):
            whole_number(getattr(self, name), name, least)


@checked
def probe_texts(
    model: TextAttention,
    texts: Iterable[str],
    deciding: DecidingWords | None = None,
    settings: ProbeSettings | None = None,
    *,
    total: int | None = None,
    progress: Progress = silent,
) -> TextProbe:
    """Measure what a model attends to, a chunk of texts at a time.

    Args:
        model: a model that `text_model` returned.
        texts: any number of texts, read once.
        deciding: words that decide, to compare with.
        settings: numbers of texts and queries drawn at random.
        total: number of texts, for the progress, and so that those drawn at random are drawn from all.
        progress: called as progress(texts done, total, "probing").
    """
    how = settings or ProbeSettings()
    tallies, done, left = TextTallies(how.sampled, how.seed), 0, iter(texts)
    rng = np.random.default_rng([how.seed, 1])
    picked = [_picked(count, total, rng) for count in (how.directions, how.shown)]
    compared: list[np.ndarray] = []
    shown: list[tuple[int, ShownText]] = []
    while chunk := list(islice(left, CHUNK)):
        decided = list(deciding.of(chunk)) if deciding is not None else [None] * len(chunk)
        for batch in model.attend(chunk):
            numbers = tuple(done + row for row in batch.rows)
            tallies.add(batch, [decided[row] for row in batch.rows])
            for place, number in enumerate(numbers):
                if number in picked[0] and batch.queries is not None:
                    compared.append(_directions(batch, place, how.baseline, rng))
                if number in picked[1]:
                    row = batch.rows[place]
                    shown.append((number, _shown(batch, place, chunk[row], decided[row])))
        done += len(chunk)
        progress(done, total, "probing")
    if not tallies.n_texts:
        raise InvalidInputError(
            f"none of {done} texts has two tokens to choose between: give texts that the model knows words of."
        )
    return _result(model, tallies, done, compared, tuple(own for _, own in sorted(shown)))


def _picked(count: int, total: int | None, rng: np.random.Generator) -> frozenset[int]:
    """Numbers of texts drawn from all, or the first where it is not known how many there are."""
    if total is None:
        return frozenset(range(count))
    return frozenset(rng.choice(total, min(count, total), replace=False).tolist())


def _directions(batch: AttendedBatch, place: int, baseline: int, rng: np.random.Generator) -> np.ndarray:
    """Cosine, that of random queries, share beaten, margin ratio and certificate of every head, shape (5, L, H)."""
    there = batch.reading.mask[place]
    queries, keys = np.asarray(batch.queries)[:, place], np.asarray(batch.keys)[:, place][:, :, there]
    found = np.zeros((5, *queries.shape[:2]))
    for layer, head in np.ndindex(*queries.shape[:2]):
        own = query_direction(queries[layer, head], keys[layer, head], rng, baseline=baseline)
        random = own.baseline_cosines[np.isfinite(own.baseline_cosines)]
        found[:, layer, head] = (
            own.cosine,
            random.mean() if random.size else np.nan,
            own.beats_baseline,
            own.margin_ratio,
            own.solution.is_optimal(),
        )
    return found


def _shown(batch: AttendedBatch, place: int, text: str, decided: Decided | None) -> ShownText:
    """A text cut where words begin and end, with the attention of the last layer's mean map."""
    places = batch.places[place]
    shares = batch.reading.mean_shares[-1, place]
    is_deciding = places.overlapping(decided.spans) if decided else np.zeros(len(places.words), bool)
    weight: dict[tuple[int, int], float] = {}
    decides: dict[tuple[int, int], bool] = {}
    stretches = np.bincount(places.owners, minlength=len(places.words))
    for owner, start, end in zip(places.owners.tolist(), places.starts.tolist(), places.ends.tolist(), strict=True):
        span = (start, end)
        weight[span] = weight.get(span, 0.0) + float(shares[owner]) / int(stretches[owner])
        decides[span] = decides.get(span, False) or bool(is_deciding[owner])
    parts: list[tuple[str, float, bool]] = []
    at = 0
    for start, end in sorted(weight):
        if start < at:
            continue  # tokens of two words that overlap: the first has it
        parts += [(text[at:start], 0.0, False)] if start > at else []
        parts.append((text[start:end], weight[start, end], decides[start, end]))
        at = end
    parts += [(text[at:], 0.0, False)] if at < len(text) else []
    first = places.words[int(shares[: len(places.words)].argmax())]
    return ShownText(text, tuple(parts), first, decided.word if decided else "", decided.predicted if decided else "")


def _result(
    model: TextAttention, tallies: TextTallies, done: int, compared: list[np.ndarray], shown: tuple[ShownText, ...]
) -> TextProbe:
    n, sums = tallies.n_texts, tallies.sums
    kept = tallies.kept()
    return TextProbe(
        model=model.name,
        kind=model.kind,
        notes=model.notes,
        texts=n,
        left_out=done - n,
        cut=tallies.n_cut,
        tokens=float(sums["tokens"] / n),
        means={name: np.asarray(sums[name] / n) for name in (*MEASURES, "relative_sparsity", "outside")},
        quantiles={name: np.quantile(own, QUANTILES, axis=0) for name, own in kept.items()},
        sampled=len(kept["sparsity"]),
        mean_map_sparsity=np.asarray(sums["mean_map_sparsity"] / n),
        key_query_norms=model.key_query_norms,
        agreement=_agreement(tallies),
        directions=_directions_of(compared),
        words=_words(tallies),
        shown=shown,
    )


def _agreement(tallies: TextTallies) -> DecidingHits | None:
    """Agreement over all texts; the best head is picked in one half of them and judged in the other."""
    both, sums = tallies.decided, tallies.sums
    if both.min() < 2:
        return None
    m = int(both.sum())
    names = ("hits", "over_chance", "over_chance_squared", "over_rarest", "over_rarest_squared", "mean_map_hits")
    total = {name: sums[f"{name}_0"] + sums[f"{name}_1"] for name in names}
    layer, head = (int(each) for each in np.unravel_index(int(sums["hits_0"].argmax()), sums["hits_0"].shape))
    is_alone = sums["hits_0"].size == 1  # then nothing was picked, and all texts can judge
    judged = total if is_alone else {name: sums[f"{name}_1"] for name in names}
    size = m if is_alone else int(both[1])

    def of_best(name: str, squares: str) -> Interval:
        return Interval(*map(float, _interval(judged[name][layer, head], judged[squares][layer, head], size)))

    return DecidingHits(
        texts=m,
        hits=np.asarray(total["hits"] / m),
        mass=np.asarray(sums["mass"] / m),
        mean_map_hits=np.asarray(total["mean_map_hits"] / m),
        over_chance=np.stack(_interval(total["over_chance"], total["over_chance_squared"], m), axis=-1),
        chance=float(tallies.chance.sum() / m),
        rarest=float(tallies.rarest.sum() / m),
        best=(layer, head),
        best_hits=of_best("hits", "hits"),  # a hit is its own square
        best_over_chance=of_best("over_chance", "over_chance_squared"),
        best_over_rarest=of_best("over_rarest", "over_rarest_squared"),
    )


def _interval(total: Any, squares: Any, n: int) -> tuple[Any, Any, Any]:
    """Mean and 95% interval from a sum and a sum of squares."""
    mean = total / n
    half = NORMAL_95 * np.sqrt(np.maximum(squares / n - mean**2, 0.0) / max(n - 1, 1))
    return mean, mean - half, mean + half


def _directions_of(compared: list[np.ndarray]) -> Directions | None:
    if not compared:
        return None
    cosine, baseline, beaten, ratio, certified = np.moveaxis(np.stack(compared), 1, 0)
    middle = [_nanmedian(own) for own in (cosine, baseline)]
    return Directions(
        len(compared), middle[0], middle[1], beaten.mean(axis=0), _nanmedian(ratio), float(certified.mean())
    )


def _nanmedian(values: np.ndarray) -> np.ndarray:
    """The median over the first axis without NaN; NaN if no number is finite."""
    decided = np.isfinite(values).any(axis=0)
    filled = np.where(decided[None], values, 0.0)
    return np.where(decided, np.nanmedian(filled, axis=0), np.nan)


def _words(tallies: TextTallies) -> tuple[WordRow, ...]:
    """The words that the last layer selects most and those that decide most, the most selected first."""
    selected, present, deciding = tallies.selected[-1], tallies.present, tallies.deciding
    totals = [max(1, sum(each.values())) for each in (selected, present)] + [max(1, int(tallies.decided.sum()))]
    listed = {word for counted in (selected, deciding) for word, _ in counted.most_common(LISTED)}
    rows = [
        WordRow(word, selected[word] / totals[0], present[word] / totals[1], deciding[word] / totals[2])
        for word in listed
    ]
    return tuple(sorted(rows, key=lambda row: (-row.selected, -row.decides, row.word)))
