"""Tests are stricter than use: float64 everywhere, and an array that silently gains an axis is an error."""

import gc
import os
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings

import tests.typechecker  # noqa: F401  (named by --jaxtyping-packages in pyproject.toml; it must be loaded by then)

#: Half of the tests' time was XLA's compiler; its older emitters without LLVM's optimisation take a sixth of it. A
#: program so compiled is the same program, rounded elsewhere and slower to run, which at the tests' sizes costs little.
#: `XLA_FLAGS= pytest` compiles as a user's process does, which `make test-long` and the tests of the wheel do.
QUICK_COMPILATION = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ.setdefault("XLA_FLAGS", QUICK_COMPILATION)  # read by XLA when JAX first compiles; children inherit it

# A command that a test runs keeps nothing in the user's cache folder.
os.environ.setdefault("TOKENMARGIN_COMPILED", "off")

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compilation makes first examples slow; a deadline would test the machine, not the code.
settings.register_profile(
    "tokenmargin", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tokenmargin")


#: The files that take longest, begun first: one of them begun last would leave every other core idle to the end.
LONGEST = (
    "test_contracts.py",
    "test_docs.py",
    "test_wheel.py",
    "theory/test_evidence.py",
    "report/test_fit_page_browser.py",
    "parallel/test_cluster.py",
    "models/test_kernels.py",
    "theory/maxmargin/test_thm1_4_7_paths.py",
    "parallel/test_mesh.py",
    "training/test_train.py",
    "margin/test_invariance.py",
    "training/test_kills.py",
    "test_architecture.py",
)
FIRST = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: FIRST.get(item.path, len(FIRST)))


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(20260101)


#: Memory maps of a process after which compiled programs are dropped; Linux allows 65,530 unless told otherwise.
MANY_MAPS = 20_000


@pytest.fixture(scope="module", autouse=True)
def few_compiled_programs():
    """Every compiled program holds a few memory maps, and where the kernel has no more XLA dies in its compiler."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()
        gc.collect()
