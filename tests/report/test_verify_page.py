"""The page that verifies: in a real browser, offline, it says of a true and of a false file what Python says."""

from __future__ import annotations

import json
import random

import pytest

from tests import forged_certificates, forged_norms
from tokenmargin.report import verify_page
from tokenmargin.verify import verify


def test_dropped_files_are_answered_and_nothing_is_loaded(browser, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra test)")
    rng, path, files, verdicts = random.Random(0), tmp_path / "verify.html", [], {}
    path.write_text(verify_page(), encoding="utf-8")
    for source in (forged_certificates, forged_norms):
        for content in (source.truth(rng), source.forgery(rng)[1]):
            files.append(tmp_path / f"c{len(files)}.json")
            files[-1].write_text(json.dumps(content), encoding="utf-8")
            verdicts[files[-1].name] = verify(content).verified
    files.append(tmp_path / "bytes.json")
    files[-1].write_bytes(b"\xff\xfe")
    verdicts["bytes.json"] = False
    assert set(verdicts.values()) == {True, False}
    context = browser.new_context()
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert axe.Axe().run(page).response["violations"] == []
    page.set_input_files("#file", [str(file) for file in files])
    # By locators: `wait_for_function` may evaluate a string, which the policy of the page forbids.
    lines = page.locator("#verdicts li")
    lines.nth(len(files) - 1).wait_for()
    lines.filter(has_text="...").first.wait_for(state="detached")
    assert lines.count() == len(files)
    said = dict(line.split(": ")[:2] for line in lines.all_text_contents())
    assert {name: text == "verified" for name, text in said.items()} == verdicts
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    context.close()
