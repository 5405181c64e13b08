"""Texts learnt from and texts to judge by."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.classify._splitting import copies, held_out_mask, repeated_across
from tokenmargin.errors import InvalidInputError


def test_a_share_of_every_class_is_held_out_the_same_for_the_same_seed():
    targets = np.repeat([0, 1, 2], [100, 40, 3])
    out = held_out_mask(targets, 0.2, seed=3)
    assert [int(out[targets == k].sum()) for k in range(3)] == [20, 8, 1]
    np.testing.assert_array_equal(out, held_out_mask(targets, 0.2, seed=3))
    assert (out != held_out_mask(targets, 0.2, seed=4)).any()


def test_something_of_every_class_is_left_on_both_sides():
    for share in (0.01, 0.99):
        out = held_out_mask(np.array([0, 0, 1, 1]), share, seed=0)
        assert [int(out[:2].sum()), int(out[2:].sum())] == [1, 1]


def test_what_cannot_be_cut_is_refused():
    with pytest.raises(InvalidInputError, match="one text only"):
        held_out_mask(np.array([0, 0, 1]), 0.5, seed=0)
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(InvalidInputError, match="between 0 and 1"):
            held_out_mask(np.array([0, 0, 1, 1]), share, seed=0)


def test_repeats_across_the_cut_are_counted():
    assert repeated_across(["a b", "c"], ["a b ", "d", "c", "c"]).tolist() == [True, False, True, True]
    assert copies(["a b", "c", "a b ", "c", "c"]) == 3


def test_an_empty_text_is_no_copy_of_another():
    assert not repeated_across(["", "c"], ["", " "]).any()
    assert copies(["", "", " ", "c"]) == 0
