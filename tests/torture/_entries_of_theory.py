"""The public entries of theory and explain, with arguments that are right."""

from __future__ import annotations

import json

import jax
import numpy as np
import scipy.sparse as sp

import tokenmargin as tm
from tests.torture._entries import COUNTS, NAMES, TEXTS, WORDS, Entries, dataset, folder
from tokenmargin import (
    classify,
    text,
    theory,
)
from tokenmargin.papers import embeddings, maxmargin
from tokenmargin.papers.maxmargin import toys


def theory_entries() -> Entries:
    seq, p = toys.fig8(), [1.0, 0.5]
    best = tm.optimal_selection(seq)
    path = tm.follow(tm.AttentionRisk(seq), p, tm.Flow())
    limit = path.limit
    torn = tm.EmbeddedSequences([[[1.0], [2.0]], [[3.0], [1.0]]], [1, -1], [1.0])
    stays = tm.follow(tm.AttentionRisk(torn), [0.5], tm.Flow()).limit
    graph = tm.TokenGraph([["a", "b"], ["b", "a"]], ["a", "b"])
    case = embeddings.EmbeddingCase(dataset(), 0.1, 2.0)
    grid = embeddings.PhaseGrid((0.1,), (2.0,), 1, 2, 2)
    small = maxmargin.Study(2, 3, 10)
    problem = theory.load_problem(folder() / "problem.npz")
    theory.write_certificate(tm.att_svm(seq, best), folder() / "written.json")
    return {
        "check": (tm.check, {"problem": problem, "keys": ["maxmargin-lemma3"]}),
        "compare": (tm.compare, {"limit": limit}),
        "proven_finite": (theory.proven_finite, {"limit": stays}),
        "Trajectory.plot": (path.plot, {"ax": None}),
        "Limit.plot": (limit.plot, {"ax": None}),
        "MarginSolution.plot": (tm.att_svm(seq, best).plot, {"ax": None}),
        "TokenGraph.plot": (graph.plot, {"last": None, "ax": None}),
        "compared_with": (theory.compared_with, {"limit": limit, "solution": tm.att_svm(seq, best)}),
        "basin_map": (
            tm.basin_map,
            {"sequences": seq, "starts": [p], "loss": tm.losses.logistic, "method": tm.Flow(until_norm=100.0)},
        ),
        "corpus_agreement": (
            tm.corpus_agreement,
            {"dataset": dataset(), "embeddings": np.eye(4), "query": [2.0, 0.0, 1.0, -1.0]},
        ),
        "assumption_c": (maxmargin.assumption_c, {"sequences": seq, "selection": best, "trial_points": ()}),
        "enumerated_path": (
            theory.enumerated_path,
            {"sequences": seq, "loss": tm.losses.logistic, "radii": [1.0], "limit": 100},
        ),
        "certify_path": (
            theory.certify_path,
            {"path": tm.regularization_path(seq, radii=(1.0, 10.0), random_starts=1), "limit": 100},
        ),
        "load_problem": (theory.load_problem, {"path": folder() / "problem.npz"}),
        "problem_of_arrays": (
            theory.problem_of_arrays,
            {"arrays": {"tokens": seq.tokens, "labels": seq.labels, "head": seq.head}},
        ),
        "on_support": (maxmargin.on_support, {"sequences": seq, "selection": best}),
        "one_minus_cosine": (theory.one_minus_cosine, {"a": p, "b": p}),
        "EmbeddingCase": (
            embeddings.EmbeddingCase,
            {"dataset": dataset(), "eta0": 0.1, "log10_d": 2.0, "seed": 0, "delta": 0.1, "explicit": False},
        ),
        "rivals": (embeddings.rivals, {"case": case}),
        "PhaseGrid": (
            embeddings.PhaseGrid,
            {"eta0": (0.1,), "log10_d": (2.0,), "draws": 1, "n": 2, "T": 2, "delta": 0.1},
        ),
        "phase_map": (embeddings.phase_map, {"grid": grid, "seed": 0, "norms": (1e6, 1e8)}),
        "Study": (
            maxmargin.Study,
            {"n": 2, "T": 3, "steps": 10, "lr": 1.0, "until_norm": 1e6, "atol": 1e-4},
        ),
        "trial": (maxmargin.trial, {"study": small, "seed": 0, "d": 4, "number": 0}),
        "run_trials": (
            maxmargin.run_trials,
            {"study": small, "seed": 0, "d": 4, "numbers": range(1), "treatment": "printed"},
        ),
        "Theorem5Study": (
            embeddings.Theorem5Study,
            {"sets": 1, "sizes": ((2, 2),), "delta": 0.1, "explicit_log10_d": None},
        ),
        "theorem5_study": (embeddings.theorem5_study, {"study": embeddings.Theorem5Study(1, ((2, 2),)), "seed": 0}),
        "speaks_of": (
            theory.speaks_of,
            {"content": json.loads((folder() / "written.json").read_text()), "given": problem},
        ),
        "write_certificate": (
            theory.write_certificate,
            {"answer": tm.att_svm(seq, best), "path": folder() / "certificate.json"},
        ),
    }


