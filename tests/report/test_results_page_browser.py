"""The page of results in a browser: it asks for nothing, breaks no rule of accessibility, and fits a phone."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.report.test_results_page import NUMBERS, SCRIPT, fake
from tokenmargin.experiments.experiment import Number
from tokenmargin.report import write_page

axe_module = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra test)")

DESKTOP, PHONE = {"width": 1240, "height": 900}, {"width": 390, "height": 844}
WIDE = "w" * 300


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A page with everything on it: two sizes, panels, words that are too long, a script, missing data."""
    folder = tmp_path_factory.mktemp("results")
    words = "Does the LMM agree with the GMM?"
    saved = fake(
        folder, title=f"{SCRIPT} {WIDE}", sentences=(WIDE,), numbers=(*NUMBERS, Number.exact(WIDE, 1.0, 1.0, 0.1))
    )
    (saved.folder / "panels.json").write_text("[[0, 0, 0.5, 1], [0.5, 0, 0.5, 1]]")
    for preset in ("smoke", "paper"):  # one figure in two sizes has one title twice
        fake(folder, name="fake-fig2", preset=preset, in_plain_words=words)
    return write_page(folder, missing=[(WIDE, f"data absent {WIDE}"), ("other-fig2", "data absent")])


@contextmanager
def opened(browser, page_file, viewport=DESKTOP, colours="light"):
    """The page; afterwards it must have asked for nothing and have logged nothing."""
    context = browser.new_context(viewport=viewport, color_scheme=colours, reduced_motion="reduce")
    page = context.new_page()
    asked, logged = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: logged.append(message.text))
    page.on("pageerror", lambda error: logged.append(str(error)))
    page.goto(page_file.as_uri())
    yield page
    assert [url for url in asked if not url.startswith("data:")] == [page_file.as_uri()]
    assert logged == []
    context.close()


def open_details(page):
    for summary in page.locator("summary").all():
        summary.click()


@pytest.mark.parametrize(("viewport", "colours"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")])
def test_no_rule_of_accessibility_is_broken(browser, page_file, viewport, colours):
    with opened(browser, page_file, viewport, colours) as page:
        assert page.title() == "tokenmargin: results", "no script of a title has run"
        open_details(page)
        found = axe_module.Axe().run(page).response["violations"]
        assert [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found] == []
        needed, available = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert needed <= available, "it scrolls sideways"


def test_on_a_phone_the_verdict_comes_first_and_panels_are_stacked(browser, page_file):
    with opened(browser, page_file, PHONE) as page:
        came_out, asked = (
            page.locator(f"section[aria-labelledby={name}]").bounding_box() for name in ("came-out", "asked")
        )
        assert came_out["y"] < asked["y"]
        row = page.locator(".numbers tbody tr").first
        assert row.locator(".verdict").bounding_box()["y"] < row.locator("th").bounding_box()["y"]
        boxes = [panel.bounding_box() for panel in page.locator(".panel").all()]
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
        assert not page.locator(".whole.wide").is_visible()
    with opened(browser, page_file) as page:
        row = page.locator(".numbers tbody tr").first
        assert row.locator("th").bounding_box()["x"] < row.locator(".verdict").bounding_box()["x"]
        assert not page.locator(".panel").first.is_visible()
        assert page.locator(".whole.wide").is_visible()


def test_a_word_leads_to_its_explanation(browser, page_file):
    with opened(browser, page_file) as page:
        page.locator("a.word", has_text="LMM").first.click()
        target = page.locator(":target")
        assert target.locator("dt").inner_text() == "LMM"
        assert target.evaluate("e => e.getBoundingClientRect().top < innerHeight")


def test_in_the_dark_a_figure_lies_on_a_light_card(browser, page_file):
    with opened(browser, page_file, colours="dark") as page:
        shade = "e => getComputedStyle(e).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
        assert page.locator(".picture").first.evaluate(shade) > 3 * 220
        assert page.locator(".card").first.evaluate(shade) < 3 * 60
