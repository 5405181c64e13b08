"""The public entries of margin, models, training and first_step, with arguments that are right."""

from __future__ import annotations

import jax
import numpy as np

import tokenmargin as tm
from tests.torture._entries import Entries, dataset
from tokenmargin import (
    data,
    first_step,
    margin,
    training,
)
from tokenmargin.models import MatmulPrecision
from tokenmargin.papers.maxmargin import _cones, toys
from tokenmargin.papers.maxmargin.vit.image_batches import augmented_image_batches, image_batches
from tokenmargin.papers.maxmargin.vit.images import ImageDataset
from tokenmargin.papers.maxmargin.vit.vit import Vit


def margin_entries() -> Entries:
    seq, p = toys.fig8(), [1.0, 0.5]
    both = tm.optimal_selection(seq)
    solution = tm.att_svm(seq, both)
    anyof = tm.att_svm_any(seq, both)
    corpus = {
        "dataset": dataset(),
        "embeddings": np.eye(4),
        "selection": data.CorpusSelection.of_tokens(dataset(), [0, 2, 0, 2]),
    }
    solved = tm.corpus_svm(**corpus)
    rows = np.array([[1.0, 0.0], [0.5, 1.0]])
    stack = np.stack([rows, rows])
    chosen = {"sequences": seq, "selection": both}
    return {
        "att_svm": (tm.att_svm, {**chosen, "norm": "l2"}),
        "att_svm_any": (tm.att_svm_any, {"sequences": seq, "allowed": both, "norm": "l2", "max_nodes": 100}),
        "att_svm_batch": (margin.att_svm_batch, {"sequences": [seq], "selections": [both], "norm": "l2"}),
        "corpus_svm": (tm.corpus_svm, {**corpus, "tolerance": 1e-6, "start": None}),
        "CorpusMargin.is_optimal": (solved.is_optimal, {"tolerance": 1e-6}),
        "CorpusMargin.support": (solved.support, {"k": 1}),
        "AnyOfSolution.distance": (anyof.distance, {"p": p}),
        "MarginSolution.is_optimal": (solution.is_optimal, {"tolerance": 1e-6}),
        "global_margin": (tm.global_margin, {"sequences": seq, "norm": "l2"}),
        "label_svm": (tm.label_svm, {"features": rows, "labels": [1, -1]}),
        "selected_label_svm": (margin.selected_label_svm, chosen),
        "local_margins": (tm.local_margins, {"risk": seq, "norm": "l2", "limit": 100}),
        "feasible_selections": (margin.feasible_selections, {"sequences": seq, "limit": 100}),
        "relaxed_svm": (tm.relaxed_svm, {**chosen, "relaxed": None, "norm": "l2"}),
        "relaxed_inputs": (margin.relaxed_inputs, chosen),
        "relaxing_rate": (margin.relaxing_rate, chosen),
        "rate_direction": (margin.rate_direction, {**chosen, "rate": 0.5}),
        "pair_svm": (margin.pair_svm, {"rows": rows, "ties": None, "norm": "l2", "shape": None}),
        "least_norm": (margin.least_norm, {"rows": rows, "rhs": np.ones(2), "ties": None, "norm": "l2", "shape": None}),
        "least_norm_batch": (margin.least_norm_batch, {"rows": stack, "rhs": np.ones((2, 2))}),
        "cone_constants": (_cones.cone_constants, {"solution": solution}),
        "in_cone": (_cones.in_cone, {"p": p, "axis": p, "mu": 0.1, "radius": 0.0}),
        "directional_margin": (margin.directional_margin, {"sequences": seq, "q": p}),
        "is_locally_optimal": (margin.is_locally_optimal, {"solution": solution}),
        "is_locally_optimal_direction": (margin.is_locally_optimal_direction, {"sequences": seq, "p": p}),
        "neighbors": (margin.neighbors, {"solution": solution}),
        "neighbor_score_gap": (margin.neighbor_score_gap, {"solution": solution}),
    }


def run_entries() -> Entries:
    one = tm.OneLayer(4)
    run = tm.train(dataset(), one, tm.AdamW(), epochs=1, key=jax.random.key(0), batch_size=4)
    told = {"dataset": dataset(), "model": one, "optimiser": tm.AdamW(), "epochs": 1, "key": jax.random.key(0)}
    return {
        "train": (
            tm.train,
            {
                **told,
                "batch_size": 4,
                "schedule": tm.StepSchedule(()),
                "dtype": np.float32,
                "start": None,
                "vocabulary": None,
            },
        ),
        "TrainingRun.evaluate": (run.evaluate, {"dataset": dataset(), "batch_size": 2}),
        "Evaluator": (
            tm.Evaluator,
            {"dataset": dataset(), "model": one, "vocabulary": None, "batches": None, "batch_size": 2, "dtype": None},
        ),
    }


