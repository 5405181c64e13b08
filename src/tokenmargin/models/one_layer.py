"""The one-layer attention model on counts, with its exact gradients [E, (1), (2), Lemma 7].

f(X) = Softmax(p'E_X')E_X v sees X only through how often each token occurs and E only through a = E p and g = E v:

    f(X) = sum_s c_s exp(a_s) g_s / sum_s c_s exp(a_s),

so a document is its distinct tokens with log-counts, no array of documents x tokens x width exists, and the gradient in
E is R[p v]' with R of shape (V, 2). With a key-query matrix W the logits are a = E W'p; then W'p stands where p stood,
and with a scale c of the scores, a = c E W'p, it is c W'p.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenmargin._checks import check_fields, checked, fits_in_memory, float_dtype, positive, whole_number
from tokenmargin._module import Module
from tokenmargin._types import AnyArray, MatrixJ, ScalarJ, VectorJ
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Logistic, Loss, logistic
from tokenmargin.models._kernels import column_sums
from tokenmargin.models._one_layer_kernels import DocumentSums, PiecesOfDocuments, document_sums, kernels_apply
from tokenmargin.models._sums import DocumentSlopes, PieceTokens, sums_by_token
from tokenmargin.models._token_records import token_records
from tokenmargin.models.factored_gradient import FactoredGradient
from tokenmargin.models.model import BatchSums, Model

EmbeddingTable = Float[Array | np.ndarray, "V d"]
TokenPairs = Float[Array | np.ndarray, "V 2"]
PieceIds = Int[Array | np.ndarray, "C w"]
PieceNumbers = Float[Array | np.ndarray, "C w"]
PieceDocuments = Int[Array | np.ndarray, "C"]
DocumentPieces = Int[Array | np.ndarray, "B K"]
DocumentNumbers = Float[Array | np.ndarray, "B"]

#: Parameters that can be trained, in the order of `OneLayerParameters`.
TRAINABLE = ("embeddings", "query", "head", "key_query")

#: Rows of E that are drawn at once.
INITIAL_ROWS = 128

#: Products of float32 in full float32: accelerators round factors to fewer bits unless told otherwise.
FULL = jax.lax.Precision.HIGHEST


class OneLayerParameters(Module):
    """The arrays of the model.

    Args:
        embeddings: E, shape (V, d).
        query: p, shape (d,), the embedding of the <cls> token.
        head: v, shape (d,).
        key_query: W, shape (d, d), or None for W = I.
    """

    embeddings: EmbeddingTable
    query: VectorJ
    head: VectorJ
    key_query: MatrixJ | None = None

    @property
    def vocabulary_size(self) -> int:
        """V."""
        return self.embeddings.shape[0]


class OneLayerGradients(Module):
    """Gradients of the mean loss; None for what is not trained. Those of rank two and one are kept factored."""

    embeddings: FactoredGradient | None
    query: VectorJ | None
    head: VectorJ | None
    key_query: FactoredGradient | None


class CountBatch(Module):
    """B documents as pieces of w distinct tokens each; a document has as many pieces as it needs.

    Args:
        ids: token ids, shape (C, w); padding holds any valid id.
        log_counts: logarithm of the count of each, shape (C, w); -inf at padding.
        document: the document of each piece, shape (C,); B for a piece that is padding.
        pieces: the pieces of each document, shape (B, K); C where it has fewer than K.
        labels: -1 or +1, shape (B,); 0 marks a row that is no document and adds nothing to loss or gradient.
        documents: how many rows are documents, by which the mean divides; known before training starts.
    """

    ids: PieceIds
    log_counts: PieceNumbers
    document: PieceDocuments
    pieces: DocumentPieces
    labels: DocumentNumbers
    documents: ScalarJ


class _Attention(Module):
    """Softmax weights and scores of each token of each piece, and the outputs."""

    weights: PieceNumbers
    scores: PieceNumbers
    outputs: DocumentNumbers


class OneLayer(Model, Module):
    """f(X) = Softmax(p'WE_X')E_X v under a decreasing loss l(y f(X)) [E, (1), (2)].

    Args:
        width: d.
        trainable: which of "embeddings", "query", "head" and "key_query" are trained. Training "key_query" gives the
            model a W, started at the identity.
        init_scale: E, p and a trained v start as this times N(0, I/d); a fixed v starts as a unit vector.
        score_scale: factor of the scores p'WE_X' before their softmax: 1 as printed, width**-0.5 as in
            libraries.
        loss: loss of the signed output y f(X), from `tokenmargin.losses`; GPU kernels serve the logistic loss alone.
    """

    width: int = eqx.field(static=True)
    trainable: tuple[str, ...] = eqx.field(static=True, default=TRAINABLE[:3])
    init_scale: float = eqx.field(static=True, default=1.0)
    score_scale: float = eqx.field(static=True, default=1.0)
    loss: Loss = eqx.field(static=True, default=logistic)

    def __check_init__(self) -> None:
        """Known names, a width, scales."""
        check_fields(self)
        unknown = set(self.trainable) - set(TRAINABLE)
        if unknown or not self.trainable:
            raise InvalidInputError(f"trainable must name some of {', '.join(TRAINABLE)}, got {self.trainable!r}.")
        whole_number(self.width, "width", 1)
        positive(self.init_scale, "init_scale")
        positive(self.score_scale, "score_scale")

    @property
    def steps_together(self) -> int:
        """Four: in a row of them the compiler writes the optimiser's state once, and starts their kernels faster."""
        return 4

    @checked
    def initial(self, key: Array, vocabulary_size: int, dtype: Any = jnp.float32) -> OneLayerParameters:
        """E, p ~ N(0, I/d) times `init_scale`; v the same when it is trained, on the unit sphere when it is fixed."""
        whole_number(vocabulary_size, "vocabulary_size", 1)
        # Traced, nothing is allocated: shapes are asked for, or the table is drawn in parts on several devices.
        if not isinstance(key, jax.core.Tracer):
            asked = f"a table of {vocabulary_size} x {self.width}"
            fits_in_memory(vocabulary_size * self.width, asked, "take a smaller width", 4)
        return _initial(self, key, vocabulary_size, float_dtype(dtype))

    def outputs(self, parameters: OneLayerParameters, batch: CountBatch) -> DocumentNumbers:
        """f(X) of every document, shape (B,); 0 for rows that are no document."""
        return _attend(overlaps(parameters, self.score_scale), batch).outputs

    def loss_and_gradients(
        self, parameters: OneLayerParameters, batch: CountBatch
    ) -> tuple[BatchSums, OneLayerGradients]:
        """Return the mean loss of a batch and its gradients [E, (2), Lemma 7].

        With q the softmax weights and delta = dL/df of a document, dL/da_s = sum delta q_s (g_s - f) and
        dL/dg_s = sum delta q_s over the documents that hold s: the columns of R. Then E gets R[W'p v]', v gets E'R_2,
        and with u = E'R_1, p gets W u and W gets p u'. A scale c of the scores multiplies W'p and u.
        """
        by_kernels = kernels_apply(batch.ids, batch.pieces, parameters.embeddings.dtype)
        found = _document_sums(overlaps(parameters, self.score_scale), batch, by_kernels, self.loss)
        signed = batch.labels * found.outputs
        losses = jnp.abs(batch.labels) * self.loss.value(signed)
        correct = (signed > 0).astype(losses.dtype)
        # One reduction for both: on an accelerator every small kernel costs as much as a pass over a small E.
        totals = jnp.sum(jnp.stack([losses, correct]), axis=1)
        sums = BatchSums(totals[0] / batch.documents, totals[1], jnp.asarray(batch.documents))
        return sums, self._gradients(parameters, found.flow, by_kernels)

    def recorded(self, parameters: OneLayerParameters, posterior: AnyArray | None) -> dict[str, ScalarJ]:
        """Return norms and correlations of E, p and v; see `token_records`."""
        return token_records(parameters.embeddings, parameters.query, parameters.head, posterior)

    def _gradients(self, parameters: OneLayerParameters, flow: TokenPairs, by_kernels: bool) -> OneLayerGradients:
        """Return the gradients of the trained parameters, from R."""
        query, head, W = parameters.query, parameters.head, parameters.key_query
        needs_sums = any(name in self.trainable for name in TRAINABLE[1:])
        u, head_gradient = _column_sums(parameters.embeddings, flow, by_kernels) if needs_sums else (None, None)
        embeddings = None
        if "embeddings" in self.trainable:
            embeddings = FactoredGradient(flow, jnp.stack([effective_query(parameters, self.score_scale), head]))
            embeddings = embeddings if u is None else embeddings.after(u[0])
        u = u if u is None else self.score_scale * u
        query_gradient = u if W is None or u is None else jnp.dot(W, u, precision=FULL)
        return OneLayerGradients(
            embeddings,
            query_gradient if "query" in self.trainable else None,
            head_gradient if "head" in self.trainable else None,
            FactoredGradient(query[:, None], u[None, :]) if "key_query" in self.trainable and u is not None else None,
        )


