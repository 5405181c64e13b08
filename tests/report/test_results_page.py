import json
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass, replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Relation, Result
from tokenmargin.report import write_page
from tokenmargin.report.number_cells import ABSENT
from tokenmargin.report.results_page import results_page

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
    out, name="fake-fig1", preset="smoke", title="A title", sentences=("A sentence.",), numbers=NUMBERS, paper="M"
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
    )
    result = Result({"x": np.zeros(2)}, numbers, tuple(sentences))
    outcomes = {"maxmargin-thm2": "holds"}
    draw = lambda result, folder: (folder / "figure.png").write_bytes(png())  # noqa: E731
    return store.save(experiment, Tiny(7), preset, 3, result, 1.5, outcomes, out, draw)


class Reader(HTMLParser):
    """What a browser would see: elements with their attributes, the text, and the cells of each table row."""

    VOID = frozenset({"meta", "link", "img"})

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
    verdicts = "1 holds, 1 fails, 1 not comparable, 1 reported"
    assert ["fake-fig1", "A title", "[M, Fig. 1]", "smoke", verdicts] in page.rows


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
    assert "0 hold, 0 fail, 1 not decided" in page.text
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
    assert [SCRIPT, f"not reproduced: data absent {SCRIPT}"] in page.rows
    assert any(title in (attributes.get("alt") or "") for tag, attributes in page.elements if tag == "img")


def test_figures_that_are_missing_are_listed(tmp_path):
    fake(tmp_path)
    page = read(write_page(tmp_path, missing=[("other-fig2", "data absent")]))
    assert ["other-fig2", "not reproduced: data absent"] in page.rows
    assert "1 figure, 1 not reproduced" in page.text


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
    assert "1 figure · presets: paper, smoke" in page.text
    assert note not in read(write_page(tmp_path, preset="paper")).text


def test_only_one_preset_on_demand_and_figures_in_order(tmp_path):
    for name, paper in (("b-fig10", "M"), ("b-fig2", "M"), ("a-fig1", "E")):
        fake(tmp_path, name=name, paper=paper)
    fake(tmp_path, name="b-fig3", preset="paper")
    (tmp_path / "b-fig2" / ".smoke-staging").mkdir()
    (tmp_path / "b-fig2" / ".smoke-staging" / "summary.json").write_text("{}")
    page = read(write_page(tmp_path, preset="smoke"))
    assert [a["id"] for tag, a in page.elements if tag == "section"] == [
        "b-fig2-smoke",
        "b-fig10-smoke",
        "a-fig1-smoke",
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


BROWSER = next(filter(None, map(shutil.which, ("chromium", "/usr/bin/chromium", "google-chrome"))), None)
#: Long enough for a cold start on a busy machine.
BROWSER_SECONDS = 120


def browse(page: Path, scratch: Path, *flags: str) -> subprocess.CompletedProcess:
    """Open a page in a browser without a window; a proxy on a closed port stops any request that is made."""
    assert BROWSER is not None
    quiet = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
    usual = ["--headless", "--no-sandbox", *quiet.split(), "--disable-sync", "--proxy-server=127.0.0.1:9"]
    command = [BROWSER, *usual, f"--user-data-dir={scratch / 'profile'}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=BROWSER_SECONDS)


def observe(page: Path, scratch: Path) -> tuple[str, list[str], set[str]]:
    """The document as shown, what reached the console, and the addresses that the page (not the browser) asked for."""
    log = scratch / f"{page.stem}-net.json"
    shown = browse(page, scratch, "--enable-logging=stderr", "--v=0", f"--log-net-log={log}", "--dump-dom")
    console = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    events = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    # What the browser asks for on its own behalf (the time, updates) has no origin as its initiator.
    asked = {params["url"] for params in events if params.get("initiator", "not an origin") != "not an origin"}
    return shown.stdout, console, {url for url in asked if not url.startswith(("file:", "data:", "chrome"))}


@pytest.fixture
def scratch(tmp_path):
    if BROWSER is None:
        pytest.skip("no Chromium or Chrome on this machine")
    folder = tmp_path / "browser"
    folder.mkdir()
    return folder


def test_a_browser_shows_the_page_without_errors_or_requests(tmp_path, scratch):
    fake(tmp_path / "results", title=SCRIPT)
    fake(tmp_path / "results", name="fake-fig2", preset="paper")
    path = write_page(tmp_path / "results", missing=[("other-fig2", "data absent")])
    document, console, asked = observe(path, scratch)
    assert "share of starts" in document
    assert "<title>tokenmargin: results</title>" in document
    assert not console
    assert not asked


def test_a_browser_would_have_told(scratch):
    page = scratch / "bad.html"
    page.write_text("<img src='http://example.invalid/a.png'><script>console.error('bad')</script>")
    _, console, asked = observe(page, scratch)
    assert console
    assert asked == {"http://example.invalid/a.png"}


def test_a_phone_never_scrolls_sideways(tmp_path, scratch):
    wide = "w" * 300
    fake(tmp_path, title=wide, sentences=(wide,), numbers=(*NUMBERS, Number(wide, 1.0)))
    path = write_page(tmp_path, missing=[(wide, wide)])

    screenshot = scratch / "phone.png"
    browse(path, scratch, "--window-size=390,800", f"--screenshot={screenshot}")
    assert screenshot.read_bytes().startswith(b"\x89PNG")

    # The page runs no script, and a window cannot be as narrow as a phone: a frame is, and its owner can measure it.
    measure = "const of = frames[0].document.documentElement; document.title = `${of.scrollWidth} in ${of.clientWidth}`"
    for details in ("<details>", "<details open>"):
        page = path.read_text(encoding="utf-8").replace("<details>", details)
        phone = f'<iframe width="390" height="800" style="border: 0" srcdoc="{escape(page)}"></iframe>'
        owner = scratch / "owner.html"
        owner.write_text(f"<title></title>{phone}<script>onload = () => {{ {measure} }}</script>", encoding="utf-8")
        document = browse(owner, scratch, "--dump-dom").stdout
        found = re.search(r"<title>(\d+) in (\d+)</title>", document)
        assert found, "the frame was not measured"
        needed, available = int(found[1]), int(found[2])
        assert 360 <= available <= 390
        assert needed <= available
