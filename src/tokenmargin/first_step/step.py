"""The first gradient step on all embeddings, from E0, p0 ~ N(0, I/d) [E, (4)].

The step is linear in v, p0 and E0 with coefficients that depend on products only. With h_s = E0_s'v, a_s = E0_s'p0 and,
for document i of T_i tokens, attention w_is (all copies of s together), output f_i and g_i = 1/(1 + exp(y_i f_i)):

    E1_s = E0_s + eta0/2 alpha_s v + err_s,   err_s = eta0 (A_s v + B_s p0),
    p1   = p0 + err_p,                        err_p = eta0 sum_s B_s E0_s,
    A_s  = mean_i y_i ((g_i - 1/2) w_is + (w_is - c_is/T_i)/2),   B_s = mean_i y_i g_i w_is (h_s - f_i).

Both differences in A_s are formed as small numbers, never as 1/2 - 1/2, so an error of 1e-22 beside 1 has all its
digits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked, fits_in_memory, positive, real_array
from tokenmargin._notebook import Told
from tokenmargin._types import ArrayLike
from tokenmargin.data.sequences import EmbeddedSequences
from tokenmargin.data.statistics import signed_frequency
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError, TooLargeError

#: A head is a unit vector when its norm is 1 up to the rounding of normalising it.
UNIT_NORM_ROUNDING = 1e-12

#: Centred logits up to this are small: their log-mean-exp is the log1p of a mean of expm1, with all its digits.
SMALL_LOGIT = 1.0

#: Signed outputs from which on the logistic loss is its tail exp(-u), to the last bit.
FLAT_LOSS = 40.0

#: Numbers (of 8 bytes) that `FirstStep.sequences` lays out at most: 2 GiB.
MOST_NUMBERS = 2**28


@dataclass(frozen=True, eq=False)
class InitialProducts:
    """The inner products of E0, p0 and v that decide the step, and the norms: what [E, (14)] bounds."""

    token_head: np.ndarray  #: E0_s'v, shape (V,)
    token_query: np.ndarray  #: E0_s'p0, shape (V,)
    query_head: float  #: p0'v
    token_norms: np.ndarray  #: |E0_s|, shape (V,)
    query_norm: float  #: |p0|

    @property
    def largest_product(self) -> float:
        """max over s of |E0_s'v|, |E0_s'p0| and |p0'v|, the left side of the first line of [E, (14)]."""
        return float(max(np.abs(self.token_head).max(), np.abs(self.token_query).max(), abs(self.query_head)))

    @property
    def largest_norm(self) -> float:
        """max over s of |E0_s| and |p0|, the left side of the second line of [E, (14)]."""
        return float(max(self.token_norms.max(), self.query_norm))


@dataclass(frozen=True, eq=False, repr=False)
class FirstStep(Told):
    """Embeddings after one gradient step, taken apart as in [E, (5)].

    Coordinates have width r: d when embeddings are explicit, V + 2 in Gram space, where they are those of an
    orthonormal basis of the span of v, E0 and p0. Inner products are the same in both.
    """

    dataset: TokenDataset
    eta0: float
    log10_d: float
    alpha: np.ndarray  #: signed frequencies [E, (3)], shape (V,)
    tokens: np.ndarray = field(repr=False)  #: E1, shape (V, r)
    query: np.ndarray = field(repr=False)  #: p1, shape (r,)
    head: np.ndarray = field(repr=False)  #: v, shape (r,)
    initial: InitialProducts = field(repr=False)
    token_errors: np.ndarray = field(repr=False)  #: |err_s| of [E, (5)], shape (V,)
    query_error: float  #: |err_p| of [E, (5)]
    token_head_change: np.ndarray = field(repr=False)  #: <E1_s - E0_s, v>, shape (V,)

    @property
    def bound(self) -> float:
        """11 eta0 d^(-1/4), the bound of [E, (6)] on |err_s| and |err_p|."""
        return 11.0 * self.eta0 * 10.0 ** (-self.log10_d / 4)

    @property
    def largest_error(self) -> float:
        """max over s of |err_s| and |err_p|, the left side of [E, (6)]."""
        return float(max(self.token_errors.max(), self.query_error))

    @property
    def token_head(self) -> np.ndarray:
        """E1_s'v, shape (V,), without the cancellation of a product of long vectors."""
        return self.initial.token_head + self.token_head_change

    @property
    def loss(self) -> float:
        """L(E1, p1) of [E, (2)]."""
        return mean_loss(self.dataset, self.token_head, self.tokens @ self.query)

    def sequences(self) -> EmbeddedSequences:
        """X_i = E1 of the tokens of document i, repeats written out, shorter documents masked at their end.

        p is then followed from `query`, the flow of [E, (7)].
        """
        lengths = self.dataset.lengths
        n, T, r = len(lengths), int(lengths.max()), self.tokens.shape[1]
        if n * T * r > MOST_NUMBERS:
            raise TooLargeError(
                f"{n} documents of up to {T} tokens in {r} coordinates are {n * T * r * 8 / 2**30:.1f} GiB: take fewer "
                "documents (dataset.subset), or gram_step when d is larger than the vocabulary."
            )
        counts = self.dataset.counts
        mask = np.arange(T) < lengths[:, None]
        ids = np.zeros((n, T), dtype=np.intp)
        ids[mask] = np.repeat(counts.indices, counts.data)
        return EmbeddedSequences(self.tokens[ids], self.dataset.labels, self.head, mask=None if mask.all() else mask)


