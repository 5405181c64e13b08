"""The first gradient step of [E], explicit or in Gram space at any width."""

from tokenmargin.first_step.gram import gram_step, step_from_gram
from tokenmargin.first_step.step import FirstStep, one_step
from tokenmargin.first_step.wishart import SpanCoordinates, coordinates_of, gram_of, sample_coordinates

__all__ = [
    "FirstStep",
    "SpanCoordinates",
    "coordinates_of",
    "gram_of",
    "gram_step",
    "one_step",
    "sample_coordinates",
    "step_from_gram",
]
