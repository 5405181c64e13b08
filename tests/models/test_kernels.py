"""The kernels of the two-layer model, operation by operation on a CPU, against what they stand for."""

from __future__ import annotations

import itertools
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas
from jax.experimental.pallas import triton

from tests.models.test_two_layer import shelf_of
from tokenmargin.losses import exponential, logistic
from tokenmargin.models._kernels import (
    DOTS,
    PARTS,
    DocumentTokens,
    KernelSettings,
    RowSlot,
    Tuning,
    column_sums,
    document_gradients,
    document_lengths,
    gathered_gram,
    gathered_product,
    gradients_by_kernels,
    in_parts,
    occurrences,
    power_of_two_below,
    read_table,
    row_sums,
    token_places,
)
from tokenmargin.models._kernels._in_turn import TILE, lower_triangle, narrow_and_wide, pieces_of, triangular
from tokenmargin.models._kernels._narrow_documents import NARROW_CUTS
from tokenmargin.models._kernels._wide_documents import WIDE_CUTS
from tokenmargin.models._kernels.batch import kernels_apply, takes_whole_batch
from tokenmargin.models._kernels.column_sums import COLUMN_TUNING
from tokenmargin.models._kernels.moved_rows import MOVE_TUNING
from tokenmargin.models._kernels.token_rows import ROW_TUNING
from tokenmargin.models._kernels.tried_gpu import TRIED
from tokenmargin.models._kernels.wide_products import (
    GRAM_TUNING,
    PRODUCT_TUNING,
    TABLE_BLOCK,
    TABLE_WARPS,
    WIDE_GRAM_TUNING,
    WIDE_PRODUCT_TUNING,
)
from tokenmargin.models._two_layer_block import SoftmaxScales, backward_to_gram, forward_from_gram
from tokenmargin.models._two_layer_gradient import (
    Settings,
    TwoLayerParameters,
    _by_kernels,
    two_layer_loss_and_gradients,
)
from tokenmargin.models._two_layer_values import DocumentShelf
from tokenmargin.models.matmul_precision import MatmulPrecision

#: Both sides are float64 and differ in the order of a few hundred additions; relative to the largest entry.
ROUNDING = 1e-12

#: What eleven and twenty-two bits leave of a number.
ONE_HALF, TWO_HALVES = 2.0**-11, 2.0**-22

#: Sums of a few hundred float32 products, relative to the largest.
SINGLE = 1e-6

N_TOKENS, WIDTH, EPSILON = 24, 16, 1e-5
SCALES = SoftmaxScales(mixing=0.7, scores=0.6)


def assert_close(ours, exact, tolerance):
    exact = np.asarray(exact, np.float64)
    np.testing.assert_allclose(np.asarray(ours, np.float64), exact, rtol=0, atol=tolerance * np.abs(exact).max())


