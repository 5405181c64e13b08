"""The corpus inside the package."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

from tokenmargin.sources import sentence_polarity
from tokenmargin.sources.embedded import FILE_NAME, ROWS

ROOT = Path(__file__).parents[2]


def test_half_of_the_sentences_are_positive():
    loaded = sentence_polarity().load()
    assert loaded.report.classes == {"negative": 3000, "positive": 3000}
    assert loaded.report.rows_left_out == 0
    assert len(loaded.texts) == ROWS
    assert len(set(loaded.texts)) > 5900
    assert [len(chunk.texts) for chunk in sentence_polarity().chunks(4000)] == [4000, 2000]


def test_it_is_in_the_package_with_its_license():
    assert (files("tokenmargin.sources") / FILE_NAME).is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["tokenmargin.sources"]
    assert any(Path(FILE_NAME).match(pattern) for pattern in patterns)
    assert "LICENSE-sentence-polarity" in project["project"]["license-files"]
    assert "Pang" in (ROOT / "LICENSE-sentence-polarity").read_text()
