"""Training: the path of torch's optimisers, the same bytes twice, nothing compiled twice, memory of the state alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin.data.statistics import token_statistics
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import DivergedError, InvalidInputError
from tokenmargin.models import OneLayer, OneLayerParameters, TwoLayer, TwoLayerParameters
from tokenmargin.training._program import EpochData, TrainingState, epoch_function, initial_state, program_of
from tokenmargin.training._under_way import check_parameters
from tokenmargin.training.count_batches import count_batches
from tokenmargin.training.optimisers import SGD, AdamW, GradientDescent
from tokenmargin.training.schedule import StepSchedule
from tokenmargin.training.train import check_both_classes, streams, train

#: Fifty steps of Adam in float64: it divides by the root of a second moment, which amplifies rounding.
PARITY = 1e-10

#: What E and its moments may be exceeded by.
MEMORY = 0.2

COMPILED = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: COMPILED.append(name) if "backend_compile" in name else None
)


def dataset(rng, n=23, V=40, T=12):
    """Tokens of the last quarter are rare, so that many batches lack them; two never occur."""
    ids = np.minimum(rng.geometric(0.09, (n, T)) - 1, V - 3)
    return TokenDataset.from_token_ids(
        list(ids), np.where(rng.random(n) < 0.5, 1, -1), vocabulary=[str(s) for s in range(V)]
    )


def torch_path(torch, data, start, make_optimiser, schedule, orders):
    """The natural version: gather every occurrence, autograd, torch's optimiser."""
    E, p, v = (torch.nn.Parameter(torch.tensor(np.asarray(x))) for x in (start.embeddings, start.query, start.head))
    optimiser = make_optimiser(iter((E, p, v)))
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimiser, list(schedule.epochs), gamma=schedule.factor)
    rows = [np.repeat(np.arange(data.vocabulary_size), row) for row in data.counts.toarray()]
    losses = []
    for order in orders:
        epoch_losses = []
        for batch in order:
            optimiser.zero_grad()
            tokens = torch.nn.functional.embedding(torch.tensor(np.stack([rows[k] for k in batch])), E)
            output = (torch.softmax(tokens @ p, dim=1)[:, :, None] * tokens).sum(dim=1) @ v
            loss = torch.nn.functional.softplus(-torch.tensor(data.labels[batch]) * output).mean()
            loss.backward()
            optimiser.step()
            epoch_losses.append(len(batch) * loss.item())
        losses.append(sum(epoch_losses) / data.n_documents)
        scheduler.step()
    return [x.detach().numpy() for x in (E, p, v)], losses


@pytest.mark.parametrize("which", ["adamw", "adamw without decay", "sgd", "sgd with momentum", "descent"])
def test_same_path_as_torch(rng, which):
    torch = pytest.importorskip("torch", reason="parity peer, installed by `make peers`")
    data, key, epochs = dataset(rng), jax.random.key(3), 17
    ours, theirs = {
        "adamw": (
            AdamW(lr=0.02, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6),
            lambda x: torch.optim.AdamW(x, lr=0.02, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6),
        ),
        "adamw without decay": (
            AdamW(lr=0.02, weight_decay=0.0),
            lambda x: torch.optim.AdamW(x, lr=0.02, weight_decay=0.0),
        ),
        "sgd": (SGD(lr=0.5, weight_decay=0.01), lambda x: torch.optim.SGD(x, lr=0.5, weight_decay=0.01)),
        "sgd with momentum": (SGD(lr=0.2, momentum=0.9), lambda x: torch.optim.SGD(x, lr=0.2, momentum=0.9)),
        "descent": (GradientDescent(lr=1.0), lambda x: torch.optim.SGD(x, lr=1.0)),
    }[which]
    schedule = StepSchedule((5, 11), 0.5)
    begin, shuffle = streams(key)
    model = OneLayer(width=6)
    start = model.initial(begin, data.vocabulary_size, "float64")
    size = data.n_documents if which == "descent" else 8
    orders = [np.arange(23) if which == "descent" else shuffle.permutation(23) for _ in range(epochs)]
    batches = [[order[k : k + size] for k in range(0, 23, size)] for order in orders]
    (E, p, v), losses = torch_path(torch, data, start, theirs, schedule, batches)
    run = train(data, model, ours, epochs=epochs, key=key, batch_size=8, schedule=schedule, dtype=np.float64)
    assert run.steps == sum(map(len, batches)) >= 17
    np.testing.assert_allclose(run.parameters.embeddings, E, atol=PARITY, rtol=0)
    np.testing.assert_allclose(run.parameters.query, p, atol=PARITY, rtol=0)
    np.testing.assert_allclose(run.parameters.head, v, atol=PARITY, rtol=0)
    np.testing.assert_allclose(run.records.loss, losses, atol=PARITY)
    assert np.abs(E - np.asarray(start.embeddings)).max() > 0.01


