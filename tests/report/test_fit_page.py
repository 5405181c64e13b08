"""The page of a fit as a file: its size, its policy, what it says without a script and what it packs for it."""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest

from tests.report.fake_fit import fake_report
from tests.report.test_results_page import Reader
from tokenmargin._sentences import ABSENT
from tokenmargin.classify.fit_report import Deciding
from tokenmargin.classify.token_definitions import Definition
from tokenmargin.report import fit_page

SCRIPT = "<script>document.title = 'run'</script>"
#: What the page of IMDB's tokens and 200 documents may take.
MOST_BYTES = 1_000_000


def unpacked(page: str) -> dict:
    found = re.search(r'<script type="application/octet-stream" id="data">([A-Za-z0-9+/=]+)</script>', page)
    assert found
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


class PageReader(Reader):
    """Reads a page whose elements may be left open in HTML (`br`, shapes of a drawing); text of scripts apart."""

    VOID = Reader.VOID | {"br", "input", "circle", "rect", "path"}

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if "script" not in self.open:
            super().handle_data(data)


@pytest.fixture(scope="module")
def imdb_sized():
    report = fake_report(spread=True)
    return report, fit_page(report)


@pytest.fixture(scope="module")
def tiny():
    return fake_report(n_tokens=30, n_documents=3, n_words=20)


def test_the_tokens_of_imdb_and_200_documents_take_less_than_a_megabyte(imdb_sized):
    report, page = imdb_sized
    assert (len(report.tokens.token), len(report.documents)) == (7352, 200)
    assert len(page.encode()) <= MOST_BYTES


def test_the_sections_stand_in_their_order(imdb_sized):
    reader = PageReader(imdb_sized[1])
    assert not reader.open
    sections = [attributes["id"] for tag, attributes in reader.elements if tag == "section" and "id" in attributes]
    assert sections == ["map-part", "table-part", "texts-part", "well-part", "claims-part", "made-part"]
    shown = [
        reader.text.index(words) for words in ("this model", "What decides", "How far to trust it", "The token map")
    ]
    assert shown == sorted(shown)


def test_the_policy_names_the_script_and_the_style_by_their_hashes(tiny):
    page = fit_page(tiny)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    for kind, content in (
        ("style", re.search(r"<style>(.*?)</style>", page, re.S)[1]),
        ("script", re.search(r'<script type="module">(.*?)</script>', page, re.S)[1]),
    ):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_script_builds_no_code_and_no_markup_from_text(tiny):
    script = re.search(r'<script type="module">(.*?)</script>', fit_page(tiny), re.S)[1]
    assert not re.search(
        r"\beval\b|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|fetch\(", script
    )
    assert "http" not in script


def test_the_page_points_to_nothing_outside_itself(tiny):
    reader = PageReader(fit_page(tiny))
    ids = {attributes["id"] for _, attributes in reader.elements if "id" in attributes}
    for tag, attributes in reader.elements:
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            if name in attributes:
                target = attributes[name]
                assert target.startswith("data:image/") or target.removeprefix("#") in ids, (tag, name)


def test_every_text_is_inert(tiny):
    evil = f'{SCRIPT} "quoted" & <b>'
    classes = (f"{SCRIPT}a", f"{SCRIPT}z")
    report = fake_report(
        classes, n_tokens=30, n_documents=3, n_words=9, names=(evil, "مرحبا", "🦔"), title=evil, sentence=evil
    )
    report = replace(
        report,
        command=evil, facts=(evil,), deciding=(Deciding(evil, {evil: 0}, False),), trust=(evil,), reading=(evil,),
        rows_left_out=((evil, 1, evil),),
        manifest={evil: evil}, claims=({**report.claims[0], "statement": evil, "because": evil},),
        definitions=dict.fromkeys(report.definitions, Definition(evil, evil)),
    )  # fmt: skip
    page = fit_page(report)
    reader = PageReader(page)
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert SCRIPT not in page
    assert not any(name.startswith("on") for _, attributes in reader.elements for name in attributes)
    assert evil in reader.text
    data = unpacked(page)
    assert evil in data["tokens"]
    assert data["classes"] == list(classes)