def training_entries() -> Entries:
    one, two = tm.OneLayer(4), tm.TwoLayer(4)
    images = ImageDataset(np.zeros((4, 8, 8, 3), np.uint8), [0, 1, 0, 1], ["a", "b"])
    batches = {"batch_size": 2, "dtype": "float32"}
    made: Entries = {
        "OneLayer": (
            tm.OneLayer,
            {"width": 4, "trainable": ("query",), "init_scale": 1.0, "score_scale": 1.0, "loss": tm.losses.logistic},
        ),
        "TwoLayer": (
            tm.TwoLayer,
            {
                "width": 4,
                "affine": True,
                "init_scale": 1.0,
                "precision": MatmulPrecision.FULL,
                "fixed_order": False,
                "epsilon": 1e-5,
                "score_scale": 1.0,
                "mixing_scale": 1.0,
                "loss": tm.losses.logistic,
            },
        ),
        "Vit": (
            Vit,
            {
                "width": 8,
                "depth": 1,
                "heads": 2,
                "side": 8,
                "patch": 4,
                "hidden": 2,
                "trains_attention": True,
                "half": False,
            },
        ),
        "Vit.of_size": (Vit.of_size, {"name": "tiny"}),
        "AdamW": (tm.AdamW, {"lr": 0.1, "weight_decay": 0.0, "betas": (0.9, 0.99), "eps": 1e-8}),
        "SGD": (training.SGD, {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}),
        "GradientDescent": (training.GradientDescent, {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}),
        "StepSchedule": (tm.StepSchedule, {"epochs": (1, 2), "factor": 0.5}),
        "StepSchedule.multiplier": (tm.StepSchedule().multiplier, {"epoch": 1}),
        "StepSchedule.multipliers": (tm.StepSchedule().multipliers, {"epoch": 1, "steps": 2}),
        "WarmUp": (training.WarmUp, {"epochs": 1.0}),
        "WarmUp.multipliers": (training.WarmUp().multipliers, {"epoch": 1, "steps": 2}),
        "count_batches": (training.count_batches, {"dataset": dataset(), **batches}),
        "document_batches": (training.document_batches, {"dataset": dataset(), **batches, "most_shelves": 2}),
        "image_batches": (image_batches, {"dataset": images, **batches}),
        "augmented_image_batches": (augmented_image_batches, {"dataset": images, **batches}),
        "batch_factory": (lambda model: training.batch_factory(model), {"model": one}),
    }
    key = jax.random.key(0)
    for name, model in (("OneLayer", one), ("TwoLayer", two)):
        made[f"{name}.initial"] = (model.initial, {"key": key, "vocabulary_size": 4, "dtype": np.float32})
    made |= {
        "one_step": (
            tm.one_step,
            {"dataset": dataset(), "eta0": 0.1, "d": 4, "key": np.random.default_rng(0), "head": None},
        ),
        "gram_step": (
            tm.gram_step,
            {"dataset": dataset(), "eta0": 0.1, "log10_d": 4.0, "key": np.random.default_rng(0)},
        ),
    }
    step = tm.one_step(dataset(), 0.1, 8, np.random.default_rng(0))
    spread = np.random.default_rng(0).normal(size=(6, 8)) / 8**0.5
    gram = first_step.gram_of(spread[:4], spread[4], spread[5])
    made |= {
        "gram_of": (first_step.gram_of, {"tokens": np.eye(4), "query": np.ones(4), "head": np.ones(4)}),
        "coordinates_of": (first_step.coordinates_of, {"gram": gram}),
        "sample_coordinates": (
            first_step.sample_coordinates,
            {"rng": np.random.default_rng(0), "V": 4, "log10_d": 4.0},
        ),
        "embedding_bounds": (first_step.embedding_bounds, {"step": step}),
        "loss_bound": (first_step.loss_bound, {"step": step}),
        "initial_events": (first_step.initial_events, {"step": step, "delta": 0.1}),
        "embedding_bounds_log10_d": (first_step.embedding_bounds_log10_d, {"V": 4, "delta": 0.1}),
        "loss_bound_log10_d": (first_step.loss_bound_log10_d, {"V": 4, "delta": 0.1, "eta0": 0.1}),
        "theorem_log10_d": (first_step.theorem_log10_d, {"V": 4, "delta": 0.1, "eta0": 0.1}),
        "step_from_gram": (
            first_step.step_from_gram,
            {"dataset": dataset(), "eta0": 0.1, "log10_d": 1.0, "gram": gram},
        ),
    }
    return made