def explain_entries() -> Entries:
    counts = sp.csr_array(np.tile(COUNTS, (6, 1)))
    targets = np.tile([1, 0], 12)
    fitted = classify.fit_tokens(counts, targets, 2, ridge_value=1.0)
    classifier = classify.AttentionClassifier(ridge=1.0).fit(counts, NAMES)
    settings = classify.FitSettings(text.plain_recipe(minimum_count=1))
    corpus = classify.LabelledCorpus(tuple(TEXTS), tuple(NAMES))
    whole = classify.fit_texts(corpus, settings)
    classify.save(whole.model, folder() / "model")
    made: Entries = {
        "AttentionClassifier": (
            lambda **options: classify.AttentionClassifier(**options).fit(counts, NAMES),
            {
                "power": 0.5,
                "ridge": 1.0,
                "ridge_score": 8.0,
                "class_weight": None,
                "early_stopping": False,
                "validation_fraction": 0.1,
                "width": None,
                "epochs": 1,
                "max_iter": 5,
                "tol": 1e-3,
                "random_state": 0,
            },
        ),
        "AttentionClassifier.fit": (
            classify.AttentionClassifier(ridge=1.0).fit,
            {"X": counts, "y": NAMES, "sample_weight": None},
        ),
        "fit_tokens": (
            classify.fit_tokens,
            {
                "counts": counts,
                "targets": targets,
                "n_classes": 2,
                "sample_weight": None,
                "power": 0.5,
                "ridge_value": 1.0,
                "ridge_score": 8.0,
                "max_iter": 5,
                "tol": 1e-3,
                "validation": None,
            },
        ),
        "fit_embeddings": (
            classify.fit_embeddings,
            {
                "counts": counts,
                "targets": targets,
                "width": 4,
                "key": jax.random.key(0),
                "epochs": 1,
                "batch_size": 8,
                "optimiser": None,
                "validation": None,
            },
        ),
        "deciding_tokens": (
            classify.deciding_tokens,
            {
                "model": fitted.model,
                "counts": counts,
                "targets": targets,
                "classes": ("no", "yes"),
                "vocabulary": WORDS,
                "words": None,
                "again": None,
                "within": None,
            },
        ),
        "evaluate": (
            classify.evaluate,
            {"probabilities": np.array([[0.3, 0.7], [0.6, 0.4]]), "truth": np.array([1, 0]), "classes": ("no", "yes")},
        ),
        "LabelledCorpus": (classify.LabelledCorpus, {"texts": tuple(TEXTS), "labels": tuple(NAMES)}),
        "FitSettings": (
            classify.FitSettings,
            {"recipe": settings.recipe, "test_share": 0.2, "seed": 0, "bootstrap": 0, "show_texts": True},
        ),
        "fit_texts": (classify.fit_texts, {"corpus": corpus, "settings": settings, "test": None}),
        "save": (classify.save, {"model": whole.model, "folder": folder() / "model"}),
        "export": (
            classify.export,
            {"model": whole.model, "folder": folder() / "exported", "forms": [classify.Form.JSON], "command": ""},
        ),
        "load": (tm.load, {"folder": folder() / "model"}),
        "write_fit": (classify.write_fit, {"fitted": whole, "folder": folder() / "fit"}),
        "TextModel.predict": (whole.model.predict, {"texts": TEXTS[:2]}),
        "TextModel.predict_proba": (whole.model.predict_proba, {"texts": TEXTS[:2]}),
        "TextModel.explain": (whole.model.explain, {"text": TEXTS[0]}),
        "TextModel.explain_all": (lambda texts: list(whole.model.explain_all(texts)), {"texts": TEXTS[:2]}),
        "TokenModel": (
            classify.TokenModel,
            {"score": np.ones(4), "value": np.ones((4, 1)), "intercept": np.ones(1), "power": 0.5, "root_length": True},
        ),
        "TokenTable.towards": (whole.tokens.towards, {"name": "yes", "top": 2}),
        "TokenTable.shown": (whole.tokens.shown, {"top": 2}),
    }
    for name in ("decision_function", "predict_proba", "predict", "explain"):
        made[f"AttentionClassifier.{name}"] = (getattr(classifier, name), {"X": counts})
    for name in ("attention", "contributions", "margins", "probabilities"):
        made[f"TokenModel.{name}"] = (getattr(fitted.model, name), {"counts": counts})
    made["Contributions.matrix"] = (fitted.model.contributions(counts).matrix, {"column": 0})
    return made
