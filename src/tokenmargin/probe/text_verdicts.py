"""Sentences that say what a probe of texts found about selection; findings against the idea come first.

The idea is that attention, as it is trained, comes to select the tokens that decide, in the max-margin direction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._intervals import NORMAL_95
from tokenmargin.probe.text_findings import DecidingHits, Directions, Interval, TextProbe

#: Least share of the weight at which a head is said to select one token.
SELECTS = 0.5

#: The share of random queries that a query must beat to be said to point in the max-margin direction.
BEATS = 0.95


class Verdicts(NamedTuple):
    """Sentences against the idea, sentences for it, and sentences that say how far to trust them."""

    against: list[str]
    in_favour: list[str]
    limits: list[str]


@checked
def text_verdicts(probe: TextProbe) -> Verdicts:
    """Every number that can speak for or against, on the side on which it stands."""
    told = Verdicts([], [], _limits(probe))
    if probe.agreement is not None:
        _of_agreement(told, probe.agreement, probe.shape)
    _of_sparsity(told, probe)
    if probe.directions is not None:
        _of_directions(told, probe.directions, probe.shape)
    return told


def _of_agreement(told: Verdicts, found: DecidingHits, shape: tuple[int, int]) -> None:
    below, above = int((found.over_chance[..., 2] < 0).sum()), int((found.over_chance[..., 1] > 0).sum())
    total, middle = shape[0] * shape[1], float(np.median(found.hits))
    if total > 1:
        side = told.in_favour if middle > found.chance else told.against
        side.append(
            f"The head in the middle selects the word that decides in {middle:.1%} of {found.texts:,} texts; a token "
            f"picked blindly is that word in {found.chance:.1%}."
        )
        (told.against if below >= above else told.in_favour).append(
            f"{below} of {total} heads select it less often than a blind pick, {above} more often, beyond chance "
            "(95% intervals, one head at a time)."
        )
    name = f"Layer {found.best[0] + 1}, head {found.best[1] + 1}" if total > 1 else "Attention"
    chosen = ", the best in one half of the texts, selects it in" if total > 1 else " selects the word that decides in"
    half = " of the other half" if total > 1 else " of the texts"
    hits = f"{name}{chosen} {found.best_hits.mean:.1%}{half} ({_between(found.best_hits)})"
    for over, words in (
        (found.best_over_chance, f"a blind pick is that word in {found.chance:.1%}"),
        (found.best_over_rarest, f"the rarest word of the text, which needs no attention, is it in {found.rarest:.1%}"),
    ):
        low_is_better = over.low > 0
        even = "" if low_is_better or over.high < 0 else "; the difference may be chance"
        (told.in_favour if low_is_better else told.against).append(f"{hits}; {words}{even}.")


def _of_sparsity(told: Verdicts, probe: TextProbe) -> None:
    top = probe.means["top_mass"]
    few = int((top >= SELECTS).sum())
    sentence = (
        f"{few} of {top.size} heads give half or more of their weight to the selected token, on average; the middle "
        f"head gives it {np.median(top):.0%} and attends to {np.median(probe.means['sparsity']):.1f} of "
        f"{probe.tokens:.0f} tokens, softly. In the limit of the theory it is 100% and 1."
    )
    if top.size == 1:
        sentence = (
            f"The selected token has {top.item():.0%} of the weight, and {probe.means['sparsity'].item():.1f} of "
            f"{probe.tokens:.0f} tokens are attended to, softly. In the limit of the theory it is 100% and 1."
        )
    (told.against if 2 * few <= top.size else told.in_favour).append(sentence)
    outside = float(np.median(probe.means["outside"]))
    if outside > SELECTS:
        told.against.append(
            f"The middle head gives {outside:.0%} of its attention to [CLS] and [SEP], which are none to select: what "
            "is measured is how it spreads the rest."
        )


def _of_directions(told: Verdicts, found: Directions, shape: tuple[int, int]) -> None:
    nearer, total = int((found.cosine > found.baseline).sum()), shape[0] * shape[1]
    cosines = f"cosine {np.nanmedian(found.cosine):.2f}, {np.nanmedian(found.baseline):.2f} for random queries"
    if total == 1:
        beaten = float(found.beaten.item())
        (told.in_favour if beaten >= BEATS else told.against).append(
            f"The query is nearer to the max-margin direction of what it selects than {beaten:.0%} of random queries "
            f"are to theirs ({cosines}, in the middle text)."
        )
        return
    # So many of as many tossed coins: heads that are as near as random queries are nearer in half of the cases.
    is_more = nearer > total / 2 + NORMAL_95 * np.sqrt(total) / 2
    (told.in_favour if is_more else told.against).append(
        f"In {nearer} of {total} heads the query is nearer to the max-margin direction of what it selects than random "
        f"queries are to theirs{'' if is_more else ', which tossing coins would give as well'} ({cosines}, in the "
        "middle head)."
    )


def _limits(probe: TextProbe) -> list[str]:
    told = list(probe.notes)
    if probe.agreement is not None:
        told.append(
            "The word that decides is what a fit of tokenmargin says, which reads words without their order: another "
            "opinion, and not the truth. Agreement is no proof that the attention causes anything."
        )
    else:
        told.append(
            "Nothing here tells whether what is selected decides: no fit says which words do, or texts are too few."
        )
    if probe.directions is not None:
        told.append(
            f"The max-margin direction is of one text at a time (n = 1), in {probe.directions.texts} texts: in so few "
            "constraints a direction is easy to be near to, which is what random queries are there to show. "
            f"{probe.directions.certified:.1%} of the problems have a solution that is proven optimal."
        )
    told.append(
        "The theory is of one layer whose query is trained alone, or with the values; of models with more layers it "
        "says nothing, and what is seen here is an observation."
    )
    if probe.cut:
        told.append(f"{probe.cut:,} texts are longer than the model takes and were cut.")
    if probe.left_out:
        told.append(f"{probe.left_out:,} texts with fewer than two tokens to choose between were left out.")
    return told


def _between(interval: Interval) -> str:
    return f"{max(interval.low, 0.0):.1%} to {min(interval.high, 1.0):.1%}"
