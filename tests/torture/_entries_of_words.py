"""The public entries of whole fits, of next tokens and of evidence, with arguments that are right."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import tokenmargin as tm
from tests.torture._entries import COUNTS, NAMES, TEXTS, WORDS, Entries, folder
from tokenmargin import classify, sources, text, theory


def word_entries() -> Entries:
    contexts = text.word_contexts(TEXTS, vocabulary=4, window=3)
    graphs = {"rows": contexts.rows, "bigrams": contexts.bigrams, "n_words": contexts.n_words}
    asked = contexts.rows.last[:1].tolist()
    sequences = folder() / "sequences.parquet"
    sources.write_parquet(sequences, [{"sequence": [[0, 1], [1, 0]], "label": [0, 1]}])
    counts, targets = sp.csr_array(np.tile(COUNTS, (6, 1))), np.tile([1, 0], 12)
    settings = classify.FitSettings(text.plain_recipe(), bootstrap=0, show_texts=False)
    evidence = [theory.Evidence("maxmargin-lemma2", "any", 0, 2, 1, 1, 0, 0, {}, {}, None, "commit", {})]
    theory.write_evidence(evidence, folder() / "evidence.json")
    return {
        "fit": (
            tm.fit,
            {
                "data": {"text": TEXTS, "label": NAMES},
                "text": "text",
                "label": "label",
                "test_share": 0.2,
                "features": "words",
                "language": None,
                "bootstrap": 0,
                "seed": 0,
            },
        ),
        "fit of lists": (lambda data, label: tm.fit(data, label=label), {"data": TEXTS, "label": NAMES}),
        "fit_parts": (
            classify.fit_parts,
            {
                "parts": lambda: iter([(counts, targets)]),
                "n_documents": 24,
                "vocabulary": WORDS,
                "classes": ("no", "yes"),
                "settings": settings,
            },
        ),
        "word_graphs": (theory.word_graphs, {**graphs, "lasts": 2, "after": None, "trained": 0, "seed": 0}),
        "word_competitions": (
            theory.word_competitions,
            {"rows": contexts.rows, "lasts": asked, "trained": 0, "seed": 0},
        ),
        "next_token_parts": (
            lambda **asked: tm.TokenGraph.from_parts(sources.next_token_parts(**asked)),
            {"paths": [sequences], "sequences": "sequence", "labels": "label"},
        ),
        "write_evidence": (theory.write_evidence, {"found": evidence, "path": folder() / "evidence.json"}),
        "read_evidence": (theory.read_evidence, {"path": folder() / "evidence.json"}),
        "plot_evidence": (theory.plot_evidence, {"found": evidence, "ax": None}),
        "gather": (theory.gather, {"key": "maxmargin-lemma2", "wanted": 1, "seed": 0}),
    }