def documents_of(rng, B, U, n_tokens):
    """Ids without repeats, counts, labels; the first document is shorter, and the last row is no document."""
    ids = np.stack([rng.permutation(n_tokens)[:U] for _ in range(B)]).astype(np.int32)
    log_counts = np.log(rng.integers(1, 4, (B, U)).astype(float))
    log_counts[0, U - U // 3 :] = -np.inf
    labels = np.where(rng.random(B) < 0.5, -1.0, 1.0)
    labels[-1] = 0
    return ids, log_counts, labels


def test_a_float32_is_its_parts(rng):
    x = jnp.asarray(rng.normal(size=(40, 30)) * 10.0 ** rng.integers(-30, 30, (40, 1)), jnp.float32)
    scale, unit = power_of_two_below(jnp.max(jnp.abs(x), axis=1))
    assert (np.frexp(np.asarray(scale))[0] == 0.5).all()
    assert (np.asarray(scale) * np.asarray(unit) == 1).all()
    scaled = np.asarray(x * scale[:, None], np.float64)
    assert (np.abs(scaled).max(axis=1) >= 2**13).all()
    assert (np.abs(scaled).max(axis=1) < 2**14).all()
    for parts, left in ((1, ONE_HALF), (2, TWO_HALVES)):
        found = sum(np.asarray(part, np.float64) for part in in_parts(jnp.asarray(scaled, jnp.float32), parts))
        # Below 2^-14, which is 2^-27 of the largest, float16 has a fixed step.
        assert (np.abs(found - scaled) <= left * np.abs(scaled) + 2.0**-24).all()


def test_a_row_of_zeros_has_parts_too():
    scale, unit = power_of_two_below(jnp.zeros(3, jnp.float32))
    assert np.isfinite(scale).all()
    assert (unit > 0).all()


@pytest.mark.long
@pytest.mark.parametrize("U", [5, 37, 140, 80, 160], ids=["narrow", "padded", "in chunks", "at once", "at once, wide"])
@pytest.mark.parametrize("scale", [1.0, 20.0], ids=["usual", "saturated"])
def test_three_kernels_are_the_block_from_its_gram_on(rng, U, scale):
    ids, log_counts, labels = documents_of(rng, 2, U, 200)
    E, readers = scale * rng.normal(size=(200, WIDTH)) / np.sqrt(WIDTH), rng.normal(size=(3, WIDTH))
    gram = jnp.einsum("btd,bsd->bts", E[ids], E[ids])
    overlaps = jnp.asarray(E @ readers.T)
    settings = KernelSettings(WIDTH, EPSILON, 0, jax.lax.Precision.HIGHEST, SCALES.mixing, interpret=True)
    tokens = DocumentTokens(ids, document_lengths(log_counts), log_counts, labels, overlaps.T, jnp.ones(200))
    ours = jax.jit(partial(document_gradients, settings=settings))(gram, tokens, jnp.asarray(0.3), jnp.asarray(7.0))
    forward = forward_from_gram(
        gram, overlaps[ids], log_counts, WIDTH, jnp.ones(()), EPSILON, MatmulPrecision.FULL, SCALES
    )
    slopes = -labels * jax.nn.sigmoid(-labels * (forward.outputs + 0.3)) / 7.0
    symmetric, by_overlap = backward_to_gram(forward, slopes, WIDTH, MatmulPrecision.FULL, SCALES)
    assert_close(ours.outputs, forward.outputs, ROUNDING)
    assert_close(ours.slopes, slopes, ROUNDING)
    there = np.arange(U) < np.asarray(tokens.lengths)[:, None]
    pairs = there[:, :, None] & there[:, None, :]
    assert_close(np.where(there, ours.overlaps, 0.0), jnp.moveaxis(by_overlap, -1, 0), ROUNDING)
    assert_close(np.where(pairs, ours.symmetric[0], 0.0), symmetric, ROUNDING)


@pytest.mark.parametrize("parts", [1, 2])
def test_gathered_products_are_those_of_the_gathered_rows(rng, parts):
    """Two tiles a document, a width that no block divides, documents that write behind others, one that ends early."""
    V, d, tolerance = 150, 24, {1: 2 * ONE_HALF, 2: SINGLE}[parts]
    E = jnp.asarray(rng.normal(size=(V, d)) * 10.0 ** rng.integers(-3, 3, (V, 1)), jnp.float32)
    readers = jnp.asarray(rng.normal(size=(3, d)), jnp.float32)
    table = jax.jit(partial(read_table, parts=parts, interpret=True))(E, readers)
    assert_close(table.overlaps, np.asarray(readers, np.float64) @ np.asarray(E, np.float64).T, SINGLE)
    ids, log_counts, _ = documents_of(rng, 2, 140, V)
    lengths = document_lengths(log_counts)
    assert lengths.tolist() == [140 - 140 // 3, 140]
    there = np.arange(140) < np.asarray(lengths)[:, None]
    pairs = there[:, :, None] & there[:, None, :]
    X = np.asarray(E, np.float64)[ids]
    gram = jax.jit(partial(gathered_gram, interpret=True, tuning=Tuning(16, 4, 1)))(table, ids, lengths)
    assert_close(np.where(pairs, gram, 0.0), np.where(pairs, X @ X.transpose(0, 2, 1), 0.0), tolerance)
    assert np.isnan(np.asarray(gram)[0, 128:]).all()  # a tile behind the end of its document: as it was found
    D = np.where(pairs, rng.normal(size=(2, 140, 140)), 0.0)
    scaled = jnp.asarray(D * np.asarray(table.units)[ids][:, None, :], jnp.float32)
    scales, units = power_of_two_below(jnp.max(jnp.abs(scaled), axis=2))
    left = tuple(in_parts(scaled * scales[:, :, None], parts))
    others = jnp.ones((285, d), jnp.float32)
    product = partial(gathered_product, place=RowSlot(3, 285, others), interpret=True, tuning=Tuning(16, 4, 1))
    rows = jax.jit(product)(table, ids, lengths, left, jnp.broadcast_to(units, (3, *units.shape)))
    found, written = np.asarray(rows[3:283]), there.reshape(-1)
    assert_close(found[written], (D @ X).reshape(-1, d)[written], tolerance)
    assert (found[~written] == 1).all()
    assert (np.asarray(rows[:3]) == 1).all()
    assert (np.asarray(rows[283:]) == 1).all()


def test_a_document_ends_with_its_last_token():
    """Wherever there are gaps; a row without any token has no length."""
    none = -np.inf
    counts = np.array([[0.0, none, 1.0, none], [0.0, 0.0, 0.0, 0.0], [none] * 4])
    assert document_lengths(counts).tolist() == [3, 4, 0]


def test_rows_are_added_in_the_order_of_documents(rng):
    """To the last bit: a document after the other, shelves in their order, padding left out."""
    shelves = [documents_of(rng, B, U, N_TOKENS) for B, U in ((11, 7), (3, 20))]
    ids, log_counts = (tuple(jnp.asarray(shelf[k]) for shelf in shelves) for k in range(2))
    n_rows = sum(shelf.size for shelf in ids)
    rows = rng.normal(size=(n_rows, WIDTH)).astype(np.float32)
    narrow = rng.normal(size=(3, n_rows)).astype(np.float32)
    where = occurrences(token_places(ids, log_counts, N_TOKENS), narrow, interpret=True)
    add = jax.jit(partial(row_sums, interpret=True))
    table = add(where, rows, jnp.zeros((3, WIDTH), jnp.float32))
    expected, thin = np.zeros((N_TOKENS, WIDTH), np.float32), np.zeros((3, N_TOKENS), np.float32)
    flat_ids, flat_counts = (np.concatenate([np.asarray(x).reshape(-1) for x in all_]) for all_ in (ids, log_counts))
    for row, (token, count) in enumerate(zip(flat_ids, flat_counts, strict=True)):
        if count > -np.inf:
            expected[token] += rows[row]
            thin[:, token] += narrow[:, row]
    np.testing.assert_array_equal(table, expected)
    assert_close(where.overlaps, thin, SINGLE)
    readers = rng.normal(size=(3, WIDTH)).astype(np.float32)
    assert_close(add(where, rows, readers), expected + thin.T @ readers, SINGLE)


def test_kernels_are_cut_by_powers_of_two():
    """Triton compiles no blocks of other sizes and no other numbers of warps; on a CPU, one by one, any would do."""
    sizes = [TILE, *(size for cuts in (*NARROW_CUTS.values(), WIDE_CUTS) for cut in cuts for size in cut)]
    tables = GRAM_TUNING, WIDE_GRAM_TUNING, WIDE_PRODUCT_TUNING
    tunings = (*(each for table in tables for each in table.values()), PRODUCT_TUNING)
    sizes += [size for each in tunings for size in (each.block, each.warps, each.chunk, each.tile)]
    sizes += [size for each in (ROW_TUNING, MOVE_TUNING) for size in (each.block, each.warps)]
    sizes += [*COLUMN_TUNING, TABLE_BLOCK, TABLE_WARPS]
    assert all(size & (size - 1) == 0 < size for size in sizes)


def test_column_sums_are_a_product(rng):
    E, numbers = rng.normal(size=(150, 20)), rng.normal(size=(2, 150))
    assert_close(column_sums(E, numbers, interpret=True), numbers @ E, ROUNDING)


def single(tree):
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32 if x.dtype.kind == "f" else x.dtype), tree)


