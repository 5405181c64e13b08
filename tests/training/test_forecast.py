"""A forecast of training: its numbers are those of the run, and memory counts what there is."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin import AdamW, OneLayer, TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.training import forecast
from tokenmargin.training.forecast import available_bytes, check_fits, forecast_training

V, WIDTH, N = 40, 16, 30


@pytest.fixture(scope="module")
def told():
    rng = np.random.default_rng(0)
    data = TokenDataset.from_token_ids([rng.permutation(V) for _ in range(N)], np.arange(N) % 2)
    return forecast_training(data, OneLayer(width=WIDTH), AdamW(lr=1e-3), epochs=7, batch_size=4)


def test_steps_are_those_of_the_run(told):
    assert told.steps == 7 * 8
    assert told.seconds == told.compile_seconds + told.steps * told.seconds_a_step
    assert told.seconds_a_step > 0


def test_memory_holds_parameters_moments_and_documents_and_not_many_times_that(told):
    kept = 3 * 4 * (V * WIDTH + 2 * WIDTH)
    documents = 2 * 4 * 32 * (2 * N + 1)  # two pieces of 32 ids and log counts each
    assert kept + documents <= told.memory_bytes <= 4 * (kept + documents)


def test_memory_that_is_there_fits_and_more_does_not(monkeypatch):
    assert available_bytes() > 2**20
    monkeypatch.setattr(forecast, "available_bytes", lambda: 1000)
    check_fits(900, lambda share: "nothing")
    with pytest.raises(InvalidInputError, match=r"needs 1e-06 GB .* are free on .*: take 0.90 of it\."):
        check_fits(1001, lambda share: f"take {share:.2f} of it")
    monkeypatch.setattr(forecast, "available_bytes", lambda: None)
    check_fits(10**18, lambda share: "nothing")  # unknown: nothing is refused
