"""The first gradient step of [E], explicit or in Gram space at any width, with its bounds."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.first_step.bounds import Inequality as Inequality
    from tokenmargin.first_step.bounds import embedding_bounds as embedding_bounds
    from tokenmargin.first_step.bounds import embedding_bounds_log10_d as embedding_bounds_log10_d
    from tokenmargin.first_step.bounds import initial_events as initial_events
    from tokenmargin.first_step.bounds import loss_bound as loss_bound
    from tokenmargin.first_step.bounds import loss_bound_log10_d as loss_bound_log10_d
    from tokenmargin.first_step.bounds import theorem_log10_d as theorem_log10_d
    from tokenmargin.first_step.gram import gram_step as gram_step
    from tokenmargin.first_step.gram import step_from_gram as step_from_gram
    from tokenmargin.first_step.step import FirstStep as FirstStep
    from tokenmargin.first_step.step import one_step as one_step
    from tokenmargin.first_step.wishart import SpanCoordinates as SpanCoordinates
    from tokenmargin.first_step.wishart import coordinates_of as coordinates_of
    from tokenmargin.first_step.wishart import gram_of as gram_of
    from tokenmargin.first_step.wishart import sample_coordinates as sample_coordinates


found_on_demand(__name__, __file__)
