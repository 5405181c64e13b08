"""The wheel in an empty environment: the core without matplotlib, the README's example, and a figure with its extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """As a user's shell would: without what the tests tell XLA's compiler, and without a checkout on the path."""
    own = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PYTHONPATH")}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd="/", env=own)
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def pip(command: str, home: Path, *arguments: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Our own pip at work on another environment, which needs none."""
    own = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "--disable-pip-version-check")
    return run(*own, command, *arguments, code=code)


def installed(home: Path, *what: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Nothing is compiled to bytecode that is never imported: that of SciPy and JAX takes longer than all else here."""
    return pip("install", home, "--quiet", "--no-compile", "-c", ROOT / "constraints.txt", *what, code=code)


@pytest.fixture(scope="module")
def empty(wheel, tmp_path_factory) -> Path:
    """A new environment with the wheel and what it requires, nothing else."""
    home = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", home)
    if installed(home, "packaging", code=None).returncode:
        pytest.skip("no package index can be reached, so the wheel's requirements cannot be installed")
    installed(home, wheel)
    return home


def test_the_wheel_carries_what_pages_are_made_of(wheel):
    folder = ROOT / "src" / "tokenmargin" / "report" / "templates"
    templates = {f"tokenmargin/report/templates/{file.name}" for file in folder.iterdir()}
    assert templates
    with zipfile.ZipFile(wheel) as archive:
        assert templates <= set(archive.namelist())
        assert "tokenmargin/sources/sentence_polarity.tsv.xz" in archive.namelist()
        assert any(name.endswith("LICENSE-sentence-polarity") for name in archive.namelist())


def test_the_wheel_and_the_checkout_have_one_fingerprint(wheel, tmp_path, monkeypatch):
    """What a checkpoint calls its code: unpacked elsewhere, the same files give the same."""
    from tokenmargin import _fingerprint

    here = _fingerprint.of_code("models", "training", "_precision")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    monkeypatch.setattr(_fingerprint, "__file__", str(tmp_path / "tokenmargin" / "_fingerprint.py"))
    assert _fingerprint.of_code.__wrapped__("models", "training", "_precision") == here
    changed = tmp_path / "tokenmargin" / "models" / "one_layer.py"
    changed.write_text(changed.read_text() + "\n")
    assert _fingerprint.of_code.__wrapped__("models", "training", "_precision") != here


def test_the_core_runs_the_readme_without_matplotlib(empty, tmp_path):
    listed = pip("list", empty).stdout.lower()
    for absent in ("matplotlib", "dask", "scikit-learn", "torch", "pandas"):
        assert absent not in listed
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert "margin" in run(empty / "bin" / "python", "-c", blocks[0]).stdout
    problem = next(block for block in blocks if "tm.local_margins" in block)
    assert "diverges" in run(empty / "bin" / "python", "-c", f"import tokenmargin as tm\n{problem}").stdout
    refused = run(empty / "bin" / "tokenmargin", "reproduce", "maxmargin-fig4", "--out", tmp_path, code=2)
    assert "pip install 'tokenmargin[figures]'" in refused.stderr


def test_one_figure_with_its_extra(empty, wheel, tmp_path):
    installed(empty, f"{wheel}[figures]")
    shown = run(empty / "bin" / "tokenmargin", "reproduce", "maxmargin-fig4", "--out", tmp_path).stdout
    assert "holds" in shown
    assert (tmp_path / "maxmargin-fig4" / "smoke" / "figure.png").is_file()
    page = (tmp_path / "index.html").read_bytes()
    (tmp_path / "index.html").unlink()
    run(empty / "bin" / "tokenmargin", "report", tmp_path)
    assert (tmp_path / "index.html").read_bytes() == page