def test_what_is_packed_is_the_report_in_the_order_of_deciding(imdb_sized):
    report, page = imdb_sized
    table, data = report.tokens, unpacked(page)
    order = np.argsort(-table.decides, kind="stable")
    assert data["tokens"] == [table.token[i] for i in order]
    for key in ("value", "alpha", "posterior_difference", "pull", "spread"):
        packed = data["columns"][key]
        exact = getattr(table, key)[order, 0]
        assert np.abs(np.array(packed["values"][0]) / 10 ** packed["decimals"] - exact).max() <= (
            0.5 * 10.0 ** -packed["decimals"] * (1 + 1e-9)
        )
        assert packed["decimals"] >= 2
    attention = data["columns"]["attention"]
    shown = np.array(attention["values"][0]) / 10 ** attention["decimals"]
    assert np.allclose(shown, 100 * table.attention[order], rtol=1e-3, atol=0)
    assert data["columns"]["in_class"]["values"] == [table.count_by_class[order, 1].tolist()]
    assert np.all(np.array(data["columns"]["documents"]["values"][0]) == table.documents[order])


def test_marks_of_documents_come_back_at_their_places():
    report = fake_report(n_tokens=40, n_documents=2, n_words=30, names=("🦔🦔", "مرحبا"), sentence="🦔 “é” ")
    data = unpacked(fit_page(report))
    for document, packed in zip(report.documents, data["documents"], strict=True):
        row, *classes, probabilities, text, _, tokens, pulls, _, withouts, places = packed
        assert row == document.row + 1
        assert [data["classes"][k] for k in classes] == [document.truth, document.predicted, document.against]
        assert probabilities == [round(100_000 * p) for p in document.probabilities]
        assert text == document.text
        units = text.encode("utf-16-le")
        for mark, token, own in zip(document.marks, tokens, places, strict=True):
            assert (token if mark.token < 0 else data["tokens"][token]) == mark.name
            words = [units[2 * a : 2 * (a + n)].decode("utf-16-le") for a, n in zip(own[::2], own[1::2], strict=True)]
            assert words == [document.text[start:end] for start, end in mark.places]
        assert pulls == [round(1000 * mark.contribution) for mark in document.marks]
        assert withouts == [round(100_000 * mark.without) for mark in document.marks]


