"""Where the time of a computation goes on a GPU, kernel by kernel, as JAX's profiler records it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import jax


def kernel_times(run: Callable[[], object]) -> dict[str, tuple[float, int]]:
    """Milliseconds and number of starts of every kernel while `run` runs, the longest first.

    Kernels that differ in a number at the end of their name alone are one.
    """
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(run())
        file = next(Path(folder).rglob("*.xplane.pb"))
        data = jax.profiler.ProfileData.from_file(str(file))
        found: dict[str, tuple[float, int]] = {}
        for plane in data.planes:
            if not plane.name.startswith("/device:GPU"):
                continue
            for line in plane.lines:
                if not line.name.startswith("Stream"):
                    continue
                for event in line.events:
                    name = re.sub(r"(_\d+)+$", "", event.name)
                    time, count = found.get(name, (0.0, 0))
                    found[name] = (time + event.duration_ns / 1e6, count + 1)
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def shares(run: Callable[[], object], steps: int) -> dict[str, dict[str, float]]:
    """Milliseconds a step, starts a step and share of each kernel; `all` sums them up."""
    times = kernel_times(run)
    total = sum(time for time, _ in times.values())
    table = {
        name: {"ms": time / steps, "starts": count / steps, "share": time / total}
        for name, (time, count) in times.items()
    }
    starts = sum(count for _, count in times.values())
    return {"all": {"ms": total / steps, "starts": starts / steps, "share": 1.0}} | table
