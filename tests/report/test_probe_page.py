"""The page of a probe: what speaks against comes first, nothing of a user is markup, and everybody can read it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tokenmargin.probe import DecidingHits, Directions, ShownText, TextProbe, WordRow, text_verdicts
from tokenmargin.probe.text_findings import Interval
from tokenmargin.report import ProbeOrigin, probe_page

EVIL = "<script>document.title = 'run'</script>"
SHAPE = (2, 12)
ORIGIN = ProbeOrigin(EVIL, "tokenmargin probe model reviews.csv", (EVIL,), "A fit says which.", {"seed": 0})


def probe(hits: float = 0.1, cosine: float = 0.2, top: float = 0.3) -> TextProbe:
    """All heads alike, beside a blind pick of 10%, the rarest word of 20% and random queries of 0.3."""
    mean = {name: np.full(SHAPE, value) for name, value in (("sparsity", 4.0), ("entropy", 1.0), ("margin", 0.5))}
    mean |= {"top_mass": np.full(SHAPE, top), "relative_sparsity": np.full(SHAPE, 0.4), "outside": np.full(SHAPE, 0.9)}
    over = np.stack([np.full(SHAPE, hits - 0.1 + end) for end in (0.0, -0.02, 0.02)], axis=-1)
    agreement = DecidingHits(
        1000, np.full(SHAPE, hits), np.full(SHAPE, hits), np.full(2, hits), over, 0.1, 0.2, (1, 3),
        Interval(hits, hits - 0.02, hits + 0.02), Interval(hits - 0.1, hits - 0.12, hits - 0.08),
        Interval(hits - 0.2, hits - 0.22, hits - 0.18),
    )  # fmt: skip
    directions = Directions(5, *(np.full(SHAPE, x) for x in (cosine, 0.3, 0.4, 0.5)), 1.0)
    quantiles = {name: np.stack([mean[name]] * 5) for name in ("sparsity", "entropy", "top_mass", "margin")}
    shown = ShownText(
        f"A dull film. {EVIL}", (("A ", 0.0, False), ("dull", 0.7, True), (EVIL, 0.3, False)), "a", "dull", "bad"
    )
    return TextProbe(
        "encoder", "a pretrained encoder", (), 1000, 3, 2, 10.0, mean, quantiles, 500, np.full(2, 0.5), np.ones(SHAPE),
        agreement, directions, (WordRow(EVIL, 0.1, 0.05, 0.0),), (shown,),
    )  # fmt: skip


def test_every_number_stands_on_its_side():
    against, for_it = text_verdicts(probe()), text_verdicts(probe(hits=0.4, cosine=0.6, top=0.9))
    assert against.in_favour == []
    assert len(against.against) == 7
    assert len(for_it.in_favour) == 6
    assert ["[CLS] and [SEP]" in sentence for sentence in for_it.against] == [True]
    between = text_verdicts(probe(hits=0.15))
    assert any("blind pick is that word in 10.0%" in sentence for sentence in between.in_favour)
    assert any("rarest word" in sentence for sentence in between.against)
    assert any("n = 1" in sentence for sentence in against.limits)
    coins = probe()
    cosine = np.where(np.arange(24).reshape(SHAPE) < 13, 0.31, 0.29)  # 13 of 24: no more than coins would give
    near = text_verdicts(replace(coins, directions=replace(coins.directions, cosine=cosine)))
    assert any("13 of 24 heads" in sentence and "tossing coins" in sentence for sentence in near.against)


def test_nothing_of_a_user_is_markup_and_nothing_is_loaded():
    page = probe_page(probe(), ORIGIN)
    assert page.index("Against the idea") < page.index("For it") < page.index("How far to trust it")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "default-src 'none'" in page
    assert '<mark class="for shade4 decides">dull</mark>' in page
    assert "−2.0 to +2.0" in page  # noqa: RUF001


def test_the_page_is_accessible_in_light_and_dark_on_a_desk_and_a_phone(browser, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra test)")
    path = tmp_path / "probe.html"
    path.write_text(probe_page(probe(), ORIGIN), encoding="utf-8")
    for width, colours in ((1240, "light"), (390, "dark")):
        context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=colours)
        page, asked = context.new_page(), []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(path.as_uri())
        assert axe.Axe().run(page).response["violations"] == [], width
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
        context.close()
