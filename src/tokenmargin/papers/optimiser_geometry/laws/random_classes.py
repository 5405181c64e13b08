"""Random instances for the claims of [O]: points of several classes, and the norm and momentum of the method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tokenmargin.papers.optimiser_geometry._multiclass import Descended, Multiclass, descended, gaussian_classes
from tokenmargin.papers.optimiser_geometry.claims import steepest_adam
from tokenmargin.papers.optimiser_geometry.claims.steepest_adam import Classified, classified
from tokenmargin.theory.law import Law
from tokenmargin.theory.problem import given

Stream = np.random.Generator

#: The norms of sign, normalised and spectral descent, each beside the one whose run must not pass for it.
FOREIGN = {"max": "spectral", "l2": "max", "spectral": "max"}

#: Classes, width and points of each class: few shapes, since each is compiled.
SHAPE = (4, 6, 3)


def _gaussian(rng: Stream) -> Multiclass:
    return gaussian_classes(rng, *SHAPE, spread=0.2)


def _whole(rng: Stream) -> Multiclass:
    """Points of whole numbers, classes by the largest of four random forms of whole numbers."""
    k, d, each = SHAPE
    features = rng.integers(-2, 3, size=(k * each, d)).astype(float)
    features[:, 0] += (features == 0).all(axis=1)
    return Multiclass(features, (features @ rng.integers(-3, 4, size=(d, k))).argmax(axis=1), k)


def _uneven(rng: Stream) -> Multiclass:
    """Draw as `_gaussian`, with coordinates from 1/3 to 3 times as long."""
    plain = _gaussian(rng)
    return Multiclass(plain.features * 3.0 ** rng.uniform(-1, 1, size=SHAPE[1]), plain.classes, plain.k)


def _in_another_norm(case: Classified, _: Descended) -> Descended:
    other = classified(given(case.problem), FOREIGN[case.norm])
    return descended(given(case.problem), other.rule, steepest_adam.STEPS)


def _law(key: str, says: str, draw: Callable[[Stream], Multiclass], of_adam: bool) -> Law:
    def drawn(rng: Stream) -> Classified:
        norm = "max" if of_adam else str(rng.choice(list(FOREIGN)))
        return classified(draw(rng), norm, 0.0 if of_adam else float(rng.choice([0.0, 0.9])))

    mutations = {"descent in another norm": _in_another_norm, "classes in another order": _reordered}
    return Law(key, says, drawn, mutations)


def _reordered(_: Classified, seen: Descended) -> Descended:
    return steepest_adam._turned(seen)


_METHOD = " The norm is max, l2 or spectral, the momentum 0 or 0.9."

LAWS: tuple[Law, ...] = tuple(
    _law(claim.key, says + ("" if of_adam else _METHOD), draw, of_adam)
    for claim, of_adam in ((steepest_adam.STEEPEST, False), (steepest_adam.ADAM, True))
    for says, draw in (
        ("Three points N(mean, 0.04 I) of each of 4 classes in 6 dimensions, the means on the sphere.", _gaussian),
        ("12 points of whole numbers from -2 to 2 in 6 dimensions, classes by forms of whole numbers.", _whole),
        ("As the first with coordinates from 1/3 to 3 times as long.", _uneven),
    )
)
