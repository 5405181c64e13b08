"""The wheel in an empty environment: the core without matplotlib, the README's example, and a figure with its extra."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd="/")
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def empty(wheel, tmp_path_factory) -> Path:
    """The bin folder of a new environment with the wheel and what it requires, nothing else."""
    home = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", home)
    pip = [home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    reached = run(*pip, "packaging", code=None)
    if reached.returncode:
        pytest.skip("no package index can be reached, so the wheel's requirements cannot be installed")
    run(*pip, wheel)
    return home / "bin"


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
    listed = run(empty / "pip", "list", "--disable-pip-version-check").stdout.lower()
    for absent in ("matplotlib", "dask", "scikit-learn", "torch", "pandas"):
        assert absent not in listed
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert "margin" in run(empty / "python", "-c", blocks[0]).stdout
    problem = next(block for block in blocks if "tm.local_margins" in block)
    assert "diverges" in run(empty / "python", "-c", f"import tokenmargin as tm\n{problem}").stdout
    refused = run(empty / "tokenmargin", "reproduce", "maxmargin-fig4", "--out", tmp_path, code=2)
    assert "pip install 'tokenmargin[figures]'" in refused.stderr


def test_one_figure_with_its_extra(empty, wheel, tmp_path):
    pip = [empty / "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    run(*pip, f"{wheel}[figures]")
    shown = run(empty / "tokenmargin", "reproduce", "maxmargin-fig4", "--out", tmp_path).stdout
    assert "holds" in shown
    assert (tmp_path / "maxmargin-fig4" / "smoke" / "figure.png").is_file()
    page = (tmp_path / "index.html").read_bytes()
    (tmp_path / "index.html").unlink()
    run(empty / "tokenmargin", "report", tmp_path)
    assert (tmp_path / "index.html").read_bytes() == page
