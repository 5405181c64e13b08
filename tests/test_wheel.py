"""The wheel in an empty environment: the core without matplotlib, the README's example, and a figure with its extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tokenmargin.theory import papers

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """As a user's shell would: without what the tests tell JAX and its compiler, and without a checkout on the path."""
    ours = ("XLA_FLAGS", "PYTHONPATH", "JAX_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
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


def installed(home: Path, *what: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """By our own pip, as the other environment has none.

    Nothing is compiled to bytecode that is never imported: that of SciPy and JAX takes longer than all else here.
    """
    own = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "--disable-pip-version-check")
    return run(*own, "install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt", *what, code=code)


def required(lines: Iterable[str], extra: str = "") -> set[str]:
    """The distributions that requirements ask for, and those that these ask for."""
    found: set[str] = set()
    asked = [Requirement(line) for line in lines]
    while asked:
        one = asked.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(one.name)
        assert name == "tokenmargin" or one.specifier.contains(metadata.version(name), prereleases=True), one
        if name not in found | {"tokenmargin"}:
            found.add(name)
            asked += map(Requirement, metadata.requires(name) or ())
    return found


def linked(home: Path, names: Iterable[str]) -> None:
    """Distributions of our own environment in another, as links: quicker than pip, and without a package index."""
    site = next(home.glob("lib/*/site-packages"))
    for name in names:
        files = metadata.files(name) or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            source = Path(str(metadata.distribution(name).locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)


@pytest.fixture(scope="module")
def requirements(wheel) -> list[str]:
    """What the wheel says that it needs."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name)).get_all("Requires-Dist")


@pytest.fixture(scope="module")
def empty(wheel, requirements, tmp_path_factory) -> Path:
    """A new environment with the wheel and what it requires, nothing else."""
    home = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", home)
    installed(home, "--no-deps", wheel)
    linked(home, required(requirements))
    return home


def test_the_wheel_carries_what_pages_are_made_of(wheel):
    folder = ROOT / "src" / "tokenmargin" / "report" / "templates"
    templates = {f"tokenmargin/report/templates/{file.name}" for file in folder.iterdir()}
    assert templates
    with zipfile.ZipFile(wheel) as archive:
        assert templates <= set(archive.namelist())
        held = archive.namelist()
        lists = ("text/stop_words.tsv.xz", "text/bert_base_uncased.txt.xz", "sources/sentence_polarity.tsv.xz")
        assert {f"tokenmargin/{name}" for name in lists} <= set(held)
        errata = {f"tokenmargin/papers/{key}/{paper.errata_file}" for key, paper in papers().items()}
        assert errata <= set(held)
        announced = archive.read(next(name for name in held if name.endswith("entry_points.txt"))).decode()
        assert all(f"{key} = tokenmargin.papers.{key}:PAPER" in announced for key in papers())
        for what in ("sentence-polarity", "stopwords", "stopwords-iso", "bert-vocabulary"):
            assert any(name.endswith(f"LICENSE-{what}") for name in held)


def test_the_table_of_sizes_is_true(wheel, empty, tmp_path):
    """Within a tenth: sizes move a little with every sentence."""
    run(empty / "bin" / "tokenmargin", "playground", "--out", tmp_path / "playground.html")
    loaded = "import sys, tokenmargin; print(sum(name.split('.')[0] == 'tokenmargin' for name in sys.modules))"
    measured = {
        "the wheel": wheel.stat().st_size / 1e6,
        "modules": float(run(empty / "bin" / "python", "-c", loaded).stdout),
        "the page of `tokenmargin fit`": (ROOT / "docs" / "gallery" / "sentences.html").stat().st_size / 1e6,
        "the page of `tokenmargin playground`": (tmp_path / "playground.html").stat().st_size / 1e6,
    }
    text = (ROOT / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| (.+?) \| ([0-9.]+)(?: MB)? \|$", text.split("## How large")[1].split("##")[0], re.MULTILINE)
    assert len(rows) == len(measured)
    for (what, told), (name, size) in zip(rows, measured.items(), strict=True):
        assert what.startswith(name)
        assert float(told) == pytest.approx(size, rel=0.1)


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
    listed = {path.name.lower() for path in empty.glob("lib/*/site-packages/*")}
    assert {"jax", "tokenmargin"} <= listed
    for absent in ("matplotlib", "dask", "sklearn", "torch", "pandas"):
        assert absent not in listed
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    shown = run(empty / "bin" / "python", "-c", "print('-- the next --')\n".join(blocks)).stdout
    problem, corpus = shown.split("-- the next --")
    assert "diverges" in problem
    assert "margin" in corpus
    refused = run(empty / "bin" / "tokenmargin", "reproduce", "maxmargin-fig4", "--out", tmp_path, code=2)
    assert "pip install 'tokenmargin[figures]'" in refused.stderr


def test_one_figure_with_its_extra(empty, requirements, tmp_path):
    linked(empty, required(requirements, "figures"))
    shown = run(empty / "bin" / "tokenmargin", "reproduce", "maxmargin-fig4", "--out", tmp_path).stdout
    assert "holds" in shown
    assert (tmp_path / "maxmargin-fig4" / "smoke" / "figure.png").is_file()
    page = (tmp_path / "index.html").read_bytes()
    (tmp_path / "index.html").unlink()
    run(empty / "bin" / "tokenmargin", "report", tmp_path)
    assert (tmp_path / "index.html").read_bytes() == page


@pytest.mark.long
def test_pip_installs_the_wheel_and_its_extra_from_a_package_index(wheel, requirements, tmp_path):
    """The same distributions as are linked above, and no others."""
    home = tmp_path / "home"
    run(sys.executable, "-m", "venv", "--without-pip", home)
    done = installed(home, f"{wheel}[figures]", code=None)
    if done.returncode and installed(home, "packaging", code=None).returncode:
        pytest.skip("no package index can be reached, so the wheel's requirements cannot be installed")
    assert done.returncode == 0, done.stdout + done.stderr
    there = metadata.distributions(path=[str(next(home.glob("lib/*/site-packages")))])
    assert {canonicalize_name(one.name) for one in there} == required(requirements, "figures") | {"tokenmargin"}
    shown = run(home / "bin" / "tokenmargin", "reproduce", "maxmargin-fig4", "--out", tmp_path / "out").stdout
    assert "holds" in shown


COUNTED = "from tokenmargin.sources import sentence_polarity; from tokenmargin.text import tokenize; "
RUN = (
    "import jax, tokenmargin as tm; from tokenmargin.text import Recipe; "
    + COUNTED
    + "c = tokenize(sentence_polarity(), "
    "recipe=Recipe(minimum_count=5), drop_empty=True).dataset; "
    "tm.train(c, tm.TwoLayer(8), tm.AdamW(lr=0.01), epochs=1, key=jax.random.key(0)).save('{out}/run.npz')"
)
CLASSIFIER = (
    "import numpy as np, scipy.sparse as sp, tokenmargin as tm; x = sp.csr_array(np.eye(4, dtype=int).repeat(9, 0)); "
    "print('right', tm.AttentionClassifier().fit(x, [0] * 18 + [1] * 18).score(x, [0] * 18 + [1] * 18))"
)
CLUSTER = """
if __name__ == '__main__':
    from distributed import LocalCluster
    from tokenmargin.parallel import cluster_map
    with LocalCluster(1, processes=False) as own, cluster_map(own.scheduler_address) as over:
        print('six', list(over(len, ['sixsix'])))
"""
#: What each extra is for, as commands of its environment with what they print; a word in front says how they are run.
EXAMPLES = {
    "figures": ["tokenmargin reproduce maxmargin-fig4 --out {out}|holds"],
    "text": [f"python {COUNTED}print(tokenize(sentence_polarity()).dataset)|TokenDataset"],
    "sklearn": [f"python {CLASSIFIER}|right 1.0"],
    "fit": ["tokenmargin fit --out {out}/fit|right", "tokenmargin explain {out}/fit enjoyable|positive"],
    "fit,onnx": ["tokenmargin fit --out {out}/fit|right", "tokenmargin export {out}/fit --onnx --out {out}/onnx|onnx"],
    "compare": ["tokenmargin compare --explained 2 --resamples 1 --methods shap_linear,lime --out {out}/c|LIME"],
    "cluster": [f"python {CLUSTER}|six [6]"],
    "probe": [f"python {RUN}|", "tokenmargin probe {out}/run.npz --limit 5 --learn 400 --out {out}/p|Attention"],
    "docs": ["mkdocs {root}|"],
}


def test_every_extra_of_users_has_an_example(requirements):
    named = {extra for line in requirements for extra in re.findall(r"extra == [\"'](\w+)[\"']", line)}
    others = {"test", "lint", "pretrained", "torture", "peers", "bench"}  # of development
    unseen = {"vision", "download"}  # need a file, and a server, that nobody may have
    assert named == others | unseen | {one for extras in EXAMPLES for one in extras.split(",")}


@pytest.mark.long
@pytest.mark.parametrize("extras", EXAMPLES)
def test_each_extra_of_a_package_index_runs_its_example(wheel, tmp_path, extras):
    home = tmp_path / "home"
    run(sys.executable, "-m", "venv", "--without-pip", home)
    done = installed(home, f"{wheel}[{extras}]", code=None)
    if done.returncode and installed(home, "packaging", code=None).returncode:
        pytest.skip("no package index can be reached, so the wheel's requirements cannot be installed")
    assert done.returncode == 0, done.stdout + done.stderr
    for example in EXAMPLES[extras]:
        how, rest = example.rsplit("|", 1)[0].replace("{out}", str(tmp_path)).split(" ", 1)
        words = {"tokenmargin": rest.split(), "python": ["-c", rest], "mkdocs": ["build", "--strict"]}[how]
        program = home / "bin" / how
        if how == "mkdocs":
            words += ["--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(tmp_path / "site")]
        assert example.rsplit("|", 1)[1] in run(program, *words).stdout
