"""The table of tokens: what each column means, that rare tokens do not win, and that intervals are honest."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tokenmargin.classify.gathering import mean_pull
from tokenmargin.classify.prior import Prior
from tokenmargin.classify.token_definitions import DEFINITIONS
from tokenmargin.classify.token_fit import fit_tokens
from tokenmargin.classify.token_model import TokenModel
from tokenmargin.classify.token_table import TokenTable, deciding_tokens
from tokenmargin.data import TokenDataset, token_statistics
from tokenmargin.errors import InvalidInputError


def planted(seed: int = 0, n: int = 800, K: int = 2, noise: int = 60) -> tuple[sp.csr_array, np.ndarray]:
    """Token k speaks for class k in most of its texts, token K + k in all of its few texts; the others say nothing."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, K, n)
    counts = rng.poisson(0.15, (n, 2 * K + noise))
    counts[:, : 2 * K] = 0
    for k in range(K):
        counts[:, k] = (rng.random(n) < np.where(targets == k, 0.5, 0.1)) * rng.integers(1, 3, n)
        counts[rng.permutation(np.flatnonzero(targets == k))[:2], K + k] = 1
    return sp.csr_array(counts), targets


def table_of(counts: sp.csr_array, targets: np.ndarray, K: int = 2, model: TokenModel | None = None) -> TokenTable:
    names = [f"t{j}" for j in range(counts.shape[1])]
    chosen = model or fit_tokens(counts, targets, K, prior=Prior.PLAIN, ridge_value=0.25, ridge_score=8.0).model
    return deciding_tokens(chosen, counts, targets, [f"c{k}" for k in range(K)], names)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_frequent_tokens_that_tell_come_first_and_rare_ones_do_not(K):
    table = table_of(*planted(K=K), K)
    for k in range(K):
        towards = [str(table.token[row]) for row in table.towards(f"c{k}", 3)]
        assert towards[0] == f"t{k}"
        assert f"t{K + k}" not in towards
    assert set(table.token[:K]) == {f"t{k}" for k in range(K)}


def test_statistics_are_those_of_the_paper():
    counts, targets = planted()
    table = table_of(counts, targets)
    expected = token_statistics(
        TokenDataset(counts, targets, [f"t{j}" for j in range(counts.shape[1])], drop_empty=True)
    )
    kept = np.asarray(counts.sum(axis=1)) > 0
    scale = kept.sum() / len(kept)  # the paper has no empty texts
    np.testing.assert_allclose(table.alpha[:, 0], expected.signed_frequency[table.column] * scale, atol=1e-15)
    np.testing.assert_allclose(table.posterior_difference[:, 0], expected.posterior_difference[table.column])
    np.testing.assert_array_equal(table.documents, expected.document_count[table.column])
    np.testing.assert_array_equal(table.count, expected.count[table.column])


def test_columns_by_the_slow_obvious_way():
    counts, targets = planted(n=60, noise=8)
    rng = np.random.default_rng(5)
    V = counts.shape[1]
    model = TokenModel(rng.normal(size=V), rng.normal(size=(V, 1)), np.array([0.3]), 0.5)
    table = table_of(counts, targets, model=model)
    dense, n = counts.toarray(), counts.shape[0]
    attention = np.zeros((n, V))
    for i in range(n):
        held = dense[i] > 0
        weight = np.where(held, dense[i] ** 0.5 * np.exp(model.score), 0.0)
        attention[i] = weight / weight.sum() if held.any() else 0.0
    pull = attention * np.sqrt((dense > 0).sum(axis=1))[:, None] * model.value[:, 0]
    for row, s in enumerate(table.column):
        held = dense[:, s] > 0
        assert table.attention[row] == pytest.approx(attention[:, s].sum() / attention.sum())
        assert table.selected[row] == pytest.approx((attention[held, s] >= attention[held].max(axis=1)).mean())
        assert table.pull[row, 0] == pytest.approx(pull[held, s].mean())
    np.testing.assert_allclose(mean_pull(model, counts)[table.column], table.pull)


def test_an_untrained_model_decides_nothing():
    counts, targets = planted()
    V = counts.shape[1]
    table = table_of(counts, targets, model=TokenModel(np.zeros(V), np.zeros((V, 1)), np.zeros(1), 0.5))
    assert not table.decides.any()
    assert table.towards("c1") == []


def test_on_shuffled_labels_few_intervals_leave_out_0():
    """A token says nothing where labels are shuffled: about 5% of intervals may claim otherwise."""
    wrong = total = 0
    for seed in range(8):
        counts, targets = planted(seed, n=1500)
        shuffled = np.random.default_rng(seed).permutation(targets)
        table = table_of(counts, shuffled)
        frequent = table.documents >= 20
        wrong += int(((table.pull_low[:, 0] > 0) | (table.pull_high[:, 0] < 0))[frequent].sum())
        total += int(frequent.sum())
    assert wrong / total < 0.12


def test_the_interval_is_as_wide_as_fits_to_new_texts_say():
    """Beside the spread over fresh draws of the whole corpus, for the tokens that tell."""
    draws, halves = [], []
    for seed in range(12):
        counts, targets = planted(seed, n=1500)
        table = table_of(counts, targets)
        rows = [int(np.flatnonzero(table.column == s)[0]) for s in (0, 1)]
        draws.append(table.pull[rows, 0])
        halves.append(((table.pull_high - table.pull_low) / 2)[rows, 0])
    spread = 1.96 * np.std(draws, axis=0, ddof=1)
    ratio = np.mean(halves, axis=0) / spread
    assert (ratio > 0.5).all()
    assert (ratio < 2.0).all()


def test_a_token_of_one_text_has_no_interval():
    counts, targets = planted()
    counts = sp.csr_array(sp.hstack([counts, sp.csr_array(np.eye(1, counts.shape[0], 3).T)], format="csr"))
    table = table_of(counts, targets)
    row = int(np.flatnonzero(table.documents == 1)[0])
    assert np.isinf(table.pull_high[row]).all()
    assert table.decides[row] == 0


def test_the_order_of_tokens_and_texts_does_not_matter():
    counts, targets = planted()
    rng = np.random.default_rng(9)
    rows, columns = rng.permutation(counts.shape[0]), rng.permutation(counts.shape[1])
    model = fit_tokens(counts, targets, 2, prior=Prior.PLAIN, ridge_value=0.25, ridge_score=8.0).model
    moved = TokenModel(model.score[columns], model.value[columns], model.intercept, model.power)
    one, other = table_of(counts, targets, model=model), table_of(counts[rows][:, columns], targets[rows], model=moved)
    np.testing.assert_allclose(np.sort(one.decides), np.sort(other.decides), atol=1e-12)
    first = np.argsort(one.column), np.argsort(columns[other.column])
    np.testing.assert_allclose(one.pull[first[0]], other.pull[first[1]], atol=1e-12)


@pytest.mark.parametrize("K", [2, 4])
def test_every_column_has_a_definition_and_goes_to_a_file(K):
    table = table_of(*planted(K=K), K)
    columns = table.columns()
    assert len({len(values) for values in columns.values()}) == 1
    for name in columns:
        plain = name.split(":")[0]
        assert plain in DEFINITIONS or plain.startswith(("count in", "decides for")), name
    header, rows = table.shown(3)
    assert all(len(row) == len(header) for row in rows)
    with pytest.raises(InvalidInputError, match="no class is called"):
        table.towards("nobody")
