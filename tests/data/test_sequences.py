import numpy as np
import pytest

from tests.instances import fig1a, random_sphere
from tokenmargin import EmbeddedSequences, Selection, optimal_selection, scores, selection_of
from tokenmargin.data import secondary_selection
from tokenmargin.errors import InvalidInputError, TokenMarginError

TOKENS = np.arange(12.0).reshape(2, 3, 2)


def test_keys_default_to_tokens_and_may_have_another_width():
    assert EmbeddedSequences(TOKENS, [1, -1], [1, 0]).width == 2
    beside = EmbeddedSequences(TOKENS, [1, -1], [1, 0], keys=np.ones((2, 3, 5)))
    assert beside.width == 5
    assert not beside.keys_are_tokens


def test_labels_zero_one_and_booleans_are_signs():
    for labels in ([0, 1], [False, True], [-1, 1]):
        assert EmbeddedSequences(TOKENS, labels, [1, 0]).labels.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((np.ones((2, 3)), [1, 1], [1, 1]), "shape (n, T, k)"),
        ((np.ones((0, 3, 2)), [], [1, 1]), "empty"),
        ((TOKENS, [1, 1, 1], [1, 0]), "2 sequences"),
        ((TOKENS, [1, 2], [1, 0]), "two-valued"),
        ((TOKENS, [-1, 0], [1, 0]), "two-valued"),
        ((TOKENS, [0.5, 1], [1, 0]), "two-valued"),
        ((TOKENS, [1, -1], [1, 0, 0]), "width 2"),
        ((TOKENS, [1, -1], [[1, 0]]), "shape (k,)"),
        ((np.where(TOKENS == 3, np.nan, TOKENS), [1, -1], [1, 0]), "input 0, token 1"),
        ((np.where(TOKENS == 8, np.inf, TOKENS), [1, -1], [1, 0]), "input 1, token 1"),
        ((TOKENS, [1, -1], [1, 0], np.ones((2, 2, 2))), "one key per token"),
        ((TOKENS, [1, -1], [1, 0], None, np.ones((2, 3))), "booleans"),
        ((TOKENS, [1, -1], [1, 0], None, np.ones((3, 3), bool)), "one flag per token"),
        ((TOKENS, [1, -1], [1, 0], None, np.array([[True] * 3, [False] * 3])), "input 1 without a token"),
        (([[[1, 2], [3, 4]], [[1, 2]]], [1, -1], [1, 0]), "ragged"),
        ((TOKENS.astype(complex), [1, -1], [1, 0]), "real numbers"),
    ],
)
def test_bad_input_names_cause_and_remedy(arguments, says):
    with pytest.raises(InvalidInputError) as caught:
        EmbeddedSequences(*arguments)
    assert says in str(caught.value)
    assert isinstance(caught.value, TokenMarginError)
    assert isinstance(caught.value, ValueError)


def test_nan_in_a_masked_token_is_nobody_s_business():
    mask = np.ones((2, 3), bool)
    mask[0, 1] = False
    masked = EmbeddedSequences(np.where(TOKENS == 3, np.nan, TOKENS), [1, -1], [1, 0], mask=mask)
    assert scores(masked)[0, 1] == -np.inf
    assert np.isfinite(scores(masked)[mask]).all()


