"""The files that people look at after a fit: its page, and the model beside it where the page cannot hold it."""

from __future__ import annotations

from tokenmargin._atomic import HALVES
from tokenmargin.classify.judging import FittedTexts
from tokenmargin.classify.packed_model import Precision, packed_model
from tokenmargin.report._text_box import text_box
from tokenmargin.report.fit_page import fit_page

#: Largest page.
PAGE_BYTES = 5_000_000


def fit_files(fitted: FittedTexts) -> dict[str, str]:
    """The page of a fit with its box for any text, and model.js where the model is too large for the page."""
    box = text_box(fitted.model)
    page = fit_page(fitted.report, box)
    if box.why_not:
        return {"report.html": page}
    packed = packed_model(fitted.model, Precision.STEPS)
    if len(page.encode(errors=HALVES)) + len(packed) <= PAGE_BYTES:
        return {"report.html": fit_page(fitted.report, text_box(fitted.model, packed))}
    return {"report.html": page, "model.js": f'globalThis.tokenmarginModel = "{packed}";\n'}
