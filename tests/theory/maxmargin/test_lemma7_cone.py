"""(L3) of [M, Lemma 7] on random problems: it holds from R_pi on, its radius grows as pi shrinks, and it can fail."""

from dataclasses import replace

import numpy as np
import pytest

from tests.instances import random_sphere
from tokenmargin.margin import att_svm, cone_constants, local_margins
from tokenmargin.theory.claim import Applies
from tokenmargin.theory.maxmargin.lemma7_cone import LEMMA_7_COMPARISON, ComparisonCase, comparison_radius


def in_the_cone(rng, axis, mu):
    """A unit vector on the border of cone_mu(axis), drawn at random."""
    aside = rng.normal(size=len(axis))
    aside -= (aside @ axis) * axis
    aside /= np.linalg.norm(aside)
    cosine = 1 - 0.999 * mu
    return cosine * axis + np.sqrt(1 - cosine**2) * aside


def cases(rng, pi, count):
    """Cases at R_pi for locally-optimal directions all of whose inputs have a neighbour."""
    found = 0
    while found < count:
        data = random_sphere(rng, n=2, T=3, d=3)
        for solution in local_margins(data):
            constants = cone_constants(solution)
            if not constants.every_input_has_neighbors:
                continue
            unit = in_the_cone(rng, solution.direction, constants.mu)
            case = ComparisonCase(data, solution.selection, tuple(unit.tolist()), pi)
            p = unit * (1.0001 * comparison_radius(case))
            yield ComparisonCase(data, solution.selection, tuple(p.tolist()), pi)
            found += 1


@pytest.mark.parametrize("pi", [0.02, 0.3, 1.0])
def test_the_descent_along_p_is_at_most_that_along_the_direction_beyond_its_radius(rng, pi):
    for case in cases(rng, pi, 8):
        outcome = LEMMA_7_COMPARISON.check(case)
        assert outcome.applies is Applies.YES, outcome.because
        assert outcome.holds, outcome


def test_a_smaller_excess_needs_a_larger_radius(rng):
    for case in cases(rng, 1.0, 4):
        radii = [comparison_radius(ComparisonCase(case.sequences, case.selection, case.p, pi)) for pi in (1, 0.1, 0.01)]
        assert radii == sorted(radii)
        assert radii[0] >= cone_constants(att_svm(case.sequences, case.selection)).radius


def test_a_gradient_along_p_alone_breaks_it(rng):
    """If descent went straight along p, it would exceed that along the direction as soon as pi is below mu."""
    case = next(iter(cases(rng, 0.3, 1)))
    straight = replace(LEMMA_7_COMPARISON.observe(case), direction=np.array(case.p) / np.linalg.norm(case.p))
    assert not LEMMA_7_COMPARISON.conclude(replace(case, pi=1e-7), straight).holds
