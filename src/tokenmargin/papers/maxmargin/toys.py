"""The problems drawn in the papers' figures, as data: small, and with answers known by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenmargin._types import ArrayLike
from tokenmargin.data.sequences import EmbeddedSequences


def planar(points: ArrayLike, token_scores: ArrayLike, labels: ArrayLike | None = None) -> EmbeddedSequences:
    """Keys (n, T, 2) in the plane, the score as third coordinate (v = e3): the construction of [M, Section 2.1].

    Labels are all +1 when absent.
    """
    keys, gamma = np.array(points, dtype=float), np.array(token_scores, dtype=float)
    signs = np.ones(len(keys)) if labels is None else np.array(labels, dtype=float)
    tokens = np.concatenate([keys, (signs[:, None] * gamma)[:, :, None]], axis=2)
    return EmbeddedSequences(tokens, signs, [0.0, 0.0, 1.0], keys=keys)


FIG1_STARTS = tuple((0.0, y) for y in (1.0, 0.5, 0.0, -0.5, -1.0, -1.5))


def fig1a() -> EmbeddedSequences:
    """[M, Fig. 1(a)], the global picture: the third token ties with the second in score."""
    return planar([[(-0.1, 1), (1, 0), (0, 0)]], [[1, 0.9, 0.9]])


def fig1b() -> EmbeddedSequences:
    """[M, Fig. 1(b)], the local picture: the third token scores 0."""
    return planar([[(-0.1, 1), (1, 0), (0, 0)]], [[1, 0.9, 0.0]])


FIG1C_STARTS = tuple((x, 0.0) for x in (1.0, 0.5, 0.0, -0.5, -1.0, -1.5))

_FIG1C = [
    [(0.774832, -0.230472), (-1.086776, 1.169742), (-1.063202, 0.576956), (-1.252667, 1.069997),
     (-0.476032, -0.252468), (-0.549456, -0.770531), (-0.386670, -0.341298)],
    [(0.688981, -0.068272), (-0.849962, 0.882900), (-0.963304, 1.277873), (-0.810740, 0.831265),
     (-0.493681, -0.598535), (-0.412061, -0.477518), (-0.411769, -0.520462)],
    [(0.942066, 0.010501), (-0.539559, 0.706221), (-1.113850, 1.183994), (-0.742025, 0.704365),
     (-0.594624, -0.234945), (-0.609949, -0.595967), (-0.713396, -0.277012)],
]  # fmt: skip


def fig1c() -> EmbeddedSequences:
    """[M, Fig. 1(c) and 4]: three inputs of seven tokens, the first of each optimal."""
    return planar(_FIG1C, [[1.0] + [0.5] * 6] * 3)


def fig3(third: tuple[float, float]) -> EmbeddedSequences:
    """[M, Fig. 3(a)] with third = (.5, 1), (b) with (.5, 1.5); the head is v_mm = (0, 1)."""
    points = [[(0, 0), (1, 1)], [(0, 0), (1, -1)], [(0, 0), third]]
    return EmbeddedSequences(np.array(points, dtype=float), [1, -1, 1], [0.0, 1.0])


def fig5(C: float) -> EmbeddedSequences:
    """[M, Fig. 5]: two inputs, scores (0, C) and (0, 1)."""
    return planar([[(0, 0), (1, 1)], [(0, 0), (1, -1)]], [[0.0, C], [0.0, 1.0]])


def fig8() -> EmbeddedSequences:
    """[M, Fig. 8]: n = T = d = 2, Assumption B, two max-margin directions, (1, 1) global and (1, 0) local.

    The paper does not print its data; these are ours. Optimal differences are (1, 0) and (-2, 3), scored by v = (1, 1).
    Selecting the *non*-optimal token of the second input together with the optimal one of the first is locally
    optimal, as it has no SVM-neighbour there (margin 2).
    """
    return EmbeddedSequences([[(0.0, 0.0), (1.0, 0.0)], [(0.0, 0.0), (-2.0, 3.0)]], [1, 1], [1.0, 1.0])


FIG8_STARTS = ((0.0, 2.0), (4.0, -1.0))


def theorem2_counterexample() -> EmbeddedSequences:
    """Assumption B holds, (ATT-SVM) is infeasible, descent goes to 0: [M, Thm 2] needs feasibility."""
    return EmbeddedSequences([[[1.0], [-1.0]], [[1.0], [-1.0]]], [1, -1], [1.0])


def random_sphere(rng: np.random.Generator, n: int = 4, T: int = 6, d: int = 5) -> EmbeddedSequences:
    """A trial of [M, Fig. 9]: tokens and head uniform on the sphere, labels uniform."""
    tokens, labels, heads = random_spheres([rng], n, T, d)
    return EmbeddedSequences(tokens[0], labels[0], heads[0])


def random_spheres(
    streams: Sequence[np.random.Generator], n: int, T: int, d: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(tokens (B, n, T, d), labels (B, n), heads (B, d)): one trial from each random stream, the same as it alone."""
    drawn = np.empty((len(streams), n * T + 1, d))
    labels = np.empty((len(streams), n))
    for rng, rows, signs in zip(streams, drawn, labels, strict=True):
        rng.standard_normal(out=rows)
        signs[:] = rng.integers(0, 2, size=n)
    drawn /= np.linalg.norm(drawn, axis=-1, keepdims=True)
    labels *= 2.0
    labels -= 1.0
    return drawn[:, :-1].reshape(len(streams), n, T, d), labels, drawn[:, -1]
