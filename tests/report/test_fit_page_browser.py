"""The page of a fit in a browser: it renders, asks for nothing, and every control works by pointer and by keyboard."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from tests.report.fake_fit import fake_report
from tokenmargin.report import fit_page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra test)")
axe_module = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra test)")

EVIL = "<script>document.title = 'run'</script>"
DESKTOP, PHONE = {"width": 1240, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Files of reports, by name: each is written once."""
    folder = tmp_path_factory.mktemp("fits")
    reports = {
        "imdb": fake_report(spread=True),
        "seven": fake_report(tuple("abcdefg"), n_tokens=400, n_documents=40, n_words=60),
        "many": fake_report(
            tuple(f"a_class_with_a_name_as_long_as_those_that_banks_give_{k}" for k in range(77)),
            n_tokens=120, n_documents=20, n_words=30,
        ),
        "small": fake_report(n_tokens=60, n_documents=30, n_words=60),
        "evil": fake_report(
            (f"{EVIL}a", f'{EVIL}"z'), n_tokens=40, n_documents=4, n_words=30, title=EVIL, sentence=EVIL,
            names=(EVIL, '"quoted" & \'apart\'', "مرحبا", "🦔" * 30, "w" * 300),
        ),
        "one": fake_report(n_tokens=1, n_documents=1, n_words=2),
        "bare": replace(fake_report(n_tokens=30, n_documents=1), documents=(), examples={}),
    }  # fmt: skip
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(fit_page(report), encoding="utf-8")
    return folder, reports


def watched(page):
    """What a page asks for and what it logs, as it happens."""
    asked, logged = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: logged.append(message.text))
    page.on("pageerror", lambda error: logged.append(str(error)))
    return asked, logged


@contextmanager
def opened(browser, pages, name, *, viewport=DESKTOP, colours="light", **options):
    """A page that is ready; afterwards it must have asked for nothing and have logged nothing."""
    context = browser.new_context(viewport=viewport, color_scheme=colours, reduced_motion="reduce", **options)
    page = context.new_page()
    asked, logged = watched(page)
    address = (pages[0] / f"{name}.html").as_uri()
    page.goto(address)
    if options.get("java_script_enabled", True):
        page.wait_for_selector("#tokens tbody tr")
    yield page
    assert [url for url in asked if not url.startswith("data:")] == [address]
    assert logged == []
    context.close()


def first_tokens(page, n=3):
    return page.locator("#tokens tbody th button").all_inner_texts()[:n]


def in_order(report):
    return [str(report.tokens.token[i]) for i in np.argsort(-report.tokens.decides, kind="stable")]


def card(page):
    return page.locator(".token-card")


def ink(page, panel=0, layer=0):
    """How many pixels of a canvas are painted."""
    return page.evaluate(
        """([panel, layer]) => {
          const canvas = document.querySelectorAll(".drawing")[panel].querySelectorAll("canvas")[layer];
          const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          let painted = 0;
          for (let i = 3; i < pixels.length; i += 4) painted += pixels[i] > 0;
          return painted;
        }""",
        [panel, layer],
    )


def point_at_a_token(page, fractions=((0.5, 0.5), (0.4, 0.55), (0.6, 0.45))):
    """Move over the middle of the first panel, where most tokens are; the card must follow."""
    box = page.locator(".drawing").first.bounding_box()
    before = card(page).locator("h3").inner_text()
    for across, down in fractions:
        page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
        if card(page).locator("h3").inner_text() != before:
            return
    raise AssertionError("no token was found under the pointer")


def test_it_renders_and_the_token_that_decides_most_is_first(browser, pages):
    names = in_order(pages[1]["imdb"])
    with opened(browser, pages, "imdb") as page:
        assert first_tokens(page) == names[:3]
        assert card(page).locator("h3").inner_text() == names[0]
        assert page.locator("#unopened").count() == 0
        assert "7,352" in page.locator("#page-now").inner_text()
        assert page.locator("#texts-list article").count() == 20
        for panel in (0, 1):
            assert ink(page, panel) > 5000


