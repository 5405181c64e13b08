"""Tests are stricter than use: float64 everywhere, and an array that silently gains an axis is an error."""

import jax
import pytest
from hypothesis import HealthCheck, settings

import tests.typechecker  # noqa: F401  (named by --jaxtyping-packages in pyproject.toml; it must be loaded by then)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compilation makes first examples slow; a deadline would test the machine, not the code.
settings.register_profile(
    "tokenmargin", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tokenmargin")


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(20260101)
