"""The pages of comparisons: what they say, and that they render offline, for everybody, on every screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tokenmargin.comparison.comparison import ClassifierPart, CompareSettings, Comparison, CorpusRow, ShownText, TextRow
from tokenmargin.comparison.methods import METHODS, RAN
from tokenmargin.report import compare_page

EVIL = "<script>document.title = 'run'</script>"
KEYS = tuple(METHODS)


def text_row(place: int, key: str) -> TextRow:
    if key == "lime":
        return TextRow(key, "did not finish: 3 of 100 texts in 60 s", 60.0, 3)
    if key == "shap_linear":
        return TextRow(key, "does not apply: the classifier is not linear", 0.0, 0)
    c = 0.3 - 0.01 * place
    over = (0.02, 0.01, 0.03) if key == "occlusion" else (-0.1, -0.2, -0.05) if place else (0.0, 0.0, 0.0)
    lost = (0.1, -0.1, 0.2) if key == "occlusion" else (0.1, 0.05, 0.2) if place else (0.0, 0.0, 0.0)
    curve = tuple(0.9 - 0.05 * j for j in range(9))
    return TextRow(key, RAN, 0.001 * (place + 1), 100, (c, c - 0.1, c + 0.1), (-c, -c, 0.1), over, lost, curve, curve)


def comparison() -> Comparison:
    rows = tuple(text_row(place, key) for place, key in enumerate(KEYS))
    ran = tuple(row.method for row in rows if row.status == RAN)
    matrix = tuple(tuple(1.0 if i == j else 0.5 - 0.1 * (i - j) for j in range(len(ran))) for i in range(len(ran)))
    corpus = tuple(
        CorpusRow(key, 0.001, 2000, {"bad": ("dull", EVIL), "good": ("best",)}, (0.7, 0.6, 0.8), (0.5, 0.4, 0.6))
        for key in KEYS[:4]
    )
    part = ClassifierPart("attention", "our classifier", 0.8, (0.75, 0.85), 1.0, rows, ran, matrix)
    return Comparison(
        EVIL, ("bad", "good"), 4800, 100, 2000, CompareSettings(), corpus, ((1.0, 0.2, 0.3, float("nan")),) * 4,
        ((1.0, 0.2, 0.3, 0.4),) * 4, (part, replace(part, key="tfidf", name="TF-IDF + logistic regression")),
        (0.01, -0.01, 0.03),
        (ShownText(f"A dull film. {EVIL}", "bad", "our classifier", "good", {KEYS[0]: ("dull",)}),),
        "tokenmargin compare", ("6,000 rows read",), {"seed": 0},
    )  # fmt: skip


def test_losses_come_first_and_what_did_not_run_says_so():
    page = compare_page(comparison())
    assert page.index("Where ours loses") < page.index("Where ours wins")
    assert "did not finish: 3 of 100 texts in 60 s" in page
    assert f"occlusion has {0.3 - 0.01 * KEYS.index('occlusion'):.3f}" in page
    assert page.count(">ours loses<") == 2  # occlusion, more comprehensive, on either classifier
    assert page.count(">tie<") == 2  # the same, in sufficiency
    assert page.count(">ours wins<") == 2 * 2 * (len(KEYS) - 4)  # all others that ran, ours apart
    assert len(page.encode()) < 300_000


def test_nothing_of_a_user_is_markup_and_nothing_is_loaded():
    page = compare_page(comparison())
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "default-src 'none'" in page
    assert "&lt;script&gt;" in page


def test_the_page_is_accessible_in_light_and_dark_on_a_desk_and_a_phone(browser, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra test)")
    views = [
        ("compare", compare_page(comparison()), 1240, "light"),
        ("compare", compare_page(comparison()), 390, "dark"),
    ]
    for name, content, width, colours in views:
        path = tmp_path / f"{name}.html"
        path.write_text(content, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=colours)
        page, asked = context.new_page(), []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(path.as_uri())
        assert axe.Axe().run(page).response["violations"] == [], f"{name}, {width}"
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
        context.close()
