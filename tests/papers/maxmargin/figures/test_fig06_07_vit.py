"""Figures 6 and 7 on made-up pictures: verdicts that can fail, and trainings that are taken up where they were left."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin._provenance import commit
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.papers.maxmargin.figures import fig06_07_vit
from tokenmargin.papers.maxmargin.vit import runs
from tokenmargin.papers.maxmargin.vit.images import ImageDataset
from tokenmargin.papers.maxmargin.vit.runs import VitSettings, vit_run


@pytest.fixture
def few(monkeypatch):
    def made(data, images, tested):
        rng = np.random.default_rng(0)
        sets = [
            ImageDataset(rng.integers(0, 256, (n, 32, 32, 3), np.uint8), np.arange(n) % 10) for n in (images, tested)
        ]
        return sets[0], sets[1]

    monkeypatch.setattr(runs, "pictures", made)
    return VitSettings("mini", 1, 2, 1, 1, batch=10, images=20, probed=3, tested=10, directions=1)


@pytest.mark.long
@pytest.mark.parametrize("decay", [False, True])
def test_a_training_in_legs_is_not_trained_again(few, decay, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "LEG", 1)
    config = replace(few, resume=str(tmp_path), decay=decay)
    run = vit_run(config, "adamw", 0, jax.random.key(0), silent)
    assert run["epochs"].tolist() == run["kept_epochs"].tolist() == [0, 1, 2]
    assert run["loss"].shape == (2,)
    assert run["share"].shape == run["norms"].shape == (3, 2)
    assert run["keys"].shape == (3, 1, 2, 257, 16)
    assert sorted(path.name.split("-")[3] for path in tmp_path.glob("*.npz")) == ["1", "2"]

    def never(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr(runs, "_trained", never)
    again = vit_run(config, "adamw", 0, jax.random.key(0), silent)
    np.testing.assert_array_equal(again["share"], run["share"])


def test_frozen_attention_keeps_its_norm(few):
    run = vit_run(few, "frozen", 0, jax.random.key(0), silent)
    fall, rise = fig06_07_vit.change(run)
    np.testing.assert_array_equal(rise, 1.0)
    assert (fall > 0.5).all()


def fake_run(share, norms):
    rng = np.random.default_rng(0)
    kept = np.array([0, 1])
    return {
        "epochs": kept,
        "share": np.array(share),
        "norms": np.array(norms),
        "kept_epochs": kept,
        "queries": rng.normal(size=(2, 1, 2, 4)),
        "keys": rng.normal(size=(2, 1, 2, 9, 4)),
        "maps": rng.dirichlet(np.ones(8), size=(2, 3)),
        "test_accuracy": np.array([0.1, 0.5]),
    }


@pytest.mark.parametrize(
    ("share", "norms", "verdict"),
    [
        ([[1.0, 1.0], [0.2, 0.1]], [[1.0, 1.0], [3.0, 5.0]], Verdict.HOLDS),
        ([[1.0, 1.0], [0.2, 0.9]], [[1.0, 1.0], [3.0, 5.0]], Verdict.FAILS),
        ([[1.0, 1.0], [0.2, 0.1]], [[1.0, 1.0], [3.0, 1.0]], Verdict.FAILS),
        ([[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], Verdict.FAILS),
    ],
    ids=["trained", "dense", "no growth", "untrained"],
)
def test_the_verdict_is_one_that_an_untrained_model_fails(monkeypatch, share, norms, verdict):
    monkeypatch.setattr(fig06_07_vit, "vit_run", lambda *_: fake_run(share, norms))
    result = fig06_07_vit.compute_curves(VitSettings(seeds=2), jax.random.key(0), silent)
    assert result.numbers[0].verdict("paper") is verdict
    assert result.numbers[0].verdict("smoke") is Verdict.NOT_COMPARABLE
    residual = next(number for number in result.numbers if "KKT" in number.name)
    assert residual.verdict("smoke") is Verdict.HOLDS
    pytest.importorskip("matplotlib", reason="drawing needs matplotlib")
    assert len(fig06_07_vit.draw_curves(result).axes) == 8


def test_an_unknown_size_lists_the_known_ones():
    with pytest.raises(InvalidInputError, match="mini, tiny, small, base"):
        _ = VitSettings("huge").model


def test_trainings_of_another_machine_are_judged_as_they_are(few, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "_trained", lambda config, treatment, seen, *_: fake_run([[1.0, 1.0]], [[1.0, 1.0]]))
    monkeypatch.setattr(runs.store, "study_computed_by", lambda: {"device": "another", "code": "older"})
    made = vit_run(replace(few, resume=str(tmp_path)), "adamw", 0, jax.random.key(0), silent)
    monkeypatch.undo()
    judged = replace(few, trained=str(tmp_path))
    np.testing.assert_array_equal(vit_run(judged, "adamw", 0, jax.random.key(0), silent)["keys"], made["keys"])
    made = {"commit": commit(), "device": "another", "code": "older"}
    assert runs.made_by(judged, "adamw", 0, jax.random.key(0)) == made
    with pytest.raises(InvalidInputError, match="holds no part 'sgd-0-to-1'"):
        vit_run(judged, "sgd", 0, jax.random.key(0), silent)


def test_a_training_that_grows_dense_again_says_so():
    run = fake_run([[1.0, 1.0], [0.2, 0.1], [0.2, 0.5]], [[1.0, 1.0], [3.0, 5.0], [3.0, 9.0]]) | {
        "epochs": np.array([0, 10, 20])
    }
    said = fig06_07_vit._after_in_words({"seed 0": run})
    assert "smallest, 0.100, after epoch 10" in said
    assert "5.0 times that, while |W|_F goes from 5 to 9" in said
    falls, _ = fig06_07_vit.change(run, epoch=15)
    np.testing.assert_allclose(falls, [0.2, 0.1])
    assert fig06_07_vit.by_layer({"seed 0": run})["layer 2"]["twofold in every seed"] == "both"