def test_a_pointer_shows_a_token_and_the_live_region_says_it(browser, pages):
    report = pages[1]["imdb"]
    with opened(browser, pages, "imdb") as page:
        page.locator("#map").scroll_into_view_if_needed()
        point_at_a_token(page)
        name = card(page).locator("h3").inner_text()
        row = list(report.tokens.token).index(name)
        shown = card(page).inner_text()
        for words in ("value", "beyond base rate", "α_s", "score", "spread", "attention"):  # noqa: RUF001
            assert words in shown
        assert f"{report.tokens.documents[row]:,} texts" in shown
        direction = "→ positive" if report.tokens.value[row, 0] > 0 else "→ negative"
        assert f"pulls {direction}" in shown
        assert ink(page, 1, layer=1) > 0, "the other panel shows it too"
        said = re.compile(re.escape(f"{name} pulls {direction}"))
        sync_api.expect(page.locator("#live")).to_have_text(said)


def test_pointing_at_the_place_of_a_token_finds_it(browser, pages):
    """The place by the axes, computed here again from the table; margins as in `fit_map.js`."""
    report = pages[1]["small"]
    table = report.tokens
    with opened(browser, pages, "small") as page:
        page.locator("#map").scroll_into_view_if_needed()
        box = page.locator(".drawing").first.bounding_box()
        page.locator("#map").focus()
        for name in in_order(report)[1:6]:
            page.keyboard.press("ArrowRight")
            assert card(page).locator("h3").inner_text() == name
        row = list(table.token).index(name)
        beyond = np.round(100 * table.excess[:, 0], 1)
        west, east = min(0.0, beyond.min()), max(0.0, beyond.max())
        x = 40 + (box["width"] - 54) * (beyond[row] - west + 0.05 * (east - west)) / (1.1 * (east - west))
        low, high = min(0.0, np.round(table.value, 2).min()), max(0.0, np.round(table.value, 2).max())
        air = 0.06 * (high - low)
        share = (round(float(table.value[row, 0]), 2) - low + air) / (high - low + 2 * air)
        y = box["height"] - 44 - (box["height"] - 70) * share
        page.keyboard.press("Home")
        page.mouse.move(box["x"] + x, box["y"] + y)
        assert card(page).locator("h3").inner_text() == name


def test_arrow_keys_step_by_what_decides_enter_opens_and_escape_closes(browser, pages):
    names = in_order(pages[1]["imdb"])
    with opened(browser, pages, "imdb") as page:
        page.locator("#map").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        assert card(page).locator("h3").inner_text() == names[2]
        page.keyboard.press("ArrowLeft")
        assert card(page).locator("h3").inner_text() == names[1]
        page.keyboard.press("End")
        assert card(page).locator("h3").inner_text() == names[-1]
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.className") == "token-card"
        page.keyboard.press("Escape")
        assert card(page).count() == 0
        assert page.evaluate("document.activeElement.id") == "map"


def test_search_finds_in_map_and_table(browser, pages):
    report = pages[1]["imdb"]
    table = report.tokens
    with opened(browser, pages, "imdb") as page:
        page.locator("#query").fill("GREAT")
        found = [i for i, name in enumerate(table.token) if "great" in f"{name}\n{table.words[i]}"]
        assert page.locator("#found").inner_text() == f"{len(found):,} of 7,352 tokens"
        assert page.locator("#tokens tbody tr").count() == min(25, len(found))
        assert card(page).locator("h3").inner_text() == "great"
        assert ink(page, 0, layer=1) > 0
        page.locator("#query").fill("no such word")
        assert page.locator("#tokens tbody tr").count() == 0
        assert page.locator("#found").inner_text() == "0 of 7,352 tokens"
        sync_api.expect(page.locator("#live")).to_have_text("No token matches.")
        page.locator("#query").fill("")
        assert first_tokens(page) == in_order(report)[:3]


