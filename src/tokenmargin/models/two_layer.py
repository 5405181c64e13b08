"""The two-layer model as a value to train: its start, and its gradient whatever layout a batch has [E, (36)]."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._checks import check_fields, checked, fits_in_memory, float_dtype, not_negative, positive, whole_number
from tokenmargin._module import Module
from tokenmargin._types import AnyArray, ScalarJ
from tokenmargin.losses import Logistic, Loss, logistic
from tokenmargin.models._kernels import takes_whole_batch
from tokenmargin.models._token_records import token_records
from tokenmargin.models._two_layer_block import SoftmaxScales
from tokenmargin.models._two_layer_gradient import (
    LAYER_NORM_EPSILON,
    Settings,
    TwoLayerGradients,
    batch_row_order,
    gradients_in_rows,
    two_layer_loss_and_gradients,
    two_layer_outputs,
)
from tokenmargin.models._two_layer_values import DocumentBlocks, DocumentShelf, TwoLayerParameters
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.model import BatchSums, CompilerOptions, Model

T = TypeVar("T")

BatchOutputs = Float[Array, "B"]

#: Every shelf has some fifty kernels of its own. Softmax and products in generated Triton code take ten times longer to
#: compile than all others and run no faster here; merging products of one operand copies that operand.
COMPILER_OPTIONS: CompilerOptions = (
    ("xla_disable_hlo_passes", "triton-softmax-rewriter"),
    ("xla_gpu_enable_triton_gemm", False),
    ("xla_gpu_dot_merger_threshold_mb", 0),
)


@runtime_checkable
class ShelvedBatch(Protocol):
    """A batch that comes in one of a few layouts, which one is known on the device only."""

    @property
    def n_layouts(self) -> int:
        """Number of layouts (static)."""

    @property
    def layout(self) -> Array:
        """The number of this batch's layout (traced)."""

    def shelves(self, layout: int) -> tuple[DocumentShelf, ...] | DocumentBlocks:
        """The documents on the shelves of a layout, or in blocks, as a CPU likes them."""

    def one_by_one(self, layout: int) -> bool:
        """True if the documents of a layout go through the model one after the other."""

    def whole(self) -> DocumentShelf | None:
        """All documents on one shelf, for kernels that end with each; None where there is no such shelf."""


