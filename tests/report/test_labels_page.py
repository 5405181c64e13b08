"""The page of several labels a text: it names every label, leads to its page, and everybody can read it."""

from __future__ import annotations

import pytest

from tests.report.fake_fit import fake_report
from tokenmargin.report import labels_page

EVIL = "<script>document.title = 'run'</script>"


def report(name: str):
    return fake_report((name, f"not {name}"), n_tokens=40, n_documents=3, n_words=9)


@pytest.fixture(scope="module")
def page() -> str:
    return labels_page(EVIL, {name: report(name) for name in ("billing", "a_label_with_a_long_name_" * 3, EVIL)})


def test_every_label_has_its_numbers_its_words_and_a_link(page):
    assert EVIL not in page
    for number in (1, 2, 3):
        assert f'href="labels/{number}/report.html"' in page
        assert f'href="#label-{number}"' in page
    own = report("billing")
    scores = own.metrics["per_class"]["billing"]
    assert f"{100 * scores['recall']:.1f}%" in page
    first = own.tokens.token[own.tokens.towards("billing", 1)[0]]
    assert f'<b class="for" dir="auto">{first}' in page


@pytest.mark.parametrize(("width", "colours"), [(390, "light"), (1400, "dark")])
def test_it_fits_the_screen_and_axe_finds_no_violation(browser, page, tmp_path, width, colours):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra test)")
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours, bypass_csp=True)
    shown = context.new_page()
    shown.goto((tmp_path / "report.html").as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(shown).response
    assert found["violations"] == []
    assert len(found["passes"]) > 10, "axe looked at the page"
    context.close()
