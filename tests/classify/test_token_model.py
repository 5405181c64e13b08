"""The token model against loops and autodiff; its fit against what must not change it."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import rosen, rosen_der

from tests import references
from tokenmargin.classify import TokenModel, fit_embeddings, fit_tokens
from tokenmargin.classify import token_model as module
from tokenmargin.classify._candidates import HELD, RIDGE_SCORE, RIDGE_VALUE, Tried, simplest
from tokenmargin.classify._lbfgs import minimise
from tokenmargin.classify._objective import Documents, Parameters, PenalisedLoss
from tokenmargin.classify.prior import Prior, holders, naive_bayes_ratios
from tokenmargin.errors import InvalidInputError

#: Sums of a few dozen terms of order one, in another order.
ROUNDING = 1e-12

#: Two fits of the same function whose sums differ in their last bits, followed to a gain of 1e-13 a step.
SAME_FIT = 1e-6


def corpus(n=120, V=30, classes=2, clean=3.0, seed=0):
    """Documents of about nine tokens; the first tokens are `clean` times as frequent in their own class."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(classes, size=n)
    rates = np.full((n, V), 9.0 / V)
    for k in range(classes):
        rates[targets == k, k::classes] *= np.where(np.arange(k, V, classes) < V // 2, clean, 1.0)
    return sp.csr_array(rng.poisson(rates)), targets


def random_model(V=30, margins=1, seed=1, **options):
    rng = np.random.default_rng(seed)
    return TokenModel(rng.normal(size=V), rng.normal(size=(V, margins)), rng.normal(size=margins), **options)


# --- the model --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("margins", [1, 4])
@pytest.mark.parametrize("options", [{"power": 0.5}, {"power": 0.0}, {"power": 1.0, "root_length": False}])
def test_margins_are_those_of_the_loops(margins, options):
    counts, _ = corpus()
    model = random_model(margins=margins, **options)
    np.testing.assert_allclose(model.margins(counts), references.token_margins(counts.toarray(), model), atol=ROUNDING)


@pytest.mark.parametrize("margins", [1, 3])
def test_a_margin_is_to_the_last_bit_the_sum_of_the_contributions(margins, monkeypatch):
    counts, _ = corpus()
    counts = sp.vstack([counts, sp.csr_array((1, 30))])
    model = random_model(margins=margins, power=0.5)
    said = model.contributions(counts)
    sums = np.zeros((said.n_documents, margins))
    for i in range(said.n_documents):
        for at in range(said.indptr[i], said.indptr[i + 1]):
            sums[i] += said.data[at]
    assert (sums + model.intercept == model.margins(counts)).all()
    # Nor does it depend on how many documents are summed at once.
    whole = model.margins(counts)
    monkeypatch.setattr(module, "BLOCK", 50)
    assert (model.margins(counts) == whole).all()
    assert (model.margins(counts[[7]])[0] == whole[7]).all()


def test_attention_sums_to_one_and_an_empty_document_has_none():
    counts, _ = corpus()
    counts = sp.csr_array(sp.vstack([sp.csr_array((1, 30)), counts, sp.csr_array((2, 30))]))
    model = random_model(power=0.5)
    sums = np.asarray(model.attention(counts).sum(axis=1)).ravel()
    np.testing.assert_allclose(sums, np.diff(counts.indptr) > 0, atol=ROUNDING)
    assert (model.margins(counts)[[0, -2, -1]] == model.intercept).all()
    assert model.margins(np.zeros((0, 30))).shape == (0, 1)
    assert (model.margins(sp.csr_array((3, 30))) == model.intercept).all()


def test_attention_does_not_overflow():
    model = TokenModel(np.array([800.0, -800.0, 0.0]), np.array([[1.0], [2.0], [3.0]]), np.zeros(1), power=1.0)
    np.testing.assert_allclose(model.margins(np.array([[1, 1, 1], [0, 1, 0]]))[:, 0], [np.sqrt(3), 2.0])


@pytest.mark.parametrize("margins", [1, 3])
def test_probabilities_are_of_sum_one_and_keep_small_ones(margins):
    model = random_model(margins=margins, power=0.5)
    counts, _ = corpus()
    probabilities = model.probabilities(counts)
    assert probabilities.shape == (120, max(2, margins))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=ROUNDING)
    sure = TokenModel(np.zeros(1), np.array([[50.0]]), np.zeros(1), power=1.0)
    assert 0 < sure.probabilities([[1]])[0, 0] < 1e-20


