"""Memory of this machine: all of it, and what is free."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def machine_bytes() -> float:
    """Memory of this machine, or infinity where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return float("inf")


def host_bytes() -> int | None:
    """Memory of this machine that is free, within the limit of its container; None if unknown."""
    found: list[int] = []
    with suppress(ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    with suppress(ValueError, OSError, StopIteration):
        # What Linux could free of its caches counts as free.
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = [1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])]
    with suppress(ValueError, OSError):
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        found.append(limit - used)
    return min(found) if found else None
