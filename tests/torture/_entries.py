"""Public entries with arguments that are right, so that each of them can be replaced by one that is wrong.

Here are those of data and attention, {name: (callable, arguments)}; `_entries_of_*` hold the others. A public name that
has no entry is tried with nothing right at all: see `_worst`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import jax
import numpy as np

import tokenmargin as tm
from tokenmargin import attention, data
from tokenmargin.data import synthetic
from tokenmargin.data.problem_batch import ProblemBatch
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin._textbook_descent import textbook_descent
from tokenmargin.papers.maxmargin.claims.joint_balls import joint_path
from tokenmargin.papers.maxmargin.vit.images import ImageDataset

#: Entries whose right calls compile or compute for seconds: their arguments are tried one by one, but not by thousands.
SLOW = {"phase_map", "theorem5_study", "run_trials", "basin_map", "train", "fit_embeddings", "fit_texts", "check"}

Entries = dict[str, tuple[Callable[..., Any], dict[str, Any]]]

COUNTS = np.array([[2, 1, 0, 1], [0, 1, 3, 1], [1, 1, 0, 2], [0, 2, 1, 1]])
LABELS = [1, -1, 1, -1]
WORDS = ("good", "the", "bad", "film")
TEXTS = ["good good film", "bad film the", "the good film", "bad bad the film"] * 6
NAMES = ["yes", "no", "yes", "no"] * 6


@cache
def dataset() -> tm.TokenDataset:
    return tm.TokenDataset(COUNTS, LABELS, WORDS)


@cache
def folder() -> Path:
    """A folder of this process, for what is written and read."""
    place = Path(tempfile.mkdtemp(prefix="tokenmargin-torture-"))
    dataset().save(place / "dataset.npz")
    (place / "table.csv").write_text("text,label\n" + "".join(f"{t},{n}\n" for t, n in zip(TEXTS, NAMES, strict=True)))
    np.savez(place / "problem.npz", tokens=toys.fig8().tokens, labels=[1.0, 1.0], head=toys.fig8().head)
    return place


def data_entries() -> Entries:
    seq, p = toys.fig8(), [1.0, 0.5]
    rng = np.random.default_rng(0)
    chosen = data.CorpusSelection.of_tokens(dataset(), [0, 2, 0, 2])
    images = ImageDataset(np.zeros((4, 8, 8, 3), np.uint8), [0, 1, 0, 1], ["a", "b"])
    batch = ProblemBatch.from_tokens(rng.normal(size=(2, 2, 3, 2)), np.ones((2, 2)), rng.normal(size=(2, 2)))
    tensors = {"tokens": seq.tokens, "labels": seq.labels, "head": seq.head, "keys": seq.keys, "mask": seq.mask}
    counted = {"counts": COUNTS, "labels": LABELS, "vocabulary": WORDS, "drop_empty": False}
    ids = {"documents": [[0, 1], [2]], "labels": [0, 1], "vocabulary": None, "drop_empty": False}
    return {
        "EmbeddedSequences": (tm.EmbeddedSequences, tensors),
        "CrossSequences": (
            tm.CrossSequences,
            {"tokens": seq.tokens, "queries": 0, "labels": seq.labels, "head": seq.head, "mask": seq.mask},
        ),
        "as_norm": (tm.norms.as_norm, {"norm": "nuclear"}),
        "EmbeddedSequences.from_scores": (
            tm.EmbeddedSequences.from_scores,
            {"keys": seq.keys, "scores": np.ones(seq.mask.shape), "mask": None},
        ),
        "EmbeddedSequences.logits": (seq.logits, {"p": p}),
        "EmbeddedSequences.attention": (seq.attention, {"p": p}),
        "EmbeddedSequences.direction": (seq.direction, {"p": p, "name": "p"}),
        "TokenDataset": (tm.TokenDataset, counted),
        "TokenDataset.from_token_ids": (tm.TokenDataset.from_token_ids, ids),
        "TokenDataset.subset": (dataset().subset, {"rows": [0, 1]}),
        "TokenDataset.__getitem__": (dataset().__getitem__, {"rows": [0, 1]}),
        "TokenDataset.restrict_vocabulary": (dataset().restrict_vocabulary, {"columns": [0, 1, 2], "drop_empty": True}),
        "TokenDataset.save": (dataset().save, {"path": folder() / "saved.npz"}),
        "TokenDataset.load": (tm.TokenDataset.load, {"path": folder() / "dataset.npz"}),
        "Selection": (tm.Selection, {"chosen": [[True, False], [False, True]]}),
        "Selection.from_indices": (tm.Selection.from_indices, {"indices": [0, 1], "T": 2}),
        "Selection.check_fits": (tm.optimal_selection(seq).check_fits, {"sequences": seq}),
        "optimal_selection": (tm.optimal_selection, {"sequences": seq}),
        "selection_of": (tm.selection_of, {"sequences": seq, "p": p, "tolerance": 1e-9}),
        "secondary_selection": (data.secondary_selection, {"sequences": seq, "p": p, "tolerance": 1e-9}),
        "scores": (tm.scores, {"sequences": seq}),
        "score_tie_widths": (data.score_tie_widths, {"sequences": seq}),
        "tie_widths": (data.tie_widths, {"gamma": np.ones((2, 2))}),
        "token_statistics": (tm.token_statistics, {"dataset": dataset()}),
        "signed_frequency": (data.signed_frequency, {"dataset": dataset()}),
        "assumption4": (synthetic.assumption4, {"dataset": dataset()}),
        "KLevel": (
            synthetic.KLevel,
            {"irrelevant": 4, "sizes": (2, 2), "relevant_share": 0.5, "levels": (0.4, 0.2), "T": 8},
        ),
        "KLevel.law": (synthetic.KLevel().law, {"y": 1}),
        "KLevel.posterior": (synthetic.KLevel().posterior, {"y": 1}),
        "k_level": (synthetic.k_level, {"rng": rng, "n": 4, "law": None}),
        "single_relevant": (
            synthetic.single_relevant,
            {"rng": rng, "n": 4, "T": 4, "irrelevant": None, "repeats": None, "negative_repeats": None},
        ),
        "corpus_selection": (
            tm.corpus_selection,
            {"dataset": dataset(), "embeddings": np.eye(4), "query": np.ones(4), "tolerance": 1e-9},
        ),
        "CorpusSelection": (data.CorpusSelection, {"dataset": dataset(), "chosen": chosen.chosen, "narrowest": 1.0}),
        "CorpusSelection.of_tokens": (data.CorpusSelection.of_tokens, {"dataset": dataset(), "tokens": [0, 2, 0, 2]}),
        "CorpusSelection.tokens": (chosen.tokens, {"dataset": dataset()}),
        "CorpusSelection.representatives": (chosen.representatives, {"dataset": dataset()}),
        "CorpusSelection.check_fits": (chosen.check_fits, {"dataset": dataset()}),
        "ImageDataset": (
            ImageDataset,
            {"images": np.zeros((2, 8, 8, 3), np.uint8), "labels": [0, 1], "class_names": ["a", "b"]},
        ),
        "ImageDataset.subset": (images.subset, {"rows": [0, 1]}),
        "ImageDataset.with_labels": (images.with_labels, {"labels": [0, 1, 0, 1]}),
        "descend_batch": (
            attention.descend_batch,
            {"problems": batch, "method": tm.Descent(0.1), "steps": 3, "loss": tm.losses.logistic},
        ),
        "textbook_descent": (
            textbook_descent,
            {
                "problems": batch,
                "starts": np.ones((2, 2)),
                "method": tm.NormalizedDescent(0.1),
                "steps": 3,
                "loss": tm.losses.logistic,
            },
        ),
    }


def attention_entries() -> Entries:
    seq, p, v = toys.fig8(), [1.0, 0.5], [1.0, 0.5]
    risk, joint = tm.AttentionRisk(seq), tm.JointRisk(seq)
    curved = tm.HeadRisk(seq, attention.QuadraticHead(np.eye(2), [1.0, 0.0]))
    run = tm.follow(risk, p, tm.Descent(0.1), steps=1)
    crossed = tm.CrossSequences(seq.tokens, queries=0, labels=seq.labels, head=seq.head)
    factored = tm.follow(tm.FactoredRisk(crossed, 1), (np.ones((2, 1)), np.ones((2, 1))), tm.Descent(0.1), steps=1)
    made: Entries = {
        "AttentionRisk": (tm.AttentionRisk, {"sequences": seq, "loss": tm.losses.logistic}),
        "MatrixRisk": (tm.MatrixRisk, {"sequences": crossed, "loss": tm.losses.logistic, "head": None}),
        "MatrixRisk.value": (tm.MatrixRisk(crossed).value, {"point": np.eye(2)}),
        "FactoredRisk": (
            tm.FactoredRisk,
            {"sequences": crossed, "rank": 1, "loss": tm.losses.logistic, "head": None},
        ),
        "SteepestDescent": (tm.SteepestDescent, {"norm": "max", "lr": 0.1, "momentum": 0.0, "decay": 0.0}),
        "MirrorDescent": (tm.MirrorDescent, {"q": 3.0, "lr": 0.1, "decay": 0.0}),
        "Adam": (tm.Adam, {"lr": 0.1, "b1": 0.9, "b2": 0.9, "epsilon": 0.0, "decay": 0.0}),
        "stationarity": (attention.stationarity, {"limit": factored.limit}),
        "follow in a norm": (
            tm.follow,
            {"risk": tm.MatrixRisk(crossed), "start": np.eye(2), "method": tm.SteepestDescent("max", 0.1), "steps": 1},
        ),
        "HeadRisk": (
            tm.HeadRisk,
            {"sequences": seq, "head": attention.LinearHead([1.0, 0.0]), "loss": tm.losses.logistic},
        ),
        "JointRisk": (tm.JointRisk, {"sequences": seq, "loss": tm.losses.logistic, "speeds": (1.0, 1.0)}),
        "NextTokenRisk": (
            tm.NextTokenRisk,
            {
                "sequences": [[0, 1], [1, 0]],
                "labels": [0, 1],
                "embeddings": np.eye(2),
                "loss": tm.losses.label_log,
                "names": None,
            },
        ),
        "causal_rows": (data.causal_rows, {"texts": [[0, 1, 0], [1, 0, 1]], "window": None}),
        "TokenGraph": (tm.TokenGraph, {"sequences": [[0, 1], [1, 0]], "labels": [0, 1], "names": None}),
        "graph_svm": (
            tm.graph_svm,
            {"graph": tm.TokenGraph([[0, 1]], [0]), "embeddings": np.eye(2), "norm": "frobenius"},
        ),
        "finite_part": (
            tm.theory.finite_part,
            {"risk": tm.NextTokenRisk([[0, 1], [0, 1]], [0, 1], np.eye(2)), "prove": True},
        ),
        "Descent": (tm.Descent, {"lr": 0.1}),
        "NormalizedDescent": (tm.NormalizedDescent, {"lr": 0.1, "epsilon": 0.0}),
        "Flow": (tm.Flow, {"until_norm": 1e3, "atol": 1e-4, "rtol": 1e-9, "max_steps": 100}),
        "LinearHead": (attention.LinearHead, {"weights": [1.0, 0.0]}),
        "QuadraticHead": (attention.QuadraticHead, {"matrix": np.eye(2), "weights": [1.0, 0.0], "offset": 0.0}),
        "ReLUHead": (attention.ReLUHead, {"hidden": np.ones((3, 2)), "bias": np.ones(3), "output": np.ones(3)}),
        "ReLUHead.random": (attention.ReLUHead.random, {"key": jax.random.key(0), "width": 2, "hidden": 3}),
        "CustomLoss": (
            attention.CustomLoss,
            {"function": lambda u: -u, "curvature_bound": 1.0, "slope_bound": 1.0},
        ),
        "follow": (
            tm.follow,
            {"risk": risk, "start": p, "method": tm.Descent(0.1), "steps": 10, "every": None, "keep_path": None},
        ),
        "follow (joint)": (tm.follow, {"risk": joint, "start": (v, p), "method": tm.Descent(0.1), "steps": 10}),
        "follow_all": (
            attention.follow_all,
            {"risks": [risk], "starts": [p], "method": tm.Descent(0.1), "steps": 10, "every": None, "keep_path": False},
        ),
        "continued": (tm.continued, {"run": run, "method": tm.Flow()}),
        "limits_of": (attention.limits_of, {"risks": [risk], "points": [[9.0, 5.0]]}),
        "regularization_path": (
            tm.regularization_path,
            {
                "risk": seq,
                "radii": (1.0,),
                "starts": None,
                "random_starts": 1,
                "seed": 0,
            },
        ),
        "local_path": (
            attention.local_path,
            {
                "risk": seq,
                "axis": p,
                "epsilon": 0.1,
                "radii": (2.0,),
                "inner_radius": 1.0,
                "random_starts": 1,
                "seed": 0,
            },
        ),
        "joint_path": (
            joint_path,
            {"risk": joint, "start_v": v, "start_p": p, "radii_v": [1.0], "radii_p": [1.0]},
        ),
        "head_scores": (
            attention.head_scores,
            {"head": attention.LinearHead([1.0, 0.0]), "tokens": seq.tokens, "labels": seq.labels},
        ),
    }
    of_a_point = ("value", "gradient", "descent_direction", "force", "attention", "felt", "point")
    for name, of, point in (("AttentionRisk", risk, p), ("HeadRisk", curved, p), ("JointRisk", joint, (v, p))):
        # HeadRisk.felt calls its point p, as it is one.
        for method in of_a_point:
            argument = next(iter(signature(getattr(of, method)).parameters))
            made[f"{name}.{method}"] = (getattr(of, method), {argument: point})
    for name, of in (("AttentionRisk", risk), ("HeadRisk", curved)):
        made[f"{name}.log_excess"] = (of.log_excess, {"points": [p], "allowed": tm.selection_of(seq, p)})
    made["AttentionRisk.jacobian"] = (risk.jacobian, {"p": p})
    for loss in ("logistic", "exponential", "correlation"):
        made[f"{loss}.bounds"] = (getattr(tm.losses, loss).bounds, {"low": -1.0, "high": 1.0})
        for method in ("value", "log_slope", "log_slope_derivative"):
            made[f"{loss}.{method}"] = (getattr(getattr(tm.losses, loss), method), {"u": np.ones(2)})
    return made
