"""Assumption C: what is proved is never contradicted, what is refuted is refuted by its own p, and few stay open."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from benchmarks.assumptions import drawn
from scipy.stats import ortho_group

from tests.instances import fig3
from tests.references import exact_loss_rate, label_margins, loss_rates
from tests.torture import assumption_c as torture
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import label_svm
from tokenmargin.papers.maxmargin.claims._exact_selection import ExactSelection
from tokenmargin.papers.maxmargin.claims.assumption_c import assumption_c, on_support
from tokenmargin.papers.maxmargin.claims.order_cells import OrderCell
from tokenmargin.theory.claim import Applies

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
        attention = data.attention(scale * found.violation)
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
    keys = np.array([[[Fraction(0)], [Fraction(1)], [Fraction(2)]]])
    assert OrderCell(((0, 1),)).is_reached(keys, [(0, 1, 2)])
    assert not OrderCell(((1, 0),)).is_reached(keys, [(0, 1, 2)])


def zero_dual() -> tuple[EmbeddedSequences, Selection]:
    """The second selected token lies on the margin with dual 0: mixing q there costs q^2/2 alone."""
    tokens, keys = [[[0, 1], [0, 0]], [[1, 1], [1, 0]]], [[[1, 0], [0, 0]], [[0, 1], [0, 0]]]
    data = EmbeddedSequences(np.array(tokens, float), [1, 1], [0.0, 1.0], np.array(keys, float))
    return data, Selection.from_indices([0, 0], 2)


def test_a_support_vector_of_dual_0_refutes_it():
    data, selection = zero_dual()
    found = assumption_c(data, selection)
    assert found.applies is Applies.NO
    assert "token 1 of input 1" in found.because
    assert exact_loss_rate(data, selection, 40 * found.violation, digits=200) < 1e-6
    assert not np.isnan(loss_rates(data, selection, found.violation[None])[0]).any()


def test_a_support_vector_of_dual_0_does_not_where_it_is_left_behind_as_fast():
    data, selection = zero_dual()
    line = EmbeddedSequences(data.tokens, data.labels, data.head, np.ones((2, 1, 1)) * [[1.0], [0.0]])
    found = assumption_c(line, selection)
    assert found.applies is Applies.YES
    rates, _ = loss_rates(line, selection, np.linspace(-20, 15, 400)[:, None])
    assert 0 < found.nu <= rates.min()


@pytest.mark.parametrize("law", torture.LAWS)
def test_no_answer_is_refuted_by_the_definition_or_changed_by_the_order(law):
    """Two of each law; `python -m tests.torture.assumption_c` tries a thousand."""
    for number in range(2):
        rng = np.random.default_rng([1, list(torture.LAWS).index(law), number])
        data, selection = torture.LAWS[law](rng)
        found = assumption_c(data, selection)
        assert torture.verdict(data, selection, found, rng) in ("yes", "no", "undecided")
        again = assumption_c(*torture.reordered(data, selection, rng))
        assert again.applies is found.applies
        np.testing.assert_equal(again.nu, found.nu)


@pytest.mark.long
def test_a_thousand_answers_are_borne_out_by_the_definition():
    assert torture.main(1000) == 0


def test_the_search_proves_what_orders_of_logits_do_not():
    """On a line no p selects all three; where one input turns, another has lost its margin already."""
    tokens = np.array(
        [[[0.11, -0.488], [-2.104, 1.704]], [[2.89, -1.134], [-0.704, -0.192]], [[-2.286, -0.061], [-0.994, -0.796]]]
    )
    keys = np.array([[[1.685], [-0.103]], [[-0.133], [0.68]], [[-0.756], [-0.384]]])
    data, selection = EmbeddedSequences(tokens, [1, 1, 1], [1.0, 1.0], keys), Selection.from_indices([1, 1, 0], 2)
    found = assumption_c(data, selection)
    assert found.applies is Applies.YES
    rates, _ = loss_rates(data, selection, np.linspace(-60, 60, 2001)[:, None])
    assert rates.min() >= found.nu


def test_units_far_from_one_change_no_answer():
    data, selection = zero_dual()
    for unit in (2.0**-500, 2.0**500):
        for tokens, keys in ((unit * data.tokens, data.keys), (data.tokens, unit * data.keys)):
            found = assumption_c(EmbeddedSequences(tokens, data.labels, data.head, keys), selection)
            assert found.applies is Applies.NO
            assert np.isfinite(found.violation).all()


def test_the_reference_is_the_label_margin(rng):
    rows = rng.normal(size=(20, 3, 2)) + 0.5
    expected = [label_svm(one, np.ones(3)).label_margin for one in rows]
    np.testing.assert_allclose(label_margins(rows), expected, atol=1e-12)
    data, selection = zero_dual()
    p = np.array([2.0, 1.0])
    assert float(exact_loss_rate(data, selection, p)) == pytest.approx(loss_rates(data, selection, p[None])[0][0])


def test_wrong_trial_points_are_named():
    with pytest.raises(InvalidInputError, match="trial_points"):
        assumption_c(fig3(A), OPTIMAL, np.zeros((2, 5)))


def test_what_carries_the_margin_and_what_costs_is_told_exactly():
    data, selection = zero_dual()
    exact = ExactSelection(data, selection)
    assert exact.shares.tolist() == [1.0, 0.0]
    assert exact.costs.tolist() == [[0, 1], [0, 1]]
    nudged = data.tokens.copy()
    nudged[0, 0] += (-(2.0**-50), 0.0)  # the first selected token alone is no longer the classifier
    moved = ExactSelection(EmbeddedSequences(nudged, data.labels, data.head, data.keys), selection)
    assert 0 < moved.shares[1] < 1e-12
    assert exact.is_as_wide(((0,), (0,)))
    assert not exact.is_as_wide(((0, 1), (0,)))
    assert exact.ray_to(((0, 1), (0,))) is not None
    np.testing.assert_array_equal(exact.ray_to(((0, 1), (0, 1))), [0.0, 0.0])


def test_the_rate_near_the_selection_is_one():
    """At every p that pays no more than what is near; the first input's other token alone is costly."""
    data, selection = zero_dual()
    line = EmbeddedSequences(data.tokens, data.labels, data.head, np.ones((2, 1, 1)) * [[1.0], [0.0]])
    rate, kappa = ExactSelection(line, selection).near_rate(np.array([[False, True], [False, False]]))
    rates, q = loss_rates(line, selection, np.linspace(0, 25, 200)[:, None])
    assert (q < kappa).sum() > 50
    assert rates[(q < kappa) & (q > 1e-9)].min() >= rate > 0
