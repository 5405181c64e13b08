"""The study of hyper-parameters: every change is tried where it applies, and distances to the paper's losses add up."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin.data import KLevel, k_level
from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.embeddings.figures._reading_changes import (
    AS_PRINTED,
    CHANGES,
    OPEN,
    READING,
    SCALES,
    chosen_changes,
)
from tokenmargin.papers.embeddings.figures._review_training import ONE_LAYER, TWO_LAYERS, TwoLayerSettings, torch_start
from tokenmargin.papers.embeddings.figures._reviews import CONTROLS, Reviews, load_reviews, save_reviews
from tokenmargin.papers.embeddings.figures.app_e_reading import Settings, compute, draw

LAW = KLevel(irrelevant=40, sizes=(8, 12), relevant_share=0.3, levels=(0.35, 0.1), T=20)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    out = tmp_path_factory.mktemp("counts")
    save_reviews(Reviews("yelp", k_level(np.random.default_rng(0), 120, LAW)), out)
    return replace(
        Settings(counts=str(out), names=("yelp",), others=(), d=8, epochs=3, drop_epochs=(2,), batch_size=32, lr=1e-3),
        only=("formulas as printed, rate 0.003", "start N(0, I)", "LayerNorm"),
        resume=str(out / "parts"),
    )


@pytest.fixture(scope="module")
def result(settings):
    return compute(settings, jax.random.key(0), silent)


def test_every_chosen_change_is_tried_where_it_applies(result):
    one, two = result.tables["Yelp, one layer"], result.tables["Yelp, two layers"]
    assert list(one) == [READING, "formulas as printed, rate 0.003", "start N(0, I)"]
    assert CHANGES["rate_by_width"].of_reading(2048 // 16)["lr"] == 0.04
    assert list(two) == [*one, "LayerNorm without gain, bias"]
    assert {row["learning rate"] for row in one.values()} == {1e-3, 3e-3}
    assert len({row["loss of the last epoch"] for row in two.values()}) == len(two)


def test_the_closest_setting_is_named(result):
    far = {n.name.split(": ", 1)[1]: n.value for n in result.numbers if n.name.startswith("largest distance")}
    assert min(far, key=far.get) in result.sentences[0]
    loss = {where: rows[READING]["loss of the last epoch"] for where, rows in result.tables.items()}
    orders = abs(np.log10(loss["Yelp, one layer"]) + 1), abs(np.log10(loss["Yelp, two layers"]) + 5)
    assert np.isclose(far[READING], max(orders))


def test_finished_trainings_are_taken_up(settings, result, monkeypatch):
    """With the parts on disk nothing is trained again, and with other settings everything is."""
    import tokenmargin.papers.embeddings.figures._review_training as training

    def refuse(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr(training, "train", refuse)
    again = compute(settings, jax.random.key(0), silent)
    assert again.sentences == result.sentences
    with pytest.raises(AssertionError, match="trained again"):
        compute(replace(settings, epochs=4), jax.random.key(0), silent)
    with pytest.raises(AssertionError, match="trained again"):
        compute(settings, jax.random.key(1), silent)


def test_a_panel_for_each_depth(result):
    assert len(draw(result).get_axes()) == 2


def test_unknown_changes_are_named(settings):
    with pytest.raises(InvalidInputError, match="no weight decay"):
        compute(replace(settings, only=("momentum",)), jax.random.key(0), silent)


@pytest.mark.parametrize("changed", [{"names": ()}, {"names": (), "controls": ("imdb-cut",), "depths": ("two",)}])
def test_nothing_to_train_is_said(settings, changed):
    with pytest.raises(InvalidInputError, match="nothing to train"):
        compute(replace(settings, **changed), jax.random.key(0), silent)


def test_torch_s_start_has_unit_entries():
    assert CHANGES["normal_start"].of_reading(64)["init_scale"] / np.sqrt(64) == 1.0


def test_where_scores_are_divided_by_the_root_of_the_width():
    """One layer has one softmax; of two, each can have its own."""
    found = {}
    for where in ("none", "both", "p", "first"):
        config = TwoLayerSettings(d=16, root_width=where)
        one, two = ONE_LAYER.model(config), TWO_LAYERS.model(config)
        found[where] = (one.score_scale, two.score_scale, two.mixing_scale)
    assert found == {"none": (1, 1, 1), "both": (0.25, 0.25, 0.25), "p": (0.25, 0.25, 1), "first": (1, 1, 0.25)}


def test_torch_s_modules_start_so():
    torch = pytest.importorskip("torch", reason="parity peer, installed by `make peers`")
    start = torch_start(TWO_LAYERS.model(TwoLayerSettings(d=4096, root_width="both")), jax.random.key(0), 30)
    torch.manual_seed(0)
    E, v = torch.nn.Embedding(30, 4096).weight.detach().numpy(), torch.nn.Linear(4096, 1).weight.detach().numpy()[0]
    # Standard deviation of a sample variance of N normal numbers: sqrt(2/N), of uniform ones less; five of them.
    spread = 5 * np.sqrt(2 / 4096)
    assert np.var(start.embeddings) == pytest.approx(np.var(E), rel=spread)
    assert np.var(start.query) == pytest.approx(1.0, rel=spread)
    assert np.var(start.head) == pytest.approx(np.var(v), rel=spread)
    assert np.abs(start.head).max() == pytest.approx(np.abs(v).max(), rel=spread)
    assert np.abs(start.head).max() <= 1 / 64


def test_changes_are_chosen_by_key_or_by_words():
    assert list(chosen_changes(("as_printed",), 64, "two")) == [READING, AS_PRINTED]
    assert list(chosen_changes(("1/sqrt(d) for p",), 64, "two")) == [READING, "p_only"]
    assert list(chosen_changes(("1/sqrt(d) for p",), 64, "one")) == [READING]
    assert [*chosen_changes((), 64, "two")] == [READING, *SCALES, *OPEN]
    # At the paper's width, rate by scale: ten settings of two layers beside the reading, eight of one.
    assert [len(chosen_changes(SCALES, 2048, depth)) for depth in ("two", "one")] == [11, 9]


def test_the_paper_s_study_crosses_rates_and_scales():
    paper = Settings.paper()
    assert (paper.d, paper.epochs, paper.batch_size, paper.drop_epochs) == (2048, 150, 128, (100, 200))
    base = {"lr": paper.lr, "root_width": "both", "start": "scaled"}
    tried = {tuple((base | CHANGES[x].of_reading(2048)).values()) for x in (READING, *paper.only)}
    crossed = {(lr, where, "scaled") for lr in (1e-2, 3e-3, 1e-3) for where in ("none", "both")}
    alone = {(1e-2, where, "scaled") for where in ("p", "first")}
    torchs = {(1e-2, where, "torch") for where in ("none", "both")}
    assert tried == crossed | alone | torchs | {(4e-3, "none", "scaled")}
    assert (paper.names, paper.others, paper.controls, paper.seeds) == (("imdb",), ("yelp",), tuple(CONTROLS), 3)


def test_seeds_are_of_the_reading_and_others_have_two_settings(settings, tmp_path):
    """On `others` and `controls` the reading and the formulas as printed; the latter with one layer only."""
    data = load_reviews(Path(settings.counts), "yelp").dataset
    for name in ("imdb", "imdb-cut"):
        save_reviews(Reviews(name, data), tmp_path)
    counts = replace(settings, counts=str(tmp_path), names=("imdb",), epochs=1, resume="")
    config = replace(counts, others=("imdb",), controls=("imdb-cut",), seeds=2, depths=("one",), only=("torch_start",))
    tables = compute(config, jax.random.key(0), silent).tables
    control = f"{CONTROLS['imdb-cut'].words}, one layer"
    assert list(tables) == ["IMDB, one layer", control]
    assert list(tables["IMDB, one layer"]) == [READING, f"{READING}, seed 2", "torch's starts"]
    assert list(tables[control]) == [READING, "formulas as printed"]
    losses = {row["loss of the last epoch"] for rows in tables.values() for row in rows.values()}
    assert len(losses) == 4  # the control is the same data here, in the same reading
    alone = compute(replace(config, others=(), controls=(), seeds=0), jax.random.key(0), silent)
    assert list(alone.tables["IMDB, one layer"]) == ["torch's starts"]
    assert "the reading is" not in alone.sentences[0]


def test_what_another_machine_trained_is_judged(settings, result, monkeypatch):
    elsewhere = replace(settings, resume="", trained=settings.resume)
    monkeypatch.setattr("tokenmargin.experiments.store.study_computed_by", lambda: {"device": "another"})
    *sentences, who = compute(elsewhere, jax.random.key(0), silent).sentences
    assert tuple(sentences) == result.sentences
    assert who.startswith("Trained elsewhere: commit ")
    with pytest.raises(InvalidInputError, match="holds no part"):
        compute(replace(elsewhere, epochs=4), jax.random.key(0), silent)