def test_heads_sort_both_ways_say_so_and_explain(browser, pages):
    report = pages[1]["imdb"]
    table = report.tokens
    with opened(browser, pages, "imdb") as page:
        head = page.locator("#tokens th[data-key=value]")
        for turn, state in ((-1, "descending"), (1, "ascending")):
            head.locator("button").focus()
            page.keyboard.press("Enter")
            assert head.get_attribute("aria-sort") == state
            best = turn * np.sort(turn * np.round(table.value[:, 0], 2))[:3]
            row = [table.value[list(table.token).index(name), 0] for name in first_tokens(page)]
            assert np.allclose(np.round(row, 2), best)
        assert page.locator("#tokens th[aria-sort]").count() == 1
        meaning = page.locator("#meaning").inner_text()
        assert report.definitions["value"][0][1:] in meaning
        assert "+ is → positive" in meaning
        page.locator("#tokens th[data-key=token] button").click()
        assert first_tokens(page, 25) == page.evaluate(
            "(names) => names.sort(new Intl.Collator().compare).slice(0, 25)", [str(name) for name in table.token]
        )


def test_pages_of_the_table(browser, pages):
    names = in_order(pages[1]["imdb"])
    with opened(browser, pages, "imdb") as page:
        assert page.locator("#page-before").is_disabled()
        page.locator("#page-after").click()
        assert first_tokens(page) == names[25:28]
        assert page.locator("#page-now").inner_text() == "26 to 50 of 7,352 tokens"
        page.locator("#page-size").select_option("500")
        assert page.locator("#tokens tbody tr").count() == 500


def test_a_row_opens_its_card_and_leads_to_its_texts(browser, pages):
    report = pages[1]["imdb"]
    with opened(browser, pages, "imdb") as page:
        name = page.locator("#tokens tbody th button").first
        name.focus()
        page.keyboard.press("Enter")
        assert name.get_attribute("aria-expanded") == "true"
        assert page.locator(".card-row .token-card").count() == 1
        token = int(np.argmax(report.tokens.decides))
        holders = sum(any(mark.token == token for mark in document.marks) for document in report.documents)
        assert holders > 0
        page.get_by_role("button", name=f"Show its {holders} texts").click()
        assert page.evaluate("document.activeElement.id") == "texts-title"
        assert page.locator("#texts-found").inner_text().endswith(f"of {holders} texts")
        shown = page.locator("#texts-list article")
        assert shown.count() == min(20, holders)
        assert all(shown.nth(i).locator("mark.own").count() for i in range(shown.count()))
        page.locator("#texts-token").click()
        assert page.locator("#texts-found").inner_text() == "1 to 20 of 200 texts"
        name.focus()
        page.keyboard.press("Escape")
        assert card(page).count() == 0
        assert name.get_attribute("aria-expanded") is None


def test_texts_are_filtered_and_their_words_lead_to_tokens(browser, pages):
    report = pages[1]["imdb"]
    with opened(browser, pages, "imdb") as page:
        wrong = [d for d in report.documents if d.truth != d.predicted]
        page.locator("#texts-kind").select_option("mistakes")
        page.locator("#texts-class").select_option(label="positive")
        expected = [d for d in wrong if d.truth == "positive"]
        assert page.locator("#texts-found").inner_text() == f"1 to 20 of {len(expected)} texts"
        first = page.locator("#texts-list article").first
        assert "mistake" in first.inner_text()
        assert first.locator(".words").evaluate("(element) => element.textContent") == expected[0].text
        first.locator("button.decider").first.click()
        largest = next(mark for mark in expected[0].marks if mark.token >= 0)
        assert first.locator(".token-card h3").inner_text() == largest.name
        # Predicted negative: a contribution toward it pulls → negative.
        direction = "→ negative" if largest.contribution > 0 else "→ positive"
        assert direction in first.locator("button.decider").first.inner_text()
        page.locator("#texts-after").click()
        assert page.locator("#texts-found").inner_text().startswith("21 to ")


def test_a_phrase_overlaps_its_words_and_is_listed_with_what_remains_without_it(browser, pages):
    first = pages[1]["small"].documents[0]
    phrase = next(mark for mark in first.marks if mark.token < 0)
    with opened(browser, pages, "small") as page:
        text = page.locator("#texts-list article").first
        line = text.locator(".words .phrase")
        start, end = phrase.places[0]
        assert "".join(line.all_inner_texts()).split() == first.text[start:end].split()
        assert text.locator(".words .phrase mark").count() == 1, "its word is marked within"
        listed = text.locator(".decider", has_text=phrase.name).inner_text()
        assert f"without it {100 * first.probability:.1f}% → 30.0%" in listed
        assert "because attention moves" in page.locator("#texts-part").inner_text()


