"""Checkpoints: a run that was interrupted ends in the bytes of one that was not, and no other run is taken for it."""

from __future__ import annotations

import errno
import itertools
import json
import resource
import signal
import warnings
import zipfile
from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest

from tests.training.test_best_epoch import AGAINST
from tests.training.test_evaluate import KEY, TRAIN
from tokenmargin._archive import DamagedError, read_archive, write_archive
from tokenmargin.errors import InvalidInputError
from tokenmargin.models import OneLayer, TwoLayer
from tokenmargin.training import (
    AdamW,
    Checkpoint,
    CheckpointWarning,
    Optimiser,
    StepSchedule,
    TrainingRun,
    WarmUp,
    train,
)
from tokenmargin.training import checkpoint as checkpoints
from tokenmargin.training._program import TrainingState

MODEL, OPTIMISER = OneLayer(width=4), AdamW(lr=0.05)
RULE = {"key": KEY, "batch_size": 3, "schedule": StepSchedule((2, 5))}


def trained(epochs, data=TRAIN, model=MODEL, optimiser=OPTIMISER, **options):
    return train(data, model, optimiser, epochs=epochs, **(RULE | options))


def as_bytes(run: TrainingRun) -> list[bytes]:
    """All that a run says but the time it took."""
    arrays, notes = run.archived()
    return [json.dumps(notes).encode(), *(x.tobytes() for name, x in sorted(arrays.items()) if name != "epoch_seconds")]


@pytest.fixture(scope="module")
def whole():
    return trained(6)