@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [(MatmulPrecision.FLOAT_32, 0.0), (MatmulPrecision.TENSOR_FLOAT_32, 20 * ONE_HALF)],
    ids=["float32", "eleven bits"],
)
def test_gradients_by_kernels_are_as_exact_as_they_say(rng, precision, tolerance):
    """Against float64: float32 by kernels loses at most twice what it does in full, and a few units of the last bit."""
    documents = [rng.integers(0, N_TOKENS, n) for n in (1, 30, 9, 12)]
    labels = np.array([1.0, -1.0, -1.0, 1.0])
    shelves = (shelf_of(documents[1:2], labels[1:2], 22), shelf_of(documents[::2], labels[::2], 9, rows=3))
    vectors = (jnp.asarray(rng.normal(size=WIDTH)) for _ in range(4))
    exact = TwoLayerParameters(jnp.asarray(rng.normal(size=(N_TOKENS, WIDTH))), *vectors)

    (sums, truth), (_, full) = (
        jax.jit(partial(two_layer_loss_and_gradients, settings=Settings(scales=SCALES)))(*given)
        for given in ((exact, shelves), single((exact, shelves)))
    )

    settings = Settings(EPSILON, precision, SCALES)

    def by_kernels(parameters, shelves):
        return _by_kernels(parameters, shelves, jnp.float32(3), settings=settings, interpret=True)

    found, own = jax.jit(by_kernels)(*single((exact, shelves)))
    lost = jnp.linalg.norm(full.embeddings - truth.embeddings)
    allowed = 2 * lost + (tolerance + SINGLE) * jnp.linalg.norm(truth.embeddings)
    assert jnp.linalg.norm(found.table - truth.embeddings) < allowed
    assert_close(own.loss, sums.mean_loss, SINGLE + tolerance)
    assert float(own.correct) == float(sums.correct)


