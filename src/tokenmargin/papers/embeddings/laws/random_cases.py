"""Random data sets for the claims of [E], what no training, a wrong sign and a tenfold step would make of them.

A claim about what training does must fail on what no training does: where it does not, it is vacuous, whatever holds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from tokenmargin.attention import Limit
from tokenmargin.attention.limit import LimitKind
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.first_step.bounds import Inequality, loss_bound_log10_d
from tokenmargin.first_step.step import log_mean_loss, outputs
from tokenmargin.margin import MarginSolution, att_svm, least_norm
from tokenmargin.papers.embeddings.case import EmbeddingCase
from tokenmargin.papers.embeddings.claims import lemma2_12_first_step as first_step
from tokenmargin.papers.embeddings.claims import lemma3_20_21_margin as margin
from tokenmargin.papers.embeddings.claims import lemma6_19_only_important as only_important
from tokenmargin.papers.embeddings.claims import lemma13_17_descent as descent
from tokenmargin.papers.embeddings.claims import thm5_lemma14_18_selection as selection
from tokenmargin.papers.embeddings.selection_study import Theorem5Study, study_case
from tokenmargin.theory.claim import Applies
from tokenmargin.theory.law import NO_TRAINING, Aside, Law

#: (n, T) of the data sets; the vocabulary is drawn with them.
SIZES = ((4, 3), (4, 4), (6, 3), (6, 4))

#: eta0 of the step that is none: the embeddings stay where they were drawn, to the last bit.
NO_STEP = 1e-30

_DATA = (
    "data of [E, Assumption 4] with (n, T) = (4, 3), (4, 4), (6, 3) or (6, 4), T - 1 to 2T irrelevant tokens, every "
    "other set with relevant tokens that repeat, "
)
_INFINITE = " At such a d the draw lies below the last bit of float64 beside 1: these are runs at d = infinity."
_AT_10 = _DATA + "eta0 = 4 n^2 T^2 and d the least of (10), drawn in Gram space." + _INFINITE

#: Widths at which embeddings are drawn explicitly: far below (10), where the draw is felt.
EXPLICIT = (256, 1024, 4096)

#: (n, T) of the data sets whose selections are enumerated: at most 256 each.
ENUMERATED = ((2, 2), (2, 3), (2, 4), (4, 2), (4, 3))

#: Logits of tied tokens, beside margins of 1, from which on a vector does not tie them.
UNTIED = 1e-3

#: The vector that [E, (18)] would have in place of (9): it need not fail where tokens tie by chance.
WITHOUT_TIES = "p_hat of (18), without the ties"

Stream = np.random.Generator


def _case(rng: Stream) -> EmbeddingCase:
    n, T = SIZES[int(rng.integers(len(SIZES)))]
    return study_case(Theorem5Study(), n, T, int(rng.integers(2**20)), int(rng.integers(2**31)))


def _explicit(rng: Stream, *, d: int) -> EmbeddingCase:
    """The same with explicit embeddings of width d."""
    n, T = SIZES[int(rng.integers(len(SIZES)))]
    study = Theorem5Study(explicit_log10_d=float(np.log10(d)))
    return study_case(study, n, T, int(rng.integers(2**20)), int(rng.integers(2**31)))


def _at_width(d: int) -> Aside:
    says = f"Below (10), on such data with explicit embeddings of width {d}, the conclusion held on"
    return Aside(says, partial(_explicit, d=d))


def _few_selections(rng: Stream) -> EmbeddingCase:
    n, T = ENUMERATED[int(rng.integers(len(ENUMERATED)))]
    return study_case(Theorem5Study(), n, T, int(rng.integers(2**20)), int(rng.integers(2**31)))


def _wide(rng: Stream) -> EmbeddingCase:
    """A case of d = (220 n T)^4, where the bound of [E, Lemma 2] is a tenth of the least movement; any step size."""
    case = _case(rng)
    return replace(case, eta0=float(10.0 ** rng.uniform(-2, 3)), log10_d=first_step.telling_log10_d(case.dataset))


def _for_the_loss(rng: Stream) -> EmbeddingCase:
    """eta0 between n T and 4 n^2 T^2 and the d that [E, Lemma 12] asks for."""
    case = _case(rng)
    nT = float(np.sqrt(case.eta0 / 4.0))
    eta0 = float(np.exp(rng.uniform(np.log(nT), np.log(4 * nT**2))))
    return replace(case, eta0=eta0, log10_d=loss_bound_log10_d(case.dataset.vocabulary_size, case.delta, eta0))


def _loss_after(case: EmbeddingCase, bound: Inequality, *, times: float) -> Inequality:
    """The loss, were the embeddings to move `times` as far along v; products with p change by less than rounding."""
    step = case.step
    scores = step.initial.token_head + times * step.token_head_change
    signed = case.dataset.labels * outputs(case.dataset, scores, step.initial.token_query)
    return replace(bound, left=log_mean_loss(signed))


def _where_p_was(case: EmbeddingCase, limit: Limit) -> Limit:
    """The direction in which p was drawn."""
    p = replace(case, eta0=NO_STEP).step.query
    logits = case.sequences.keys @ p
    chosen, u = Selection(logits == logits.max(axis=1, keepdims=True)), p / np.linalg.norm(p)
    return replace(limit, point=p, velocity=u, selection=chosen)


def _bounded(_: EmbeddingCase, limit: Limit) -> Limit:
    return replace(limit, kind=LimitKind.FINITE)


def _turned_back(_: EmbeddingCase, limit: Limit) -> Limit:
    return replace(limit, velocity=-limit.velocity, point=-limit.point)


def _separation(rng: Stream) -> margin.Separation:
    """One to three sequences of four tokens, two of which repeat, in two or three coordinates."""
    n, d = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    table = rng.normal(size=(6, d))
    tokens = np.stack([table[rng.choice(6, size=4)] for _ in range(n)])
    return margin.Separation(EmbeddedSequences(tokens, np.ones(n), np.eye(d)[0]), tuple(rng.normal(size=d).tolist()))


def _tied(rng: Stream) -> only_important.TiedDirection:
    case = _case(rng)
    return only_important.TiedDirection(case, only_important.tying_direction(case.sequences))


def _nearly_tied(instance: only_important.TiedDirection, _: only_important.Alignment) -> only_important.Alignment:
    """A direction that ties the tokens of every document to a thousandth only."""
    velocity = instance.case.limit.velocity
    return only_important.LEMMA_6.observe(replace(instance, direction=instance.direction + 1e-3 * velocity))


def _tied_before(instance: only_important.TiedDirection, _: only_important.Alignment) -> only_important.Alignment:
    """A direction that ties everything in the embeddings before the step."""
    start = replace(instance.case, eta0=NO_STEP)
    return only_important.LEMMA_6.observe(
        only_important.TiedDirection(start, only_important.tying_direction(start.sequences))
    )


def _at_21(rng: Stream) -> EmbeddingCase:
    case = _case(rng)
    return replace(case, log10_d=margin.lemma_21_log10_d(case))


def _of_the_start(case: EmbeddingCase, _: MarginSolution) -> MarginSolution:
    """(9) for the same tokens in the embeddings before the step."""
    start = replace(case, eta0=NO_STEP)
    return att_svm(start.sequences, start.important)


def _at_13(rng: Stream, *, printed: bool = False) -> EmbeddingCase:
    """A case of any step size and the d of [E, Lemma 13] as corrected; or of the printed d, explicit."""
    case = replace(_case(rng), eta0=float(10.0 ** rng.uniform(-1, 2)))
    width = descent.printed_log10_d(case) if printed else descent.lemma_13_log10_d(case)
    return replace(case, log10_d=width, explicit=printed)


def _limit_of_the_start(case: EmbeddingCase, _: Limit) -> Limit:
    """Limit of p in the embeddings before the step."""
    return replace(case, eta0=NO_STEP).limit


def _gap_is_kept(case: EmbeddingCase) -> bool:
    """True if the score gap is eta0/(4nT) or more, the step of the proof of [E, Lemma 13]."""
    return descent.score_gap(case) >= 1.0


def _local_direction(rng: Stream) -> descent.LocalDirection:
    """p along the first axis, on which the tokens have their places; N(0, I) across it."""
    n, T, d = int(rng.integers(1, 4)), 5, int(rng.integers(3, 6))
    keys = rng.normal(size=(n, T, d))
    for i in range(n):
        first, second = int(rng.integers(1, 3)), int(rng.integers(1, 3))
        places = [1.0] * first + [0.5] * second + rng.uniform(-0.5, 0.2, T - first - second).tolist()
        keys[i, :, 0] = rng.permutation(places)
    head = np.concatenate([[2.0], rng.normal(size=d - 1)])
    labels = rng.choice([-1.0, 1.0], size=n, p=[0.1, 0.9])
    epsilon = float(10.0 ** rng.uniform(-2, -0.5))
    return descent.LocalDirection(EmbeddedSequences(keys, labels, head), tuple(np.eye(d)[0].tolist()), epsilon)


def _without_the_ties(case: descent.LocalDirection, _: descent.LogitsCompared) -> descent.LogitsCompared | None:
    """The descent along the solution of (18), which asks for margins and not for ties; None where it ties, too."""
    first, second, behind = case.places
    keys = case.sequences.keys
    rows = [
        keys[i, s] - keys[i, t]
        for i in range(len(keys))
        for s in np.flatnonzero(first[i])
        for t in np.flatnonzero(second[i] | behind[i])
    ]
    loose = least_norm(np.array(rows), np.ones(len(rows))).p
    ties = [np.ptp((keys[i] @ loose)[first[i]]) for i in range(len(keys))]
    return descent.logits_compared(case, loose) if max(ties) > UNTIED else None


_LIMIT_MUTATIONS = {NO_TRAINING: _where_p_was, "|p| stays bounded": _bounded, "turned back": _turned_back}

LAWS: tuple[Law, ...] = (
    Law(
        selection.THEOREM_5.key,
        _AT_10,
        _case,
        _LIMIT_MUTATIONS,
        asides=tuple(_at_width(d) for d in EXPLICIT),
    ),
    Law(
        first_step.LEMMA_2.key,
        _DATA + "eta0 from 0.01 to 1000 and d = (220 n T)^4, drawn in Gram space.",
        _wide,
        {
            NO_TRAINING: lambda _, step: first_step.stepped(step, 0.0),
            "wrong sign": lambda _, step: first_step.stepped(step, -1.0),
            "tenfold step": lambda _, step: first_step.stepped(step, 10.0),
        },
    ),
    Law(
        margin.LEMMA_3.key,
        "one to three sequences of four of six tokens, with repeats, N(0, I) in two or three coordinates, p N(0, I); "
        "no training is in it.",
        _separation,
        {
            "1% longer": lambda _, seen: seen.moved_to(1.01 * seen.p),
            "1% shorter": lambda _, seen: seen.moved_to(0.99 * seen.p),
        },
    ),
    Law(
        only_important.LEMMA_6.key,
        _AT_10,
        _tied,
        {"tied to 1e-3 only": _nearly_tied, NO_TRAINING: _tied_before},
    ),
    Law(
        first_step.LEMMA_12.key,
        _DATA + "eta0 from n T to 4 n^2 T^2 and the d that the lemma asks for, drawn in Gram space." + _INFINITE,
        _for_the_loss,
        {NO_TRAINING: partial(_loss_after, times=0.0), "wrong sign": partial(_loss_after, times=-1.0)},
    ),
    Law(
        descent.LEMMA_13.key,
        _DATA + "eta0 from 0.1 to 100 and the d that the corrected lemma asks for, drawn in Gram space.",
        _at_13,
        {NO_TRAINING: _limit_of_the_start, "|p| stays bounded": _bounded},
        asides=(
            Aside("On such data the step of its proof, a score gap of eta0/(4nT), held on", _at_13, _gap_is_kept),
            Aside(
                "At the d that the lemma prints, with explicit embeddings, the conclusion held on",
                partial(_at_13, printed=True),
            ),
            Aside("and the step of its proof on", partial(_at_13, printed=True), _gap_is_kept),
        ),
    ),
    Law(
        selection.LEMMA_14.key,
        _AT_10,
        _case,
        _LIMIT_MUTATIONS,
    ),
    Law(
        descent.LEMMA_17.key,
        "one to three sequences of five tokens in three to five coordinates, one or two of them first along p, at 1, "
        "one or two second, at 0.5, the rest behind; N(0, I) across p, a head of 2 along p and N(0, I) across, one "
        "label in ten negative, epsilon from 0.01 to 0.3; no training is in it.",
        _local_direction,
        {
            WITHOUT_TIES: _without_the_ties,
            "its mutation": lambda _, seen: descent.LEMMA_17.mutate(seen),
        },
    ),
    Law(
        selection.LEMMA_18.key,
        _AT_10,
        _case,
        _LIMIT_MUTATIONS,
    ),
    Law(
        only_important.LEMMA_19.key,
        _AT_10,
        _case,
        _LIMIT_MUTATIONS,
        asides=(
            Aside(
                "The hypothesis as printed, a mu > 0 and both widths, all selections enumerated on such data with "
                "(n, T) = (2, 2), (2, 3), (2, 4), (4, 2) or (4, 3), held on",
                _few_selections,
                lambda case: only_important.lemma_19_as_printed(case)[0] is Applies.YES,
            ),
            *(_at_width(d) for d in EXPLICIT),
        ),
    ),
    Law(
        margin.LEMMA_20.key,
        "as for Lemma 3; no training is in it.",
        _separation,
        {"1% longer": lambda _, seen: seen.moved_to(1.01 * seen.p)},
    ),
    Law(
        margin.LEMMA_21.key,
        _DATA + "eta0 = 4 n^2 T^2 and the d that the lemma asks for, drawn in Gram space.",
        _at_21,
        {NO_TRAINING: _of_the_start},
    ),
)