@pytest.fixture
def listens():
    """Ctrl-C as a program has it that was started by hand."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Stop(Exception):
    pass


def stop_after(last):
    def look(epoch, _):
        if epoch == last:
            raise Stop

    return look


@pytest.mark.parametrize(
    ("model", "validation"), [(MODEL, None), (TwoLayer(width=4), AGAINST)], ids=["one layer", "two layers, validated"]
)
def test_an_interrupted_run_ends_in_the_same_bytes(tmp_path, model, validation):
    place, seen = Checkpoint(tmp_path / "run", every=2), []
    options = {"model": model, "validation": validation}
    with pytest.raises(Stop):
        trained(6, checkpoint=place, on_epoch=stop_after(5), **options)
    assert [path.name for path in place.files()] == ["step-0000000004.npz", "step-0000000002.npz"]
    again = trained(6, checkpoint=place, on_epoch=lambda epoch, _: seen.append(epoch), **options)
    assert seen == [5, 6]
    assert as_bytes(again) == as_bytes(trained(6, **options))
    assert len(again.epoch_seconds) == 6
    # What is finished is not trained again, and more epochs go on from there.
    assert as_bytes(trained(6, checkpoint=place, on_epoch=stop_after(1), **options)) == as_bytes(again)


@pytest.mark.parametrize("validation", [None, AGAINST], ids=["", "validated"])
def test_five_epochs_and_one_more_are_six(tmp_path, validation):
    for schedule in (StepSchedule((2, 5)), WarmUp(5.5)):
        options = {"schedule": schedule, "validation": validation}
        five = trained(5, **options)
        before = as_bytes(five)
        one_more = trained(1, start=five, **options)
        assert as_bytes(one_more) == as_bytes(trained(6, **options))
        assert as_bytes(five) == before
        five.save(tmp_path / "five")
        read = TrainingRun.load(tmp_path / "five.npz")
        assert as_bytes(read) == before
        assert (read.model, read.optimiser) == (five.model, five.optimiser)
        assert as_bytes(trained(1, start=read, **options)) == as_bytes(one_more)


def test_another_optimiser_or_bare_parameters_start_anew(whole):
    fresh = trained(1, start=whole.parameters, vocabulary=TRAIN.vocabulary)
    assert len(fresh.records) == 1
    assert len(trained(1, start=whole, optimiser=AdamW(lr=0.01)).records) == 1
    on = trained(1, start=whole)
    assert len(on.records) == 7
    assert on.records.loss[-1] != fresh.records.loss[-1]
    other = trained(1, start=whole, key=jax.random.key(99))
    assert other.steps == on.steps
    assert as_bytes(other) != as_bytes(on)


def test_what_takes_over_midway_counts_from_there(whole):
    """A validation set that comes with the second leg has seen nothing of the first."""
    on = trained(2, start=whole, validation=AGAINST, patience=1)
    assert np.isnan(on.validation.loss[:6]).all()
    assert on.best_epoch >= 7
    assert np.isfinite(on.validation.loss[6:]).all()


def test_a_run_over_by_patience_stays_so(tmp_path):
    place = Checkpoint(tmp_path)
    options = {"validation": AGAINST, "patience": 1, "schedule": StepSchedule(())}
    over = trained(40, checkpoint=place, **options)
    assert len(over.records) < 40
    assert as_bytes(trained(40, checkpoint=place, on_epoch=stop_after(len(over.records) + 1), **options)) == as_bytes(
        over
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"optimiser": AdamW(lr=0.1)}, r"optimiser.lr: saved 0.05, now 0.1"),
        ({"model": OneLayer(width=5)}, r"model.width: saved 4, now 5"),
        ({"schedule": WarmUp(2)}, r"schedule: saved StepSchedule, now WarmUp"),
        ({"key": jax.random.key(5)}, r"key: saved"),
        ({"data": TRAIN.subset([0, 1, 2, 3])}, r"data: saved 6 documents of .*, now 4 documents"),
        ({"dtype": "float64"}, r"dtype: saved 'float32', now 'float64'"),
        ({"validation": AGAINST}, r"validation: saved none, now"),
        ({"epochs": 1}, r"has seen 2 epochs, more than the 1 asked for"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_run_is_refused_with_what_differs(kept_run, change, words):
    with pytest.raises(InvalidInputError, match=words):
        trained(change.pop("epochs", 3), checkpoint=kept_run, **change)


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory):
    place = Checkpoint(tmp_path_factory.mktemp("run"))
    trained(2, checkpoint=place)
    return place


def test_other_code_is_refused(kept_run, monkeypatch):
    monkeypatch.setattr(checkpoints, "of_code", lambda *_: "another code")
    with pytest.raises(InvalidInputError, match=r"code: saved .*, now another code"):
        trained(3, checkpoint=kept_run)


@pytest.mark.parametrize("harm", ["cut", "flipped", "empty", "other"])
def test_a_damaged_file_falls_back_to_the_one_before_and_says_so(tmp_path, whole, harm):
    place = Checkpoint(tmp_path, every=1, keep=3)
    trained(4, checkpoint=place)
    newest, before, oldest = place.files()
    content = bytearray(newest.read_bytes())
    if harm == "flipped":
        content[len(content) // 3] ^= 4
    newest.write_bytes({"cut": content[:-100], "empty": b"", "other": b"x" * 500}.get(harm, content))
    (tmp_path / ".step-0000000005-x7.npz").write_bytes(b"half of it")  # what a kill leaves behind
    seen = []
    with pytest.warns(CheckpointWarning, match=r"Going on from the one before, step-0000000003.npz"):
        again = trained(6, checkpoint=place, on_epoch=lambda epoch, _: seen.append(epoch))
    assert seen == [4, 5, 6]
    assert as_bytes(again) == as_bytes(whole)
    for path in place.files():
        path.write_bytes(b"")
    with pytest.warns(CheckpointWarning, match="starting anew"):
        assert as_bytes(trained(6, checkpoint=place)) == as_bytes(whole)
    assert not list(tmp_path.glob(".*"))
    assert oldest not in place.files()
    assert before not in place.files()


def test_no_flip_of_a_bit_and_no_cut_is_taken_for_a_checkpoint(tmp_path, rng):
    file = tmp_path / "a.npz"
    write_archive(file, {"file": np.arange(3.0), "words": np.array(["a", "b"])}, {"n": 2**80}, {"what": "a test"})
    found = read_archive(file)
    np.testing.assert_array_equal(np.load(file)["file"], found.arrays["file"])
    assert (found.arrays["words"].tolist(), found.notes, found.belongs_to) == (
        ["a", "b"],
        {"n": 2**80},
        {"what": "a test"},
    )
    good = file.read_bytes()
    for place in {*range(0, len(good), 7), *range(len(good) - 70, len(good))}:
        file.write_bytes(good[:place] + bytes([good[place] ^ (1 << int(rng.integers(8)))]) + good[place + 1 :])
        with pytest.raises(DamagedError):
            read_archive(file)
        file.write_bytes(good[:place])
        with pytest.raises(DamagedError):
            read_archive(file)


def test_a_later_format_is_refused_and_pickles_are_not_read(tmp_path, monkeypatch):
    from tokenmargin import _archive

    file = tmp_path / "a.npz"
    monkeypatch.setattr(_archive, "FORMAT", 2)
    write_archive(file, {}, {}, {})
    monkeypatch.undo()
    with pytest.raises(InvalidInputError, match="has the format 2, and this version of tokenmargin reads 1"):
        read_archive(file)
    # A well-formed archive with an object array inside, under a checksum that is right.
    monkeypatch.setattr(np.lib.format, "write_array", lambda file, array, allow_pickle: _write_pickle(file))
    write_archive(file, {"a": np.zeros(1)}, {}, {})
    monkeypatch.undo()
    assert "a.npy" in zipfile.ZipFile(file).namelist()
    with pytest.raises(DamagedError, match="pickled objects"):
        read_archive(file)


_write_array = np.lib.format.write_array


def _write_pickle(file):
    _write_array(file, np.array([{"an": "object"}], dtype=object), allow_pickle=True)


def test_a_full_disk_leaves_the_old_one_and_the_training_goes_on(tmp_path, whole):
    place = Checkpoint(tmp_path, every=2, keep=1)
    trained(2, checkpoint=place)
    old = place.files()[0].read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        with pytest.warns(CheckpointWarning, match=r"File too large.*step-0000000002.npz is as it was"):
            run = trained(4, checkpoint=place)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert len(run.records) == 4
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [old]
    assert as_bytes(trained(6, checkpoint=place)) == as_bytes(whole)


def test_a_full_disk_is_tried_again_without_the_older_ones(tmp_path, monkeypatch):
    place = Checkpoint(tmp_path, every=1, keep=3)
    trained(3, checkpoint=place)
    write = checkpoints.write_archive

    def only_room_for_two(path, *content):
        if len(place.files()) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, *content)

    monkeypatch.setattr(checkpoints, "write_archive", only_room_for_two)
    trained(4, checkpoint=place)
    assert [path.name for path in place.files()] == ["step-0000000004.npz", "step-0000000003.npz"]


def test_ctrl_c_finishes_the_epoch_saves_and_goes_on_later(tmp_path, whole, capsys, listens):
    place, seen = Checkpoint(tmp_path), []

    def press(epoch, _):
        seen.append(epoch)
        if epoch == 3:
            signal.raise_signal(signal.SIGINT)
            seen.append("still there")

    with pytest.raises(KeyboardInterrupt):
        trained(6, checkpoint=place, on_epoch=press)
    assert seen == [1, 2, 3, "still there"]
    assert "Ctrl-C again stops at once" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert [path.name for path in place.files()] == ["step-0000000003.npz"]
    assert as_bytes(trained(6, checkpoint=place)) == as_bytes(whole)


def test_the_second_ctrl_c_stops_at_once(tmp_path, listens):
    def press(epoch, _):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("went on")

    with pytest.raises(KeyboardInterrupt):
        trained(6, checkpoint=Checkpoint(tmp_path), on_epoch=press)
    assert not list(tmp_path.iterdir())


def test_without_every_it_is_saved_so_seldom_that_it_costs_a_hundredth(tmp_path, monkeypatch):
    """On a clock of our own: an epoch takes a second, and saving a tenth."""
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(checkpoints, "check_writable", lambda _: None)

    def slow(*_):
        now[0] += 0.1

    monkeypatch.setattr(checkpoints, "write_archive", slow)
    keeper = checkpoints.Keeper(Checkpoint(tmp_path), lambda: {})
    saved = []
    for step in range(1, 101):
        now[0] += 1.0
        before = now[0]
        keeper.after(step, lambda: ({}, {}))
        if now[0] > before:
            saved.append(step)
    assert saved[0] == checkpoints.FIRST_AFTER
    assert all(9 <= later - sooner <= 11 for sooner, later in itertools.pairwise(saved))


@dataclass(frozen=True)
class SignDescent(Optimiser):
    lr: float = 1e-2

    def init(self, parameter):
        return ()

    @staticmethod
    def step(row, parameter, gradient, state):
        return parameter - row[0] * jax.numpy.sign(gradient), state


def test_a_file_makes_no_objects_of_foreign_types(tmp_path, whole):
    state = TrainingState(whole.position.state.parameters, ((), (), ()))
    replace(whole, optimiser=SignDescent(), position=replace(whole.position, state=state)).save(tmp_path / "run.npz")
    with pytest.raises(InvalidInputError, match="give it as optimiser="):
        TrainingRun.load(tmp_path / "run.npz")
    with pytest.raises(InvalidInputError, match=r"value.lr was 0.01 and is 0.5"):
        TrainingRun.load(tmp_path / "run.npz", optimiser=SignDescent(0.5))
    read = TrainingRun.load(tmp_path / "run.npz", optimiser=SignDescent())
    assert (read.optimiser, read.position.state.optimiser) == (SignDescent(), ((), (), ()))


def test_a_checkpoint_is_a_run_that_can_be_loaded(kept_run):
    assert as_bytes(TrainingRun.load(kept_run.files()[0])) == as_bytes(trained(2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: Checkpoint(folder, every=0), "every must be"),
        (lambda folder: Checkpoint(folder, keep=0), "keep must be"),
        (lambda folder: Checkpoint(""), "must be a path"),
        (lambda folder: TrainingRun.load(folder / "none"), "is no file"),
    ],
)
def test_what_is_no_checkpoint(tmp_path, make, words):
    with pytest.raises(InvalidInputError, match=words):
        make(tmp_path)


def test_a_file_of_something_else_is_no_run(tmp_path):
    write_archive(tmp_path / "a.npz", {"a": np.zeros(2)}, {"b": 1}, {})
    with pytest.raises(InvalidInputError, match="holds no run of training"):
        TrainingRun.load(tmp_path / "a.npz")


def test_numbers_of_foreign_types_keep_their_type(tmp_path):
    half = np.asarray(jax.numpy.ones(3, jax.numpy.bfloat16))
    write_archive(tmp_path / "a.npz", {"half": half}, {}, {})
    with warnings.catch_warnings():
        found = read_archive(tmp_path / "a.npz").arrays["half"]
    assert found.dtype == half.dtype
    np.testing.assert_array_equal(found, half)
