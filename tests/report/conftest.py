"""One real browser for all tests of pages; they are skipped, with the reason, where there is none."""

import shutil

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("no Chromium or Chrome on this machine")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra test)")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()
