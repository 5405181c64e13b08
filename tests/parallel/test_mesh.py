"""Training on parameters spread by width: the single-device answer, and only the sums that the algebra asks for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from benchmarks.collectives import collectives, numbers_a_step

from tests.parallel.mesh_run import BATCH, MODELS, V, corpus
from tokenmargin.errors import InvalidInputError
from tokenmargin.parallel import by_width, placed, width_mesh
from tokenmargin.training.batches import batches_of

#: Sums over the width are taken in another order: some roundings a step, over eight steps.
ROUNDING = 1e-12

#: Single numbers of a step: a norm, a mean, the bound of the products; none of them grows with V, d or the batch.
SCALARS = 10


def started(folder: Path, devices: int, *arguments: object) -> subprocess.Popen[str]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.parallel.mesh_run", str(folder), *map(str, arguments)],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors


@pytest.fixture(scope="module")
def spread(tmp_path_factory):
    """One process with eight devices: what was trained, and the programs."""
    folder = tmp_path_factory.mktemp("spread")
    finished(started(folder, 8))
    with np.load(folder / "arrays-0.npz") as arrays:
        return dict(arrays), json.loads((folder / "told-0.json").read_text())


def leaves(arrays: dict[str, np.ndarray], name: str) -> list[np.ndarray]:
    found = [array for key, array in arrays.items() if key.rpartition("-")[0] == name]
    assert found, name
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_the_parameters_of_a_single_device_come_out(spread, model, devices):
    arrays, told = spread
    start, alone, here = (leaves(arrays, f"{model}-{name}") for name in ("start", "alone", devices))
    assert max(np.abs(x - y).max() for x, y in zip(alone, start, strict=True)) > 1e-3  # training did something
    for x, y in zip(alone, here, strict=True):
        np.testing.assert_allclose(y, x, rtol=0, atol=ROUNDING)
    for shape, whole in zip(told[f"{model}-{devices}"]["spread"], here, strict=True):
        assert tuple(shape) == (*whole.shape[:-1], whole.shape[-1] // devices)  # and they stay spread


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_a_start_drawn_in_place_is_the_usual_start(spread, model, devices):
    arrays, _ = spread
    for x, y in zip(leaves(arrays, f"{model}-start"), leaves(arrays, f"{model}-{devices}-start"), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_one_layer_sends_two_numbers_a_token_a_step(spread, devices):
    text = spread[1][f"one-{devices}"]["text"]
    assert {found.operation for found in collectives(text)} == {"all-reduce"}
    assert 2 * V <= numbers_a_step(text) <= 2 * V + SCALARS


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_two_layers_send_three_numbers_a_token_and_the_gram_blocks(spread, devices):
    text = spread[1][f"two-{devices}"]["text"]
    assert {found.operation for found in collectives(text)} == {"all-reduce"}
    (layout,) = batches_of(corpus(), MODELS["two"], BATCH, "float64").layouts
    (width,) = layout.widths_of_blocks
    assert layout.block == BATCH  # the loop over blocks, whose length is known on the device only, has one turn
    grams = BATCH * width**2
    assert 3 * V + grams <= numbers_a_step(text) <= 3 * V + SCALARS + grams


def test_one_device_sends_nothing(spread):
    for model in MODELS:
        assert collectives(spread[1][f"{model}-1"]["text"]) == []


@pytest.mark.long
def test_two_processes_give_the_same(spread, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [started(tmp_path, 1, 2, process, port) for process in (0, 1)]
    for process in both:
        finished(process)
    for process in (0, 1):
        with np.load(tmp_path / f"arrays-{process}.npz") as arrays:
            own = dict(arrays)
        for model in MODELS:
            for x, y in zip(leaves(spread[0], f"{model}-alone"), leaves(own, f"{model}-2"), strict=True):
                np.testing.assert_allclose(y, x, rtol=0, atol=ROUNDING)
    text = json.loads((tmp_path / "told-0.json").read_text())["one-2"]["text"]
    assert 2 * V <= numbers_a_step(text) <= 2 * V + SCALARS


def test_placing_here_keeps_numbers_and_type():
    mesh = width_mesh(jax.devices()[:1])
    tree = {"E": np.arange(12.0).reshape(3, 4), "p": np.ones(4, np.float32)}
    there = placed(tree, mesh)
    for name, array in tree.items():
        assert there[name].dtype == array.dtype
        np.testing.assert_array_equal(np.asarray(there[name]), array)
        assert there[name].sharding == by_width(array.shape, mesh)


def test_a_width_that_cannot_be_cut_is_refused():
    with pytest.raises(InvalidInputError, match="into 3 equal blocks"):
        by_width((5, 16), width_mesh(jax.devices()[:1] * 3))
    with pytest.raises(InvalidInputError, match="no devices"):
        width_mesh([])
