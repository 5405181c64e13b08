"""Settings of the compiler, made before a command computes: where programs are kept, and how many threads share a sum.

They reach JAX through its environment, so that a command that computes without JAX does not import it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

#: "off" compiles every program anew; anything else keeps them between runs.
COMPILED_VARIABLE = "TOKENMARGIN_COMPILED"

#: JAX's name for the folder of compiled programs; one that the user has set is left alone.
COMPILED_SETTING = "jax_compilation_cache_dir"

#: Seconds of compilation that are worth a file.
SECONDS_WORTH_KEEPING = 0.2

#: Bytes of compiled programs together; beyond it the oldest go.
MOST_BYTES_KEPT = 200_000_000

#: The variable by which XLA is told how many threads it has on a CPU.
THREADS_VARIABLE = "NPROC"

#: Threads on a CPU of no more cores than these. XLA splits a sum into as many parts as it has threads, and the parts
#: round: with one number of threads a figure has the same bytes on one core and on eight.
LEAST_THREADS = 8


def prepare() -> None:
    """Tell the compiler how many threads to use and where to keep its programs; what the user has set is left alone."""
    os.environ.setdefault(THREADS_VARIABLE, str(max(LEAST_THREADS, os.cpu_count() or 1)))
    if os.environ.get(COMPILED_VARIABLE, "").lower() != "off" and not _told(COMPILED_SETTING):
        _keep_compiled()


def _keep_compiled() -> None:
    """Keep what a run compiles for the next one, in the user's cache folder, where one can be written.

    Programs hold instructions of the processor that they were compiled for, so each kind of processor has its folder: a
    home directory may be shared by many machines.
    """
    from tokenmargin.sources.locate import cache_folder

    folder = cache_folder() / f"compiled-{_processor()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _drop_oldest(folder, MOST_BYTES_KEPT)
    except OSError:
        return
    if os.access(folder, os.W_OK):
        _tell(COMPILED_SETTING, str(folder))
        _tell("jax_persistent_cache_min_compile_time_secs", SECONDS_WORTH_KEEPING)


def _told(setting: str) -> bool:
    """True if the user has made a setting of JAX's, in the environment or in this process."""
    if "jax" in sys.modules:
        import jax

        return getattr(jax.config, setting) is not None
    return setting.upper() in os.environ


def _tell(setting: str, value: str | float) -> None:
    """Make a setting of JAX's: in this process where JAX is loaded, else for when it is."""
    if "jax" in sys.modules:
        import jax

        jax.config.update(setting, value)
    else:
        os.environ[setting.upper()] = str(value)


def _processor() -> str:
    """A short name for what this processor can do."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(errors="replace").splitlines() if told.is_file() else []
    able = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return hashlib.sha256(f"{platform.machine()} {able}".encode()).hexdigest()[:12]


def _drop_oldest(folder: Path, most_bytes: int) -> None:
    files = sorted((file.stat().st_mtime, file.stat().st_size, file) for file in folder.iterdir() if file.is_file())
    excess = sum(size for _, size, _ in files) - most_bytes
    for _, size, file in files:
        if excess <= 0:
            return
        file.unlink(missing_ok=True)
        excess -= size
