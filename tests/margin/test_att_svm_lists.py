"""A list of token numbers is taken as a selection, one token an input."""

from __future__ import annotations

import numpy as np
import pytest

import tokenmargin as tm
from tests.instances import fig1b
from tokenmargin.errors import InvalidInputError


@pytest.mark.parametrize("given", [[1], np.array([1]), (1,)])
def test_numbers_of_tokens_are_a_selection(given):
    chosen = tm.Selection.from_indices([1], 3)
    np.testing.assert_array_equal(tm.att_svm(fig1b(), given).p, tm.att_svm(fig1b(), chosen).p)
    np.testing.assert_array_equal(tm.att_svm(fig1b(), given).selection.chosen, chosen.chosen)


@pytest.mark.parametrize("given", [[3], [-4], [0, 1], [0.5], ["a"], [None]])
def test_what_names_no_token_of_each_input_is_refused(given):
    with pytest.raises(InvalidInputError):
        tm.att_svm(fig1b(), given)
