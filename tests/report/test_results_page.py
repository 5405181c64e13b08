import json
import re
import struct
import zlib
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tokenmargin._sentences import ABSENT
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Relation, Result
from tokenmargin.experiments.registry import experiments
from tokenmargin.report import write_page
from tokenmargin.report.results_page import GLOSSARY, results_page

SCRIPT = "<script>document.title = 'run'</script>"
NUMBERS = (
    Number.exact("angle & error", 1.23456789e-9, at_most=1e-8),
    Number("correlation", 0.99823456, paper=1.0, place="App. E", tolerance=0.0125),
    Number.exact("share of starts", 0.25, expected=0.5, tolerance=0.125, source="official notebook"),
    Number("norm at the end", 123456.789),
)


def png() -> bytes:
    """One white pixel."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\xff\xff")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


@dataclass(frozen=True)
class Tiny(Config):
    steps: int = 5
    starts: tuple[float, ...] = (0.5, 1.5)

    @classmethod
    def smoke(cls):
        return cls()

    @classmethod
    def paper(cls):
        return cls(500)


def fake(
    out,
    name="fake-fig1",
    preset="smoke",
    title="A title",
    sentences=("A sentence.",),
    numbers=NUMBERS,
    paper="M",
    in_plain_words="",
):
    experiment = Experiment(
        id=name,
        title=title,
        paper=paper,
        figure="1",
        config=Tiny,
        compute=lambda config, key, progress: Result({}, ()),
        draw=lambda result: None,
        claims=("maxmargin-thm2", "maxmargin-thm3", "no-such-claim"),
        in_plain_words=in_plain_words,
    )
    result = Result({"x": np.zeros(2)}, numbers, tuple(sentences))
    outcomes = {"maxmargin-thm2": "holds"}
    draw = lambda result, folder: (folder / "figure.png").write_bytes(png())  # noqa: E731
    return store.save(experiment, Tiny(7), preset, 3, result, 1.5, outcomes, out, draw)


class Reader(HTMLParser):
    """What a browser would see: elements with their attributes, the text, and the cells of each table row."""

    VOID = frozenset({"meta", "link", "wbr"})

    def __init__(self, page: str):
        super().__init__()
        self.elements, self.rows, self.open, self.text = [], [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data


def read(path: Path) -> Reader:
    reader = Reader(path.read_text(encoding="utf-8"))
    assert not reader.open
    return reader


def test_every_number_and_verdict_is_shown(tmp_path):
    fake(tmp_path)
    page = read(write_page(tmp_path))
    assert ["number", "ours", "the paper's", "expected", "allowed difference", "verdict"] in page.rows
    assert ["angle & error", "1.23457e-09", ABSENT, "at most 1e-08", ABSENT, "holds"] in page.rows
    assert ["correlation", "0.998235", "1 (App. E)", ABSENT, "0.0125", "not comparable"] in page.rows
    assert ["share of starts", "0.25", ABSENT, "0.5 (official notebook)", "0.125", "fails"] in page.rows
    assert ["norm at the end", "123457", ABSENT, ABSENT, ABSENT, "reported"] in page.rows
    outcome = "Of 2 numbers that could be judged, 1 holds, 1 fails."
    assert page.text.count(f"{outcome} Besides, 1 cannot be compared at this size and 1 is only shown.") == 2
    assert page.text.count("fails: 1 of 2") == 2, "in the contents and on the card"


def test_the_first_screen_says_what_was_asked_and_counts_every_verdict(tmp_path):
    fake(tmp_path)
    fake(tmp_path, name="fake-fig2", numbers=(Number.exact("exact", 1.0, expected=1.0, tolerance=0.0),))
    text = " ".join(read(write_page(tmp_path)).text.split())
    first, _ = text.split("All figures [M] is")
    assert "What was asked Attention is how a language model weighs the words that it reads." in first
    assert "Of 3 numbers that could be judged, 2 hold, 1 fails." in first
    counted = (
        "hold2what",
        "fail1not",
        "findings0the",
        "not decided0chance",
        "not comparable1this",
        "only shown1nobody",
    )
    assert [words for words in counted if words not in first] == []


def test_a_figure_of_which_nothing_can_be_judged_does_not_look_as_if_it_held(tmp_path):
    fake(tmp_path, numbers=(Number("size", 1.0, expected=1.0, tolerance=0.1),))
    text = read(write_page(tmp_path)).text
    assert "No number could be judged in this run." in text
    assert "not comparable at this size" in text
    assert "holds:" not in text


def test_a_card_opens_in_plain_words_and_links_the_words_of_the_glossary_once(tmp_path):
    words = "Do the LMM and the GMM agree? The LMM is not the GMM."
    fake(tmp_path, in_plain_words=words, sentences=("The LMM again, and its spread.",))
    page = read(write_page(tmp_path))
    assert page.text.index(words) < page.text.index("The LMM again")
    ids = [a["id"] for _, a in page.elements if "id" in a]
    linked = [a["href"].removeprefix("#") for tag, a in page.elements if a.get("class") == "word"]
    assert linked == ["word-lmm", "word-gmm", "word-spread"]
    assert set(linked) <= set(ids)
    assert len(ids) == len(set(ids))


def test_every_figure_is_explained_in_plain_words_without_letters_of_the_papers():
    for name, experiment in experiments().items():
        words = experiment.in_plain_words
        assert words.endswith((".", "?")), name
        assert not re.search(r"[\[<⟨|^_=]|\b(?:GMM|LMM|ATT|SVM|KKT|softmax)\b", words), name


def test_the_glossary_explains_what_a_reader_cannot_know():
    names = [term.name for term in GLOSSARY]
    assert {"GMM", "LMM", "ATT-SVM", "selection", "spread", "posterior difference"} <= set(names)
    for term in GLOSSARY:
        assert re.search(term.pattern, term.name) or term.name == "softmax attention", term.name


def test_the_panels_of_a_figure_are_shown_again_from_the_one_picture(tmp_path):
    saved = fake(tmp_path)
    assert not [tag for tag, _ in read(write_page(tmp_path)).elements if tag == "use"]
    (saved.folder / "panels.json").write_text("[[0, 0, 0.5, 1], [0.5, 0, 0.5, 1]]")
    path = write_page(tmp_path)
    page = read(path)
    (image,) = [a for tag, a in page.elements if tag == "image"]
    assert [a["href"] for tag, a in page.elements if tag == "use"] == [f"#{image['id']}"] * 2
    assert path.read_text().count("data:image/png") == 1


def test_a_number_that_is_not_finite_is_shown_as_a_dash(tmp_path):
    saved = fake(tmp_path, numbers=(Number("rate", 1.0),))
    rows = [{**saved.summary["numbers"][0], "value": None}]
    page = Reader(results_page([replace(saved, summary={**saved.summary, "numbers": rows})]))
    assert ["rate", ABSENT, ABSENT, ABSENT, ABSENT, "reported"] in page.rows


def test_a_bound_of_the_papers_is_shown_with_our_interval(tmp_path):
    share = Number("share", 0.0128, paper=0.01, place="Fig. 10", relation=Relation.BELOW, interval=(0.009, 0.0162))
    fake(tmp_path, preset="paper", numbers=(share,))
    page = read(write_page(tmp_path))
    assert ["share", "0.0128 (0.009 to 0.0162)", "< 0.01 (Fig. 10)", ABSENT, ABSENT, "not decided"] in page.rows
    assert "Of 1 number that could be judged, 0 hold, 1 is not decided." in page.text
    assert store.load(tmp_path / "fake-fig1" / "paper").result.numbers == (share,)


def test_a_result_from_before_these_columns_is_named(tmp_path):
    saved = fake(tmp_path)
    for row in saved.summary["numbers"]:
        del row["interval"]
    (saved.folder / "summary.json").write_text(json.dumps(saved.summary))
    with pytest.raises(InvalidInputError, match=r"fake-fig1.*reproduce the figure again"):
        write_page(tmp_path)


def test_claims_command_and_manifest_are_shown(tmp_path):
    fake(tmp_path)
    page = read(write_page(tmp_path))
    assert "maxmargin-thm2 [M, Thm 2] holds" in page.text
    assert "maxmargin-thm3 [M, Thm 3] not checked in this run" in page.text
    assert "Correction: As printed the theorem does not ask" in page.text
    assert "This version has no claim of this name." in page.text
    assert "tokenmargin reproduce fake-fig1 --preset smoke --seed 3 --steps 7" in page.text
    assert ["config · starts", "0.5, 1.5"] in page.rows
    assert ["wall_seconds", "1.5"] in page.rows
    assert any(tag == "details" for tag, _ in page.elements)


def test_text_from_files_is_inert(tmp_path):
    title, sentence = f'{SCRIPT} "quoted" & <b>bold</b>', f"{SCRIPT} x < y"
    fake(tmp_path, title=title, sentences=(sentence,), numbers=(Number(SCRIPT, 1.0),))
    page = read(write_page(tmp_path, missing=[(SCRIPT, f"data absent {SCRIPT}")]))
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "b", "iframe", "object", "form"}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert title in page.text
    assert sentence in page.text
    assert f"{SCRIPT}: not reproduced: data absent {SCRIPT}" in page.text
    assert any(title in (attributes.get("aria-label") or "") for tag, attributes in page.elements if tag == "div")


def test_data_that_are_missing_are_named_once(tmp_path):
    fake(tmp_path)
    missing = [
        ("other-fig2", "data absent (IMDB)"),
        ("other-fig3", "data absent (IMDB)"),
        ("else", "data absent (Yelp)"),
    ]
    text = read(write_page(tmp_path, missing=missing)).text
    assert text.count("3 figures were not reproduced") == 1
    assert text.count("data absent (IMDB)") == 1
    assert "other-fig2, other-fig3: not reproduced: data absent (IMDB)" in text
    assert "not reproduced" not in read(write_page(tmp_path)).text


def test_the_page_points_to_nothing_outside_itself(tmp_path):
    fake(tmp_path)
    path = write_page(tmp_path)
    ids = {attributes["id"] for _, attributes in read(path).elements if "id" in attributes}
    for tag, attributes in read(path).elements:
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            if name in attributes:
                target = attributes[name]
                assert target.startswith("data:image/") or target.removeprefix("#") in ids, (tag, name)
    source = re.sub(r"base64,[A-Za-z0-9+/=]+", "", path.read_text(encoding="utf-8"))
    assert "//" not in source
    assert not re.search(r"url\s*\(|@import", source)


def test_the_icon_is_inline_and_the_policy_forbids_the_rest(tmp_path):
    fake(tmp_path)
    elements = read(write_page(tmp_path)).elements
    assert any(tag == "link" and a["rel"] == "icon" and a["href"].startswith("data:") for tag, a in elements)
    assert any(tag == "meta" and "default-src 'none'" in a.get("content", "") for tag, a in elements)


def test_smoke_results_are_announced_as_such(tmp_path):
    fake(tmp_path)
    note = "Everything below was computed at smoke size"
    assert note in read(write_page(tmp_path)).text
    fake(tmp_path, preset="paper")
    page = read(write_page(tmp_path))
    assert note not in page.text
    assert "1 figure, sizes: paper, smoke." in page.text
    assert note not in read(write_page(tmp_path, preset="paper")).text


def test_only_one_preset_on_demand_and_figures_in_order(tmp_path):
    for name, paper in (("a-fig1", "A"), ("embeddings-fig1", "E"), ("maxmargin-fig10", "M"), ("maxmargin-fig2", "M")):
        fake(tmp_path, name=name, paper=paper)
    fake(tmp_path, name="maxmargin-fig3", preset="paper")
    (tmp_path / "maxmargin-fig2" / ".smoke-staging").mkdir()
    (tmp_path / "maxmargin-fig2" / ".smoke-staging" / "summary.json").write_text("{}")
    page = read(write_page(tmp_path, preset="smoke"))
    assert [a["id"] for tag, a in page.elements if tag == "section" and "-smoke" in a.get("id", "")] == [
        "maxmargin-fig2-smoke",
        "maxmargin-fig10-smoke",
        "embeddings-fig1-smoke",
        "a-fig1-smoke",  # of a paper that is not installed
    ]


def test_the_page_is_replaced_whole_and_leaves_nothing_behind(tmp_path, monkeypatch):
    fake(tmp_path)
    path = write_page(tmp_path)
    assert path == tmp_path / "index.html"
    before = path.read_bytes()
    assert write_page(tmp_path).read_bytes() == before, "the same results make the same page"

    def refuse(*_):
        raise OSError("disk full")

    fake(tmp_path, name="fake-fig2")
    monkeypatch.setattr("tokenmargin._atomic.os.replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_page(tmp_path)
    assert path.read_bytes() == before
    assert sorted(item.name for item in tmp_path.iterdir()) == ["fake-fig1", "fake-fig2", "index.html"]


def test_nothing_to_show_names_the_remedy(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InvalidInputError, match="tokenmargin reproduce all`"):
            write_page(folder)
    fake(tmp_path)
    with pytest.raises(InvalidInputError, match="reproduce all --preset paper"):
        write_page(tmp_path, preset="paper")
    assert not (tmp_path / "index.html").exists()


@pytest.mark.parametrize("name", ["figure.png", "manifest.json", "result.npz"])
def test_an_incomplete_result_is_named(tmp_path, name):
    saved = fake(tmp_path)
    (saved.folder / name).unlink()
    with pytest.raises(InvalidInputError, match=f"holds no {name}"):
        write_page(tmp_path)


def test_a_damaged_result_is_named(tmp_path):
    saved = fake(tmp_path)
    (saved.folder / "manifest.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"fake-fig1.*cannot be read"):
        write_page(tmp_path)
