"""The notebooks of `examples/` run from top to bottom, are kept without outputs, and stand in the gallery.

Cells run in this process, without a kernel. A cell near the top sets the sizes; the metadata `smoke` of the notebook
hold the smaller ones of `make test`. `make test-long` runs them as they are.
"""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
GALLERY = Path(__file__).parent.parent / "docs" / "notebooks.md"

#: Seconds that a notebook may take on two cores.
LONGEST = 300

pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra figures)")


def read(path: Path) -> tuple[list[tuple[str, str]], dict]:
    """(kind and text of each cell, smoke sizes)."""
    book = json.loads(path.read_text(encoding="utf-8"))
    for cell in book["cells"]:
        assert not cell.get("outputs"), f"{path.name}: strip the outputs"
        assert cell.get("execution_count") is None
    return [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]], book["metadata"].get("smoke", {})


def run(path: Path, *, smoke: bool) -> tuple[dict, list]:
    """The names and the values shown at the ends of cells."""
    cells, sizes = read(path)
    names: dict = {"__name__": "notebook"}
    shown = []
    waiting = dict(sizes) if smoke else {}
    for kind, text in cells:
        if kind != "code":
            continue
        tree = ast.parse(text.replace("%matplotlib inline\n", ""), path.name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path.name, "exec"), names)
        if waiting and waiting.keys() <= names.keys():
            names |= waiting
            waiting = {}
        if last is not None:
            value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
            if value is not None:
                shown.append(value)
                for way in ("_repr_html_", "__repr__"):  # what a notebook would ask of it
                    if hasattr(value, way):
                        assert isinstance(getattr(value, way)(), str | None)  # None: it has no HTML after all
    assert not waiting, f"{path.name}: no cell sets {', '.join(waiting)}"
    return names, shown


def held(names: dict, name: str) -> None:
    """What each notebook promises, of the names that it leaves."""
    if name == "torch_loop_past_saturation":
        near, far = (names["diagram"].differs[names["name"]][:, j].sum() for j in (0, -1))
        assert 5 * near < far, "from 0 the loop errs seldom, from far out often"
        assert not names["diagram"].differs["same steps"][:, 0].any(), "from 0 its steps are enough"
        assert names["agreements"]
        assert names["worst"] < 1e-10
    elif name == "start_to_certificate":
        assert names["agreement"].agrees
        assert names["proof"].verified
        assert len(names["basins"].solutions) >= 2
    elif name == "self_attention_in_any_norm":
        ratios = names["ratios"]
        if names["steps"] >= 20_000:
            assert (ratios.argmax(axis=0) == np.arange(5)).all(), "each method is best in its own norm"
        assert names["limit"].norm.name == "nuclear"
    elif name == "next_tokens":
        assert names["part"].proof.is_proven
        assert names["run"].limit.mixed
    elif name == "phase_diagrams":
        assert (names["again"].counts == names["diagram"].counts).all()
        assert names["runs"].shape == (names["problems"],)
    elif name == "embeddings_on_your_corpus":
        assert names["step"].largest_error <= names["step"].bound
    elif name == "probing_a_transformer":
        assert names["verdicts"].against
    elif name == "a_paper_of_your_own":
        assert names["held"] == names["instances"]
        assert names["inside"].holds
        assert not names["mutated"].holds
    else:
        assert name == "labelled_texts", "say what this notebook promises"
        assert names["found"].explain("qwertz uiopü").is_known is False


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path.stem != "labelled_texts"], ids=lambda path: path.stem
)
def test_a_notebook_runs_and_shows_what_it_promises(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    names, shown = run(path, smoke=True)
    held(names, path.stem)
    assert shown or path.stem == "a_paper_of_your_own"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_in_full_takes_less_than_five_minutes(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if path.stem == "labelled_texts":
        pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra fit)")
    begin = perf_counter()
    names, _ = run(path, smoke=False)
    seconds = perf_counter() - begin
    held(names, path.stem)
    print(f"{path.stem}: {seconds:.0f} s")
    if os.getloadavg()[0] <= 2.5:  # what else runs on the machine is none of the notebook's
        assert seconds < LONGEST


def test_every_notebook_stands_in_the_gallery_with_its_time_and_is_kept_without_outputs():
    page = GALLERY.read_text(encoding="utf-8")
    assert len(NOTEBOOKS) >= 9
    for path in NOTEBOOKS:
        cells, _ = read(path)
        assert f"examples/{path.name}" in page
        assert cells[0][0] == "markdown"
        assert cells[0][1].startswith("# ")
        assert "on two cores" in cells[0][1], f"{path.name}: say how long it takes"
    assert page.index("torch_loop_past_saturation") < min(
        page.index(path.stem) for path in NOTEBOOKS if path.stem != "torch_loop_past_saturation"
    )
