"""Tests are stricter than use: float64 everywhere, and an array that silently gains an axis is an error."""

import gc
import os
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings

import tests.typechecker  # noqa: F401  (named by --jaxtyping-packages in pyproject.toml; it must be loaded by then)

#: What one process of the tests compiles the others load, and so does the next run: a program's name there is all that
#: it is made of. Children inherit the settings.
COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
KEPT = {
    "jax_compilation_cache_dir": str(COMPILED),
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
for _name, _value in KEPT.items():
    if _name.upper() not in os.environ:
        os.environ[_name.upper()] = str(_value)
        jax.config.update(_name, _value)

#: Bytes of compiled programs beyond which they are thrown away: those of a few dozen states of the package.
MOST_BYTES_COMPILED = 1_000_000_000

#: Half of the tests' time was XLA's compiler; its older emitters without LLVM's optimisation take a sixth of it. A
#: program so compiled is the same program, rounded elsewhere and slower to run, which at the tests' sizes costs little.
#: `XLA_FLAGS= pytest` compiles as a user's process does, which `make test-long` and the tests of the wheel do.
QUICK_COMPILATION = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ.setdefault("XLA_FLAGS", QUICK_COMPILATION)  # read by XLA when JAX first compiles; children inherit it

# A command that a test runs keeps nothing in the user's cache folder, and downloads nothing, though it could.
os.environ.setdefault("TOKENMARGIN_COMPILED", "off")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# The processes that tests start compile the package's modules to bytecode once, and not each of them again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

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
    "parallel/test_cluster.py",
    "models/test_kernels.py",
    "experiments/test_false_models.py",
    "test_notebook.py",
    "theory/test_evidence.py",
    "cli/test_fit.py",
    "attention/test_kinks.py",
    "report/test_playground_page.py",
    "training/test_document_batches.py",
    "test_wheel.py",
    "test_bad_input.py",
    "papers/maxmargin/claims/test_thm1_4_7_paths.py",
    "report/test_fit_page_browser.py",
    "attention/test_runs.py",
    "attention/test_flow.py",
    "experiments/test_same_bytes.py",
    "theory/test_krawczyk.py",
    "parallel/test_mesh.py",
    "training/test_train.py",
    "models/test_one_layer.py",
    "training/test_kills.py",
    "training/test_checkpoint.py",
    "papers/maxmargin/vit/test_image_training.py",
    "training/test_streaming.py",
)
FIRST = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}

#: What the cluster of `tests/parallel/conftest.py` serves, which every worker of pytest would start for itself.
ON_THE_CLUSTER = tuple(
    f"tests/parallel/{name}.py" for name in ("test_cluster", "test_sweep", "test_studies", "shards/test_counting")
)


# Modules, and what tests are made of, live to the end: to look for garbage among them, again and again while they are
# made and whenever a program is traced, was a tenth of the tests' time.
gc.disable()


def pytest_sessionstart(session):
    """Throw away programs that a killed process left empty, and all of them where they fill the disk."""
    if hasattr(session.config, "workerinput") or not COMPILED.is_dir():
        return
    sizes = {file: file.stat().st_size for file in COMPILED.iterdir()}
    too_many = sum(sizes.values()) > MOST_BYTES_COMPILED
    for file, size in sizes.items():
        if too_many or not size:
            file.unlink(missing_ok=True)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: FIRST.get(item.path, len(FIRST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """By files, as `--dist loadfile` does it, with the files that one cluster of processes serves in one worker."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "tests/parallel" if file in ON_THE_CLUSTER else file

    return Together(config, log)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


#: Names a file that is told which tests and modules were skipped, one a line: `pytest @FILE` runs them elsewhere.
SKIPPED_VARIABLE = "TOKENMARGIN_SKIPPED"


def pytest_terminal_summary(terminalreporter):
    if told := os.environ.get(SKIPPED_VARIABLE):
        skipped = sorted({report.nodeid for report in terminalreporter.stats.get("skipped", [])})
        Path(told).write_text("".join(f"{name}\n" for name in skipped), encoding="utf-8")


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(20260101)


#: Memory maps of a process after which compiled programs are dropped; Linux allows 65,530 unless told otherwise, and a
#: file of tests makes a few thousand. Dropping takes seconds, and what is still needed is compiled again.
MANY_MAPS = 40_000


@pytest.fixture(scope="module", autouse=True)
def few_compiled_programs():
    """Every compiled program holds a few memory maps, and where the kernel has no more XLA dies in its compiler."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()
        gc.collect()
