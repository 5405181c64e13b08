"""The first gradient step of [E], explicit or in Gram space at any width, with its bounds."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.first_step.bounds import (
        Inequality,
        embedding_bounds,
        embedding_bounds_log10_d,
        initial_events,
        loss_bound,
        loss_bound_log10_d,
        theorem_log10_d,
    )
    from tokenmargin.first_step.gram import gram_step, step_from_gram
    from tokenmargin.first_step.step import FirstStep, one_step
    from tokenmargin.first_step.wishart import SpanCoordinates, coordinates_of, gram_of, sample_coordinates

__all__ = [
    "FirstStep",
    "Inequality",
    "SpanCoordinates",
    "coordinates_of",
    "embedding_bounds",
    "embedding_bounds_log10_d",
    "gram_of",
    "gram_step",
    "initial_events",
    "loss_bound",
    "loss_bound_log10_d",
    "one_step",
    "sample_coordinates",
    "step_from_gram",
    "theorem_log10_d",
]

found_on_demand(__name__, __file__)