def test_many_classes_start_with_each_tokens_own_and_a_card_names_five(browser, pages):
    table = pages[1]["many"].tokens
    with opened(browser, pages, "many") as page:
        own = table.classes[int(table.decides_for[int(np.argmax(table.decides))].argmax())]
        assert f"→ {own}" in page.locator("#tokens tbody tr").first.inner_text()
        told = card(page).locator(".by-class li").all_inner_texts()
        token = int(np.argmax(table.decides))
        hardest = np.argsort(-np.abs(np.round(table.pull[token], 2)), kind="stable")[0]
        assert told[0].startswith(f"{table.classes[hardest]}: pull ")
        assert (len(told), told[-1]) == (6, "72 more classes")
        page.locator("#class").select_option(label=table.classes[40])
        best = int(np.argmax(np.round(table.decides_for[:, 40], 6)))
        assert first_tokens(page, 1) == [table.token[best]]


def test_the_tokens_of_the_first_screen_open_their_cards(browser, pages):
    with opened(browser, pages, "seven") as page:
        assert page.locator(".telling dt").all_inner_texts() == list("abcdefg")
        for name, rows, _ in pages[1]["seven"].deciding:
            assert page.locator(".telling > div", has=page.get_by_text(name, exact=True)).locator(
                "button"
            ).all_inner_texts() == list(rows)
        named = page.locator(".telling button").last
        named.click()
        assert named.get_attribute("aria-expanded") == "true"
        assert page.locator("#telling-card h3").inner_text() == named.inner_text()
        named.click()
        assert page.locator("#telling-card h3").count() == 0


def test_a_class_that_turns_the_direction_of_writing_turns_nothing(browser, tmp_path):
    classes = ("plain", "turned \u202e name")
    (tmp_path / "turned.html").write_text(fit_page(fake_report(classes, n_tokens=30, n_documents=4)), encoding="utf-8")
    with opened(browser, (tmp_path,), "turned") as page:
        page.locator("#tokens tbody th button").first.click()
        options = page.locator("option").evaluate_all("(all) => all.map((option) => option.textContent)")
        shown = page.locator("body").inner_text() + "".join(options)
        assert "turned \\u202e name" in shown
        assert "\u202e" not in shown


def test_columns_that_few_need_are_shown_on_demand(browser, pages):
    with opened(browser, pages, "small") as page:
        assert page.locator("#tokens th[data-key=alpha]").is_hidden()
        page.locator("#all-columns").check()
        assert page.locator("#tokens th[data-key=alpha]").is_visible()


def test_more_classes_have_a_selector(browser, pages):
    report = pages[1]["seven"]
    table = report.tokens
    with opened(browser, pages, "seven") as page:
        page.locator("#class").select_option(label="c")
        assert "→ c" in page.locator(".keys").inner_text()
        assert "+ → c" in page.locator("#tokens th[data-key=value]").inner_text()
        page.locator("#tokens th[data-key=value] button").click()
        best = table.token[int(np.argmax(np.round(table.value[:, 2], 2)))]
        assert first_tokens(page, 1) == [best]
        page.locator("#tokens tbody th button").first.click()
        assert "pulls → c" in card(page).inner_text()


def test_texts_from_files_are_inert(browser, pages):
    with opened(browser, pages, "evil") as page:
        assert page.title() == f"{EVIL} · tokenmargin"
        assert page.locator("h1").inner_text() == EVIL
        page.locator("#query").fill("<script>")
        assert card(page).locator("h3").inner_text() == EVIL
        assert page.locator("#texts-list article").first.locator(".words").inner_text().startswith(EVIL)
        assert page.locator("script").count() == 2


def test_a_page_without_texts_says_so(browser, pages):
    with opened(browser, pages, "bare") as page:
        assert "left out of this page on request" in page.locator("#texts-part").inner_text()
        assert "Texts were left out of this page." in card(page).inner_text()


