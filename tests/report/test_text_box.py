"""The box on the page of a fit: JavaScript finds the words, tokens and numbers that Python finds, in a real browser."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from tests.classify.corpora import fitted as fitted_texts
from tokenmargin.classify import TextModel, TokenModel
from tokenmargin.classify.packed_model import Precision, packed_model, scorer_code, why_not_in_javascript
from tokenmargin.report import fit_files as module
from tokenmargin.text import Alphabet, Markup, Recipe, TokenCounter, count_tokens, plain_recipe
from tokenmargin.text._clean import cleaned
from tokenmargin.text._words import split_words
from tokenmargin.text.name_table import NameTable

#: Largest difference to Python of a probability, a contribution and an attention: numbers have 31 bits there.
STEPS = 1e-6
#: The same where all digits were packed: exp and log of two languages differ in the last bit.
DOUBLE = 1e-10

MANY_SCRIPTS = """not good bad film movie the a is was superb dull don't can't café naïve Straße İstanbul ΣΊΣΥΦΟΣ ΑΣ
    ﬁlm ﬂow 電影很好 ไทยดี ひらがな カタカナ שלום می‌خواهم 한국어 Ångström e\u0301te\u0301 a\u0327\u0301 a\u0301\u0327
    œuvre \u212bb \U0001d504\U0001d5ba 𐐀𐐨 😀 👍🏽 👨‍👩‍👧 🇩🇪🇫🇷 ❤️ ❤ $5 + = ~ _a_ a_b 3.14 <br> <br/> <b>bold</b> </i>
    <!--x--> &amp; &eacute;t&eacute; &notgood &#100;on&#39;t &#x1F600; &#128; &#1; &#xD800; &#99999999999999999999;
    &bogus; & ŉ ǰ ẞ \u1e9e"""
WORDS = MANY_SCRIPTS.split()
RECIPES = {
    "characters": plain_recipe(ngrams=2, minimum_count=1),
    "triples": plain_recipe(ngrams=3, minimum_count=1),
    "paper": Recipe(word_piece=False, stem=False, minimum_count=1),
    "folded": Recipe(
        word_piece=False, stem=False, alphabet=Alphabet.UNICODE, punctuation=True, fold_accents=True, minimum_count=1,
        ngrams=2, also_drop=("film",),
    ),
    "kept": Recipe(
        word_piece=False, stem=False, stop_words=False, markup=Markup.KEEP, apostrophes="", lower_case=False,
        punctuation=True, ngrams=2, minimum_count=1,
    ),
}  # fmt: skip


def odd_texts(n, seed=0):
    """Words of many scripts with anything between them; any characters at all; empty and very long ones."""
    draw = random.Random(seed)
    result = ["", " ", "zzz", "\ud800", "x" * 5000, " ".join(draw.choices(WORDS, k=3000))]
    while len(result) < n:
        if draw.random() < 0.7:
            gaps = draw.choices([" ", " ", " ", "", ", ", "\n", "\u200d", "\u0301", "…", "'", "\udc00 "], k=12)
            parts = [word + gap for word, gap in zip(draw.choices(WORDS, k=draw.randint(1, 12)), gaps, strict=False)]
        else:
            tops = draw.choices([0x80, 0x250, 0x2000, 0xD7FF, 0x2FFFF], k=25)
            # Halves of characters stand apart: two that follow each other are one character in JavaScript.
            parts = [chr(code) if not 0xD800 <= code < 0xE000 else " " for code in map(draw.randrange, tops)]
        result.append("".join(parts))
    return result[:n]


def random_model(recipe, texts, K, characters=0, seed=0):
    """A model that knows three of four tokens of the texts."""
    rng = np.random.default_rng(seed)
    counted = count_tokens(texts, replace(recipe, characters=characters))
    known = [name for name in counted.vocabulary if rng.random() < 0.75]
    columns = 1 if K == 2 else K
    tokens = TokenModel(
        0.5 * rng.normal(size=len(known)), 3 * rng.normal(size=(len(known), columns)), rng.normal(size=columns), 0.5
    )
    rates = rng.dirichlet(np.ones(K))
    classes = tuple(f"class {k}" for k in range(K))
    return TextModel(
        TokenCounter.trusted(counted.recipe, NameTable(tuple(known))), tokens, classes, ("",) * len(known), rates
    )


@pytest.fixture(scope="module")
def tab(browser):
    """A page with the scorer; what it is asked and answers is JSON in ASCII, so that half a character comes through."""
    page = browser.new_page()
    page.goto("about:blank")
    page.add_script_tag(content=f"{scorer_code()}\nglobalThis.scorer = {{ Words, unpackedModel }};")
    yield lambda code, given: json.loads(page.evaluate(f"async (given) => {{ {code} }}", json.dumps(given)))
    page.close()


def explained(tab, model, texts, precision=Precision.STEPS):
    code = """const { packed, texts } = JSON.parse(given), model = await scorer.unpackedModel(packed);
        return JSON.stringify(texts.map((text) => {
          const told = model.explain(text), units = told.units.length > 100 ? told.units.slice(0, 5) : told.units;
          return { ...told, label: model.predict(text).label, known: model.predict(text).known_words,
                   n: told.units.length, units, left: units.map((unit) => told.without(unit)) };
        }));"""
    return tab(code, {"packed": packed_model(model, precision), "texts": texts})


def places_there(text):
    """Where each character begins as JavaScript counts."""
    return np.concatenate([[0], np.cumsum([1 + (ord(character) > 0xFFFF) for character in text])]).astype(int)


def largest_difference(found, told):
    """All that the browser says beside what Python says; words, names and places must be the same."""
    at = places_there(told.text)
    units = {unit.name: unit for unit in told.units}
    left = {own.name: own.probability for own in told.without()} if len(units) <= 100 else None
    apart = [abs(found["logOdds"] - told.log_odds), abs(found["constant"] - told.constant)]
    apart += np.abs(np.subtract(found["probabilities"], list(told.probabilities.values()))).tolist()
    assert (found["predicted"], found["against"], found["isKnown"]) == (told.predicted, told.against, told.is_known)
    assert found["label"] == told.predicted
    assert found["n"] == len(units)
    for unit, chance in zip(found["units"], found["left"], strict=True):
        own = units[unit["name"]]
        assert unit["places"] == [[at[start], at[end]] for start, end in own.places], told.text
        apart += [abs(unit["contribution"] - own.contribution), abs(unit["attention"] - own.attention)]
        apart += [abs(chance - left[own.name])] if left is not None else []
    return max(apart)


@pytest.mark.parametrize(
    ("name", "n", "K", "characters", "precision"),
    [
        ("characters", 1000, 2, 5, Precision.STEPS),
        ("triples", 150, 77, 0, Precision.STEPS),
        ("paper", 150, 2, 0, Precision.DOUBLE),
        ("folded", 150, 3, 4, Precision.DOUBLE),
        ("kept", 150, 2, 0, Precision.STEPS),
    ],
)
def test_the_browser_says_what_python_says(tab, name, n, K, characters, precision):
    texts = odd_texts(n)
    model = random_model(RECIPES[name], texts[6:], K, characters)
    found = explained(tab, model, texts, precision)
    known = model.predict_all(texts)[1].tolist()
    assert [own["known"] for own in found] == known
    assert sum(count == 0 for count in known) >= 3, "texts without a known word are asked too"
    worst = max(map(largest_difference, found, model.explain_all(texts)))
    assert worst < (STEPS if precision is Precision.STEPS else DOUBLE)


def test_a_model_that_is_a_little_off_is_noticed(tab):
    texts = odd_texts(40)
    model = random_model(RECIPES["characters"], texts[6:], 2)
    louder = replace(model.tokens, score=model.tokens.score + 1e-4 * np.arange(len(model.words)))
    off = replace(model, tokens=louder)
    found = explained(tab, off, texts)
    assert max(map(largest_difference, found, model.explain_all(texts))) > STEPS


def test_large_values_agree_as_well(tab):
    texts = odd_texts(60)
    model = random_model(RECIPES["characters"], texts[6:], 3)
    model = replace(model, tokens=replace(model.tokens, value=50 * model.tokens.value))
    found = explained(tab, model, texts)
    assert max(map(largest_difference, found, model.explain_all(texts))) < STEPS


@pytest.mark.parametrize("name", ["characters", "folded"])
def test_every_character_is_read_alike(tab, name):
    """Beside letters, marks and a sigma, whose small letter depends on what stands around it."""
    codes = [code for code in (*range(0x20000), *range(0xE0000, 0xE0200)) if not 0xD800 <= code < 0xE000]
    # Of the thousands of characters in a row that differ in nothing but their shape, some are enough.
    alike = ((0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0x17000, 0x18CFF))
    codes = [code for code in codes if code % 50 == 0 or not any(first < code < last for first, last in alike)]
    texts = [
        " ".join(f"a{c}b {c}Σ a{c}Σ AΣ{c} e{c}\u0301" for c in map(chr, codes[j : j + 4096]))
        for j in range(0, len(codes), 4096)
    ]
    recipe = RECIPES[name]
    model = random_model(recipe, ["a b"] * 4, 2)
    code = """const { packed, texts } = JSON.parse(given), { words } = await scorer.unpackedModel(packed);
        return JSON.stringify(texts.map((text) => words.of(text).map(({ word }) => words.oneWay(word))));"""
    found = tab(code, {"packed": packed_model(model, Precision.STEPS), "texts": texts})
    spelling = model.counter._spelling
    for text, words in zip(texts, found, strict=True):
        clean = cleaned([text], recipe)[0]
        assert words == spelling.stems(split_words(clean, recipe))


# --- on the page -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return fitted_texts(n=200)


def opened(browser, folder, **options):
    context = browser.new_context(**options)
    page = context.new_page()
    asked, logged = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: logged.append(message.text))
    page.on("pageerror", lambda error: logged.append(str(error)))
    page.goto((folder / "report.html").as_uri())
    page.wait_for_selector("#box")
    page.wait_for_selector("#box-waits", state="hidden")
    return page, asked, logged


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_text_that_is_typed_is_classified_and_explained(browser, fitted, tmp_path, monkeypatch, is_beside):
    if is_beside:
        monkeypatch.setattr(module, "PAGE_BYTES", 0)
    files = module.fit_files(fitted)
    assert set(files) == {"report.html", *(["model.js"] if is_beside else [])}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    page, asked, logged = opened(browser, tmp_path)
    assert page.locator("#box-told").is_hidden()
    text = "A superb 😀 film, not <b>dull</b>."
    told = fitted.model.explain(text)
    page.fill("#box-text", text)
    said = page.inner_text("#box-said")
    assert said == f"{told.predicted} with {100 * told.probability:.1f}%"
    assert page.inner_text("#box-words") == text
    shown = page.locator("#box-units tr")
    assert shown.count() == min(12, len(told.units))
    left = {own.name: own.probability for own in told.without()}
    first = told.units[0]
    cells = shown.first.locator("th, td").all_inner_texts()
    assert cells[0] == first.name
    assert cells[1].replace("\u2212", "-") == f"{first.contribution:+.3f}"
    assert cells[3] == f"{100 * told.probability:.1f}% → {100 * left[first.name]:.1f}%"
    page.fill("#box-text", "qqq")
    assert "No word of it is known" in page.inner_text("#box-said")
    page.click("#box-example")
    assert page.input_value("#box-text").startswith(page.inner_text("#texts-list .words >> nth=0")[:20])
    assert page.locator("#box-units tr").count() > 0
    page.click("#box-empty")
    assert page.locator("#box-told").is_hidden()
    names = [url.rsplit("/", 1)[1] for url in asked if not url.startswith("data:")]
    assert names == ["report.html", *(["model.js"] if is_beside else [])]
    assert logged == []


def test_a_phrase_is_a_line_below_its_words_and_a_row_outlines_what_it_is_about(browser, tmp_path):
    fitted = fitted_texts(recipe=plain_recipe(minimum_count=1, ngrams=2), n=200)
    model, louder = fitted.model, [[1.0 + 50 * (" " in name)] for name in fitted.model.counter.vocabulary]
    tokens = replace(model.tokens, value=model.tokens.value * np.array(louder))
    fitted = replace(fitted, model=replace(model, tokens=tokens))
    text = "A superb film, not dull. A superb film."
    told = fitted.model.explain(text)
    phrase = next(unit for unit in told.units if " " in unit.name)
    (tmp_path / "report.html").write_text(module.fit_files(fitted)["report.html"], encoding="utf-8")
    page, _, _ = opened(browser, tmp_path)
    page.fill("#box-text", text)
    assert page.inner_text("#box-words") == text
    number = told.units.index(phrase)
    lines = page.locator(f"#box-words .phrase[data-unit='{number}']")
    under = "".join(lines.all_text_contents())
    assert under == "".join(text[start:end] for start, end in phrase.places)
    assert phrase.name in lines.first.get_attribute("title")
    assert page.locator("#box-words .phrase mark").count() > 0, "a word is marked within a phrase"
    page.locator("#box-units tr").nth(number).hover()
    assert page.locator("#box-words .own").evaluate_all("(all) => [...new Set(all.map((e) => e.dataset.unit))]") == [
        str(number)
    ]
    page.context.close()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_no_violation_in_an_answer(browser, fitted, tmp_path, colours):
    axe_module = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed (extra test)"
    )
    (tmp_path / "report.html").write_text(module.fit_files(fitted)["report.html"], encoding="utf-8")
    page, _, _ = opened(browser, tmp_path, color_scheme=colours, bypass_csp=True)
    page.fill("#box-text", "A superb film, not dull.")
    results = axe_module.Axe().run(page, context="#box-part")
    assert [violation["id"] for violation in results.response["violations"]] == []
    assert len(results.response["passes"]) > 5, "axe looked at the box"
    page.context.close()


def test_a_page_without_its_model_says_so(browser, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PAGE_BYTES", 0)
    (tmp_path / "report.html").write_text(module.fit_files(fitted)["report.html"], encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("#box-waits", has_text="could not be read: model.js must lie beside").wait_for()
    page.close()


@pytest.mark.parametrize(
    ("recipe", "why"),
    [(Recipe(word_piece=False), "english stemmer"), (Recipe(stem=False, stop_words=False), "WordPieces")],
)
def test_a_recipe_that_the_page_cannot_follow_is_named(recipe, why):
    assert why in str(why_not_in_javascript(recipe))
    assert why_not_in_javascript(plain_recipe()) is None