def effective_query(parameters: OneLayerParameters, score_scale: float = 1.0) -> VectorJ:
    """c W'p, what the keys are compared with; c p without a W."""
    if parameters.key_query is None:
        return score_scale * parameters.query
    return score_scale * jnp.dot(parameters.query, parameters.key_query, precision=FULL)


def overlaps(parameters: OneLayerParameters, score_scale: float = 1.0) -> TokenPairs:
    """c <E_s, W'p>, the logits, and <E_s, v> of every token: all that the model sees of E."""
    return _row_products(parameters.embeddings, effective_query(parameters, score_scale), parameters.head)


def _row_products(E: EmbeddingTable, p: VectorJ, v: VectorJ) -> TokenPairs:
    """E[p v] in one pass: by the matrix product on a CPU, by a fused reduction where rows are spread over threads."""

    def product(E: AnyArray, p: AnyArray, v: AnyArray) -> AnyArray:
        return jnp.dot(E, jnp.stack([p, v], axis=1), precision=FULL)

    def reduction(E: AnyArray, p: AnyArray, v: AnyArray) -> AnyArray:
        return jnp.stack([jnp.sum(E * p[None, :], axis=1), jnp.sum(E * v[None, :], axis=1)], axis=1)

    return jax.lax.platform_dependent(E, p, v, cpu=product, default=reduction)


