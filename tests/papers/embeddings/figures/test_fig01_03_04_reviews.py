"""What is judged of a training on reviews, and whose word it is: ours of our reading, the paper's of what it prints."""

import numpy as np
import pytest

from tests.experiments.feeds import review_training, texts
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.papers.embeddings.figures._review_training import ONE_LAYER, TWO_LAYERS, Effort, token_arrays
from tokenmargin.papers.embeddings.figures.fig01_03_04_reviews import TREATMENTS, judged_study


def judged(layers, **trainings):
    about = {
        "documents": np.array(texts().n_documents),
        "positive_share": np.array((texts().labels > 0).mean()),
        "tokens": token_arrays(texts())[0],
    }
    right = dict.fromkeys(TREATMENTS, review_training("right", layers))
    efforts = dict.fromkeys(TREATMENTS, Effort(1.0, "cpu", None))
    numbers = judged_study("imdb", layers, about | right | trainings, efforts).numbers
    return {number.name: number.verdict("paper") for number in numbers}


@pytest.mark.parametrize("layers", [ONE_LAYER, TWO_LAYERS], ids=["one layer", "two layers"])
class TestReviews:
    def test_reached_and_last_are_judged_apart(self, layers):
        """A loss that passes the paper's order and falls on: reached, and not of that order at the end."""
        records = {"loss": np.array([0.5, 10.0**layers.log10_loss, 1e-10]), "accuracy": np.ones(3)}
        found = judged(layers, printed={**review_training("right", layers), "records": records})
        assert found["imdb, as printed: log10 of the smallest loss (reached)"] is Verdict.HOLDS
        assert found["imdb, as printed: log10 of the last loss"] is Verdict.FINDING

    def test_what_the_printed_settings_do_not_do_is_a_finding(self, layers):
        found = judged(layers, printed=review_training("shuffled", layers))
        of_printed = {verdict for name, verdict in found.items() if "as printed" in name}
        assert of_printed == {Verdict.FINDING, Verdict.REPORTED}
        assert Verdict.FAILS not in found.values()

    def test_what_our_reading_does_not_do_is_a_failure(self, layers):
        found = judged(layers, reading=review_training("shuffled", layers))
        failed = [name for name, verdict in found.items() if verdict is Verdict.FAILS]
        assert len(failed) == 4, "reached, learnt, S and V"
        # That the loss ends at another order than the paper's is a finding, whoever trained.
        assert found["imdb, reading: log10 of the last loss"] is Verdict.FINDING
