"""A fit to counted texts that do not fit into memory: learnt from all of them part by part, judged on a sample.

What is in memory is one part, the vocabulary, and samples of a fixed size. With fewer texts than those samples hold,
everything is measured on all texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked, whole_number
from tokenmargin._fingerprint import fingerprint
from tokenmargin._progress import Progress, silent
from tokenmargin.classify._choosing import RIDGE_GROWTH
from tokenmargin.classify._lbfgs import Search, minimise
from tokenmargin.classify._objective import Documents, Parameters, Parts, PenalisedLoss
from tokenmargin.classify._peers import strongest_peer
from tokenmargin.classify.fit_settings import CountedPart, FitSettings, Origin
from tokenmargin.classify.fitting import COMPUTED_BY
from tokenmargin.classify.judging import FittedTexts, evaluated_fit
from tokenmargin.classify.prior import Belief, Holders, holders
from tokenmargin.classify.text_model import TextModel
from tokenmargin.classify.token_fit import Fitted, fit_tokens
from tokenmargin.classify.token_model import TokenModel
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import TokenCounter
from tokenmargin.training.checkpoint import Checkpoint, Keeper, Stages, computed_by

#: Texts learnt from on which the ridge is chosen, tokens are measured and the peer learns, and held-out texts at most.
SAMPLE, MOST_HELD_OUT = 40_000, 20_000

#: Steps of L-BFGS at most, and the share of the loss that the last step gains: as in `fit_tokens`.
MOST_STEPS, TOLERANCE = 200, 3e-4

#: Counts (documents, V) and classes 0 or 1, part by part, in the same order at every call.
CountedParts = Callable[[], Iterable[tuple[sp.csr_array, np.ndarray]]]


@checked
def fit_parts(
    parts: CountedParts,
    n_documents: int,
    vocabulary: tuple[str, ...],
    classes: tuple[str, str],
    settings: FitSettings,
    *,
    origin: Origin | None = None,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
) -> FittedTexts:
    """Fit to counts as `fit_texts` does to texts: no texts are shown, and nothing is fitted to resampled texts.

    Args:
        parts: called for every pass over the counts.
        n_documents: number of documents in all parts.
        vocabulary: names of the columns.
        classes: names of the two classes.
        settings: `test_share` is held out, and at most 20,000 texts.
        origin: origin of the texts, for the page.
        progress: called as progress(done, total, what).
        checkpoint: store of the fit to a sample and of the newest steps of the fit to all; continued if it exists.
    """
    whole_number(n_documents, "n_documents", 2)
    if settings.bootstrap:
        raise InvalidInputError("fitting again to resampled texts needs all counts in memory: leave bootstrap out.")
    dealt = _Dealt(parts, n_documents, len(vocabulary), settings)
    learnt, held_out = dealt.samples(progress)
    for part in (learnt, held_out):
        if len(np.unique(part.targets)) < 2:
            raise InvalidInputError(f"{n_documents} texts are too few of each class to hold some out: give more.")
    stages = Stages(checkpoint, dealt.belongs_to)
    first = fit_tokens(learnt.counts, learnt.targets, 2, progress=progress, checkpoint=stages.checkpoint("fit"))
    grown, believed = dealt.n_learnt / len(learnt.targets), first.prior.belief(dealt.held)
    keeper = Keeper(stages.checkpoint("all"), dealt.belongs_to)
    tokens = fitted_to_parts(dealt.learnt, first, grown, believed, progress, keeper)
    base = dealt.held.documents / dealt.held.documents.sum()
    model = TextModel(TokenCounter(settings.recipe, vocabulary), tokens, classes, ("",) * len(vocabulary), base)
    fitted = replace(first, model=tokens, start=believed.start)
    known = {"train_documents": dealt.n_learnt}
    told = origin or Origin()
    if dealt.n_learnt > len(learnt.targets):
        known["measured_documents"] = len(learnt.targets)
        sampled = (
            f"tokens were measured, and the classifier that this one is compared with learnt, on "
            f"{len(learnt.targets):,} of the {dealt.n_learnt:,} texts learnt from"
        )
        told = replace(told, reading=(*told.reading, sampled))
    peer = strongest_peer(learnt.counts, learnt.targets, settings.seed), held_out.counts
    seen = dealt.repeated(held_out)
    return evaluated_fit(model, learnt, held_out, settings, told, seen, known, fitted=fitted, peer=peer)


def fitted_to_parts(
    parts: Parts,
    sample: Fitted,
    grown: float,
    believed: Belief,
    progress: Progress = silent,
    keeper: Keeper | None = None,
) -> TokenModel:
    """The fit of `fit_tokens` to documents of which one part is in memory at a time; it begins at a fit to a sample.

    Args:
        parts: called for every pass; gives counts (documents, V), targets and weights, one part after the other.
        sample: a fit to some of the documents: this fit begins at its parameters, and takes over its ridges.
        grown: ratio of all documents to those of the sample; the ridges grow with it.
        believed: initial scores and units of all documents, by the prior of the sample.
        progress: called as progress(steps, most, "fitting").
        keeper: keeper of the newest steps.
    """
    model = sample.model
    objective = PenalisedLoss(parts, model.value.shape[1], model.power, believed)
    more = grown**RIDGE_GROWTH
    objective.penalise(sample.ridge_value * more, sample.ridge_score * more)

    def stop(step: int, _: np.ndarray) -> bool:
        progress(step, MOST_STEPS, "fitting")
        return False

    first, scaled = Parameters(model.score, model.value, model.intercept), sample.moved
    begin: np.ndarray | Search = objective.coordinates(first if scaled is None else scaled.undone(first))
    with keeper or Keeper(None, dict) as keeps:
        kept = keeps.latest()
        found = minimise(
            objective.value_and_gradient,
            begin if kept is None else Search.from_arrays(kept.arrays),
            max_iter=MOST_STEPS,
            tol=TOLERANCE,
            stop=stop,
            after=lambda search: keeps.after(len(search.values) - 1, lambda: (search.arrays(), {})),
        )
    parameters = objective.parameters(found.x)
    return TokenModel(*(parameters if scaled is None else scaled.applied(parameters)), model.power)


class _Dealt:
    """Every text has a random number of its own, by the seed, its part and its place: it decides what it is for."""

    def __init__(self, parts: CountedParts, n_documents: int, V: int, settings: FitSettings) -> None:
        self.parts, self.n_documents, self.V, self.seed = parts, n_documents, V, settings.seed
        self.held_out_share = min(settings.test_share, MOST_HELD_OUT / n_documents)
        self.sampled_share = self.held_out_share + min(1.0, SAMPLE / n_documents)
        self.held = Holders(np.zeros((2, V)), np.zeros(2))
        self.n_learnt = 0
        self.content = ""  # of all parts seen

    def _dealt(self) -> Iterator[tuple[sp.csr_array, np.ndarray, np.ndarray]]:
        for number, (counts, targets) in enumerate(self.parts()):
            if counts.shape != (len(targets), self.V) or not set(np.unique(targets)) <= {0, 1}:
                raise InvalidInputError(
                    f"part {number} has counts of shape {counts.shape} and {len(targets)} targets: give a row a text, "
                    f"{self.V} columns, and targets 0 or 1."
                )
            yield counts, targets, np.random.default_rng([self.seed, number]).random(len(targets))

    def samples(self, progress: Progress) -> tuple[CountedPart, CountedPart]:
        """Some of the texts learnt from, and those to judge by; what all of the former amount to is added up."""
        picked: tuple[list[tuple[sp.csr_array, np.ndarray]], ...] = ([], [])
        done = 0
        for counts, targets, draw in self._dealt():
            is_held_out = draw < self.held_out_share
            own = sp.csr_array(counts[~is_held_out]), targets[~is_held_out]
            self.n_learnt += len(own[1])
            more = holders(*own, np.ones(len(own[1])), 2)
            self.held = Holders(self.held.by_token + more.by_token, self.held.documents + more.documents)
            for kept, chosen in zip(picked, (~is_held_out & (draw < self.sampled_share), is_held_out), strict=True):
                kept.append((sp.csr_array(counts[chosen]), targets[chosen]))
            self.content = fingerprint(self.content, counts.indptr, counts.indices, counts.data, targets)
            done += len(targets)
            progress(done, self.n_documents, "reading counts")
        learnt, held_out = (
            CountedPart(
                [], [], np.concatenate([own for _, own in kept]), sp.csr_array(sp.vstack([own for own, _ in kept]))
            )
            for kept in picked
        )
        return learnt, held_out

    def belongs_to(self) -> dict[str, str]:
        """Everything that a fit depends on: all texts, once `samples` has seen them, and how they were split."""
        how = {"seed": str(self.seed), "held out": repr(self.held_out_share), "sampled": repr(self.sampled_share)}
        texts = f"{self.n_documents} of {self.V} tokens, {self.content}"
        return {"texts": texts} | how | computed_by(*COMPUTED_BY, device=False)

    def learnt(self) -> Iterator[Documents]:
        """The texts learnt from, part by part."""
        for counts, targets, draw in self._dealt():
            own = draw >= self.held_out_share
            yield Documents(sp.csr_array(counts[own], dtype=np.float64), targets[own], np.ones(int(own.sum())))

    def repeated(self, held_out: CountedPart) -> np.ndarray:
        """Mask of the held-out texts with the same counts as a text learnt from; False for a text without a token."""
        keys = np.random.default_rng(0).random(self.V)
        wanted = held_out.counts @ keys
        seen = np.zeros(len(wanted), dtype=bool)
        for documents in self.learnt():
            seen |= np.isin(wanted, documents.counts @ keys)
        return seen & (wanted > 0)
