"""The formula for a step on many devices, on numbers that can be done by hand."""

from __future__ import annotations

import pytest
from benchmarks.step_forecast import Machine, forecast_step

from tokenmargin.errors import InvalidInputError

SLOW = Machine(memory_bandwidth=1e12, link_bandwidth=1e11, network_bandwidth=1e10, round_seconds=1e-6, over_floor=1.5)


def test_one_device_is_seven_passes_and_nothing_sent():
    found = forecast_step(1000, 500, 1, SLOW)
    assert found.memory_bytes == 3 * 1000 * 500 * 4
    assert found.compute_seconds == pytest.approx(1.5 * 7 * 1000 * 500 * 4 / 1e12, rel=1e-12)
    assert found.seconds == found.compute_seconds


def test_a_ring_on_one_host_and_on_several():
    near = forecast_step(1000, 512, 8, SLOW)
    assert near.communication_seconds == pytest.approx(2 * 7 / 8 * 2000 * 4 / 1e11 + 14e-6, rel=1e-12)
    far = forecast_step(1000, 512, 16, SLOW)
    assert far.communication_seconds == pytest.approx(2 * 15 / 16 * 2000 * 4 / 1e10 + 30e-6, rel=1e-12)
    assert near.memory_bytes == 2 * far.memory_bytes
    assert near.compute_seconds == pytest.approx(2 * far.compute_seconds, rel=1e-12)


def test_gram_blocks_are_sent_too():
    less, more = (forecast_step(1000, 512, 4, SLOW, gram_numbers=g) for g in (0, 5000))
    assert more.communication_seconds - less.communication_seconds == pytest.approx(1.5 * 5000 * 4 / 1e11, rel=1e-9)
    assert more.compute_seconds == less.compute_seconds


def test_wrong_numbers_are_refused():
    with pytest.raises(InvalidInputError, match="devices"):
        forecast_step(10, 10, 0, SLOW)
    with pytest.raises(InvalidInputError, match="link_bandwidth"):
        Machine(1e12, -1.0, 1e10)
