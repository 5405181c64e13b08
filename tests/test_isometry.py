"""Vectors in fewer coordinates: inner products are kept, at any size and for rows that nearly depend."""

import numpy as np
import pytest

from tokenmargin._isometry import isometric_rows


def test_isometric_rows_keep_inner_products_of_nearly_dependent_rows_too(rng):
    rows = rng.normal(size=(3, 4, 9))
    rows[1, 3] = rows[1, 0] + 1e-9 * rng.normal(size=9)
    rows[2, 3] = rows[2, 0]
    short = isometric_rows(rows)
    assert short.shape == (3, 4, 4)
    np.testing.assert_allclose(short @ np.swapaxes(short, 1, 2), rows @ np.swapaxes(rows, 1, 2), atol=1e-13)
    apart = np.linalg.norm(rows[1, 3] - rows[1, 0])
    assert np.linalg.norm(short[1, 3] - short[1, 0]) == pytest.approx(apart, rel=1e-5)  # Cholesky would lose it


@pytest.mark.parametrize("exponents", [(515, 515, 515), (-545, -545, -545), (515, -545, 0)])
def test_isometric_rows_of_any_size(rng, exponents):
    """2^515 is about 1e155, whose square overflows, and that of 2^-545 vanishes; rows may even differ in size."""
    rows, units = rng.normal(size=(2, 3, 7)), 2.0 ** np.array(exponents)[:, None]
    rows[1, 2] = rows[1, 0] + 1e-9 * rng.normal(size=7)  # through QR
    np.testing.assert_array_equal(isometric_rows(units * rows) / units, isometric_rows(rows))
