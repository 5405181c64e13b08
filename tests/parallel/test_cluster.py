"""A cluster as a map: order, laziness, the function sent once, errors in words, workers that die."""

from __future__ import annotations

import os
import pickle
import signal
from functools import partial

import jax
import numpy as np
import pytest

from tokenmargin.errors import ClusterError, InvalidInputError, MissingExtraError
from tokenmargin.papers.maxmargin.trials import Study, run_trials
from tokenmargin.parallel import cluster as module
from tokenmargin.parallel import cluster_map, map_of
from tokenmargin.text import Recipe, tokenize


def squared(x):
    return x * x


def refused(x):
    raise InvalidInputError(f"{x} will not do.")


def killed_once(path, x):
    """The process that computes 3 dies the first time, as one that runs out of memory does."""
    if x == 3 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x * x


def test_without_an_address_it_is_the_built_in_map():
    with map_of(None) as over:
        assert over is map


def test_answers_come_in_order_and_inputs_are_read_no_further_than_needed(scheduler):
    read = []

    def inputs():
        for k in range(100):
            read.append(k)
            yield k

    with cluster_map(scheduler, tasks_a_thread=2) as over:
        answers = over(lambda x, y: 10 * x + y, inputs(), range(1, 200))
        assert next(answers) == 1
        assert len(read) <= 2 * 2  # two workers of one thread
        assert list(answers) == [10 * k + k + 1 for k in range(1, 100)]


def test_nothing_in_nothing_out(scheduler):
    with map_of(scheduler) as over:
        assert list(over(squared, [])) == []


def test_the_function_travels_once_whatever_it_holds_on_to(scheduler):
    packed = []

    class Heavy:
        def __reduce__(self):
            packed.append(1)
            return dict, ()

    heavy = Heavy()
    with cluster_map(scheduler) as over:
        assert list(over(lambda x: (x, heavy is not None)[0], range(20))) == list(range(20))
    assert len(packed) == 1


def test_an_error_of_the_function_is_raised_as_it_is(scheduler):
    with map_of(scheduler) as over, pytest.raises(InvalidInputError, match="0 will not do"):
        list(over(refused, range(4)))


def test_a_missing_extra_survives_the_way_back():
    there_and_back = pickle.loads(pickle.dumps(MissingExtraError("Stemming", "text")))
    assert str(there_and_back) == str(MissingExtraError("Stemming", "text"))


def test_a_task_whose_worker_is_killed_is_done_by_another_and_counts_once(scheduler, tmp_path):
    with cluster_map(scheduler) as over:
        answers = list(over(partial(killed_once, tmp_path / "killed"), range(12)))
    assert (tmp_path / "killed").exists()
    assert answers == [k * k for k in range(12)]


def test_precision_is_that_of_the_process_that_asks(scheduler):
    with map_of(scheduler) as over:
        assert jax.config.jax_enable_x64
        assert set(over(_dtype_of_ones, range(4))) == {"float64"}
        with jax.enable_x64(False):
            assert set(over(_dtype_of_ones, range(4))) == {"float32"}


def _dtype_of_ones(_):
    import jax.numpy as jnp

    return str(jnp.ones(2).dtype)


def test_random_trials_have_the_bytes_of_the_local_run(scheduler):
    numbers = [range(0, 3), range(3, 6), range(6, 8)]
    one = partial(run_trials, Study(n=2, T=3, steps=50), 0, 4, treatment="stable")
    with map_of(scheduler) as over:
        there, here = list(over(one, numbers)), list(map(one, numbers))
    for (table, chosen), (own_table, own_chosen) in zip(there, here, strict=True):
        assert table.tobytes() == own_table.tobytes()
        assert chosen.tobytes() == own_chosen.tobytes()


def test_a_corpus_is_counted_as_here(scheduler):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["good", "bad", "film", "plot", "odd"], 6)) for _ in range(40)]
    labels = np.arange(40) % 2
    recipe = Recipe(word_piece=False, minimum_count=2)
    with map_of(scheduler) as over:
        there = tokenize(texts, labels, recipe, chunk_size=7, map=over)
    here = tokenize(texts, labels, recipe)
    assert there.dataset.vocabulary == here.dataset.vocabulary
    assert (there.dataset.counts != here.dataset.counts).nnz == 0


# --- what can be wrong ------------------------------------------------------------------------------------------------


def test_a_scheduler_that_is_not_there_is_named():
    with (
        pytest.raises(ClusterError, match=r"no scheduler answers at 'tcp://127\.0\.0\.1:9'"),
        map_of("tcp://127.0.0.1:9", patience=0.5),
    ):
        pass


@pytest.mark.parametrize("address", ["nonsense:", "smoke://signals:1", ""])
def test_an_address_that_is_none_is_named(address):
    with pytest.raises(ClusterError, match=f"no scheduler answers at {address!r}"), cluster_map(address, patience=0.5):
        pass


def test_a_scheduler_without_workers_is_told():
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty:  # noqa: SIM117
        with pytest.raises(ClusterError, match="had no worker"), map_of(empty.scheduler_address, patience=0.5):
            pass


def test_other_versions_are_refused_before_anything_runs(scheduler, monkeypatch):
    monkeypatch.setattr(module, "_told", _with_another_jax(module._told))
    with pytest.raises(ClusterError, match=r"has other versions \(jax .* there, 0\.1 here\)"), map_of(scheduler):
        pass


def _with_another_jax(told):
    """What is told first is told of this process."""
    calls = iter([True])

    def changed(about):
        return told(about) | ({"jax": "0.1"} if next(calls, False) else {})

    return changed


def test_other_code_on_a_worker_is_refused_by_the_task_itself(scheduler, monkeypatch):
    monkeypatch.setattr(module, "of_installation", lambda: "something else")
    with map_of(scheduler) as over, pytest.raises(ClusterError, match="runs other code"):
        list(over(squared, range(3)))


def test_a_bad_bound_is_refused(scheduler):
    with pytest.raises(InvalidInputError, match="tasks_a_thread"), cluster_map(scheduler, tasks_a_thread=0):
        pass