@checked
def one_step(
    dataset: TokenDataset,
    eta0: float,
    d: int,
    key: jax.Array | np.random.Generator,
    head: ArrayLike | None = None,
) -> FirstStep:
    """One gradient step on explicit embeddings E0_s, p0 ~ N(0, I/d) [E, (4)].

    Args:
        dataset: documents as counts; repeats and different lengths are fine.
        eta0: step size, positive.
        d: width of the embeddings. For d far beyond the vocabulary see `gram_step`.
        key: a JAX key (or a NumPy generator, which advances).
        head: v, a unit vector of d entries; a random one when absent.
    """
    positive(eta0, "eta0")
    if isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 1:
        raise InvalidInputError(f"d must be a whole number from 1 on, got {d!r}: it is the width of the embeddings.")
    E0, p0, v = initial_embeddings(dataset.vocabulary_size, int(d), key, head)
    return step_from(dataset, eta0, float(np.log10(d)), E0, p0, v)


def initial_embeddings(
    V: int, d: int, key: jax.Array | np.random.Generator, head: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E0 (V, d) and p0 (d,) ~ N(0, I/d), and v (d,): the head given, or a random unit vector."""
    rng = generator(key)
    fits_in_memory(2 * V * d, f"{V} embeddings of width {d}", "take a smaller d, or gram_step, which knows any width")
    E0 = rng.standard_normal((V, d))
    E0 /= np.sqrt(d)
    p0 = rng.standard_normal(d) / np.sqrt(d)
    return E0, p0, _unit_vector(head, d, rng)


def step_from(
    dataset: TokenDataset, eta0: float, log10_d: float, E0: np.ndarray, p0: np.ndarray, v: np.ndarray
) -> FirstStep:
    """The step [E, (4)] from given E0 (V, r), p0 and unit v (r,) in any coordinates; d enters [E, (6)] only."""
    token_head, token_query = E0 @ v, E0 @ p0
    initial = InitialProducts(
        token_head, token_query, float(p0 @ v), np.linalg.norm(E0, axis=1), float(np.linalg.norm(p0))
    )
    alpha = signed_frequency(dataset)
    A, B = step_coefficients(dataset, token_head, token_query)
    query_step = eta0 * (B @ E0)
    across = float(np.linalg.norm(p0 - initial.query_head * v))
    along = A + B * initial.query_head
    moved = eta0 * np.stack([0.5 * alpha + A, B], axis=1)
    return FirstStep(
        dataset=dataset,
        eta0=float(eta0),
        log10_d=float(log10_d),
        alpha=alpha,
        tokens=E0 + moved @ np.stack([v, p0]),
        query=p0 + query_step,
        head=v,
        initial=initial,
        token_errors=eta0 * np.hypot(along, B * across),
        query_error=_norm(query_step),
        token_head_change=eta0 * (0.5 * alpha + along),
    )


def step_coefficients(
    dataset: TokenDataset, token_head: np.ndarray, token_query: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A and B of this module's formulas, each of shape (V,), from h_s and a_s alone.

    -grad_{E_s} L = (alpha_s/2 + A_s) v + B_s p and -grad_p L = sum_s B_s E_s, at any point (E, p) [E, Lemma 7].
    """
    terms = step_terms(dataset.counts, dataset.labels, token_head, token_query)
    n, V = dataset.n_documents, dataset.vocabulary_size
    A, B = (np.bincount(dataset.counts.indices, weights=term, minlength=V) / n for term in terms)
    return A, B


def step_terms(
    counts: sp.csr_array, labels: np.ndarray, token_head: np.ndarray, token_query: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Terms that the entries of the counts add to n A_s and n B_s, in their order; a part of a corpus will do."""
    token, sizes = counts.indices, np.diff(counts.indptr)
    begin = counts.indptr[:-1]
    lengths = np.asarray(counts.sum(axis=1)).astype(float)
    share = counts.data / np.repeat(lengths, sizes)  # c_is / T_i
    logit, score = token_query[token], token_head[token]

    def per_document(values: np.ndarray) -> np.ndarray:
        return np.repeat(np.add.reduceat(values, begin), sizes)

    # w_is = share e^(a_s - m_i), m_i the log-mean-exp, >= 0 once logits are centred: as log1p of something small while
    # logits are, relative to the largest where exp would overflow
    centred = logit - per_document(share * logit)
    top = np.repeat(np.maximum.reduceat(centred, begin), sizes)
    small = np.log1p(np.maximum(per_document(share * np.expm1(np.minimum(centred, SMALL_LOGIT))), 0.0))
    large = top + np.log(per_document(share * np.exp(centred - top)))
    log_mean = np.where(top <= SMALL_LOGIT, small, large)
    excess = share * np.expm1(centred - log_mean)  # w_is - c_is/T_i
    weight = share + excess
    # f_i about the first score of the document, so that equal scores give exactly that score
    first = np.repeat(score[begin], sizes)
    relative = score - first
    lag = relative - per_document(weight * relative)  # h_s - f_i
    output = score - lag
    y = np.repeat(labels, sizes)
    half = -0.5 * np.tanh(0.5 * y * output)  # g_i - 1/2
    return y * (half * weight + 0.5 * excess), y * (0.5 + half) * weight * lag


def mean_loss(dataset: TokenDataset, token_head: np.ndarray, token_query: np.ndarray) -> float:
    """mean_i log(1 + exp(-y_i f_i)) [E, (2)], from E_s'v and E_s'p, each of shape (V,)."""
    return float(np.logaddexp(0.0, -dataset.labels * outputs(dataset, token_head, token_query)).mean())


def log_mean_loss(signed_outputs: np.ndarray) -> float:
    """The logarithm of mean_i log(1 + exp(-u_i)): known where the mean itself is below the smallest float."""
    small = signed_outputs > FLAT_LOSS  # there log(1 + exp(-u)) is exp(-u), to the last bit
    value = np.logaddexp(0.0, -np.where(small, 0.0, signed_outputs))
    logs = np.where(small, -signed_outputs, np.log(value))
    return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


def outputs(dataset: TokenDataset, token_head: np.ndarray, token_query: np.ndarray) -> np.ndarray:
    """f_i of every document [E, (2)], shape (n,)."""
    counts = dataset.counts
    begin, sizes = counts.indptr[:-1], np.diff(counts.indptr)
    logit, score = token_query[counts.indices], token_head[counts.indices]
    top = np.repeat(np.maximum.reduceat(logit, begin), sizes)
    weight = counts.data * np.exp(logit - top)
    return np.asarray(np.add.reduceat(weight * score, begin) / np.add.reduceat(weight, begin))


def generator(key: jax.Array | np.random.Generator) -> np.random.Generator:
    """NumPy's generator seeded by a JAX key: the same key, the same numbers. A generator is handed through."""
    if isinstance(key, np.random.Generator):
        return key
    try:
        words = np.asarray(jax.random.key_data(key))
    except TypeError:
        raise InvalidInputError(
            f"key is {type(key).__name__}: give jax.random.key(seed) or np.random.default_rng(seed)."
        ) from None
    return np.random.default_rng(words.ravel().tolist())


def _unit_vector(head: ArrayLike | None, d: int, rng: np.random.Generator) -> np.ndarray:
    if head is None:
        draw = rng.standard_normal(d)
        return np.asarray(draw / np.linalg.norm(draw))
    v = real_array(head, "head", "(d,)")
    if v.shape != (d,):
        raise InvalidInputError(f"head has shape {v.shape} but embeddings have width {d}: give a vector of {d}.")
    norm = float(np.linalg.norm(v))
    if not abs(norm - 1.0) <= UNIT_NORM_ROUNDING:
        raise InvalidInputError(f"head has norm {norm:g} and must be a unit vector: divide it by its norm.")
    return v


def _norm(x: np.ndarray) -> float:
    """|x| without underflow of squares: entries may be 1e-160."""
    size = float(np.abs(x).max())
    return size * float(np.linalg.norm(x / size)) if size > 0 else 0.0
