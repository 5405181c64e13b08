"""Sum and LayerNorm, bias and GELU between the products of a vision transformer, in one pass each.

At the width of ViT-tiny a product of the stream takes no longer than a pass over it, and a compiler makes four and more
passes of what stands here (docs/speed.md). On a GPU kernels, elsewhere the same formulas as a compiler finds them; both
with their gradients, whose sums over rows are taken in the same pass.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jaxtyping import Array, Float

from tokenmargin._types import AnyArray
from tokenmargin.papers.maxmargin.vit._block import LAYER_NORM_EPSILON

Rows = Float[Array, "rows d"]
Vector = Float[Array, "d"]
Roots = Float[Array, "rows"]


class Cut(NamedTuple):
    """Sizes of the programs of a kernel; they change speed alone."""

    rows: int  # at a time
    times: int  # one block of rows after the other
    columns: int  # at most; LayerNorm takes whole rows
    warps: int


#: Cuts for sum and LayerNorm, for bias and GELU, forwards and backwards; as measured at ViT-tiny on an H200.
WHOLE = 2**31
NORM, NORM_BACK = Cut(4, 1, WHOLE, 1), Cut(8, 16, WHOLE, 4)
GELU, GELU_BACK = Cut(16, 1, 256, 4), Cut(8, 16, 256, 8)

#: erfc(z) = t (c1 + t (c2 + ...)) exp(-z^2) with t = 1/(1 + `ERFC_SHIFT` z), z >= 0, to 1.5e-7 [Abramowitz and Stegun,
#: 7.1.26]: bfloat16 has three digits, and its exponential is also the one that the slope needs.
ERFC_SHIFT = 0.3275911
ERFC = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def normalised_sum(x: Rows, change: Rows, bias: Vector, interpret: bool = False) -> tuple[Rows, Rows]:
    """x + change + bias, and its rows less their mean over their deviation; `interpret` runs it on any device."""
    return _normalised_sum(x, change, bias, interpret)[0]


def _normalised_sum(x: Rows, change: Rows, bias: Vector, interpret: bool) -> tuple[tuple[Rows, Rows], Any]:
    kernel = partial(_norm_by_kernel, interpret=interpret)
    total, read, roots = _on_gpu(kernel, _norm_plainly, interpret, x, change, bias)
    return (total, read), (read, roots, bias)


def _norm_back(interpret: bool, kept: Any, slopes: tuple[Rows, Rows]) -> tuple[Rows, Rows, Vector]:
    read, roots, bias = kept
    kernel = partial(_norm_back_by_kernel, interpret=interpret)
    slope, sums = _on_gpu(kernel, _norm_back_plainly, interpret, *slopes, read, roots)
    return slope, slope, sums.astype(bias.dtype)


normalised_sum.defvjp(_normalised_sum, _norm_back)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def biased_gelu(x: Rows, bias: Vector, interpret: bool = False) -> Rows:
    """u Phi(u) of u = x + bias; `interpret` runs it on any device."""
    return _biased_gelu(x, bias, interpret)[0]


def _biased_gelu(x: Rows, bias: Vector, interpret: bool) -> tuple[Rows, Any]:
    kernel = partial(_gelu_by_kernel, interpret=interpret)
    return _on_gpu(kernel, _gelu_plainly, interpret, x, bias), (x, bias)


def _gelu_back(interpret: bool, kept: Any, slope: Rows) -> tuple[Rows, Vector]:
    x, bias = kept
    kernel = partial(_gelu_back_by_kernel, interpret=interpret)
    found, sums = _on_gpu(kernel, _gelu_back_plainly, interpret, x, bias, slope)
    return found, sums.astype(bias.dtype)


biased_gelu.defvjp(_biased_gelu, _gelu_back)


def _on_gpu(kernel: Any, plain: Any, interpret: bool, *given: AnyArray) -> Any:
    return kernel(*given) if interpret else jax.lax.platform_dependent(*given, cuda=kernel, default=plain)


def _wide(dtype: Any) -> Any:
    """Return the numbers in the precision in which sums are taken."""
    return jnp.promote_types(dtype, jnp.float32)


# The formulas, as a compiler finds them.


def _norm_plainly(x: Rows, change: Rows, bias: Vector) -> tuple[Rows, Rows, Roots]:
    wide = _wide(x.dtype)
    total = (x.astype(wide) + change.astype(wide) + bias.astype(wide)[None]).astype(x.dtype)
    read, roots = _normalised(total.astype(wide), True, x.shape[1])
    return total, read.astype(x.dtype), roots


def _norm_back_plainly(straight: Rows, slope: Rows, read: Rows, roots: Roots) -> tuple[Rows, Vector]:
    wide = roots.dtype
    found = straight.astype(wide) + _before_norm(slope.astype(wide), read.astype(wide), roots, read.shape[1])
    return found.astype(read.dtype), jnp.sum(found, axis=0)


def _gelu_plainly(x: Rows, bias: Vector) -> Rows:
    u = x.astype(_wide(x.dtype)) + bias.astype(_wide(x.dtype))[None]
    return (u * _normal(u)[0]).astype(x.dtype)


def _gelu_back_plainly(x: Rows, bias: Vector, slope: Rows) -> tuple[Rows, Vector]:
    u = x.astype(_wide(x.dtype)) + bias.astype(_wide(x.dtype))[None]
    below, density = _normal(u)
    found = slope.astype(u.dtype) * (below + u * density)
    return found.astype(x.dtype), jnp.sum(found, axis=0)


def _normalised(x: Array, there: Any, width: int) -> tuple[Array, Roots]:
    """Rows less their mean over their deviation, and one over it; 0 where there is nothing."""
    mean = jnp.sum(x, axis=1) / width
    centred = jnp.where(there, x - mean[:, None], 0.0)
    roots = jax.lax.rsqrt(jnp.sum(centred * centred, axis=1) / width + LAYER_NORM_EPSILON)
    return centred * roots[:, None], roots


def _before_norm(slope: Array, read: Array, roots: Roots, width: int) -> Array:
    """The gradient before a LayerNorm, from the one behind it."""
    mean, along = (jnp.sum(x, axis=1) / width for x in (slope, slope * read))
    return roots[:, None] * (slope - mean[:, None] - read * along[:, None])


def _normal(u: Array) -> tuple[Array, Array]:
    """Phi and its density."""
    exponential = jnp.exp(-0.5 * u * u)
    # 1/a as the square of 1/sqrt(a), for which GPUs have an instruction.
    root = jax.lax.rsqrt(1.0 + (ERFC_SHIFT / math.sqrt(2.0)) * jnp.abs(u))
    t = root * root
    polynomial = jnp.zeros_like(u)
    for coefficient in reversed(ERFC):
        polynomial = t * (coefficient + polynomial)
    tail = 0.5 * polynomial * exponential
    return jnp.where(u < 0, tail, 1.0 - tail), exponential * (1.0 / math.sqrt(2.0 * math.pi))


# The same in kernels.


class _Block:
    """Some rows and some columns of a matrix; loads are 0 outside."""

    def __init__(self, ref: Any, row: Array, column: Array) -> None:
        height, width = ref.shape
        self.row, self.column = row, column
        self.at = self.row[:, None], self.column[None, :]
        self.of_row, self.of_column = self.row < height, self.column < width
        self.there = self.of_row[:, None] & self.of_column[None, :]

    def load(self, ref: Any, dtype: Any) -> Array:
        return plt.load(ref.at[self.at], mask=self.there, other=0.0).astype(dtype)

    def store(self, ref: Any, value: Array) -> None:
        plt.store(ref.at[self.at], value.astype(ref.dtype), mask=self.there)

    def vector(self, ref: Any, dtype: Any) -> Array:
        return plt.load(ref.at[self.column], mask=self.of_column, other=0.0).astype(dtype)[None, :]


def _first_block(ref: Any, cut: Cut) -> _Block:
    """Return the first block of this program."""
    size = _columns(ref.shape[1], cut)
    row, column = (jnp.arange(length, dtype=jnp.int32) for length in (cut.rows, size))
    return _Block(ref, pl.program_id(0) * (cut.rows * cut.times) + row, pl.program_id(1) * size + column)


def _columns(width: int, cut: Cut) -> int:
    return min(pl.next_power_of_2(width), cut.columns)


def _by_blocks(kernel: Any, like: Rows, out_shape: Any, cut: Cut, name: str, interpret: bool, *given: AnyArray) -> Any:
    """A program for each of the blocks of `like`; where it takes several in turn, the sums over its rows are the last
    of what the kernel writes."""
    height, width = like.shape
    grid = (pl.cdiv(height, cut.rows * cut.times), pl.cdiv(width, _columns(width, cut)))
    sums = [jax.ShapeDtypeStruct((grid[0], width), _wide(like.dtype))] if cut.times > 1 else []
    *found, last = pl.pallas_call(
        partial(kernel, cut=cut),
        out_shape=[*out_shape, *sums],
        grid=grid,
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=cut.warps, num_stages=1),
        name=name,
    )(*given)
    return [*found, jnp.sum(last, axis=0)] if sums else [*found, last]


def _summed(ref: Any, sums_ref: Any, cut: Cut, compute: Any) -> None:
    """`compute` for one block of rows of this program after the other; sums over rows of what it returns."""

    first = _first_block(ref, cut)

    def add(k: Any, sums: Array) -> Array:
        return sums + compute(_Block(ref, first.row + jnp.int32(k) * cut.rows, first.column))

    total = jax.lax.fori_loop(0, cut.times, add, jnp.zeros(first.there.shape, sums_ref.dtype))
    plt.store(sums_ref.at[pl.program_id(0), first.column], jnp.sum(total, axis=0), mask=first.of_column)


def _same(like: Rows) -> Any:
    return jax.ShapeDtypeStruct(like.shape, like.dtype)


def _norm_by_kernel(x: Rows, change: Rows, bias: Vector, interpret: bool) -> Any:
    shapes = [_same(x), _same(x), jax.ShapeDtypeStruct(x.shape[:1], _wide(x.dtype))]
    return tuple(_by_blocks(_norm_kernel, x, shapes, NORM, "normalised_sum", interpret, x, change, bias))


def _norm_kernel(
    x_ref: Any, change_ref: Any, bias_ref: Any, total_ref: Any, read_ref: Any, roots_ref: Any, *, cut: Cut
) -> None:
    block, wide = _first_block(x_ref, cut), roots_ref.dtype
    total = block.load(x_ref, wide) + block.load(change_ref, wide) + block.vector(bias_ref, wide)
    block.store(total_ref, total)
    # Of the numbers as they are stored: what is read later is what was normalised.
    read, roots = _normalised(total.astype(total_ref.dtype).astype(wide), block.there, x_ref.shape[1])
    block.store(read_ref, read)
    plt.store(roots_ref.at[block.row], roots, mask=block.of_row)


def _norm_back_by_kernel(straight: Rows, slope: Rows, read: Rows, roots: Roots, interpret: bool) -> Any:
    given = straight, slope, read, roots
    return tuple(_by_blocks(_norm_back_kernel, read, [_same(read)], NORM_BACK, "norm_back", interpret, *given))


def _norm_back_kernel(
    straight_ref: Any, slope_ref: Any, read_ref: Any, roots_ref: Any, out_ref: Any, sums_ref: Any, *, cut: Cut
) -> None:
    wide = roots_ref.dtype

    def compute(block: _Block) -> Array:
        straight, slope, read = (block.load(ref, wide) for ref in (straight_ref, slope_ref, read_ref))
        roots = plt.load(roots_ref.at[block.row], mask=block.of_row, other=0.0)
        found = straight + _before_norm(slope, read, roots, read_ref.shape[1])
        block.store(out_ref, found)
        return jnp.where(block.there, found, 0.0)

    _summed(read_ref, sums_ref, cut, compute)


def _gelu_by_kernel(x: Rows, bias: Vector, interpret: bool) -> Rows:
    return _by_blocks(_gelu_kernel, x, [_same(x)], GELU, "biased_gelu", interpret, x, bias)[0]


def _gelu_kernel(x_ref: Any, bias_ref: Any, out_ref: Any, *, cut: Cut) -> None:
    block, wide = _first_block(x_ref, cut), _wide(x_ref.dtype)
    u = block.load(x_ref, wide) + block.vector(bias_ref, wide)
    block.store(out_ref, u * _normal(u)[0])


def _gelu_back_by_kernel(x: Rows, bias: Vector, slope: Rows, interpret: bool) -> Any:
    given = x, bias, slope
    return tuple(_by_blocks(_gelu_back_kernel, x, [_same(x)], GELU_BACK, "gelu_back", interpret, *given))


def _gelu_back_kernel(x_ref: Any, bias_ref: Any, slope_ref: Any, out_ref: Any, sums_ref: Any, *, cut: Cut) -> None:
    wide = sums_ref.dtype

    def compute(block: _Block) -> Array:
        u = block.load(x_ref, wide) + block.vector(bias_ref, wide)
        below, density = _normal(u)
        found = block.load(slope_ref, wide) * (below + u * density)
        block.store(out_ref, found)
        return found

    _summed(x_ref, sums_ref, cut, compute)
