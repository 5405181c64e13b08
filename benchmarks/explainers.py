"""Explanations a second beside SHAP and LIME on the same model and texts; a page beside scattertext's and shap's.

The model is what `tokenmargin fit` makes of the sentences of film reviews that come with the package. Everybody gets
strings: ours finds the words and what each contributed (exactly), SHAP and LIME ask the same model's `predict_proba`
as their documentation shows, SHAP with a text masker, both at their default number of samples.
Times are a text, in turns, after one call of each that is not counted. Pages are timed from a CSV file to an HTML file
in this process, imports not counted. Needs the extra `bench` (shap, lime, scattertext).
"""

from __future__ import annotations

import csv
import importlib
import re
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from benchmarks.alternating import alternate
from tokenmargin import cli
from tokenmargin.classify import TextModel, load
from tokenmargin.sources import sentence_polarity

#: Texts that ours explains in a round, and the slower ones: their time a text is what is compared.
OURS, PEERS = 1000, 3
ROUNDS = 3

#: Texts on shap's page.
SHAP_PAGE = 50


def written_csv(folder: Path) -> tuple[Path, list[str]]:
    """The corpus as a file, and its texts."""
    corpus = sentence_polarity().load()
    path = folder / "reviews.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(zip(corpus.texts, corpus.labels, strict=True))
    return path, list(corpus.texts)


def explanations(model: TextModel, texts: list[str]) -> None:
    """Seconds a text of each peer over ours."""
    import shap
    from lime.lime_text import LimeTextExplainer

    by_shap = shap.Explainer(model.predict_proba, shap.maskers.Text(r"\W+"), output_names=list(model.classes))
    by_lime = LimeTextExplainer(class_names=list(model.classes), random_state=0)
    peers: dict[str, Callable[[str], object]] = {
        "SHAP (text masker, its default)": lambda text: by_shap([text], silent=True),
        "LIME (5,000 samples, its default)": lambda text: by_lime.explain_instance(text, model.predict_proba),
    }
    for name, peer in peers.items():
        ratio = alternate(
            name,
            lambda: list(model.explain_all(texts[:OURS])),
            lambda peer=peer: [peer(text) for text in texts[:PEERS]],  # type: ignore[misc]
            ROUNDS,
        )
        # A round of ours has more texts than one of theirs: per text, both.
        ours, theirs = ratio.ours / OURS, ratio.peer / PEERS
        times = sorted((theirs / ours).tolist())
        print(
            f"{name:<36} {times[len(times) // 2]:>9,.0f}x  (rounds {times[0]:,.0f} to {times[-1]:,.0f})   "
            f"ours {1 / ours.mean():,.0f} texts/s, peer {1 / theirs.mean():.2f} texts/s"
        )


def now() -> tuple[float, float]:
    """Wall clock and CPU of this process: on a busy machine the second says more."""
    return time.perf_counter(), time.process_time()


def told(name: str, page: str, begin: tuple[float, float], note: str) -> None:
    wall, cpu = (end - start for end, start in zip(now(), begin, strict=True))
    asks = len(re.findall(r"(?:src|href)=[\"']?https?://", page))
    needs = f"asks the network for {asks} files" if asks else "asks the network for nothing"
    print(f"{name:<36} {wall:7.1f} s ({cpu:.1f} s CPU)  {len(page.encode()) / 1e6:5.2f} MB  {needs}; {note}")


def page_of_ours(path: Path, folder: Path) -> None:
    # What the command imports on first use, as the imports of the others are not counted either.
    for package in ("pyarrow.parquet", "sklearn.linear_model", "tokenmargin.classify.fitting", "tokenmargin.report"):
        importlib.import_module(package)
    begin = now()
    assert cli.main(["fit", str(path), "--out", str(folder / "fit"), "--quiet"]) == 0
    page = (folder / "fit" / "report.html").read_text(encoding="utf-8")
    told("tokenmargin fit", page, begin, "all tokens, 200 texts, trained and judged")


def page_of_scattertext(path: Path) -> None:
    import pandas as pd
    import scattertext

    begin = now()
    table = pd.read_csv(path)
    corpus = scattertext.CorpusFromPandas(
        table, category_col="label", text_col="text", nlp=scattertext.whitespace_nlp_with_sentences
    ).build()
    page = scattertext.produce_scattertext_explorer(
        corpus, category="positive", category_name="positive", not_category_name="negative", minimum_term_frequency=2
    )
    told("scattertext", page, begin, "counts, nothing trained")


def page_of_shap(model: TextModel, texts: list[str]) -> None:
    import shap

    begin = now()
    explainer = shap.Explainer(model.predict_proba, shap.maskers.Text(r"\W+"), output_names=list(model.classes))
    values = explainer(texts, silent=True)[:, :, 1]  # towards one class: half of the page that both would make
    page = f"<html><head>{shap.getjs()}</head><body>{shap.plots.text(values, display=False)}</body></html>"
    told(f"shap.plots.text, {len(texts)} texts", page, begin, "the model was trained before")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peers and their dependencies
        folder = Path(name)
        path, texts = written_csv(folder)
        print(f"from a CSV file of {len(texts):,} sentences to a page, imports not counted")
        page_of_ours(path, folder)
        model = load(folder / "fit")
        page_of_scattertext(path)
        page_of_shap(model, texts[:SHAP_PAGE])
        print("\nexplanations, the same model and texts: seconds a text of the peer over ours")
        explanations(model, texts)


if __name__ == "__main__":
    main()
