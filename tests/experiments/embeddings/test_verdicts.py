"""Every verdict of every figure of [E] fails on models that learnt nothing: untrained, of the wrong sign, misled.

A verdict that such a model passes says nothing about training. The right model passes them all, so that none fails by
itself. What no training can change (that a quadratic program was solved) is listed, and is judged whatever is fed.
"""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin.attention.limit import LimitKind
from tokenmargin.data import KLevel, TokenDataset, k_level, token_statistics
from tokenmargin.experiments.embeddings import app_e_reading, fig02_synthetic, lemma2_onestep, thm5_map
from tokenmargin.experiments.embeddings._review_study import TREATMENTS, judged_study, training_outcome
from tokenmargin.experiments.embeddings._review_training import ONE_LAYER, TWO_LAYERS, Effort, token_arrays
from tokenmargin.experiments.embeddings.app_e_reading import Place
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.experiments.registry import experiments
from tokenmargin.first_step.step import FirstStep, mean_loss, one_step
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.theory.embeddings.lemma2_12_first_step import stepped
from tokenmargin.theory.embeddings.selection_study import Theorem5Study, decided, study_cases, table
from tokenmargin.training.optimisers import AdamW
from tokenmargin.training.train import train

#: Levels of every importance, as words of reviews have, so that binned means can rise everywhere.
LAW = KLevel(irrelevant=120, sizes=(60,) * 8, relevant_share=0.5, levels=(0.45, 0.4, 0.33, 0.26, 0.2, 0.14, 0.08, 0.03))

LEARNT_NOTHING = ("untrained", "wrong sign", "shuffled labels")

#: Figures whose verdicts are fed here, and the one whose verdicts are about its solver alone.
FED = {f"embeddings-{name}" for name in ("fig1", "fig2", "fig3", "fig4", "reading", "onestep", "theorem5")}
NOT_ABOUT_TRAINING = {"embeddings-margin"}


def judged(numbers, preset="paper"):
    """The verdicts of the numbers that are held against something, by name."""
    verdicts = {number.name: number.verdict(preset) for number in numbers}
    return {name: verdict for name, verdict in verdicts.items() if verdict is not Verdict.REPORTED}


def test_every_figure_of_the_paper_is_here():
    assert {name for name, each in experiments().items() if each.paper == "E"} == FED | NOT_ABOUT_TRAINING


def relabelled(dataset: TokenDataset, seed: int) -> TokenDataset:
    """The same texts with their labels shuffled."""
    return TokenDataset(dataset.counts, np.random.default_rng(seed).permutation(dataset.labels), dataset.vocabulary)


def overlaps(dataset: TokenDataset, lr: float, epochs: int = 12) -> dict[str, np.ndarray]:
    run = train(
        dataset, OneLayer(width=64), AdamW(lr=lr, weight_decay=0.0), epochs=epochs, key=jax.random.key(1), batch_size=64
    )
    E, p, v = (np.asarray(getattr(run.parameters, name), float) for name in ("embeddings", "query", "head"))
    return {"with_query": E @ p, "with_head": E @ v}


@pytest.fixture(scope="module")
def dataset():
    return k_level(np.random.default_rng(0), 1600, replace(LAW, T=60))


@pytest.fixture(scope="module")
def models(dataset):
    """Overlaps of every token with p and v, by what the model is."""
    right = overlaps(dataset, 3e-3)
    shuffled = relabelled(dataset, 1)
    return {
        "right": right,
        "untrained": overlaps(dataset, 1e-12, epochs=1),
        "wrong sign": {name: -values for name, values in right.items()},
        "shuffled labels": overlaps(shuffled, 3e-3),
    }


def review_arrays(dataset, model, loss):
    tokens, there = token_arrays(dataset)
    training = {name: values[there] for name, values in model.items()}
    training |= {"lr": np.array(0.01), "records": {"loss": np.full(3, loss), "accuracy": np.ones(3)}}
    return {
        "documents": np.array(dataset.n_documents),
        "positive_share": np.array((dataset.labels > 0).mean()),
        "tokens": tokens,
        **dict.fromkeys(TREATMENTS, training),
    }


def loss_of(dataset, kind, model, layers):
    """Of the data with its own labels; a model that learnt them has what the paper reports."""
    return 10.0**layers.log10_loss if kind == "right" else mean_loss(dataset, model["with_head"], model["with_query"])


@pytest.mark.parametrize("layers", [ONE_LAYER, TWO_LAYERS], ids=["fig3", "fig1 and fig4"])
class TestReviews:
    def study(self, dataset, models, kind, layers):
        loss = loss_of(dataset, kind, models[kind], layers)
        efforts = dict.fromkeys(TREATMENTS, Effort(1.0, "cpu", None))
        return judged(judged_study("imdb", layers, review_arrays(dataset, models[kind], loss), efforts).numbers)

    def test_the_right_model_passes(self, dataset, models, layers):
        found = self.study(dataset, models, "right", layers)
        assert len(found) == 5 * len(TREATMENTS)  # every treatment is judged
        assert set(found.values()) == {Verdict.HOLDS}

    @pytest.mark.parametrize("kind", LEARNT_NOTHING)
    def test_every_verdict_fails_on_what_learnt_nothing(self, dataset, models, layers, kind):
        assert set(self.study(dataset, models, kind, layers).values()) == {Verdict.FAILS}

    @pytest.mark.parametrize("kind", ["right", *LEARNT_NOTHING])
    def test_settings_of_the_reading_are_judged_alike(self, dataset, models, layers, kind):
        arrays = review_arrays(dataset, models[kind], loss_of(dataset, kind, models[kind], layers))
        outcome = training_outcome(arrays["tokens"], arrays["reading"], layers, float(arrays["positive_share"]))
        tried = {Place("imdb", "one" if layers is ONE_LAYER else "two"): {"reading": outcome, "as_printed": outcome}}
        found = judged(app_e_reading.judged(tried)[0])
        assert len(found) == 6
        assert set(found.values()) == {Verdict.HOLDS if kind == "right" else Verdict.FAILS}

    def test_reached_and_last_are_judged_apart(self, dataset, models, layers):
        """A loss that passes the paper's order and falls on: reached, and not of that order at the end."""
        arrays = review_arrays(dataset, models["right"], 1.0)
        records = {"loss": np.array([0.5, 10.0**layers.log10_loss, 1e-10]), "accuracy": np.ones(3)}
        arrays |= {each: arrays[each] | {"records": records} for each in TREATMENTS}
        efforts = dict.fromkeys(TREATMENTS, Effort(1.0, "cpu", None))
        found = judged(judged_study("imdb", layers, arrays, efforts).numbers)
        assert found["imdb, as printed: log10 of the smallest loss (reached)"] is Verdict.HOLDS
        assert found["imdb, as printed: log10 of the last loss"] is Verdict.FAILS


