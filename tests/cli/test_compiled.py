"""Programs that a command compiled are loaded by the next one, and never fill the disk."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import pytest

from tokenmargin.cli import _compiler, main
from tokenmargin.cli._compiler import COMPILED_VARIABLE

SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A user's cache folder, and JAX's settings as they were when the test is over."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("TOKENMARGIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(COMPILED_VARIABLE)
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)


def test_a_command_keeps_its_programs_in_the_users_cache_folder(own_cache, capsys):
    assert main(["list"]) == 0
    (folder,) = own_cache.iterdir()
    assert jax.config.jax_compilation_cache_dir == str(folder)
    assert folder.name.startswith("compiled-")
    capsys.readouterr()


def test_none_are_kept_where_it_is_turned_off(own_cache, monkeypatch, capsys):
    monkeypatch.setenv(COMPILED_VARIABLE, "off")
    assert main(["list"]) == 0
    assert jax.config.jax_compilation_cache_dir is None
    assert not own_cache.exists()
    capsys.readouterr()


def test_a_folder_of_ones_own_is_left_alone(own_cache, tmp_path, capsys):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    assert main(["list"]) == 0
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")
    assert not own_cache.exists()
    capsys.readouterr()


def test_a_folder_that_cannot_be_written_stops_no_command(own_cache, capsys):
    own_cache.write_text("a file where the folder should be")
    assert main(["list"]) == 0
    assert jax.config.jax_compilation_cache_dir is None
    capsys.readouterr()


def test_the_oldest_go_where_there_are_too_many(own_cache, monkeypatch, capsys):
    assert main(["list"]) == 0
    (folder,) = own_cache.iterdir()
    for age, name in enumerate(("newest", "middle", "oldest")):
        (folder / name).write_bytes(b"0123456789")
        os.utime(folder / name, (1e9 - age, 1e9 - age))
    monkeypatch.setattr(_compiler, "MOST_BYTES_KEPT", 25)
    jax.config.update("jax_compilation_cache_dir", None)
    assert main(["list"]) == 0
    assert sorted(file.name for file in folder.iterdir()) == ["middle", "newest"]
    capsys.readouterr()


def test_a_command_that_computes_without_jax_does_not_import_it(tmp_path):
    code = "import sys; from tokenmargin.cli import main; main(['verify', 'absent']); print('jax' in sys.modules)"
    environment = os.environ | {"TOKENMARGIN_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_threads_do_not_depend_on_the_cores_that_are_free(monkeypatch, capsys):
    monkeypatch.delenv(_compiler.THREADS_VARIABLE, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert main(["list"]) == 0
    on_one_core = os.environ[_compiler.THREADS_VARIABLE]
    monkeypatch.delenv(_compiler.THREADS_VARIABLE)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert main(["list"]) == 0
    assert os.environ[_compiler.THREADS_VARIABLE] == on_one_core
    monkeypatch.setenv(_compiler.THREADS_VARIABLE, "3")
    assert main(["list"]) == 0
    assert os.environ[_compiler.THREADS_VARIABLE] == "3"
    capsys.readouterr()