def _column_sums(E: EmbeddingTable, flow: TokenPairs, by_kernels: bool) -> tuple[VectorJ, VectorJ]:
    """E'R, one vector for each column of R, in one pass."""

    def product(E: AnyArray, flow: AnyArray) -> AnyArray:
        return jnp.dot(flow.T, E, precision=FULL)

    def reduction(E: AnyArray, flow: AnyArray) -> AnyArray:
        return jnp.stack([jnp.sum(E * flow[:, :1], axis=0), jnp.sum(E * flow[:, 1:], axis=0)])

    def kernel(E: AnyArray, flow: AnyArray) -> AnyArray:
        return column_sums(E, flow.T)

    # Also where the compiler's own takes no longer: beside it, the change of E is a fusion that takes longer.
    both = jax.lax.platform_dependent(
        E, flow, cpu=product, default=reduction, **({"cuda": kernel} if by_kernels else {})
    )
    return both[0], both[1]


def _document_sums(read: TokenPairs, batch: CountBatch, by_kernels: bool, loss: Loss) -> DocumentSums:
    """Return f of every document, and R; by kernels where they apply and the loss is the one that they know."""

    def plainly(read: TokenPairs, batch: CountBatch) -> DocumentSums:
        there = _attend(read, batch)
        slopes = batch.labels * loss.slope(batch.labels * there.outputs) / batch.documents
        ids, log_counts, document = (jnp.asarray(x) for x in (batch.ids, batch.log_counts, batch.document))
        tokens = PieceTokens(ids, log_counts, document, there.weights, there.scores)
        flow = sums_by_token(tokens, read[:, 1], DocumentSlopes(slopes, there.outputs))
        return DocumentSums(there.outputs, flow)

    def in_kernels(read: TokenPairs, batch: CountBatch) -> DocumentSums:
        pieces = PiecesOfDocuments(batch.ids, batch.log_counts, batch.pieces, batch.labels)
        return document_sums(read, pieces, jnp.asarray(batch.documents))

    own = {"cuda": in_kernels} if by_kernels and type(loss) is Logistic else {}
    return jax.lax.platform_dependent(read, batch, default=plainly, **own)


def _attend(read: TokenPairs, batch: CountBatch) -> _Attention:
    """Softmax of each document, over pieces first and then over a document's pieces: no sum depends on timing."""
    by_id = jnp.asarray(read)[batch.ids]
    logits, scores = by_id[:, :, 0] + batch.log_counts, by_id[:, :, 1]
    tops = jnp.max(logits, axis=1).at[batch.pieces].get(mode="fill", fill_value=-jnp.inf)
    top = jnp.max(tops, axis=1)
    top = jnp.where(batch.labels == 0, 0.0, top)
    exponentials = jnp.exp(logits - top.at[batch.document].get(mode="fill", fill_value=0.0)[:, None])
    sums = jnp.stack([jnp.sum(exponentials, axis=1), jnp.sum(exponentials * scores, axis=1)], axis=1)
    totals = jnp.sum(sums.at[batch.pieces].get(mode="fill", fill_value=0.0), axis=1)
    inverse = 1.0 / jnp.where(batch.labels == 0, 1.0, totals[:, 0])
    weights = exponentials * inverse.at[batch.document].get(mode="fill", fill_value=0.0)[:, None]
    return _Attention(weights, scores, totals[:, 1] * inverse)


@eqx.filter_jit
def _initial(model: OneLayer, key: Array, vocabulary_size: int, dtype: str) -> OneLayerParameters:
    for_table, for_query, for_head = jax.random.split(key, 3)
    scale = jnp.asarray(model.init_scale / np.sqrt(model.width), dtype)
    query, head = (scale * jax.random.normal(each, (model.width,), dtype) for each in (for_query, for_head))
    if "head" not in model.trainable:
        head = head / jnp.sqrt(jnp.sum(head**2))
    key_query = jnp.eye(model.width, dtype=dtype) if "key_query" in model.trainable else None
    return OneLayerParameters(
        scale * normal_rows(for_table, (vocabulary_size, model.width), dtype), query, head, key_query
    )


def normal_rows(key: Array, shape: tuple[int, int], dtype: str) -> EmbeddingTable:
    """Standard normal numbers, rows by rows: all at once they take four times the memory of the table they fill."""
    rows = min(INITIAL_ROWS, shape[0])

    def fill(k: Array, table: Array) -> Array:
        block = jax.random.normal(jax.random.fold_in(key, k), (rows, shape[1]), dtype)
        # The last block reaches back so that it ends with the table, over rows that it draws anew.
        return jax.lax.dynamic_update_slice_in_dim(table, block, jnp.minimum(k * rows, shape[0] - rows), 0)

    return jax.lax.fori_loop(0, -(-shape[0] // rows), fill, jnp.zeros(shape, dtype))
