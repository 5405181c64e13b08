"""Evaluation: right numbers on the right columns, and words instead of numbers on any others."""

import jax
import numpy as np
import pytest

from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models import OneLayer, TwoLayer
from tokenmargin.training import AdamW, Evaluator, forecast_training, train
from tokenmargin.training.batches import in_memory

KEY = jax.random.key(0)

#: Rounding of a sum over a few documents in float64.
ROUNDING = 1e-10

TEXTS = ["good fine film", "good good plot", "bad film", "bad bad awful plot", "fine good", "awful bad film"]
LABELS = ["pos", "pos", "neg", "neg", "pos", "neg"]


def counted(texts, labels, vocabulary):
    rows = [[text.split().count(word) for word in vocabulary] for text in texts]
    return TokenDataset(rows, labels, vocabulary)


def by_first_sight(texts):
    return list(dict.fromkeys(word for text in texts for word in text.split()))


TRAIN = counted(TEXTS, LABELS, by_first_sight(TEXTS))

#: The same words met in another order, as when test texts are counted apart: as many columns, other meanings.
APART = counted(TEXTS[::-1], LABELS[::-1], by_first_sight(TEXTS[::-1]))

#: The same texts in the columns of training.
TOGETHER = counted(TEXTS[::-1], LABELS[::-1], TRAIN.vocabulary)


@pytest.fixture(scope="module", params=[OneLayer(width=4), TwoLayer(width=4)], ids=["one layer", "two layers"])
def run(request):
    return train(TRAIN, request.param, AdamW(lr=0.05), epochs=30, key=KEY, batch_size=3, dtype="float64")


@pytest.mark.long
def test_the_numbers_are_those_of_the_training_texts(run):
    """All texts at once at a rate of nothing: the loss of the epoch is that of the parameters."""
    still = train(TRAIN, run.model, AdamW(lr=1e-300), epochs=1, key=KEY, dtype="float64", start=run)
    for found in (
        run.evaluate(TOGETHER),
        Evaluator(TOGETHER, run)(run.parameters),
        Evaluator(TOGETHER, run.model, dtype="float64")(run),
        Evaluator(TOGETHER, run.model, vocabulary=TRAIN.vocabulary, dtype="float64")(run.parameters),
    ):
        assert found.loss == pytest.approx(still.records.loss[0], rel=ROUNDING)
        assert found.accuracy == still.records.accuracy[0] == 1.0
    assert run.vocabulary == TRAIN.vocabulary
    assert run.class_names == ("neg", "pos")


def test_texts_that_were_counted_apart_are_refused(run):
    """Every way to write it; and what their columns would have given is not what the texts give."""
    assert APART.vocabulary_size == TRAIN.vocabulary_size
    misread = TokenDataset(APART.counts, APART.given_labels, TRAIN.vocabulary)
    assert run.evaluate(misread).accuracy < run.evaluate(TOGETHER).accuracy
    for write in (
        lambda: run.evaluate(APART),
        lambda: Evaluator(APART, run),
        lambda: Evaluator(APART, run.model)(run),
        lambda: Evaluator(APART, run.model, vocabulary=run.vocabulary),
        lambda: train(APART, run.model, AdamW(), epochs=1, key=KEY, start=run),
        lambda: train(TRAIN, run.model, AdamW(), epochs=1, key=KEY, validation=APART),
    ):
        with pytest.raises(InvalidInputError, match="tokens of training in another order: column 0 is 'awful'"):
            write()


def test_parameters_alone_do_not_say_what_they_are(run):
    with pytest.raises(InvalidInputError, match=r"run\.evaluate\(dataset\) or Evaluator\(dataset, run\.model\)\(run\)"):
        Evaluator(APART, run.model)(run.parameters)


def test_other_classes_are_refused(run):
    """Sorted, "worst" comes last: +1 would mean the opposite of what it meant."""
    other = counted(TEXTS, ["best" if label == "pos" else "worst" for label in LABELS], TRAIN.vocabulary)
    for write in (
        lambda: run.evaluate(other),
        lambda: train(TRAIN, run.model, AdamW(), epochs=1, key=KEY, validation=other),
    ):
        with pytest.raises(InvalidInputError, match=r"best and worst for -1 and [+]1, where training had neg and pos"):
            write()


def test_another_model_is_refused():
    run = train(TRAIN, OneLayer(width=4), AdamW(), epochs=0, key=KEY)
    with pytest.raises(InvalidInputError, match=r"make it with Evaluator\(dataset, run.model\)"):
        Evaluator(TRAIN, OneLayer(width=5))(run)


def test_parameters_of_other_sizes_are_refused():
    run = train(TRAIN, OneLayer(width=4), AdamW(), epochs=0, key=KEY)
    kept = TRAIN[TRAIN.counts[:, [0]].toarray()[:, 0] + TRAIN.counts[:, [4]].toarray()[:, 0] > 0]
    fewer = kept.restrict_vocabulary([0, 4])
    measure = Evaluator(fewer, run.model, vocabulary=fewer.vocabulary)
    with pytest.raises(InvalidInputError, match="embeddings of 6 tokens but the data set has 2"):
        measure(run.parameters)
    with pytest.raises(InvalidInputError, match="no embeddings"):
        measure(np.ones(3))


def test_one_class_can_be_evaluated(run):
    accuracies = [run.evaluate(TOGETHER[y * TOGETHER.labels > 0]).accuracy for y in (-1, 1)]
    assert np.mean(accuracies) == pytest.approx(run.evaluate(TOGETHER).accuracy)


class Corpus:
    """What holds a data set, such as a tokenized corpus."""

    dataset = TRAIN


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Corpus(), "got a Corpus: give the one that it holds, .dataset"),
        (TRAIN.counts, r"got a csr_array: TokenDataset\(counts, labels, vocabulary\) makes one"),
        (TEXTS, r"got a list: .*tokenize\(texts, labels=labels\)"),
    ],
)
def test_what_is_no_data_set_is_refused_in_words(given, says):
    """Asked of the check itself: while the tests run, annotations are executed before it."""
    with pytest.raises(InvalidInputError, match=says):
        in_memory(given, "the data set to train on")


@pytest.mark.parametrize("dtype", ["\ud800", "float16", "no type"])
def test_another_dtype_is_refused_in_words(dtype):
    model = OneLayer(width=2)
    for work in (
        lambda: Evaluator(TOGETHER, model, dtype=dtype),
        lambda: forecast_training(TOGETHER, model, AdamW(lr=0.1), epochs=1, dtype=dtype),
        lambda: train(TOGETHER, model, AdamW(lr=0.1), epochs=1, key=KEY, dtype=dtype),
    ):
        with pytest.raises(InvalidInputError, match="dtype must be float32 or float64, got "):
            work()