@pytest.mark.parametrize("n_classes", [20, 77])
def test_many_classes_lead_with_the_worst_and_the_confused_and_stay_small(n_classes):
    names = tuple(f"class number {k}" for k in range(n_classes))
    report = fake_report(names, n_tokens=40_000 // n_classes, n_words=60)
    page = fit_page(report)
    assert len(page.encode()) <= 5_000_000
    reader = PageReader(page)
    opening = reader.text[: reader.text.index("How it was made")]  # of the contents
    assert opening.index("89.6%") < opening.index("What was learnt")
    assert "The 8 classes that it does worst on" in opening
    named = {row[place] for row in PageReader(page.split('<nav aria-label="Contents">')[0]).rows for place in (0, 1)}
    assert len([name for name in named if name.startswith("class number")]) <= 8 + 2 * 5
    worst = [row for row in reader.rows if len(row) == 7 and row[0].startswith("class number")]
    assert len(worst) == 8 + n_classes, "eight first, all below"
    pairs = [row for row in reader.rows if len(row) == 5 and row[0].startswith("class number")]
    assert pairs[0][:3] == [report.confused[0].truth, report.confused[0].predicted, str(report.confused[0].texts)]
    assert "great +0.40" in pairs[0][4]
    assert "said class number" not in reader.text, "no table of all pairs"


def test_a_rare_class_has_its_numbers_in_the_first_screen(tiny):
    assert "Class by class" not in PageReader(fit_page(tiny)).text.split("The token map")[0]
    rare = replace(tiny, confusion=np.array([[900, 20], [30, 50]]))
    opening = PageReader(fit_page(rare)).text.split("The token map")[0]
    assert all(word in opening for word in ("Class by class", "recall", "precision", "F1", "AUC"))


def test_a_number_that_is_not_finite_is_a_dash(tiny):
    broken = tiny.tokens.posterior_difference.copy()
    first = int(np.argmax(tiny.tokens.decides))
    broken[first, 0] = np.nan
    page = fit_page(replace(tiny, tokens=replace(tiny.tokens, posterior_difference=broken)))
    assert unpacked(page)["columns"]["posterior_difference"]["values"][0][0] is None
    rows = [row for row in PageReader(page).rows if row and row[0].startswith(str(tiny.tokens.token[first]))]
    assert any(ABSENT in row for row in rows)


def test_without_a_script_the_first_tokens_and_texts_are_there(imdb_sized):
    report, page = imdb_sized
    inside = "".join(re.findall(r"<noscript>(.*?)</noscript>", page, re.S))
    reader = PageReader(inside)
    table = report.tokens
    order = np.argsort(-table.decides)
    assert len(reader.rows) == 1 + 30
    top = reader.rows[1]
    assert top[0].startswith(table.token[order[0]])
    assert f"{table.value[order[0], 0]:+.2f}".replace("-", "−") in top  # noqa: RUF001
    assert sum(tag == "article" for tag, _ in reader.elements) == 5
    assert report.documents[0].text in reader.text
    assert {a["class"].split()[0] for tag, a in reader.elements if tag == "mark"} == {"for", "against"}


def test_two_classes_name_the_direction_and_more_name_the_class(tiny):
    text = PageReader(fit_page(tiny)).text
    assert "+ → positive" in text
    assert "ones → negative" in text
    many = fake_report(tuple("abcdefg"), n_tokens=30, n_documents=3, n_words=9)
    page = fit_page(many)
    assert "→ its class" in PageReader(page).text
    assert len(unpacked(page)["columns"]["value"]["values"]) == 7
    assert len(unpacked(page)["columns"]["in_class"]["values"]) == 7


def test_definitions_stand_in_the_heads(tiny):
    reader = PageReader(fit_page(tiny))
    titles = {attributes.get("title") for tag, attributes in reader.elements if tag == "button"}
    for key in ("alpha", "posterior_difference", "attention", "score", "value", "pull", "decides", "documents"):
        meaning, sign = tiny.definitions[key]
        assert any(meaning[1:] in title and (sign or "No sign.")[1:] in title for title in titles if title)
    assert tiny.definitions["alpha"][0][1:] in reader.text


def test_performance_stands_beside_the_baselines(tiny):
    reader = PageReader(fit_page(tiny))
    rows = [row[:3] for row in reader.rows]
    assert ["this model", "89.6%", "88.9% to 90.3%"] in rows
    assert ["a naive-Bayes SVM", "89.2%", ABSENT] in rows
    assert ["always the largest class", "50.2%", ABSENT] in rows
    assert "+0.4 points of accuracy (95% interval: −0.1 to +0.9)" in reader.text  # noqa: RUF001
    curve = next(a for tag, a in reader.elements if tag == "svg" and a.get("role") == "img")
    assert "95% predicted" in curve["aria-label"]
    for k, name in enumerate(tiny.classes):
        total = tiny.confusion[k].sum()
        shown = [f"{count:,}{100 * count / total:.1f}%" for count in tiny.confusion[k]]
        assert [name, *shown] in reader.rows


def test_what_is_missing_is_said(tiny):
    bare = replace(
        tiny, documents=(), examples={}, claims=(), calibration=(), rows_left_out=(), reading=(), trust=(),
        metrics={"accuracy": None}, definitions={},
    )  # fmt: skip
    text = PageReader(fit_page(bare)).text
    assert "The texts were left out of this page on request" in text
    assert "No claim of the papers was checked" in text
    assert "too few documents to draw a curve" in text


def test_claims_have_verdicts_and_reasons(tiny):
    undecided = {**tiny.claims[0], "label": "Thm 5", "applies": "not decided", "holds": ""}
    broken = {**tiny.claims[0], "label": "Lemma 3", "holds": "fails"}
    rows = PageReader(fit_page(replace(tiny, claims=(*tiny.claims, undecided, broken)))).rows
    verdicts = {row[0].split("embeddings")[0]: row[2] for row in rows if len(row) == 4 and "embeddings" in row[0]}
    assert verdicts == {
        "Lemma 2": "holds",
        "Lemma 6": "does not apply",
        "Thm 5": "not decided",
        "Lemma 3": "fails",
    }


def test_command_reading_and_manifest_are_shown(tiny):
    reader = PageReader(fit_page(tiny))
    assert tiny.command in reader.text
    assert ["recipe · language", "english"] in reader.rows
    assert ["no label", "3", "rows 17, 2041 and 9001"] in reader.rows
    assert tiny.reading[0] in reader.text


def test_the_difference_to_the_baseline_is_the_number_of_the_sentences(tiny):
    # 906 and 897 of 1,200 texts: 0.75 points, which the difference of the two shares falls short of in its last bit.
    told = {"accuracy": 906 / 1200, "baseline_accuracy": 897 / 1200, "difference": 9 / 1200}
    assert f"{100 * (told['accuracy'] - told['baseline_accuracy']):.1f}" != f"{100 * told['difference']:.1f}"
    assert "is +0.8 points of accuracy" in fit_page(replace(tiny, metrics=tiny.metrics | told))
