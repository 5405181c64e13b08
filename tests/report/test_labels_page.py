"""The page of several labels a text: it names every label, leads to its page, and everybody can read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.fake_fit import fake_report
from tokenmargin.report import labels_page
from tokenmargin.report.labels_page import label_lines, reading_of_all

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


def test_the_terminal_says_how_many_labels_it_leaves_to_the_page():
    reports = {name: report(name) for name in ("a", "b", "c")}
    _, rows = label_lines(reports, 2)
    assert [row[0] for row in rows] == ["a", "b", "1 more on the page"]
    assert len({len(row) for row in rows}) == 1
    assert [row[0] for row in label_lines(reports, 3)[1]] == ["a", "b", "c"]


def test_what_is_said_of_one_label_is_not_said_of_all():
    reports = {name: replace(report(name), reading=("read", f"only {name}", "left out")) for name in ("a", "b")}
    assert reading_of_all(reports) == ["read", "left out"]


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