def test_counts_may_be_unsorted_repeated_or_zero():
    model = random_model(V=4, power=0.5)
    odd = sp.csr_array((np.array([2.0, 1, 1, 0, 3]), np.array([3, 0, 3, 1, 2]), np.array([0, 4, 5])), shape=(2, 4))
    before = odd.data.copy()
    np.testing.assert_allclose(model.margins(odd), model.margins([[1, 0, 0, 3], [0, 0, 3, 0]]), atol=ROUNDING)
    assert (odd.data == before).all()


# --- the loss ---------------------------------------------------------------------------------------------------------


by_autodiff = jax.jit(jax.value_and_grad(references.penalised_token_loss))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("power", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("prior", Prior)
def test_loss_and_gradient_are_those_of_autodiff(classes, power, prior):
    counts, targets = corpus(classes=classes)
    # The dense version knows no empty document.
    counts = sp.csr_array(np.maximum(counts.toarray(), np.arange(30) == 0), dtype=float)
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 2.0, size=120)
    documents = Documents(counts, targets, weights)
    c = 1 if classes == 2 else classes
    believed = prior.belief(holders(*documents, classes))
    objective = PenalisedLoss(documents, c, power, believed)
    objective.penalise(0.3, 2.0)
    there = Parameters(rng.normal(size=30), rng.normal(size=(30, c)), rng.normal(size=c))
    value, gradient = objective.value_and_gradient(objective.coordinates(there))
    slow = (counts.toarray(), targets, weights, power, (0.3, 2.0), believed.start, believed.unit.T, believed.centre.T)
    expected, slopes = by_autodiff(tuple(there), *slow)
    by_score, by_value, by_intercept = (np.asarray(slope) for slope in slopes)
    scaled = np.concatenate(
        [
            by_score * objective.score_scale,
            (by_value.T * objective.value_scale).ravel(),
            by_intercept * objective.intercept_scale,
        ]
    )
    np.testing.assert_allclose(value, expected, rtol=ROUNDING)
    np.testing.assert_allclose(gradient, scaled, atol=ROUNDING)
    for back, given in zip(objective.parameters(objective.coordinates(there)), there, strict=True):
        np.testing.assert_allclose(back, given, atol=ROUNDING)
    # With scores held, what is left of the gradient is the same at where they start.
    there = there._replace(score=believed.start)
    expected, (_, by_value, by_intercept) = by_autodiff(tuple(there), *slow)
    objective.penalise(0.3, HELD)
    value, gradient = objective.value_and_gradient(objective.coordinates(there))
    np.testing.assert_allclose(value, expected, rtol=ROUNDING)
    scaled = [(np.asarray(by_value).T * objective.value_scale).ravel(), by_intercept * objective.intercept_scale]
    np.testing.assert_allclose(gradient, np.concatenate(scaled), atol=ROUNDING)
    assert (objective.parameters(objective.coordinates(there)).score == believed.start).all()


def test_lbfgs_finds_the_minimum_of_a_narrow_valley():
    found = minimise(lambda x: (rosen(x), rosen_der(x)), np.full(6, -1.0), max_iter=500, tol=0.0)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-7)
    assert list(found.values) == sorted(found.values, reverse=True)
    assert found.n_iter == len(found.values) - 1


