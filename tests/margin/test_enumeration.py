import numpy as np
import pytest

from tests.instances import random_sphere
from tests.references import lmm_by_brute_force
from tokenmargin import EmbeddedSequences, Selection, att_svm, global_margin, local_margins
from tokenmargin.errors import TooLargeError
from tokenmargin.margin import is_locally_optimal


@pytest.mark.long
def test_equals_brute_force_on_200_random_problems():
    rng = np.random.default_rng(11)
    several = 0
    for _ in range(200):
        n, T, d = (int(rng.integers(*bounds)) for bounds in ((1, 5), (2, 6), (1, 7)))
        data = random_sphere(rng, n=n, T=T, d=d)
        slow = lmm_by_brute_force(data)
        fast = local_margins(data)
        assert [s.selection for s in fast] == [s.selection for s in slow]
        for a, b in zip(fast, slow, strict=True):
            np.testing.assert_allclose(a.direction, b.direction, atol=1e-9)
        several += len(fast) > 1
    assert several > 20  # the comparison is not about empty sets


def test_masked_tokens_are_never_selected(rng):
    full = random_sphere(rng, n=2, T=3, d=4)
    padded = EmbeddedSequences(
        np.concatenate([full.tokens, np.full((2, 2, 4), 1e3)], axis=1),
        full.labels,
        full.head,
        mask=np.array([[True] * 3 + [False] * 2] * 2),
    )
    assert [s.selection.indices.tolist() for s in local_margins(padded)] == [
        s.selection.indices.tolist() for s in local_margins(full)
    ]


def test_gmm_is_locally_optimal_when_feasible(rng):
    for _ in range(30):
        data = random_sphere(rng, n=3, T=4, d=12)
        best = global_margin(data)
        assert is_locally_optimal(best)
        assert best.selection in [s.selection for s in local_margins(data)]


def test_refuses_more_than_its_limit(rng):
    data = random_sphere(rng, n=4, T=6, d=30)
    with pytest.raises(TooLargeError, match="limit of 100"):
        local_margins(data, limit=100)


def test_invariances(rng):
    """Token order, change of basis, label flip with head flip, a repeated input: same directions."""
    data = random_sphere(rng, n=2, T=4, d=5)
    base = local_margins(data)
    order = rng.permutation(4)
    shuffled = EmbeddedSequences(data.tokens[:, order], data.labels, data.head)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    turned = EmbeddedSequences(data.tokens @ turn, data.labels, data.head @ turn)
    flipped = EmbeddedSequences(data.tokens, -data.labels, -data.head)
    doubled = EmbeddedSequences(
        np.concatenate([data.tokens, data.tokens[:1]]), np.append(data.labels, data.labels[0]), data.head
    )
    moved = EmbeddedSequences(data.tokens, data.labels, data.head, keys=data.keys + rng.normal(size=(2, 1, 5)))
    directions = sorted(tuple(np.round(s.direction, 8)) for s in base)
    for other in (shuffled, flipped, doubled, moved):
        assert sorted(tuple(np.round(s.direction, 8)) for s in local_margins(other)) == directions
    assert [s.selection for s in local_margins(turned)] == [s.selection for s in base]
    for a, b in zip(local_margins(turned), base, strict=True):
        np.testing.assert_allclose(a.direction, b.direction @ turn, atol=1e-9)


def test_explain_names_all_inputs_of_a_conflict_that_spans_three():
    """Three unit vectors at 120 degrees: any two demands can be met, all three cannot."""
    angles = 2 * np.pi * np.arange(3) / 3
    keys = np.stack([np.stack([np.cos(angles), np.sin(angles)], axis=1), np.zeros((3, 2))], axis=1)
    data = EmbeddedSequences(np.round(keys * 64) / 64, [1, 1, 1], [1, 1])
    solution = att_svm(data, Selection.from_indices([0, 0, 0], 2))
    assert solution.certificate is not None
    assert solution.certificate.exact
    assert {i for i, _, _ in solution.certificate.pairs} == {0, 1, 2}
    assert "between inputs 0, 1 and 2" in solution.explain()


@pytest.mark.parametrize(("size", "weight"), [(2, "2"), (999_999, "999999"), (1_000_000, "1e+06")])
def test_explain_writes_short_weights_in_full(size, weight):
    """Input 0 gains 1 where input 1 loses `size`."""
    data = EmbeddedSequences([[[1.0], [0.0]], [[-size], [0.0]]], [1, 1], [1.0])
    solution = att_svm(data, Selection.from_indices([0, 0], 2))
    assert f"because {weight}*(k[0,0] - k[0,1]) + (k[1,0] - k[1,1]) = 0." in solution.explain()
