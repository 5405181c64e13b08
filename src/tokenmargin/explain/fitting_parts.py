"""A fit to counted texts that do not fit into memory: learnt from all of them part by part, judged on a sample.

What is in memory is one part, the vocabulary, and samples of a fixed size. With fewer texts than those samples hold,
everything is measured on all texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import scipy.sparse as sp

from tokenmargin._progress import Progress, silent
from tokenmargin.errors import InvalidInputError
from tokenmargin.explain._objective import Documents
from tokenmargin.explain.fit_tokens import fit_token_parts
from tokenmargin.explain.fitting import FitSettings, FittedTexts, Origin, Part, chosen_fit, judged_fit
from tokenmargin.explain.text_model import TextModel
from tokenmargin.text import TokenCounter

#: Texts learnt from on which the ridge is chosen, tokens are measured and the peer learns, and texts to judge by.
SAMPLE, JUDGED = 40_000, 20_000

#: Counts (documents, V) and classes 0 or 1, part by part, in the same order at every call.
CountedParts = Callable[[], Iterable[tuple[sp.csr_array, np.ndarray]]]


def fit_parts(
    parts: CountedParts,
    n_documents: int,
    vocabulary: tuple[str, ...],
    classes: tuple[str, str],
    settings: FitSettings,
    *,
    origin: Origin | None = None,
    progress: Progress = silent,
) -> FittedTexts:
    """What `fit_texts` gives, from counts: no texts are shown, and nothing is fitted again to resampled texts.

    Args:
        parts: called for every pass over the counts.
        n_documents: of all parts.
        vocabulary: names of the columns.
        classes: names of the two classes.
        settings: `test_share` is held out, and at most 20,000 texts.
        origin: where the texts came from, for the page.
        progress: called as progress(done, total, what).
    """
    if settings.bootstrap:
        raise InvalidInputError("fitting again to resampled texts needs all counts in memory: leave bootstrap out.")
    dealt = _Dealt(parts, n_documents, len(vocabulary), settings)
    learnt, judged = dealt.samples(progress)
    for part in (learnt, judged):
        if len(np.unique(part.targets)) < 2:
            raise InvalidInputError(f"{n_documents} texts are too few of each class to hold some out: give more.")
    first = chosen_fit(learnt, 2, settings.seed, progress)
    fitted = fit_token_parts(
        dealt.learnt, first, dealt.n_learnt / len(learnt.targets), dealt.held_by, dealt.n_learnt, progress=progress
    )
    model = TextModel(TokenCounter(settings.recipe, vocabulary), fitted.model, classes, ("",) * len(vocabulary))
    known = {"train_documents": dealt.n_learnt, "repeated_test_documents": dealt.repeated(judged)}
    told = origin or Origin()
    if dealt.n_learnt > len(learnt.targets):
        known["measured_documents"] = len(learnt.targets)
        sampled = (
            f"tokens were measured, and TF-IDF with logistic regression learnt, on {len(learnt.targets):,} of the "
            f"{dealt.n_learnt:,} texts learnt from"
        )
        told = Origin(told.title, told.command, (*told.reading, sampled), told.rows_left_out, told.files)
    return judged_fit(model, learnt, judged, settings, told, known, progress=progress)


class _Dealt:
    """Every text has a random number of its own, by the seed, its part and its place: it decides what it is for."""

    def __init__(self, parts: CountedParts, n_documents: int, V: int, settings: FitSettings) -> None:
        self.parts, self.n_documents, self.V, self.seed = parts, n_documents, V, settings.seed
        self.judged_share = min(settings.test_share, JUDGED / n_documents)
        self.sampled_share = self.judged_share + min(1.0, SAMPLE / n_documents)
        self.held_by = np.zeros(V)
        self.n_learnt = 0

    def _dealt(self) -> Iterator[tuple[sp.csr_array, np.ndarray, np.ndarray]]:
        for number, (counts, targets) in enumerate(self.parts()):
            yield counts, targets, np.random.default_rng([self.seed, number]).random(len(targets))

    def samples(self, progress: Progress) -> tuple[Part, Part]:
        """Some of the texts learnt from, and those to judge by; what all of the former amount to is added up."""
        picked: tuple[list[tuple[sp.csr_array, np.ndarray]], ...] = ([], [])
        done = 0
        for counts, targets, draw in self._dealt():
            is_judged = draw < self.judged_share
            self.held_by += np.bincount(sp.csr_array(counts[~is_judged]).indices, minlength=self.V)
            self.n_learnt += int((~is_judged).sum())
            for kept, chosen in zip(picked, (~is_judged & (draw < self.sampled_share), is_judged), strict=True):
                kept.append((sp.csr_array(counts[chosen]), targets[chosen]))
            done += len(targets)
            progress(done, self.n_documents, "reading counts")
        learnt, judged = (
            Part([], [], np.concatenate([own for _, own in kept]), sp.csr_array(sp.vstack([own for own, _ in kept])))
            for kept in picked
        )
        return learnt, judged

    def learnt(self) -> Iterator[Documents]:
        """The texts learnt from, part by part."""
        for counts, targets, draw in self._dealt():
            own = draw >= self.judged_share
            yield Documents(sp.csr_array(counts[own], dtype=np.float64), targets[own], np.ones(int(own.sum())))

    def repeated(self, judged: Part) -> int:
        """Texts to judge by whose counts are those of a text learnt from."""
        keys = np.random.default_rng(0).random(self.V)
        wanted = judged.counts @ keys
        seen = np.zeros(len(wanted), dtype=bool)
        for documents in self.learnt():
            seen |= np.isin(wanted, documents.counts @ keys)
        return int(seen.sum())
