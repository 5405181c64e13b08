"""Problems with known answers: the papers' toys, which the package carries for its figures."""

from tokenmargin.papers.maxmargin.toys import (
    FIG1_STARTS,
    FIG1C_STARTS,
    FIG8_STARTS,
    fig1a,
    fig1b,
    fig1c,
    fig3,
    fig5,
    fig8,
    planar,
    random_sphere,
    theorem2_counterexample,
)

__all__ = [
    "FIG1C_STARTS",
    "FIG1_STARTS",
    "FIG8_STARTS",
    "fig1a",
    "fig1b",
    "fig1c",
    "fig3",
    "fig5",
    "fig8",
    "planar",
    "random_sphere",
    "theorem2_counterexample",
]
