"""Assumption C: what is proved is never contradicted, what is refuted is refuted by its own p, and few stay open."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.assumptions import drawn
from scipy.stats import ortho_group

from tests.instances import fig3
from tokenmargin.attention.joint_risk import JointRisk
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import label_svm
from tokenmargin.margin.label_svm import largest_share
from tokenmargin.theory.claim import Applies
from tokenmargin.theory.maxmargin.assumption_c import assumption_c, on_support
from tokenmargin.theory.maxmargin.order_cells import OrderCell

OPTIMAL = Selection.from_indices([1, 1, 1], 2)
A, B = (0.5, 1.0), (0.5, 1.5)


def loss_rate(data, selection, gamma, p):
    """((Gamma - label margin at p) / max_i (1 - s), max_i (1 - s))."""
    logits = data.relative_keys @ p
    s = np.exp(logits - logits.max(axis=1, keepdims=True))
    s /= s.sum(axis=1, keepdims=True)
    mixed = float(np.where(selection.chosen, 0.0, s).sum(axis=1).max())
    return (gamma - label_svm(np.einsum("nt,ntk->nk", s, data.tokens), data.labels).label_margin) / mixed, mixed


@pytest.mark.parametrize("law", ["best", "shorter", "keys"])
def test_both_answers_are_borne_out(law):
    """Of a yes by points near and far, and of a no by its own p or ray: what it loses beside what it mixes vanishes."""
    rng, seen = np.random.default_rng(3), []
    for number in range(7):
        data, selection = drawn(law, *((2, 3, 3) if law == "shorter" else (3, 3, 2)), number)
        found = assumption_c(data, selection)
        seen.append(found.applies)
        if found.applies is Applies.YES:
            points = rng.normal(size=(10, data.width)) * 10 ** rng.uniform(-1, 1.5, size=(10, 1))
            rates = [loss_rate(data, selection, found.label_margin, p) for p in points]
            assert min(rate for rate, mixed in rates if mixed > 1e-12) >= found.nu - 1e-9
        elif found.violation is not None:
            along = [loss_rate(data, selection, found.label_margin, R * found.violation) for R in (1, 2, 4, 8, 16, 32)]
            kept = [rate for rate, mixed in along if mixed > 1e-11]
            assert min(kept) < max(0.3 * kept[0], 1e-9)
    assert seen.count(Applies.NOT_DECIDED) <= 1
    assert Applies.YES in seen
    assert Applies.NO in seen


def test_the_papers_example(rng):
    a, labels = np.array([1.0, 2.0]), np.array([1, -1, 1, 1])
    tokens = rng.normal(size=(4, 3, 2))
    tokens *= 0.9 * np.linalg.norm(a) / np.linalg.norm(tokens, axis=-1, keepdims=True)
    tokens[:, 0] = labels[:, None] * a
    selection, papers_nu = Selection.from_indices([0] * 4, 3), 0.1 * np.linalg.norm(a)
    found = assumption_c(EmbeddedSequences(tokens, labels, a), selection)
    assert found.applies is Applies.YES
    assert found.nu >= papers_nu * (1 - 1e-9)  # tokens that point elsewhere leave room for more
    tokens[:, 1:] = 0.9 * tokens[:, :1]  # tokens that do not: the paper's nu is the best there is
    tight = assumption_c(EmbeddedSequences(tokens, labels, a), selection)
    assert tight.nu == pytest.approx(papers_nu, rel=1e-9)


def test_figure_3():
    holds = assumption_c(fig3(A), OPTIMAL)
    assert holds.applies is Applies.YES
    assert 0 < holds.nu < holds.label_margin
    fails = assumption_c(fig3(B), OPTIMAL)
    assert fails.applies is Applies.NO
    assert fails.violation is not None
    assert assumption_c(*on_support(fig3(B), OPTIMAL)).applies is Applies.YES


def test_the_ray_refutes_every_nu():
    data, found = fig3(B), assumption_c(fig3(B), OPTIMAL)
    rates = []
    for scale in (5.0, 10.0, 15.0):
        attention = JointRisk(data).attention(scale * found.violation)
        margin = label_svm(np.einsum("nt,ntk->nk", attention, data.tokens), data.labels).label_margin
        rates.append((found.label_margin - margin) / (1 - attention[:, 1].min()))
    assert rates[0] > rates[1] > rates[2]
    assert rates[2] < 1e-3


def test_a_better_token_refutes_it():
    data = fig3(A)
    tokens = np.concatenate([data.tokens, 3 * data.tokens[:, 1:]], axis=1)
    longer = EmbeddedSequences(tokens, data.labels, data.head)
    found = assumption_c(longer, Selection.from_indices([1, 1, 1], 3))
    assert found.applies is Applies.NO
    assert found.violation is not None


def test_inseparable_labels_refute_it():
    assert assumption_c(fig3(A), Selection.from_indices([0, 1, 1], 2)).applies is Applies.NO
    with pytest.raises(InvalidInputError, match="support"):
        on_support(fig3(A), Selection.from_indices([0, 1, 1], 2))


def copied(keys):
    """Two inputs; the first holds a copy of its selected token."""
    tokens = np.array([[[0.0, 1.0], [0.0, 1.0]], [[0.0, -1.0], [0.0, -0.5]]])
    return EmbeddedSequences(tokens, [1, -1], [0.0, 1.0], np.array(keys, dtype=float)), Selection.from_indices(
        [0, 0], 2
    )


def test_a_copy_of_a_selected_value_refutes_it_where_a_direction_favours_it():
    data, selection = copied([[(1, 0), (0, 0)], [(0, 1), (0, 0)]])
    found = assumption_c(data, selection)
    assert found.applies is Applies.NO
    assert "no worse" in found.because


def test_a_copy_that_is_left_behind_at_least_as_fast_does_not_refute_it():
    """On a line the copy is twice as far away as the token whose mixing costs margin, or as near."""
    for far in (2.0, 1.0):
        data, selection = copied([[(far,), (0,)], [(1,), (0,)]])
        found = assumption_c(data, selection)
        assert found.applies is Applies.YES
        rates = [loss_rate(data, selection, found.label_margin, np.array([p]))[0] for p in np.linspace(-5, 20, 60)]
        assert min(rates) >= found.nu > 0
    data, selection = copied([[(0.5,), (0,)], [(1,), (0,)]])
    assert assumption_c(data, selection).applies is Applies.NO


@pytest.mark.parametrize("law", ["best", "shorter"])
def test_units_origin_and_axes_change_no_answer(law):
    for number in (0, 1):
        data, selection = drawn(law, 3, 3, 2, number)
        found = assumption_c(data, selection)
        turn = ortho_group.rvs(data.width, random_state=number)
        scaled = EmbeddedSequences(2.0**-30 * data.tokens, data.labels, data.head, keys=2.0**40 * data.keys)
        moved = EmbeddedSequences(
            data.tokens @ turn, data.labels, turn.T @ data.head, keys=(data.keys + np.ones(data.width)) @ turn
        )
        for other, unit in ((scaled, 2.0**-30), (moved, 1.0)):
            again = assumption_c(other, selection)
            assert again.applies is found.applies
            if found.applies is Applies.YES:
                assert again.nu == pytest.approx(unit * found.nu, rel=1e-6)


def test_attention_lies_in_the_hull_of_its_cell(rng):
    """Weights of a sorted softmax on the vertices are not negative, and there are vertices for what is not sorted."""
    logits = np.sort(rng.normal(size=4))[::-1]
    s = np.exp(logits) / np.exp(logits).sum()
    weights = np.append(-np.diff(s), s[-1]) * np.arange(1, 5)  # of the uniform ones on the top k
    assert weights.min() >= 0
    tops = OrderCell(((0, 1, 2, 3),)).vertices(0, (0, 1, 2, 3))
    np.testing.assert_allclose(
        sum(w * np.isin(range(4), top) / len(top) for w, top in zip(weights, tops, strict=True)), s
    )
    assert set(OrderCell(((2,),)).vertices(0, (0, 1, 2))) == {(2,), (2, 0), (2, 1), (2, 0, 1)}
    keys = np.array([[[0.0], [1.0], [2.0]]])
    assert OrderCell(((0, 1),)).is_reached(keys, [(0, 1, 2)])
    assert not OrderCell(((1, 0),)).is_reached(keys, [(0, 1, 2)])


def test_the_largest_share_is_that_of_an_optimal_weighting():
    signed = np.array([[0.0, 1.0], [1.0, 1.0], [-1.0, 1.0]])
    solution = label_svm(signed, [1, 1, 1])
    assert largest_share(signed, solution, 0) == pytest.approx(1.0)
    assert largest_share(signed, solution, 1) == pytest.approx(0.5)


def test_wrong_trial_points_are_named():
    with pytest.raises(InvalidInputError, match="trial_points"):
        assumption_c(fig3(A), OPTIMAL, np.zeros((2, 5)))