class TwoLayer(Model, Module):
    """f = Softmax(p'E'_X')E'_X v on E'_X = LayerNorm(Softmax(E_X E_X')E_X + E_X), all parameters trained [E, (36)].

    Args:
        width: d.
        affine: True if the LayerNorm has a gain and a bias, trained from 1 and 0, as torch's has by default.
        init_scale: E, p and v start as this times N(0, I/d).
        precision: precision of float32 products on an accelerator.
        score_scale: factor of the scores p'E'_X' before their softmax: 1 as printed, width**-0.5 as in
            libraries.
        mixing_scale: the same for the scores E_X E_X' of the first softmax.
        fixed_order: True if an accelerator adds the gradients of a token in the same order every time, which gives the
            same bytes on every run and costs about a quarter more time. A CPU does so anyway, and so do the kernels of
            an H100 or H200, which serve every precision but `MatmulPrecision.FULL`.
        loss: loss of the signed output y f(X), from `tokenmargin.losses`; GPU kernels serve the logistic loss alone.
    """

    width: int = eqx.field(static=True)
    affine: bool = eqx.field(static=True, default=True)
    init_scale: float = eqx.field(static=True, default=1.0)
    precision: MatmulPrecision = eqx.field(static=True, default=MatmulPrecision.FLOAT_32)
    fixed_order: bool = eqx.field(static=True, default=False)
    epsilon: float = eqx.field(static=True, default=LAYER_NORM_EPSILON)
    score_scale: float = eqx.field(static=True, default=1.0)
    mixing_scale: float = eqx.field(static=True, default=1.0)
    loss: Loss = eqx.field(static=True, default=logistic)

    def __check_init__(self) -> None:
        """A width and scales."""
        check_fields(self)
        whole_number(self.width, "width", 1)
        for name in ("init_scale", "score_scale", "mixing_scale"):
            positive(getattr(self, name), name)
        not_negative(self.epsilon, "epsilon")

    @property
    def compiler_options(self) -> CompilerOptions:
        """`COMPILER_OPTIONS`."""
        return COMPILER_OPTIONS

    def _settings(self, precision: MatmulPrecision = MatmulPrecision.FULL) -> Settings:
        return Settings(self.epsilon, precision, SoftmaxScales(self.mixing_scale, self.score_scale), self.loss)

    @checked
    def initial(self, key: Array, vocabulary_size: int, dtype: Any = jnp.float32) -> TwoLayerParameters:
        """E, p, v ~ N(0, I/d) times `init_scale`; gain 1 and bias 0 where there are any."""
        whole_number(vocabulary_size, "vocabulary_size", 1)
        fits_in_memory(
            vocabulary_size * self.width, f"a table of {vocabulary_size} x {self.width}", "take a smaller width", 4
        )
        return _initial(self, key, vocabulary_size, float_dtype(dtype))

    def outputs(self, parameters: TwoLayerParameters, batch: ShelvedBatch) -> BatchOutputs:
        """f(X) of every row of the shelves, in their order, shape (B,); 0 for rows that are no document."""
        return _in_own_layout(batch, partial(self._outputs, batch), parameters)

    def _outputs(self, batch: ShelvedBatch, layout: int, parameters: TwoLayerParameters) -> BatchOutputs:
        shelves = batch.shelves(layout)
        if isinstance(shelves, DocumentBlocks):
            outputs = two_layer_outputs(parameters, shelves, self._settings())
            return jnp.where(shelves.labels.reshape(-1)[: shelves.documents] == 0, 0.0, outputs)

        def of_shelf(shelf: DocumentShelf, precision: MatmulPrecision) -> Array:
            return jnp.where(shelf.labels == 0, 0.0, two_layer_outputs(parameters, shelf, self._settings(precision)))

        def of_all(shelves: tuple[DocumentShelf, ...], precision: MatmulPrecision) -> BatchOutputs:
            if batch.one_by_one(layout):
                alone = [jax.tree.map(lambda x: x[:, None], shelf) for shelf in shelves]
                return jnp.concatenate([jax.lax.map(lambda x: of_shelf(x, precision)[0], shelf) for shelf in alone])
            return jnp.concatenate([of_shelf(shelf, precision) for shelf in shelves])

        return jax.lax.platform_dependent(
            shelves,
            cpu=partial(of_all, precision=MatmulPrecision.FULL),
            default=partial(of_all, precision=self.precision),
        )

    def loss_and_gradients(
        self, parameters: TwoLayerParameters, batch: ShelvedBatch
    ) -> tuple[BatchSums, TwoLayerParameters | TwoLayerGradients]:
        """Return the mean loss of a batch and its gradients; without kernels, a branch is compiled for each layout.

        With kernels the gradient in E is in rows, which `gradient_entries` adds up.
        """
        whole = batch.whole() if jax.default_backend() == "gpu" and type(self.loss) is Logistic else None
        if whole is not None and takes_whole_batch(parameters.embeddings, whole, self.precision):
            return gradients_in_rows(parameters, whole, self._settings(self.precision))
        return _in_own_layout(batch, partial(self._loss_and_gradients, batch), parameters)

    def _loss_and_gradients(
        self, batch: ShelvedBatch, layout: int, parameters: TwoLayerParameters
    ) -> tuple[BatchSums, TwoLayerParameters]:
        shelves = batch.shelves(layout)
        if isinstance(shelves, DocumentBlocks):
            return two_layer_loss_and_gradients(parameters, shelves, self._settings())
        at_once = 1 if batch.one_by_one(layout) else None

        def on_cpu(
            parameters: TwoLayerParameters, shelves: tuple[DocumentShelf, ...]
        ) -> tuple[BatchSums, TwoLayerParameters]:
            return two_layer_loss_and_gradients(parameters, shelves, self._settings(), documents_at_once=at_once)

        def elsewhere(
            parameters: TwoLayerParameters, shelves: tuple[DocumentShelf, ...]
        ) -> tuple[BatchSums, TwoLayerParameters]:
            order = batch_row_order(shelves, parameters.embeddings.shape[0]) if self.fixed_order else None
            settings = self._settings(self.precision)
            return two_layer_loss_and_gradients(parameters, shelves, settings, order=order, documents_at_once=at_once)

        return jax.lax.platform_dependent(parameters, shelves, cpu=on_cpu, default=elsewhere)

    def recorded(self, parameters: TwoLayerParameters, posterior: AnyArray | None) -> dict[str, ScalarJ]:
        """Return norms and correlations of E, p and v; see `token_records`."""
        return token_records(parameters.embeddings, parameters.query, parameters.head, posterior)


def _in_own_layout(
    batch: ShelvedBatch, compute: Callable[[int, TwoLayerParameters], T], parameters: TwoLayerParameters
) -> T:
    """`compute(layout, parameters)` for the layout of this batch, which is known on the device only."""
    branches = [partial(compute, k) for k in range(batch.n_layouts)]
    if len(branches) == 1:
        return branches[0](parameters)
    return jax.lax.switch(batch.layout, branches, parameters)


@eqx.filter_jit
def _initial(model: TwoLayer, key: Array, vocabulary_size: int, dtype: str) -> TwoLayerParameters:
    keys = jax.random.split(key, 3)
    scale = jnp.asarray(model.init_scale / np.sqrt(model.width), dtype)
    E = scale * jax.random.normal(keys[0], (vocabulary_size, model.width), dtype)
    p, v = (scale * jax.random.normal(k, (model.width,), dtype) for k in keys[1:])
    if not model.affine:
        return TwoLayerParameters(E, p, v)
    return TwoLayerParameters(E, p, v, jnp.ones(model.width, dtype), jnp.zeros(model.width, dtype))