def test_absent_tokens_move_by_their_moments(rng):
    """A token that left the batches is still pushed: one step with it, one without, by hand."""
    data = TokenDataset.from_token_ids([[0, 1], [2, 3]], [1, -1])
    key = jax.random.key(0)
    begin, shuffle = streams(key)
    first_document = int(shuffle.permutation(2)[0])
    gone = np.array([[0, 1], [2, 3]])[first_document]
    model, optimiser = OneLayer(width=3), AdamW(lr=0.1, weight_decay=0.0)
    start = np.asarray(model.initial(begin, 4, "float64").embeddings)
    moved = np.asarray(
        train(data, model, optimiser, epochs=1, key=key, batch_size=1, dtype=np.float64).parameters.embeddings
    )
    # Step 1: m/c1 / sqrt(s/c2) = sign g. Step 2, g = 0: m = .09 g, s = .000999 g^2, corrected by .19 and .001999.
    second = (0.09 / 0.19) / np.sqrt(0.000999 / 0.001999)
    np.testing.assert_allclose(np.abs(moved - start)[gone], 0.1 * (1 + second), rtol=1e-5)


def test_records_are_what_they_say(rng):
    data = dataset(rng)
    run = train(data, OneLayer(width=6), AdamW(lr=0.05), epochs=3, key=jax.random.key(1), batch_size=8, dtype="float64")
    E, p, v = (np.asarray(x) for x in (run.parameters.embeddings, run.parameters.query, run.parameters.head))
    posterior = token_statistics(data).posterior_difference
    there = ~np.isnan(posterior)
    assert not there.all()
    last = {name: column[-1] for name, column in run.records.columns().items()}
    assert len(run.records) == 3
    assert last["embedding_norm"] == pytest.approx(np.linalg.norm(E))
    assert last["query_norm"] == pytest.approx(np.linalg.norm(p))
    assert last["head_norm"] == pytest.approx(np.linalg.norm(v))
    assert last["head_correlation"] == pytest.approx(np.corrcoef((E @ v)[there], posterior[there])[0, 1])
    assert last["query_correlation"] == pytest.approx(np.corrcoef((E @ p)[there], np.abs(posterior[there]))[0, 1])
    again = train(data, OneLayer(width=6), GradientDescent(1e-300), epochs=1, key=jax.random.key(1), dtype="float64",
                  start=run)  # fmt: skip
    outputs = [
        (lambda a, g: np.exp(a) @ g / np.exp(a).sum())((E @ p)[ids], (E @ v)[ids])
        for ids in (np.repeat(np.arange(40), row) for row in data.counts.toarray())
    ]
    assert again.records.accuracy[0] == pytest.approx(np.mean(np.array(outputs) * data.labels > 0))
    assert again.records.loss[0] == pytest.approx(np.logaddexp(0, -data.labels * np.array(outputs)).mean())


