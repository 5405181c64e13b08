"""Options for a compiler: none on a CPU, and none that it does not know."""

from tokenmargin.models.two_layer import COMPILER_OPTIONS
from tokenmargin.training._compile import jitted, usable_options


def test_a_cpu_is_told_nothing():
    assert usable_options(COMPILER_OPTIONS, backend="cpu") == ()


def test_options_that_the_compiler_does_not_know_are_left_out():
    """The compiler here answers for any other: it knows the accelerators' options and refuses invented ones."""
    invented = ("xla_gpu_enable_perpetual_motion", True)
    assert usable_options((*COMPILER_OPTIONS, invented), backend="gpu") == COMPILER_OPTIONS


def _double(x):
    return 2 * x


def test_one_compiled_function_for_the_same_options():
    assert jitted(_double, ()) is jitted(_double, ())
    assert jitted(_double, ()) is not jitted(_double, (("xla_gpu_enable_triton_gemm", False),))
    assert jitted(_double, ())(3) == 6