def test_one_token_is_enough(browser, pages):
    with opened(browser, pages, "one") as page:
        assert page.locator("#page-now").inner_text() == "1 to 1 of 1 tokens"
        assert ink(page) > 0
        page.locator("#map").focus()
        page.keyboard.press("ArrowRight")
        assert "rank 1 of 1" in card(page).inner_text()


def test_without_a_script_everything_else_is_readable(browser, pages):
    with opened(browser, pages, "imdb", java_script_enabled=False) as page:
        assert "need JavaScript, which is off" in page.locator("noscript").first.inner_text()
        assert page.locator("#explore").is_hidden()
        assert page.locator("#unopened").is_hidden()
        assert page.locator("noscript table.tokens tbody tr").count() == 30
        assert page.locator("noscript article").count() == 5
        assert page.locator("svg[role=img]").is_visible()


@pytest.mark.parametrize("name", ["imdb", "seven", "many", "evil", "bare"])
def test_a_phone_never_scrolls_sideways(browser, pages, name):
    with opened(browser, pages, name, viewport=PHONE) as page:
        page.locator("#tokens tbody th button").first.click()
        for details in page.locator("details").all():
            details.evaluate("(element) => { element.open = true; }")
        needed, available = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert available == 390
        assert needed <= available


@pytest.mark.parametrize(
    ("name", "colours", "viewport"),
    [
        ("small", "light", DESKTOP),
        ("small", "dark", PHONE),
        ("seven", "dark", DESKTOP),
        ("seven", "light", PHONE),
        ("many", "light", DESKTOP),
        ("many", "dark", PHONE),
        ("evil", "light", DESKTOP),
        ("bare", "dark", DESKTOP),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value["width"]),
)
def test_axe_finds_no_violation(browser, pages, name, colours, viewport):
    # The policy would stop axe itself, which is a script that the page does not name.
    with opened(browser, pages, name, viewport=viewport, colours=colours, bypass_csp=True) as page:
        page.locator("#tokens tbody th button").first.click()
        for details in page.locator("details").all():
            details.evaluate("(element) => { element.open = true; }")
        results = axe_module.Axe().run(page)
        found = [
            (violation["id"], [node["html"][:200] for node in violation["nodes"][:3]])
            for violation in results.response["violations"]
        ]
        assert found == []
        assert len(results.response["passes"]) > 20, "axe looked at the page"


def test_the_browser_would_have_told(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='http://example.invalid/a.png'><script>console.error('bad'); absent()</script>")
    context = browser.new_context()
    page = context.new_page()
    asked, logged = watched(page)
    page.goto(bad.as_uri())
    assert "http://example.invalid/a.png" in asked
    assert "bad" in logged
    assert any("absent is not defined" in words for words in logged)
    context.close()


def test_the_policy_stops_other_scripts(browser, pages):
    context = browser.new_context()
    page = context.new_page()
    logged = []
    page.on("console", lambda message: logged.append(message.text))
    page.goto((pages[0] / "small.html").as_uri())
    page.wait_for_selector("#tokens tbody tr")
    for attempt in ("document.body.innerHTML = '<b>x</b>'", "setTimeout('document.title = 1')"):
        with pytest.raises(sync_api.Error, match=r"TrustedHTML|TrustedScript|unsafe-eval"):
            page.evaluate(f"() => {{ {attempt} }}")
    assert page.locator("body").inner_text() != "x"
    assert all(re.search("Content Security Policy|Trusted", message, re.I) for message in logged)
    context.close()


def test_print_is_light_and_shows_whole_texts(browser, pages):
    with opened(browser, pages, "imdb", colours="dark") as page:
        paper = "getComputedStyle(document.documentElement).getPropertyValue('--card').trim()"
        folded = page.locator(".words.folded").first
        assert page.evaluate(paper) != "#ffffff"
        assert folded.evaluate("(words) => words.scrollHeight > words.clientHeight")
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate(paper) == "#ffffff"
        assert folded.evaluate("(words) => words.scrollHeight <= words.clientHeight + 1")
        assert page.locator(".bar").is_hidden()
