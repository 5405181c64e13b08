"""(L3) of [M, Lemma 7] on random problems: it holds from R_pi on, its radius grows as pi shrinks, and it can fail."""

from dataclasses import replace

import numpy as np
import pytest

from tests.instances import fig1b, random_sphere
from tokenmargin.data import EmbeddedSequences, Selection, scores
from tokenmargin.margin import att_svm, local_margins, neighbors
from tokenmargin.papers.maxmargin._cones import cone_constants
from tokenmargin.papers.maxmargin.claims.lemma7_cone import (
    LEMMA_7,
    LEMMA_7_COMPARISON,
    ComparisonCase,
    ConeCase,
    comparison_radius,
    comparison_terms,
)
from tokenmargin.theory.claim import Applies


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
            p = unit * (1.0001 * comparison_radius(solution, pi))
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
        radii = [comparison_radius(case.solution, pi) for pi in (1, 0.1, 0.01)]
        assert radii == sorted(radii)
        assert radii[0] >= cone_constants(att_svm(case.sequences, case.selection)).radius


def test_a_gradient_along_p_alone_breaks_it(rng):
    """If descent went straight along p, it would exceed that along the direction as soon as pi is below mu."""
    case = next(iter(cases(rng, 0.3, 1)))
    straight = replace(LEMMA_7_COMPARISON.observe(case), direction=np.array(case.p) / np.linalg.norm(case.p))
    assert not LEMMA_7_COMPARISON.conclude(replace(case, pi=1e-7), straight).holds


def test_only_the_last_term_of_the_radius_counts_the_inputs():
    """Inputs repeated: (46) and (49) compare an input with itself, the last one input of weight 1/n with all others."""
    data, pi = fig1b(), 0.05
    solution = att_svm(data, Selection.from_indices([1], 3))
    constants, once = cone_constants(solution), comparison_terms(solution, pi)
    nu = pi**2 / (64 * constants.key_norm**2)
    for n in (2, 5):
        tokens, labels, keys = (np.repeat(part, n, axis=0) for part in (data.tokens, data.labels, data.keys))
        repeated = EmbeddedSequences(tokens, labels, data.head, keys)
        again = comparison_terms(att_svm(repeated, Selection.from_indices([1] * n, 3)), pi)
        assert again[:2] == pytest.approx(once[:2])
        more = np.log(n) / ((pi / 2 + 2 * nu) * constants.margin)
        assert again[2] - once[2] == pytest.approx(more)


@pytest.mark.parametrize("beyond", [-0.01, 0.01])
def test_a_gradient_longer_than_the_spread_of_the_keys_allows_breaks_it(rng, beyond):
    """Its part at right angles to q alone is lengthened, so that the descent along q stays as it is."""
    for compared in cases(rng, 1.0, 3):
        solution = att_svm(compared.sequences, compared.selection)
        q, far = solution.direction, 1.01 * cone_constants(solution).radius
        case = ConeCase(compared.sequences, compared.selection, tuple((far * q).tolist()), tuple(q.tolist()))
        seen, gamma = LEMMA_7.observe(case), scores(case.sequences)
        upper = 0.0
        for i, alpha in enumerate(case.selection.indices):
            most = max(gamma[i, alpha] - gamma[i, t] for t in np.flatnonzero(neighbors(solution)[i]))
            upper += 2 * np.exp(seen.log_slope[i] + seen.log_missing[i] - seen.log_scale) * most / len(gamma)
        longest = upper * max(np.linalg.norm(a - b) for keys in case.sequences.keys for a in keys for b in keys)
        along, aside = float(seen.direction @ q), np.cross(q, rng.normal(size=3))
        length = np.sqrt(((1 + beyond) * longest) ** 2 - along**2)
        longer = replace(seen, direction=along * q + length * aside / np.linalg.norm(aside))
        assert LEMMA_7.error(case, seen) == 0.0
        assert LEMMA_7.error(case, longer) == pytest.approx(max(0.0, beyond))
