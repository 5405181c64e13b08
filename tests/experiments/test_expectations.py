"""What is said before a long run: memory and time from timed parts, and a refusal that names the flag that helps."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tokenmargin import OneLayer, TokenDataset
from tokenmargin._progress import in_seconds, silent
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import expectations
from tokenmargin.experiments.expectations import expect_study, expect_training
from tokenmargin.training import TrainingForecast


class Told:
    def __init__(self):
        self.sentences = []

    def __call__(self, done, total, what): ...

    def say(self, sentence):
        self.sentences.append(sentence)


@pytest.fixture(scope="module")
def dataset():
    rng = np.random.default_rng(0)
    return TokenDataset.from_token_ids([rng.integers(0, 9, 5) for _ in range(20)], np.arange(20) % 2)


def test_a_long_training_is_announced_with_memory_and_time(dataset, monkeypatch):
    monkeypatch.setattr(expectations, "LONG_STEPS", 10)
    monkeypatch.setattr(expectations, "forecast_training", lambda *_, **__: TrainingForecast(2 * 10**9, 4.0, 0.5, 16))
    told = Told()
    expect_training(told, dataset, OneLayer(width=3), epochs=4, batch_size=5)
    assert told.sentences == ["expected: 2 GB of memory and 12 s of training (16 steps of 500 ms, timed just now)"]


def test_a_short_one_is_not(dataset):
    told = Told()
    expect_training(told, dataset, OneLayer(width=3), epochs=4, batch_size=5)
    assert told.sentences == []


def test_what_cannot_fit_is_refused_with_the_flag_that_would_make_it_fit(dataset):
    width = 2**40
    with pytest.raises(
        InvalidInputError, match=r"needs .* GB of memory and .* GB are free on .*--d (\d+)\."
    ) as refusal:
        expect_training(silent, dataset, OneLayer(width=width), epochs=1, batch_size=5)
    fits = int(re.search(r"--d (\d+)", str(refusal.value))[1])
    assert fits < width
    expect_training(silent, dataset, OneLayer(width=fits // 2), epochs=1, batch_size=5)  # half: others use memory too


def test_a_study_is_so_many_times_its_samples(monkeypatch):
    clock = iter([0.0, 3.0, 4.0, 10.0, 12.0, 14.0])  # the first takes 3 and 1 seconds, the second 2 and 2
    monkeypatch.setattr(expectations, "perf_counter", lambda: next(clock))
    told, runs = Told(), []
    samples = {"five trials": (lambda: runs.append(1), 30.0), "two paths": (lambda: runs.append(2), 10.0)}
    expect_study(told, samples)
    assert runs == [1, 1, 2, 2]
    assert told.sentences == ["expected: 52 s on this machine (five trials, two paths, timed just now)"]
    expect_study(silent, samples)
    assert len(runs) == 4  # nobody listens, so nothing is timed


@pytest.mark.parametrize(("seconds", "words"), [(0.1, "1 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations_are_said_as_one_says_them(seconds, words):
    assert in_seconds(seconds) == words