def test_every_document_is_narrow_or_wide():
    assert narrow_and_wide((900, 300, 100)) == [(-1, 128), (128, 900)]
    assert narrow_and_wide((96,)) == [(-1, 96)]
    assert [widths.is_narrow for widths in narrow_and_wide((129,))] == [True, False]


def test_tiles_of_a_triangle_are_numbered_row_by_row():
    expected = [(row, column) for row in range(5) for column in range(row + 1)]
    found = [tuple(map(int, lower_triangle(jnp.int32(number), 5))) for number in range(triangular(5))]
    assert found == expected
    assert [int(pieces_of(jnp.int32(n), 64)) for n in (1, 64, 65)] == [pieces_of(n, 64) for n in (1, 64, 65)]


@pytest.mark.parametrize(
    "precision",
    [
        MatmulPrecision.FLOAT_16_PAIRS,
        pytest.param(MatmulPrecision.TENSOR_FLOAT_32, marks=pytest.mark.long),
    ],
    ids=lambda precision: precision.name,
)
def test_documents_of_all_widths_on_one_shelf(rng, precision):
    """What stands behind the end of a document is never written, and not read either: it would be nan here."""
    lengths, V = (520, 260, 130, 1), 540
    ids = np.stack([rng.permutation(V)[:520] for _ in lengths]).astype(np.int32)
    there = np.arange(520) < np.array(lengths)[:, None]
    log_counts = np.where(there, np.log(rng.integers(1, 4, ids.shape)), -np.inf)
    shelf = DocumentShelf(ids, log_counts, np.array([1.0, -1, 1, 0]), (520, 300, 140, 100))
    vectors = (jnp.asarray(rng.normal(size=WIDTH)) for _ in range(4))
    exact = TwoLayerParameters(jnp.asarray(rng.normal(size=(V, WIDTH))), *vectors)
    (sums, truth), (_, full) = (
        jax.jit(partial(two_layer_loss_and_gradients, settings=Settings(scales=SCALES)))(*given)
        for given in ((exact, (shelf,)), single((exact, (shelf,))))
    )
    settings = Settings(EPSILON, precision, SCALES)
    by_kernels = partial(_by_kernels, settings=settings, interpret=True)
    found, own = jax.jit(by_kernels)(*single((exact, (shelf,))), jnp.float32(3))
    lost = jnp.linalg.norm(full.embeddings - truth.embeddings)
    tolerance = SINGLE if precision is MatmulPrecision.FLOAT_16_PAIRS else 20 * ONE_HALF
    assert jnp.linalg.norm(found.table - truth.embeddings) < 2 * lost + tolerance * jnp.linalg.norm(truth.embeddings)
    assert_close(own.loss, sums.mean_loss, tolerance)


