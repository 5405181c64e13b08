"""What is counted in tables of random trials."""

import numpy as np

from tokenmargin.experiments.maxmargin._negative_gaps import wilson
from tokenmargin.experiments.maxmargin._trial_table import TrialTable
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