@pytest.mark.parametrize("kind", ["right", *LEARNT_NOTHING])
def test_figure_2(dataset, models, kind):
    statistics = token_statistics(dataset)
    law = {"level": LAW.level_of, "posterior_difference": statistics.posterior_difference}

    def run(model):
        return {"tokens": law | model, "records": {"loss": np.ones(1), "accuracy": np.ones(1)}}

    config = fig02_synthetic.Settings(n=1600, other_n=(3200,), step_shares=(1.0,))
    found = judged(
        fig02_synthetic.judged(config, {"1600": {"1": run(models[kind])}, "3200": {"1": run(models["right"])}})[0]
    )
    assert set(found.values()) == {Verdict.HOLDS if kind == "right" else Verdict.FAILS}


class TestFirstStep:
    SMALL = replace(
        lemma2_onestep.Settings.smoke(), n=40, irrelevant=30, sizes=(4, 6), levels=(0.3, 0.05), widths=(64, 512, 4096)
    )

    @staticmethod
    def moved(step: FirstStep, times: float) -> FirstStep:
        return replace(stepped(step, times), token_head_change=times * step.token_head_change)

    @staticmethod
    def misled(step: FirstStep, key: jax.Array) -> FirstStep:
        """A step on shuffled labels beside what the right labels ask for."""
        other = one_step(relabelled(step.dataset, 3), step.eta0, 4096, key)
        asked = 0.5 * step.eta0 * step.alpha
        errors = np.abs(other.token_head_change - asked)
        return replace(step, token_head_change=other.token_head_change, token_errors=errors, query_error=errors.max())

    @pytest.mark.parametrize("kind", ["right", *LEARNT_NOTHING])
    def test_one_step(self, monkeypatch, kind):
        take = lemma2_onestep._step

        def fed(config, dataset, log10_d, row, key):
            step = take(config, dataset, log10_d, row, key)
            if kind == "shuffled labels":
                return self.misled(step, key)
            return self.moved(step, {"right": 1.0, "untrained": 1e-9, "wrong sign": -1.0}[kind])

        monkeypatch.setattr(lemma2_onestep, "_step", fed)
        found = judged(lemma2_onestep.compute(self.SMALL, jax.random.key(0), silent).numbers)
        bad = {name for name, verdict in found.items() if verdict is Verdict.FAILS}
        assert len(found) == 7
        # |err_p| falls like d^(-1/2) whatever the sign of the step: it is the movement of p itself.
        of_p = {name for name in found if name.startswith("|err_p|")}
        assert bad >= (set() if kind == "right" else set(found) - of_p)
        assert kind != "right" or not bad - EXPONENTS_AT_FEW_SEEDS


#: Three seeds and three widths scatter by more than the tolerance for eight and eleven.
EXPONENTS_AT_FEW_SEEDS = {
    f"{what}: exponent of d, {where}"
    for what in ("max over tokens of |err_s|", "|err_p|")
    for where in ("explicit embeddings", "with Gram space")
}


@pytest.fixture(scope="module")
def followed():
    """Data sets in the regime (10), where the flow goes, and where it goes with shuffled labels."""
    cases = study_cases(Theorem5Study(sets=3, sizes=((4, 3),)), 0)
    misled = [replace(case, dataset=relabelled(case.dataset, seed)) for seed, case in enumerate(cases)]
    return cases, decided(cases), decided(misled)


@pytest.mark.parametrize("kind", ["right", *LEARNT_NOTHING])
def test_what_the_flow_selects(followed, kind):
    cases, right, misled = followed
    ends = {
        "right": right,
        "untrained": [replace(limit, kind=LimitKind.FINITE) for limit in right],
        "wrong sign": [turned(case, limit) for case, limit in zip(cases, right, strict=True)],
        "shuffled labels": misled,
    }[kind]
    verdicts = judged(thm5_map._judged(table(cases, ends)))
    bad = {name for name, verdict in verdicts.items() if verdict is Verdict.FAILS}
    # That |p| grows is true of a flow in any direction: only a p that stays where it was fails it.
    spared = {name for name in verdicts if "does not diverge" in name} if kind != "untrained" else set()
    assert bad - spared == (set() if kind == "right" else set(verdicts) - spared)


def turned(case, limit):
    """The limit with its velocity turned back, and what that selects."""
    from tokenmargin.data import selection_of

    return replace(
        limit,
        velocity=-limit.velocity,
        direction=-limit.direction,
        selection=selection_of(case.sequences, -limit.velocity),
    )
