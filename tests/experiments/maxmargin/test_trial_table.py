"""What is counted in tables of random trials."""

import numpy as np
import pytest

from tokenmargin.experiments.experiment import Verdict
from tokenmargin.experiments.maxmargin._negative_gaps import wilson
from tokenmargin.experiments.maxmargin._trial_table import TrialTable, summarise
from tokenmargin.theory.trials import COLUMNS


def test_a_table_is_saved_by_width_and_counted_by_width():
    table = TrialTable((2, 5))
    for d, ended in ((2, [1.0, 0.0]), (5, [1.0]), (2, [1.0])):
        rows = np.zeros((len(ended), len(COLUMNS)))
        rows[:, COLUMNS.index("ended")] = rows[:, COLUMNS.index("is_lmm")] = ended
        table.add(d, rows, np.full((len(ended), 4), d))
    arrays = table.arrays()
    assert {name: rows.shape for name, rows in arrays["rows"].items()} == {
        "2": (3, len(COLUMNS)),
        "5": (1, len(COLUMNS)),
    }
    assert arrays["selected"]["5"].tolist() == [[5, 5, 5, 5]]
    assert arrays["counts"].tolist() == [[3, 1, 2, 0, 0, 0], [1, 0, 1, 0, 0, 0]]
    assert table.summary()["d=2"]["LMM"] == {"count": 2, "wilson": wilson(2, 3)}
    np.testing.assert_allclose(arrays["intervals"][0, 2], wilson(2, 3))


#: What is true of p that never moved, too: no limit of it is left undecided.
OF_THE_SOLVER = {"decided: undecided trials"}


@pytest.mark.parametrize("kind", ["right", "untrained", "wrong sign"])
def test_every_verdict_fails_on_trials_that_were_not_trained(kind):
    """Untrained, no trial selects anything; with the wrong sign p is opposite to the max-margin direction."""
    rows = np.full((2000, len(COLUMNS)), np.nan)
    cosine = -1.0 if kind == "wrong sign" else 0.997
    values = {"ended": kind != "untrained", "undecided": 0, "mixed": 0, "is_lmm": kind == "right", "is_gmm": 0}
    values |= {"infeasible": 0, "gap": 0.1 if kind == "right" else -0.1, "proxy_correlation": cosine}
    values |= {"correlation": cosine, "error": 1e-12 if kind == "right" else 1 - cosine}
    values |= {"velocity_error": 1e-12 if kind == "right" else 2.0}
    for name, value in values.items():
        rows[:, COLUMNS.index(name)] = value
    rows[:2, COLUMNS.index("gap")] = -0.1
    rows[:2, COLUMNS.index("correlation")] = 0.999 * np.sign(cosine)
    table = TrialTable((2,))
    table.add(2, rows, np.zeros((len(rows), 4), dtype=int))
    stable = TrialTable((2,))
    exact = rows.copy()
    exact[:, COLUMNS.index("correlation")] = np.where(kind == "right", 1 - 1e-5, cosine)
    exact[:, COLUMNS.index("error")] = 1 - exact[:, COLUMNS.index("correlation")]
    stable.add(2, exact, np.zeros((len(rows), 4), dtype=int))
    found = {n.name: n.verdict("paper") for n in summarise({"printed": table, "stable": stable, "decided": table})[0]}
    judged = {name: verdict for name, verdict in found.items() if verdict is not Verdict.REPORTED}
    assert len(judged) == 10
    expected = Verdict.HOLDS if kind == "right" else Verdict.FAILS
    assert {verdict for name, verdict in judged.items() if name not in OF_THE_SOLVER} == {expected}