class Memory:
    """An array of a kernel in which places outside are none; interpreted by JAX, they would be the nearest inside."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    @property
    def at(self):
        return self

    def __getitem__(self, where):
        return self, where if isinstance(where, tuple) else (where,)


def places(view, mask):
    memory, where = view
    *where, mask = np.broadcast_arrays(*where, mask)
    for index, size in zip(where, memory.shape, strict=True):
        assert ((index >= 0) & (index < size))[mask].all()
    return memory.array, tuple(np.where(mask, index, 0) for index in where), mask


def load(view, *, mask=True, other=0):
    array, where, mask = places(view, mask)
    return jnp.asarray(np.where(mask, array[where], other).astype(array.dtype))


def store(view, value, *, mask=True):
    array, where, mask = places(view, mask)
    array[tuple(index[mask] for index in where)] = np.broadcast_to(value, mask.shape)[mask]


def test_wide_products_fill_their_arrays_and_leave_none(rng, monkeypatch):
    """On arrays that refuse, a program after the other: a GPU would read or overwrite what stands next to them."""
    program = [0]

    def one_by_one(kernel, *, out_shape, grid, **_):
        def call(*operands):
            shapes = out_shape if isinstance(out_shape, list) else [out_shape]
            found = [np.full(x.shape, np.nan, x.dtype) for x in shapes]
            memory = [Memory(np.asarray(x)) for x in (*operands, *found)]
            with jax.disable_jit():
                for program[:] in itertools.product(*map(range, grid)):
                    kernel(*memory)
            arrays = tuple(map(jnp.asarray, found))
            return arrays if isinstance(out_shape, list) else arrays[0]

        return call

    monkeypatch.setattr(pallas, "pallas_call", one_by_one)
    monkeypatch.setattr(pallas, "program_id", lambda axis: jnp.int32(program[axis]))
    monkeypatch.setattr(triton, "load", load)
    monkeypatch.setattr(triton, "store", store)
    E, readers, D = (rng.normal(size=shape).astype(np.float32) for shape in ((5, WIDTH), (3, WIDTH), (2, 3, 3)))
    table, ids, lengths = read_table(E, readers, 1), np.array([[0, 1, 4], [3, 2, 0]], np.int32), np.full(2, 3, np.int32)
    assert_close(table.overlaps, readers @ E.T, SINGLE)
    assert_close(gathered_gram(table, ids, lengths), E[ids] @ E[ids].transpose(0, 2, 1), 2 * ONE_HALF)
    left, units = jnp.asarray(D * table.units[ids][:, None, :] * 2.0**12, jnp.float16), np.full((1, 2, 3), 2.0**-12)
    rows = gathered_product(table, ids, lengths, (left,), jnp.asarray(units, jnp.float32), RowSlot(0, 6, None))
    assert_close(rows, (D @ E[ids]).reshape(6, WIDTH), 2 * ONE_HALF)


def test_kernels_are_for_gpus_and_for_what_is_not_asked_in_full(rng):
    """Read off the traced program, which has the ways of all devices in it."""
    parameters = TwoLayerParameters(
        *(jnp.zeros(shape, jnp.float32) for shape in ((N_TOKENS, WIDTH), (WIDTH,), (WIDTH,)))
    )
    shelf = single(shelf_of([np.arange(5)], [1.0], 8))

    def has_kernels(precision, loss=logistic):
        compute = partial(two_layer_loss_and_gradients, settings=Settings(precision=precision, loss=loss))
        return "pallas_call" in str(jax.make_jaxpr(compute)(parameters, (shelf,)))

    assert has_kernels(MatmulPrecision.FLOAT_32)
    assert has_kernels(MatmulPrecision.FLOAT_16_PAIRS)
    assert has_kernels(MatmulPrecision.TENSOR_FLOAT_32)
    assert not has_kernels(MatmulPrecision.FULL)
    assert not has_kernels(MatmulPrecision.FLOAT_16_PAIRS, exponential)


@pytest.mark.parametrize("precision", PARTS, ids=lambda precision: precision.name)
def test_kernels_are_lowered_for_a_gpu(precision):
    """As far as is possible where there is none: to Triton's language, for documents of one tile and of several."""
    settings = KernelSettings(WIDTH, EPSILON, PARTS[precision], DOTS[precision])
    shelves = tuple(
        DocumentShelf(ids=jnp.zeros((2, U), jnp.int32), log_counts=jnp.zeros((2, U)), labels=jnp.ones(2))
        for U in (96, 300)
    )
    shelves = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, shelves)

    def gradients(E, readers, shelves):
        return gradients_by_kernels(E, readers, shelves, jnp.float32(0), jnp.float32(4), settings)

    given = jnp.zeros((40, WIDTH), jnp.float32), jnp.zeros((3, WIDTH), jnp.float32), shelves
    checks = [jax.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")]
    found = jax.export.export(jax.jit(gradients), platforms=["cuda"], disabled_checks=checks)(*given)
    # A table, its rows listed and added up, its column sums; for each shelf two products and what lies between.
    assert found.mlir_module().count("__gpu$xla.gpu.triton") >= 4 + 2 * 5


@pytest.mark.parametrize(("capability", "tried"), [(TRIED, True), ("8.0", False)])
def test_kernels_are_for_the_gpus_they_were_tried_on(monkeypatch, capability, tried):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(compute_capability=capability)])
    shelf = single(shelf_of([np.arange(5)], [1.0], 8))
    E = np.zeros((N_TOKENS, WIDTH), np.float32)
    for count in (1, 2):  # what is spread over several is not gathered unless it is asked for
        monkeypatch.setattr(jax, "device_count", lambda count=count: count)
        assert kernels_apply(E, (shelf,), MatmulPrecision.FLOAT_16_PAIRS) is tried
        assert kernels_apply(E, (shelf,), MatmulPrecision.FLOAT_32) is (tried and count == 1)


def test_a_whole_batch_must_be_no_wider_than_registers_and_no_larger_than_memory():
    E, pairs = np.zeros((N_TOKENS, WIDTH), np.float32), MatmulPrecision.FLOAT_16_PAIRS

    def takes(B, U):
        shelf = DocumentShelf(np.zeros((B, U), np.int32), np.zeros((B, U)), np.ones(B))
        return takes_whole_batch(E, shelf, pairs)

    assert takes(128, 1024)
    assert not takes(128, 1025)
    assert not takes(1024, 1024)