def test_same_key_same_bytes_and_nothing_is_compiled_again(rng):
    data = dataset(rng)
    settings = {"epochs": 2, "batch_size": 8}
    first = train(data, OneLayer(width=6), AdamW(lr=0.05), key=jax.random.key(1), **settings)
    again = train(data, OneLayer(width=6), AdamW(lr=0.05), key=jax.random.key(1), **settings)
    compiled = len(COMPILED)
    assert compiled > 0
    other = train(data, OneLayer(width=6), AdamW(lr=0.01, betas=(0.5, 0.9)), key=jax.random.key(2), **settings)
    assert len(COMPILED) == compiled
    for a, b, c in zip(*(jax.tree.leaves(run.parameters) for run in (first, again, other)), strict=True):
        assert a.dtype == jnp.float32
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes() != np.asarray(c).tobytes()


def test_no_temporary_of_the_size_of_the_embeddings(rng):
    """The gradient of E is not formed and E is not copied: temporaries are a small part of E and its moments."""
    data = dataset(rng, V=1500)
    model, batches = OneLayer(width=256), count_batches(data, 8)
    parameters = model.initial(jax.random.key(0), data.vocabulary_size)
    state = TrainingState(parameters, initial_state(AdamW(), model, batches, parameters))
    rows = batches.rows(np.arange(23))
    data = EpochData(batches.on_device, jnp.zeros(1500, jnp.float32), rows, np.ones((3, 7), np.float32))
    lowered = epoch_function(model).lower(program_of(model, batches, rows), AdamW, state, data)
    memory = lowered.compile().memory_analysis()
    size = 3 * 4 * 1500 * 256
    assert memory.alias_size_in_bytes >= size
    assert memory.temp_size_in_bytes < MEMORY * size


def test_what_is_fixed_stays(rng):
    data, trained = dataset(rng), ("query", "key_query")
    model = OneLayer(width=6, trainable=trained)
    start = model.initial(streams(jax.random.key(1))[0], data.vocabulary_size)
    run = train(data, model, AdamW(lr=0.05), epochs=1, key=jax.random.key(1), batch_size=8)
    for name in ("embeddings", "query", "head", "key_query"):
        before, after = getattr(start, name), getattr(run.parameters, name)
        if before is not None:
            assert np.array_equal(before, after) == (name not in trained), name


def test_callbacks_and_start(rng):
    data, seen, kept = dataset(rng), [], []
    begin = OneLayerParameters(rng.normal(size=(40, 6)), rng.normal(size=6), rng.normal(size=6))
    run = train(
        data, OneLayer(width=6), AdamW(lr=0.05), epochs=3, key=jax.random.key(1), batch_size=8, start=begin,
        vocabulary=data.vocabulary,
        schedule=StepSchedule((1, 2)), progress=lambda *now: seen.append(now),
        on_epoch=lambda epoch, parameters: kept.append((epoch, np.array(parameters.query))),
    )  # fmt: skip
    assert seen == [(1, 3, "training"), (2, 3, "training"), (3, 3, "training")]
    assert [epoch for epoch, _ in kept] == [1, 2, 3]
    np.testing.assert_array_equal(kept[-1][1], run.parameters.query)
    np.testing.assert_allclose(run.records.learning_rate, [0.05, 0.005, 0.0005])
    none = train(
        data, OneLayer(width=6), AdamW(), epochs=0, key=jax.random.key(1), start=begin, vocabulary=data.vocabulary
    )
    assert (len(none.records), none.steps) == (0, 0)
    np.testing.assert_array_equal(none.parameters.query, begin.query.astype(np.float32))


