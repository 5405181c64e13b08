"""The study of hyper-parameters: every change is tried where it applies, and distances to the paper's losses add up."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin.data import KLevel, k_level
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.embeddings._reviews import Reviews, save_reviews
from tokenmargin.experiments.embeddings.app_e_reading import CHANGES, READING, Settings, compute, draw

LAW = KLevel(irrelevant=40, sizes=(8, 12), relevant_share=0.3, levels=(0.35, 0.1), T=20)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    out = tmp_path_factory.mktemp("counts")
    save_reviews(Reviews("yelp", k_level(np.random.default_rng(0), 120, LAW)), out)
    return replace(
        Settings(counts=str(out), names=("yelp",), d=8, epochs=3, drop_epochs=(2,), batch_size=32),
        only=("(printed)", "start N(0, I), as", "LayerNorm"),
        resume=str(out / "parts"),
    )


@pytest.fixture(scope="module")
def result(settings):
    return compute(settings, jax.random.key(0), silent)


def test_every_chosen_change_is_tried_where_it_applies(result):
    one, two = result.tables["yelp, one layer"], result.tables["yelp, two layers"]
    assert list(one) == [READING, "learning rate 0.01 (printed)", "start N(0, I), as torch's"]
    assert CHANGES["printed_rate_by_width"].of_reading(2048 // 16)["lr"] == 0.04
    assert list(two) == [*one, "LayerNorm without gain, bias"]
    assert {row["learning rate"] for row in one.values()} == {1e-3, 1e-2}
    assert len({row["loss of the last epoch"] for row in two.values()}) == len(two)


def test_the_closest_setting_is_named(result):
    far = {n.name.split(": ", 1)[1]: n.value for n in result.numbers if n.name.startswith("largest distance")}
    assert min(far, key=far.get) in result.sentences[0]
    loss = {where: rows[READING]["loss of the last epoch"] for where, rows in result.tables.items()}
    orders = abs(np.log10(loss["yelp, one layer"]) + 1), abs(np.log10(loss["yelp, two layers"]) + 5)
    assert np.isclose(far[READING], max(orders))


def test_finished_trainings_are_taken_up(settings, result, monkeypatch):
    """With the parts on disk nothing is trained again, and with other settings everything is."""
    import tokenmargin.experiments.embeddings._review_training as training

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


def test_torch_s_start_has_unit_entries():
    assert CHANGES["normal_start"].of_reading(64)["init_scale"] / np.sqrt(64) == 1.0
