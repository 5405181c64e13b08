"""The page of a corpus in a browser: the first screen says who competes, nothing overflows, and axe finds no fault."""

from __future__ import annotations

import pytest

from tests.theory.test_word_graphs import TEXTS
from tokenmargin.report.graph_page import graph_page
from tokenmargin.text import word_contexts
from tokenmargin.theory import word_graphs

axe_module = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra test)")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    contexts = word_contexts([text.replace("saw", "<b>saw</b>") for text in TEXTS], window=4)
    found = word_graphs(contexts.rows, contexts.bigrams, contexts.n_words, lasts=2, trained=1)
    path = tmp_path_factory.mktemp("graph") / "graph.html"
    path.write_text(graph_page(found, "<i>texts</i>", {"command": "tokenmargin graph"}), encoding="utf-8")
    return path


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_it_is_read_on_any_screen(browser, page_file, width, colours):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours)
    page = context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert axe_module.Axe().run(page).response["violations"] == []
    assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    assert page.locator("header h2").all_inner_texts() == ["Compete for ever", "Ruled out"]
    assert page.locator("header .bars li b").all_inner_texts() == ["the", "a"]
    assert page.locator("header .bar").last.bounding_box()["y"] < 900
    assert "A training run, followed to its end" in page.locator("header").inner_text()
    assert page.locator("h1").inner_text() == "<i>texts</i>"
    assert asked == [page_file.as_uri()]
    context.close()