def test_lbfgs_stops_when_told_and_goes_no_further_than_asked():
    steps = []
    told = minimise(
        lambda x: (rosen(x), rosen_der(x)),
        np.zeros(4),
        max_iter=500,
        tol=0.0,
        stop=lambda step, x: steps.append(step) or step == 3,
    )
    assert steps == [1, 2, 3]
    assert told.n_iter == 3
    assert not told.converged
    assert minimise(lambda x: (rosen(x), rosen_der(x)), np.zeros(4), max_iter=5, tol=0.0).n_iter == 5


def test_lbfgs_backs_out_of_where_there_is_no_value():
    def objective(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            return float((x - np.log(x)).sum()), 1 - 1 / x

    np.testing.assert_allclose(minimise(objective, np.full(3, 0.01), max_iter=100, tol=0.0).x, 1.0, atol=1e-6)


# --- the fit ----------------------------------------------------------------------------------------------------------

EXACTLY = {"prior": Prior.PLAIN, "ridge_value": 0.3, "ridge_score": RIDGE_SCORE, "tol": 1e-13, "max_iter": 2000}


def close(a, b, tokens=slice(None)):
    for one, other in ((a.score[tokens], b.score), (a.value[tokens], b.value), (a.intercept, b.intercept)):
        np.testing.assert_allclose(one, other, atol=SAME_FIT)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_fit_ends_where_the_gradient_of_the_slow_loss_vanishes(classes):
    counts, targets = corpus(classes=classes)
    kept = np.diff(counts.indptr) > 0
    counts, targets = sp.csr_array(counts[kept]), targets[kept]
    fitted = fit_tokens(counts, targets, classes, **EXACTLY)
    weights = np.ones(len(targets))
    start = Prior.PLAIN.belief(holders(counts, targets, weights, classes)).start
    model = fitted.model
    slopes = jax.grad(references.penalised_token_loss)(
        (model.score, model.value, model.intercept), counts.toarray(), targets, weights, 0.5, (0.3, RIDGE_SCORE), start
    )
    for slope in slopes:
        assert np.abs(np.asarray(slope)).max() < 1e-6
    assert fitted.converged


@pytest.mark.parametrize("classes", [2, 3])
def test_values_are_kept_near_naive_bayes_ratios_or_go_where_documents_say(classes):
    counts, targets = corpus(classes=classes)
    counts = sp.csr_array(sp.hstack([counts, sp.csr_array((120, 1))]))  # and one token that no document holds
    held = holders(sp.csr_array(counts, dtype=float), targets, np.ones(120), classes)
    ratios = naive_bayes_ratios(held).T
    given = EXACTLY | {"prior": Prior.NEAR_NAIVE_BAYES}
    kept = fit_tokens(counts, targets, classes, **(given | {"ridge_value": 1e9}))
    np.testing.assert_allclose(kept.model.value[:-1], ratios[:-1], atol=1e-6)
    assert (kept.model.value[-1] == 0).all()
    free = fit_tokens(counts, targets, classes, **given)
    assert np.abs(free.model.value[:-1] - ratios[:-1]).max() > 0.1
    assert free.losses[-1] < free.losses[0]


def test_the_order_of_tokens_and_of_documents_does_not_matter():
    counts, targets = corpus(classes=3)
    rng = np.random.default_rng(3)
    tokens, rows = rng.permutation(30), rng.permutation(120)
    plain = fit_tokens(counts, targets, 3, **EXACTLY).model
    turned = fit_tokens(counts[rows][:, tokens], targets[rows], 3, **EXACTLY).model
    close(plain, turned, tokens)


def test_flipped_labels_flip_values():
    counts, targets = corpus()
    plain, flipped = (fit_tokens(counts, t, 2, **EXACTLY).model for t in (targets, 1 - targets))
    close(plain, TokenModel(flipped.score, -flipped.value, -flipped.intercept, power=0.5))


def test_a_document_of_weight_two_is_two_documents_also_when_the_ridge_is_chosen():
    counts, targets = corpus(n=1000, clean=2.0)
    weights = np.random.default_rng(4).integers(3, size=1000)
    repeated = np.repeat(np.arange(1000), weights)
    weighted = fit_tokens(counts, targets, 2, sample_weight=weights, tol=1e-13, max_iter=2000)
    copied = fit_tokens(counts[repeated], targets[repeated], 2, tol=1e-13, max_iter=2000)
    assert len(weighted.tried) > len(Prior)
    assert weighted.prior is copied.prior
    np.testing.assert_allclose(weighted.ridge_value, copied.ridge_value, rtol=SAME_FIT)
    close(weighted.model, copied.model)


def test_the_same_input_gives_the_same_bytes():
    counts, targets = corpus(n=700)
    one, two = (fit_tokens(counts, targets, 2).model for _ in range(2))
    assert one.value.tobytes() == two.value.tobytes()
    assert one.score.tobytes() == two.score.tobytes()


def test_chosen_values_are_shorter_where_there_is_less_to_learn():
    noisy = fit_tokens(*corpus(n=800, V=400, clean=1.1), 2)
    clean = fit_tokens(*corpus(n=800, V=400, clean=4.0), 2)
    assert 10 * np.abs(noisy.model.value).mean() < np.abs(clean.model.value).mean()
    for fitted in (noisy, clean):
        losses = [loss for *_, loss in fitted.tried]
        assert len(losses) >= 3
        assert min(losses) < losses[0] or len(losses) == 3
    assert fit_tokens(*corpus(n=90), 2).ridge_value == RIDGE_VALUE


def test_held_out_documents_stop_the_fit_at_their_least_loss():
    counts, targets = corpus(n=200, V=120, clean=1.5)
    held = np.arange(200) % 4 == 0
    fitted = fit_tokens(counts, targets, 2, ridge_value=1e-3, ridge_score=1e-2, tol=0.0, validation=held)
    assert fitted.n_iter == np.argmin(fitted.held_out_losses) + 1
    assert len(fitted.held_out_losses) == fitted.n_iter + 10
    margins = fitted.model.margins(counts[held])[:, 0]
    said = np.logaddexp(0, np.where(targets[held] == 1, -margins, margins)).mean()
    np.testing.assert_allclose(said, min(fitted.held_out_losses), rtol=ROUNDING)
    assert not np.allclose(fitted.model.value, fit_tokens(counts, targets, 2, ridge_value=1e-3).model.value)


def test_a_class_of_one_document_is_learnt():
    counts, targets = corpus(n=60, classes=2)
    counts = sp.csr_array(sp.block_diag([counts, [[3]]]))
    targets = np.append(targets, 2)
    model = fit_tokens(counts, targets, 3, ridge_value=0.05).model
    assert model.margins(counts)[-1].argmax() == 2
    assert np.isfinite(model.value).all()


def test_progress_is_told_of_every_step():
    told = []
    fitted = fit_tokens(*corpus(), 2, **EXACTLY, progress=lambda *what: told.append(what))
    assert told == [(step, 2000, "fitting") for step in range(1, fitted.n_iter + 1)]


# --- what is chosen ---------------------------------------------------------------------------------------------------


def tried(losses, weights=None):
    losses = np.asarray(losses, float)
    weights = np.ones(len(losses)) if weights is None else np.asarray(weights, float)
    return Tried(0, Prior.PLAIN, 1.0, 8.0, losses, weights, Parameters(np.zeros(1), np.zeros((1, 1)), np.zeros(1)))


def test_a_simpler_candidate_is_taken_within_one_standard_error_and_not_beyond():
    rng = np.random.default_rng(0)
    best, noise = rng.random(400), rng.normal(size=400)
    noise = (noise - noise.mean()) / noise.std(ddof=1)  # the standard error of its mean is 1 / 20
    assert simplest([tried(best + noise + 0.049), tried(best)]) == 0
    assert simplest([tried(best + noise + 0.051), tried(best)]) == 1
    assert simplest([tried(best), tried(best + 1)]) == 0


def test_a_document_of_weight_two_counts_twice_in_the_standard_error():
    rng = np.random.default_rng(1)
    one, two, weights = rng.random(50), rng.random(50), rng.integers(1, 4, size=50)
    repeated = np.repeat(np.arange(50), weights)
    weighted = tried(one, weights).excess(tried(two, weights))
    np.testing.assert_allclose(weighted, tried(one[repeated]).excess(tried(two[repeated])), rtol=ROUNDING)


def test_the_prior_that_generalises_is_chosen():
    """Many rare tokens of which each tells its class alone: a naive-Bayes ratio is what is known of each."""
    rng = np.random.default_rng(2)
    n, V = 1500, 1200
    targets = rng.integers(2, size=n)
    rates = np.full((n, V), 0.5 / V)
    rates[targets == 0, : V // 2] *= 12
    rates[targets == 1, V // 2 :] *= 12
    found = fit_tokens(sp.csr_array(rng.poisson(rates)), targets, 2)
    losses = {prior: min(loss for own, _, _, loss in found.tried if own is prior) for prior in Prior}
    assert losses[found.prior] == min(losses.values())
    assert {own for own, *_ in found.tried} == set(Prior)


def test_held_attention_stays_where_it_starts():
    counts, targets = corpus(n=700)
    found = fit_tokens(counts, targets, 2, ridge_score=HELD)
    assert found.ridge_score == HELD
    assert (found.model.score == found.start).all()
    free = fit_tokens(counts, targets, 2, ridge_score=RIDGE_SCORE)
    assert not np.allclose(free.model.score, free.start)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"counts": -np.eye(4)}, "negative"),
        ({"counts": np.full((4, 2), np.nan)}, "NaN"),
        ({"counts": np.array([["a", "b"]] * 4)}, "numbers"),
        ({"targets": np.array([0, 1, 2, 1])}, "targets must be"),
        ({"targets": np.array([0.0, 1.0, 0.0, 1.0])}, "targets must be"),
        ({"targets": np.zeros(4, dtype=int)}, "one class only"),
        ({"sample_weight": [1.0, -1.0, 1.0, 1.0]}, "sample_weight"),
        ({"sample_weight": [0.0] * 4}, "every weight is zero"),
        ({"sample_weight": [1.0, 0.0, 1.0, 0.0]}, "one class only"),
        ({"ridge_value": 0.0}, "ridge_value"),
        ({"ridge_score": -1.0}, "ridge_score"),
        ({"validation": [True, False]}, "validation"),
        ({"n_classes": 1}, "n_classes"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_words(change, why):
    given = {"counts": np.eye(4), "targets": np.array([0, 1, 0, 1]), "n_classes": 2} | change
    with pytest.raises(InvalidInputError, match=why):
        fit_tokens(given.pop("counts"), given.pop("targets"), given.pop("n_classes"), **given)


def test_counts_of_another_vocabulary_are_refused():
    with pytest.raises(InvalidInputError, match="30 tokens"):
        random_model(power=0.5).margins(np.ones((2, 29)))


# --- embeddings -------------------------------------------------------------------------------------------------------


def test_embeddings_are_read_as_scores_and_values():
    counts, targets = corpus(n=300, clean=6.0)
    held = np.arange(300) % 5 == 0
    fitted = fit_embeddings(counts, targets, width=8, key=jax.random.key(0), epochs=12, batch_size=16, validation=held)
    assert fitted.model.power == 1.0
    assert not fitted.model.root_length
    assert fitted.n_iter == np.argmin(fitted.held_out_losses) + 1
    right = (fitted.model.margins(counts)[:, 0] > 0) == targets
    assert right.mean() > 0.8
    with pytest.raises(InvalidInputError, match="two classes"):
        fit_embeddings(counts, np.arange(300) % 3, width=8, key=jax.random.key(0))
