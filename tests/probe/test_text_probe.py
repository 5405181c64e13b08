"""The probe on texts: sums are those of all texts at once, agreement that of a slow count, verdicts on their side."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.classify.corpora import fitted, texts
from tests.probe import small_models
from tokenmargin import AdamW, train
from tokenmargin.classify import TextModel, TokenModel, save
from tokenmargin.classify.text_model import NO_TOKEN
from tokenmargin.errors import InvalidInputError
from tokenmargin.models import OneLayer, TwoLayer
from tokenmargin.probe import (
    DecidingWords,
    EncoderTexts,
    FitTexts,
    ProbeSettings,
    RunTexts,
    TextEncoder,
    _text_tallies,
    attention_measures,
    probe_texts,
    text_model,
    text_probe,
    text_verdicts,
)
from tokenmargin.text import plain_recipe, tokenize

#: Sums of float32 measures in another order.
ROUNDING = 1e-5

TEXTS = texts(n=60).texts
QUICK = ProbeSettings(directions=3, baseline=3, shown=2)


@pytest.fixture(scope="module")
def fit():
    return fitted(n=240)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    arrays = small_models.weights(np.random.default_rng(3))
    return EncoderTexts(small_models.encoder_folder(tmp_path_factory.mktemp("encoders") / "tiny", arrays))


def test_ids_words_and_places_of_a_text(encoder):
    told = encoder.encoder.encode("A superb films.")
    assert told.ids == [2, 12, 8, 13, 25, 4, 3]
    assert told.spans[1:-1] == [(0, 1), (2, 8), (9, 14), (9, 14), (14, 15)]
    assert told.is_counted == [False, True, True, True, True, True, False]
    assert not told.was_cut
    assert encoder.encoder.encode("film " * 40).was_cut
    (batch,) = encoder.attend(["A superb films."])
    assert batch.places[0].words == ["", "a", "superb", "films", "films", ".", ""]
    assert np.flatnonzero(batch.places[0].overlapping([(10, 11)])).tolist() == [3, 4]


def test_sums_over_chunks_are_those_of_all_texts_at_once(encoder, fit, monkeypatch):
    deciding = DecidingWords(fit.model, TEXTS)
    whole = probe_texts(encoder, TEXTS, deciding, QUICK, total=len(TEXTS))
    monkeypatch.setattr(text_probe, "CHUNK", 7)
    parts = probe_texts(encoder, iter(TEXTS), deciding, QUICK, total=len(TEXTS))
    batches = list(encoder.attend(TEXTS))
    report = attention_measures([batch.reading for batch in batches])
    for name in ("sparsity", "entropy", "top_mass", "margin"):
        expected = getattr(report, name).mean(axis=0, dtype=np.float64)
        np.testing.assert_allclose(whole.means[name], expected, rtol=ROUNDING)
        np.testing.assert_allclose(parts.means[name], expected, rtol=1e-3)
        np.testing.assert_allclose(
            whole.quantiles[name][2], np.median(getattr(report, name), axis=0), rtol=ROUNDING, atol=1e-6
        )
    np.testing.assert_allclose(whole.mean_map_sparsity, report.by_layer(), rtol=ROUNDING)
    assert whole.texts == parts.texts == 60
    assert whole.rows()[3]["sparsity"] == whole.means["sparsity"][1, 1]


def test_agreement_is_that_of_a_slow_count(encoder, fit):
    deciding = DecidingWords(fit.model, TEXTS)
    found = probe_texts(encoder, TEXTS, deciding, QUICK, total=len(TEXTS)).agreement
    hits, chance, n = np.zeros((2, 2)), 0.0, 0
    for text in TEXTS:
        told = fit.model.explain(text)
        pulls = Counter()
        for part in (part for part in told.parts if part.token != NO_TOKEN):
            pulls[part.text.lower()] += part.contribution
        first = max(pulls, key=lambda word: pulls[word])
        (batch,) = encoder.attend([text])
        words = batch.places[0].words
        weights = batch.reading.shares[:, 0]
        n += 1
        chance += words.count(first) / sum(map(bool, words))
        hits += np.array([[words[head.argmax()] == first for head in layer] for layer in weights])
    assert found.texts == n
    np.testing.assert_allclose(found.hits, hits / n)
    np.testing.assert_allclose(found.chance, chance / n)
    np.testing.assert_allclose(found.over_chance[..., 0], hits / n - chance / n, atol=1e-12)


def loud(fit, sign: float) -> TextModel:
    """The fit with attention that asks for what decides, or that shuns it."""
    strength = np.abs(fit.model.tokens.value[:, 0])
    tokens = TokenModel(sign * 9 * strength, fit.model.tokens.value, fit.model.tokens.intercept, 1.0)
    return replace(fit.model, tokens=tokens)


@pytest.mark.parametrize(("sign", "low", "high"), [(1.0, 0.8, 1.0), (-1.0, 0.0, 0.1)])
def test_attention_that_selects_what_decides_and_attention_that_shuns_it(fit, sign, low, high, tmp_path):
    save(loud(fit, sign), tmp_path / "model")
    model = text_model(tmp_path)
    assert isinstance(model, FitTexts)
    judge = model.model if sign > 0 else fit.model  # what gets all attention decides, by itself
    found = probe_texts(model, TEXTS, DecidingWords(judge, TEXTS), QUICK)
    assert low <= found.agreement.best_hits.mean <= high
    assert found.directions is None
    told = text_verdicts(found)
    side, other = (told.in_favour, told.against) if sign > 0 else (told.against, told.in_favour)
    assert sum("selects the word that decides" in sentence for sentence in side) == 2
    assert not any("selects the word that decides" in sentence for sentence in other)
    assert any("one score a token" in sentence for sentence in told.limits)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    own, place = texts(n=60), tmp_path_factory.mktemp("runs")
    corpus = tokenize(own.texts, own.labels, plain_recipe(minimum_count=1))
    for name, model in (("two", TwoLayer(4, init_scale=3.0, mixing_scale=0.5)), ("one", OneLayer(4, score_scale=2.0))):
        train(corpus.dataset, model, AdamW(), epochs=0, key=jax.random.key(0)).save(place / f"{name}.npz")
    return place


def with_affine(parameters, arrays):
    return type(parameters)(parameters.embeddings, parameters.query, parameters.head, arrays["gain"], arrays["bias"])


def as_written(run, text: str) -> np.ndarray:
    """Attention to every place of a text, by the formula, a row of E for each place [E, (36)]."""
    model, own = run.model, run.parameters
    names = text.lower().replace(".", "").split()
    X = np.asarray(own.embeddings, np.float64)[[run.vocabulary.index(name) for name in names]]
    if isinstance(model, TwoLayer):
        mixing = np.exp(model.mixing_scale * X @ X.T)
        H = mixing / mixing.sum(axis=1, keepdims=True) @ X + X
        X = (H - H.mean(axis=1, keepdims=True)) / np.sqrt(H.var(axis=1, keepdims=True) + model.epsilon)
        X = X * np.asarray(own.gain) + np.asarray(own.bias)
    weights = np.exp(model.score_scale * X @ np.asarray(own.query, np.float64))
    return weights / weights.sum()


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_run_attends_as_its_model_is_written(runs, name):
    own = text_model(runs / f"{name}.npz", TEXTS)
    assert isinstance(own, RunTexts)
    assert "plain recipe" in own.notes[0]
    if name == "two":
        gained = {"gain": jnp.array([1.0, -2.0, 0.5, 3.0]), "bias": jnp.array([0.1, 0.0, -1.0, 2.0])}
        own.run = replace(own.run, parameters=with_affine(own.run.parameters, gained))
    (batch,) = own.attend(TEXTS[:8])
    for row, text in enumerate(TEXTS[:8]):
        given = dict.fromkeys(batch.places[row].words, 0.0)
        for word, weight in zip(text.lower().replace(".", "").split(), as_written(own.run, text), strict=True):
            given[word] += weight
        np.testing.assert_allclose(batch.reading.shares[0, row, 0, : len(given)], list(given.values()), rtol=1e-9)
    probe = probe_texts(own, TEXTS, None, QUICK)
    assert probe.shape == (1, 1)
    assert probe.directions.texts == 3
    assert probe.directions.certified == 1.0
    assert probe.agreement is None
    assert any(
        sentence.startswith("Nothing here tells whether") and "no fit says" in sentence
        for sentence in text_verdicts(probe).limits
    )


def test_a_run_of_other_texts_is_refused(runs):
    with pytest.raises(InvalidInputError, match="hardly a word of the texts is a token of this run"):
        text_model(runs / "one.npz", ["zebra xylophone"])
    with pytest.raises(InvalidInputError, match="two tokens to choose between"):
        probe_texts(RunTexts(runs / "one.npz", TEXTS), ["zebra", ""])


def test_words_that_never_end_take_bounded_room(encoder, monkeypatch):
    monkeypatch.setattr(_text_tallies, "MOST_WORDS", 16)
    found = probe_texts(encoder, [f"film w{k}x the y{k}z" for k in range(40)], None, ProbeSettings(0, sampled=5))
    assert found.sampled == 5
    assert len(found.words) <= 16 + 4
    assert found.texts == 40


def test_the_tokenizer_and_the_weights_belong_together(rng, tmp_path):
    place = small_models.encoder_folder(tmp_path / "m", small_models.weights(rng))
    with (place / "vocab.txt").open("a") as file:
        file.write("more\n")
    with pytest.raises(InvalidInputError, match="belong to different models"):
        EncoderTexts(place)
    (place / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidInputError, match=r"tokenizer\.json is no tokenizer that can be read"):
        TextEncoder(place, 8)
    for name in ("tokenizer.json", "vocab.txt"):
        (place / name).unlink()
    with pytest.raises(InvalidInputError, match=r"neither tokenizer\.json nor vocab\.txt"):
        EncoderTexts(place)


def test_what_is_no_model(rng, tmp_path):
    with pytest.raises(InvalidInputError, match=r"neither config\.json .*bert, roberta, distilbert.*model/model\.json"):
        text_model(tmp_path)
    place = small_models.encoder_folder(tmp_path / "m", small_models.weights(rng), model_type="mamba")
    with pytest.raises(InvalidInputError, match="'mamba' is not known: known are bert, roberta, distilbert"):
        text_model(place)
    (place / "model.safetensors").rename(place / "pytorch_model.bin")
    with pytest.raises(InvalidInputError, match=r"pytorch_model\.bin is not read, as it could run a program"):
        text_model(place)
    (place / "other.bin").write_bytes(b"")
    with pytest.raises(InvalidInputError, match=r"neither in \.safetensors nor in \.onnx"):
        text_model(place / "other.bin")
    with pytest.raises(InvalidInputError, match="is not there"):
        text_model(tmp_path / "nowhere")


def test_weights_of_sizes_that_do_not_fit(rng, tmp_path):
    arrays = small_models.weights(rng)
    narrow = arrays | {"encoder.layer.1.attention.self.key.weight": np.ones((3, 4), np.float32)}
    with pytest.raises(InvalidInputError, match=r"key\.weight of layer 1 has shape \(3, 4\)"):
        text_model(small_models.encoder_folder(tmp_path / "a", narrow))
    with pytest.raises(InvalidInputError, match="cannot be cut into 3 heads"):
        text_model(small_models.encoder_folder(tmp_path / "b", arrays, num_attention_heads=3))