def test_arrays_are_copied_and_read_only():
    mine = TOKENS.copy()
    data = EmbeddedSequences(mine, [1, -1], [1, 0])
    mine[0, 0, 0] = 99
    assert data.tokens[0, 0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        data.tokens[0, 0, 0] = 1


def test_scores_absorb_the_label(rng):
    data = random_sphere(rng)
    expected = [[data.labels[i] * data.tokens[i, t] @ data.head for t in range(6)] for i in range(4)]
    np.testing.assert_allclose(scores(data), expected, rtol=1e-14)


def test_optimal_selection_reports_ties():
    assert optimal_selection(fig1a()).indices.tolist() == [0]
    tied = EmbeddedSequences([[[1.0], [1.0 + 1e-15], [0.0]]], [1], [1.0])
    assert optimal_selection(tied).tied_inputs.tolist() == [0]
    assert optimal_selection(tied).chosen.tolist() == [[True, True, False]]


def test_selection_of_a_direction_with_ties_and_seconds():
    data = EmbeddedSequences([[[1.0, 0], [1, 5], [0, 0], [-1, 0]]], [1], [1, 0])
    assert selection_of(data, [1.0, 0.0]).chosen.tolist() == [[True, True, False, False]]
    assert secondary_selection(data, [1.0, 0.0]).tolist() == [[False, False, True, False]]
    assert selection_of(data, [1.0, 1e-3]).chosen.tolist() == [[False, True, False, False]]
    assert not secondary_selection(data, [0.0, 0.0]).any()
    assert selection_of(data, [0.0, 0.0]).chosen.all()


def test_selections_compare_by_tokens():
    a, b = Selection.from_indices([0, 2], 3), Selection(np.array([[True, False, False], [False, False, True]]))
    assert a == b
    assert hash(a) == hash(b)
    assert a != Selection.from_indices([0, 1], 3)
    assert a != Selection.from_indices([0, 2], 4)
    assert a.indices.tolist() == [0, 2]
    assert "0 2" in repr(a)
    with pytest.raises(InvalidInputError, match="several"):
        _ = Selection(np.ones((1, 2), bool)).indices


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Selection(np.array([[True, False], [False, False]])), "input 1 selects no token"),
        (lambda: Selection(np.array([[1, 0]])), "booleans"),
        (lambda: Selection.from_indices([0, 3], 3), "numbered 0 to 2"),
        (lambda: Selection.from_indices([0.5], 3), "integers"),
        (lambda: Selection.from_indices([[0]], 3), "shape (n,)"),
        (lambda: selection_of(fig1a(), [1.0]), "width 2"),
        (lambda: selection_of(fig1a(), [np.nan, 0]), "finite"),
    ],
)
def test_bad_selections(make, says):
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert says in str(caught.value)


def test_from_scores_is_keys_and_scores_and_nothing_else(rng):
    keys, gamma = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4))
    mask = np.ones((3, 4), dtype=bool)
    mask[1, 3] = False
    data = EmbeddedSequences.from_scores(keys, gamma, mask)
    np.testing.assert_array_equal(scores(data)[mask], gamma[mask])
    assert scores(data)[1, 3] == -np.inf
    np.testing.assert_array_equal(data.keys[mask], keys[mask])
    with pytest.raises(InvalidInputError, match=r"\(n, T\)"):
        EmbeddedSequences.from_scores(keys, gamma[0])
    with pytest.raises(InvalidInputError, match="sequences of 3"):
        EmbeddedSequences.from_scores(keys, gamma[:, :3])


def test_masked_places_hold_zeros_whatever_was_given(rng):
    tokens, keys = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3, 4))
    mask = np.array([[True, True, False], [False, True, True]])
    dirty_tokens, dirty_keys = np.where(mask[:, :, None], tokens, np.nan), np.where(mask[:, :, None], keys, np.inf)
    data = EmbeddedSequences(dirty_tokens, [1, -1], [1.0, 2.0], keys=dirty_keys, mask=mask)
    assert not data.tokens[~mask].any()
    assert not data.keys[~mask].any()
    p = rng.normal(size=4)
    attention = data.attention(p)
    np.testing.assert_allclose(attention.sum(axis=1), 1.0)
    assert not attention[~mask].any()
    assert (data.logits(p)[~mask] == -np.inf).all()
    for i in range(2):
        own = np.exp(keys[i, mask[i]] @ p)
        np.testing.assert_allclose(attention[i, mask[i]], own / own.sum(), rtol=1e-12)


def test_relative_keys_start_at_zero_and_feel_no_shift(rng):
    keys = np.round(rng.normal(size=(2, 3, 2)) * 1024) / 1024  # exact under a shift by 8
    mask = np.array([[False, True, True], [True, True, True]])
    one, other = (
        EmbeddedSequences(np.zeros((2, 3, 1)), [1, 1], [1.0], keys=k, mask=mask).relative_keys for k in (keys, keys + 8)
    )
    np.testing.assert_array_equal(one, other)
    assert not one[0, 1].any()
    assert not one[1, 0].any()
    assert not one[0, 0].any()
