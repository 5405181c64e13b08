"""The instance of claims about trained embeddings: a data set, one gradient step, and the flow of p after it.

The paper's statements hold "with probability 1 - delta" by conditioning on the events (14) of the start. Here a draw on
which (14) fails lies outside the hypotheses, and every statement is then about a single draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._progress import Progress, silent
from tokenmargin.attention import AttentionRisk, Flow, Limit, LimitKind
from tokenmargin.data import EmbeddedSequences, Selection, TokenClass, TokenDataset, assumption4, token_statistics
from tokenmargin.first_step.bounds import initial_events
from tokenmargin.first_step.gram import gram_step
from tokenmargin.first_step.step import FirstStep, one_step
from tokenmargin.theory.claim import Applies
from tokenmargin.theory.problem import Problem, given

#: Share by which the risk may seem to rise along a flow: its own rounding.
RISEN = 1e-6

#: Norm to which p is followed: with a large eta0 it starts far out, and on one data set in a hundred its velocity
#: settles like 1/|p| only. Beyond this norm logits carry rounding errors of order one.
FAR = 1e8


@checked
@dataclass(frozen=True, eq=False)
class EmbeddingCase:
    """A data set with the step size, width and random draw of its first step.

    Args:
        dataset: documents as counts.
        eta0: size of the first step.
        log10_d: log10 of the width of the embeddings.
        seed: seed of the draw of E0 and p0.
        delta: probability that the events (14) are allowed to fail with.
        explicit: draw d numbers a token, rather than coordinates in the span of E0, p0 and v.
    """

    dataset: TokenDataset
    eta0: float
    log10_d: float
    seed: int = 0
    delta: float = 0.1
    explicit: bool = False

    @cached_property
    def step(self) -> FirstStep:
        """The first gradient step [E, (4)]."""
        rng = np.random.default_rng(self.seed)
        if self.explicit:
            return one_step(self.dataset, self.eta0, round(10.0**self.log10_d), rng)
        return gram_step(self.dataset, self.eta0, self.log10_d, rng)

    @cached_property
    def sequences(self) -> EmbeddedSequences:
        """The documents in the embeddings E1."""
        return self.step.sequences()

    @cached_property
    def important(self) -> Selection:
        """The completely positive or negative tokens of every document, the set S_c of [E, Sec. 3]."""
        kind = token_statistics(self.dataset).token_class
        counts, lengths = self.dataset.counts, self.dataset.lengths
        chosen = np.zeros((len(lengths), int(lengths.max())), dtype=bool)
        places = np.arange(chosen.shape[1]) < lengths[:, None]
        chosen[places] = np.abs(kind[np.repeat(counts.indices, counts.data)]) == int(TokenClass.COMPLETELY_POSITIVE)
        return Selection(chosen)

    @cached_property
    def limit(self) -> Limit:
        """Limit of the flow of p from p1, with E1 fixed [E, (7)]."""
        return limits([self])[0]

    @property
    def one_length(self) -> bool:
        """True if all documents have T tokens, as the paper assumes."""
        return bool((self.dataset.lengths == self.dataset.lengths[0]).all())


def case_of(problem: Problem) -> EmbeddingCase:
    """The documents, the step, the width and the draw of a user's problem."""
    return EmbeddingCase(
        given(problem.dataset), given(problem.eta0), given(problem.log10_d), problem.seed, problem.delta
    )


#: The arrays of a problem file that make a case.
CASE_NEEDS = ("counts", "eta0", "log10_d")


def least_step(dataset: TokenDataset) -> float:
    """4 n^2 T^2, the least eta0 of [E, (10)]."""
    return 4.0 * float(dataset.n_documents) ** 2 * float(dataset.lengths.max()) ** 2


def limits(
    cases: Sequence[EmbeddingCase],
    method: Flow | None = None,
    progress: Progress = silent,
) -> list[Limit]:
    """The limits of many cases; those with as many documents and tokens share one compilation.

    Every vocabulary has its own width. Padded with zeros beyond the n (T - 1) differences that act on p, all are
    followed in n (T - 1) coordinates.
    """
    wide = [_padded(case) for case in cases]
    risks = [AttentionRisk(sequences) for sequences, _ in wide]
    from tokenmargin.attention import follow_all, limits_of  # the claims that follow nothing do not load it

    ends = follow_all(risks, [start for _, start in wide], method or Flow(until_norm=FAR), progress=progress)
    found = limits_of(risks, [end.final for end in ends])
    found = [_if_descended(limit, start) for limit, (_, start) in zip(found, wide, strict=True)]
    return [_narrowed(limit, case.sequences.width) for limit, case in zip(found, cases, strict=True)]


def _if_descended(limit: Limit, start: np.ndarray) -> Limit:
    """The limit, stalled where the risk rose on the way: no flow does that, a step that overshot a turn does.

    At scores of thousands the weight of a document changes by e^1000 while p moves by a thousandth.
    """
    risk = AttentionRisk(limit.risk.sequences)
    if not limit.diverges or risk.value(limit.point) <= risk.value(start) * (1 + RISEN):
        return limit
    return replace(limit, kind=LimitKind.STALLED, reason="The risk rose on the way: the flow was not followed.")


def _padded(case: EmbeddingCase) -> tuple[EmbeddedSequences, np.ndarray]:
    data, start = case.sequences, case.step.query
    extra = data.n_inputs * (data.n_places - 1) + 1 - data.width
    if extra <= 0:
        return data, start
    tokens = np.pad(data.tokens, ((0, 0), (0, 0), (0, extra)))
    mask = None if data.is_unmasked else data.mask
    return EmbeddedSequences(tokens, data.labels, np.pad(data.head, (0, extra)), mask=mask), np.pad(start, (0, extra))


def _narrowed(limit: Limit, width: int) -> Limit:
    if len(limit.point) == width:
        return limit
    return replace(limit, point=limit.point[:width], velocity=limit.velocity[:width])


def examine(
    case: EmbeddingCase, log10_d: float, *, single_relevant: bool = False, eta0: float = 0.0
) -> tuple[Applies, str]:
    """Examine the hypotheses of a statement: least width and step size, [E, Assumption 4] if asked, the events (14)."""
    if not case.one_length:
        return Applies.NO, "Documents differ in length, where [E] takes T tokens each."
    if single_relevant and not (found := assumption4(case.dataset)):
        document, why = next(iter(found.broken.items()))
        return Applies.NO, f"Assumption 4 fails: document {document} {why}."
    if single_relevant and int(case.dataset.lengths.max()) == 1:
        return Applies.NO, "Every document holds one token: p never moves, which the paper overlooks. Take T >= 2."
    if case.eta0 < eta0:
        return Applies.NO, f"eta0 = {case.eta0:g} is below {eta0:g}."
    if case.log10_d < log10_d:
        return Applies.NO, f"d = 10^{case.log10_d:.4g} is below 10^{log10_d:.4g}."
    products, norms = initial_events(case.step, case.delta)
    if not (products.holds and norms.holds):
        return Applies.NO, f"This draw is one of the share delta = {case.delta:g} on which the events (14) fail."
    return Applies.YES, f"d = 10^{case.log10_d:.4g} is at least 10^{log10_d:.4g} and the events (14) hold."
