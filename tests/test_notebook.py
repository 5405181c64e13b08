"""The notebook of `examples/` runs from top to bottom, and is kept without its outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples" / "labelled_texts.ipynb"

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra test)")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (extra test)")
pytest.importorskip("ipykernel", reason="ipykernel is not installed (extra test)")
pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra figures)")
pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra fit)")


# What jupyter_client says about ports and event loops is none of ours.
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_and_says_what_it_promises(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells), "strip the outputs"
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    shown = "\n".join(str(output) for cell in cells for output in cell.outputs)
    assert "<table>" in shown, "a fit shows itself as HTML"
    assert "image/png" in shown
    assert "positive" in shown
    assert "False" in str(next(cell for cell in cells if "is_known" in cell.source).outputs)