def tiny(**changes):
    data = TokenDataset.from_token_ids([[0, 1], [2]], [1, -1])
    settings = {"epochs": 1, "key": jax.random.key(0), "vocabulary": ("0", "1", "2")} | changes
    return train(data, OneLayer(width=2), AdamW(), **settings)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: AdamW(lr=0.0), "lr must be a positive"),
        (lambda: AdamW(lr=-1.0), "lr must be a positive"),
        (lambda: AdamW(weight_decay=-1.0), "weight_decay"),
        (lambda: AdamW(betas=(0.9, 1.0)), "betas"),
        (lambda: AdamW(eps=float("nan")), "eps"),
        (lambda: SGD(lr=float("inf")), "lr must be a positive"),
        (lambda: SGD(lr=0.1, momentum=1.0), "momentum"),
        (lambda: GradientDescent(lr=0.1, weight_decay=-0.1), "weight_decay"),
        (lambda: StepSchedule((200, 100)), "increasing"),
        (lambda: StepSchedule((100, 100)), "increasing"),
        (lambda: StepSchedule((-1,)), "increasing"),
        (lambda: StepSchedule(factor=0.0), "factor must be a positive"),
        (lambda: tiny(batch_size=0), "batch_size must be"),
        (lambda: tiny(epochs=-1), "epochs must be"),
        (lambda: tiny(dtype=np.int32), "dtype must be float32 or float64"),
        (lambda: tiny(dtype="float16"), "dtype must be float32 or float64"),
        (lambda: tiny(dtype="nonsense"), "dtype must be float32 or float64"),
        (lambda: tiny(key=np.zeros(3)), "jax.random.key"),
        (lambda: tiny(start=OneLayerParameters(np.ones((4, 2)), np.ones(2), np.ones(2))), "4 tokens"),
        (lambda: tiny(start=OneLayerParameters(np.ones((3, 5)), np.ones(5), np.ones(5))), "width"),
        (lambda: tiny(start=OneLayerParameters(np.full((3, 2), np.nan), np.ones(2), np.ones(2))), "NaN"),
        (lambda: tiny(start=OneLayerParameters(np.ones((3, 2)), np.ones(2), np.ones(2)), vocabulary=None), "start=run"),
        (lambda: tiny(vocabulary=("0", "2", "1")), "in another order: column 1 is '1', and was '2'"),
        (lambda: tiny(patience=3), "give validation=dataset"),
    ],
)
def test_bad_input(make, says):
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert says in str(caught.value)


@pytest.mark.parametrize("model", [OneLayer(width=2), TwoLayer(width=2)], ids=["one layer", "two layers"])
def test_a_run_that_diverges_raises_with_epoch_rate_and_remedy(model):
    data = TokenDataset.from_token_ids([[0, 1], [2], [1, 2]], [1, -1, 1])
    seen = []
    with pytest.raises(DivergedError) as caught:
        train(data, model, SGD(lr=1e25), epochs=50, key=jax.random.key(0), schedule=StepSchedule((1,)), batch_size=1,
              on_epoch=lambda epoch, _: seen.append(epoch))  # fmt: skip
    rate = f"{1e25 * 0.1 ** (len(seen) > 0):g}"
    assert f"diverged in epoch {len(seen) + 1} at a learning rate of {rate}" in str(caught.value)
    assert "smaller learning rate" in str(caught.value)


def test_a_parameter_that_no_loss_has_seen_yet_is_looked_at():
    """The gain of the last step is in none of the numbers that are recorded."""
    parameters = TwoLayerParameters(jnp.ones((3, 2)), jnp.ones(2), jnp.ones(2), jnp.array([1.0, jnp.nan]), jnp.ones(2))
    with pytest.raises(DivergedError, match=r"epoch 2 at a learning rate of 0.5: parameters are NaN"):
        check_parameters(parameters, 2, 0.5)


def test_documents_of_one_class_are_refused_in_words():
    data = TokenDataset.from_token_ids([[0, 1], [2], [1]], ["bad", "good", "bad"])
    check_both_classes(data)
    with pytest.raises(InvalidInputError, match=r"all 2 documents to train on are of the class bad: .*shuffled"):
        train(data[[0, 2]], OneLayer(width=2), AdamW(), epochs=1, key=jax.random.key(0))
