"""Claims of the papers on a user's corpus: a trained model passes, one that learnt nothing of these labels does not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.classify.test_deciding_tokens import planted, table_of
from tokenmargin.classify._corpus_claims import corpus_claims
from tokenmargin.classify.prior import Prior, log_idf_of
from tokenmargin.classify.token_fit import fit_tokens
from tokenmargin.classify.token_model import TokenModel

JUDGED = ("embeddings-values", "embeddings-scores", "embeddings-signs")


@pytest.fixture(scope="module")
def reviews():
    """The sentences that come with the package, the tokens of at least two of them."""
    from tokenmargin.sources import sentence_polarity
    from tokenmargin.text import count_tokens, plain_recipe

    chunk = sentence_polarity().load()
    return count_tokens(chunk.texts, plain_recipe(minimum_count=2)).counts, np.array(chunk.labels) == "positive"


def verdicts(counts, targets, model: TokenModel) -> dict[str, str]:
    table = table_of(counts, targets.astype(int), model=model)
    start = log_idf_of(np.bincount(counts.indices, minlength=counts.shape[1]), len(targets))
    return {row["key"]: row["holds"] for row in corpus_claims(table, start, None)}


def learnt(counts, targets):
    return fit_tokens(counts, targets.astype(int), 2, prior=Prior.PLAIN, ridge_score=8.0).model


def test_a_trained_model_passes(reviews):
    counts, targets = reviews
    found = verdicts(counts, targets, learnt(counts, targets))
    assert [found[key] for key in JUDGED] == ["holds"] * 3


def test_an_untrained_model_fails_every_verdict(reviews):
    counts, targets = reviews
    V = counts.shape[1]
    start = log_idf_of(np.bincount(counts.indices, minlength=V), len(targets))
    found = verdicts(counts, targets, TokenModel(start, np.zeros((V, 1)), np.zeros(1), 0.5))
    assert [found[key] for key in JUDGED] == ["fails"] * 3


@pytest.mark.parametrize("seed", range(3))
def test_a_model_of_shuffled_labels_fails_every_verdict(reviews, seed):
    counts, targets = reviews
    shuffled = np.random.default_rng(seed).permutation(targets).astype(int)
    found = verdicts(counts, targets, learnt(counts, shuffled))
    assert [found[key] for key in JUDGED] == ["fails"] * 3


def test_a_wrong_sign_fails_what_has_a_sign(reviews):
    counts, targets = reviews
    model = learnt(counts, targets)
    found = verdicts(counts, targets, TokenModel(model.score, -model.value, model.intercept, model.power))
    assert found["embeddings-values"] == found["embeddings-signs"] == "fails"


def test_attention_that_was_held_is_no_claim_of_training(reviews):
    counts, targets = reviews
    found = fit_tokens(counts, targets.astype(int), 2, ridge_score=np.inf, ridge_value=8.0, prior=Prior.PLAIN)
    table = table_of(counts, targets.astype(int), model=found.model)
    told = {row["key"]: row for row in corpus_claims(table, found.start, None, is_held=True)}
    assert (told["embeddings-scores"]["applies"], told["embeddings-scores"]["holds"]) == ("no", "")
    assert told["embeddings-values"]["holds"] == "holds"


def test_few_tokens_decide_nothing():
    counts, targets = planted(n=60, noise=2)
    table = table_of(counts, targets)
    assert {row["applies"] for row in corpus_claims(table, np.zeros(counts.shape[1]), None)} <= {"not decided", "no"}
