"""Linear classification of several classes, descended in any norm: the model that [O] proves theorems for.

    L(W) = mean over i of -log softmax_y(W h_i),   A_ic = (e_y - e_c) h_i',   margin = min <A_ic, W> / N(W)

A gradient is a sum of pairs with positive weights. Weights are kept as logarithms, so that they do not vanish however
large the margin is, and their sum over the run certifies it: any lambda >= 0 proves margin <= N_*(sum lambda A)/sum
lambda.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import LeastNormSolution, pair_svm
from tokenmargin.norms import Norm, as_norm


@dataclass(frozen=True, eq=False)
class Multiclass:
    """n points h_i of k classes."""

    features: np.ndarray  #: h, shape (n, d)
    classes: np.ndarray  #: y, whole numbers from 0 to k - 1, shape (n,)
    k: int

    def __post_init__(self) -> None:
        """Refuse points without a class."""
        if self.features.ndim != 2 or self.classes.shape != self.features.shape[:1] or not self.features.size:
            raise InvalidInputError(
                f"features have shape {self.features.shape} and classes {self.classes.shape}: give shapes (n, d), (n,)."
            )
        if not (self.k >= 2 and (self.classes >= 0).all() and (self.classes < self.k).all()):
            raise InvalidInputError(f"classes are not among the {self.k} from 0 on: number them so.")

    @property
    def shape(self) -> tuple[int, int]:
        """(k, d), the shape of W."""
        return self.k, self.features.shape[1]

    @cached_property
    def pairs(self) -> np.ndarray:
        """A_ic = (e_y - e_c) h_i' for c not y, one line each, shape (n (k - 1), k d)."""
        eye = np.eye(self.k)
        differences = eye[self.classes][:, None, :] - eye[None]
        rows = np.einsum("ick,id->ickd", differences, self.features).reshape(len(self.classes), self.k, -1)
        return rows[np.arange(self.k) != self.classes[:, None]]

    def solution(self, norm: Norm | str) -> LeastNormSolution:
        """The W of least norm with <A, W> >= 1 for every pair."""
        return pair_svm(self.pairs, norm=norm, shape=self.shape)

    def margin(self, W: np.ndarray, norm: Norm | str) -> float:
        """min <A, W> / N(W); NaN at 0, and where W is not finite."""
        if not np.isfinite(W).all():
            return float("nan")
        size = float(as_norm(norm).value(W))
        return float((self.pairs @ W.ravel()).min()) / size if size > 0 else float("nan")


@dataclass(frozen=True)
class Rule:
    """A normalised method with steps lr t^(-power), on the gradient or on a running mean of it.

    Args:
        norm: norm in which the step is steepest, by its name; that of Adam is "max".
        lr: length of the first step.
        power: exponent by which steps shorten: 1/2 in the theorems of [O].
        beta: share of the running mean that is kept at each step; 0 takes the gradient itself.
        second: share of the running mean of squares that is kept, for Adam; 0 for steepest descent.
    """

    norm: str = "max"
    lr: float = 1.0
    power: float = 0.5
    beta: float = 0.0
    second: float = 0.0


@dataclass(frozen=True, eq=False)
class Descended:
    """A run at the steps that were looked at, and the bound on margins that its weights prove."""

    steps: np.ndarray  #: steps looked at, each twice the one before, the last is the end
    path: np.ndarray  #: W there, shape (looks, k, d)
    high: float  #: no W has a larger margin in the norm of the rule

    @property
    def W(self) -> np.ndarray:
        """The end of the run."""
        return np.asarray(self.path[-1])


@keep_precision
def descended(problem: Multiclass, rule: Rule, steps: int, looks: int = 8) -> Descended:
    """Follow a rule from W = 0, and keep `looks` points, at steps that double."""
    norm = as_norm(rule.norm)
    at = np.unique(np.round(steps / 2.0 ** np.arange(looks)[::-1]).astype(int))
    features, classes, state = jnp.asarray(problem.features), jnp.asarray(problem.classes), _start(problem)
    numbers = tuple(map(jnp.asarray, (rule.lr, rule.power, rule.beta, rule.second)))
    path = []
    for begin, end in zip((0, *at[:-1]), at, strict=True):
        state = _steps(
            features, classes, state, (jnp.asarray(begin), jnp.asarray(end)), numbers, norm.name, rule.second > 0
        )
        path.append(np.asarray(state[0]))
    total, weight = norm.dual.value(_pull(features, classes, state[2])), state[2].sum()
    return Descended(at, np.stack(path), float(total) / float(weight))


#: Running means of gradients and of their squares, in units of exp of the third entry and of its square.
Means = tuple[AnyArray, AnyArray, AnyArray]

#: W, the running means, and the weights of the pairs, summed over the run.
State = tuple[AnyArray, Means, AnyArray]

#: lr, power, beta and second of a rule, as data: other numbers compile nothing.
Numbers = tuple[AnyArray, AnyArray, AnyArray, AnyArray]


def _start(problem: Multiclass) -> State:
    zeros = jnp.zeros(problem.shape)
    return zeros, (zeros, zeros, jnp.asarray(0.0)), jnp.zeros((len(problem.classes), problem.k))


def _pull(features: AnyArray, classes: AnyArray, weights: AnyArray) -> AnyArray:
    """Sum of weights times pairs, shape (k, d)."""
    own = jax.nn.one_hot(classes, weights.shape[1], dtype=features.dtype)
    return jnp.einsum("ic,id->cd", own * weights.sum(axis=1, keepdims=True) - weights, features)


@partial(jax.jit, static_argnames=("norm", "adam"))
def _steps(
    features: AnyArray,
    classes: AnyArray,
    state: State,
    span: tuple[AnyArray, AnyArray],
    numbers: Numbers,
    norm: str,
    adam: bool,
) -> State:
    geometry, own = as_norm(norm), jax.nn.one_hot(classes, state[0].shape[0], dtype=bool)
    lr, power, *shares = numbers

    def step(t: AnyArray, now: State) -> State:
        W, means, duals = now
        log_weights = jnp.where(own, -jnp.inf, jax.nn.log_softmax(features @ W.T, axis=1))
        log_scale = log_weights.max()
        weights = jnp.exp(log_weights - log_scale)
        descent = _pull(features, classes, weights)
        means = _averaged(means, descent, log_scale, *shares)
        move = _adam_move(means, t, *shares) if adam else geometry.steepest(means[0])
        length = lr * (t + 1.0) ** -power
        return W + length * move, means, duals + length * weights / geometry.dual.value(descent)

    return jax.lax.fori_loop(*span, step, state)


def _averaged(means: Means, descent: AnyArray, log_scale: AnyArray, beta: AnyArray, second_share: AnyArray) -> Means:
    """Running means with one more gradient, exp(log_scale) times descent, in units that neither under- nor overflow."""
    first, second, unit = means
    size = jnp.maximum(jnp.abs(first).max(), jnp.sqrt(second.max()))
    there = jnp.where(size > 0, unit + jnp.log(jnp.where(size > 0, size, 1.0)), -jnp.inf)
    larger = jnp.maximum(there, log_scale)
    old, new = jnp.where(size > 0, jnp.exp(unit - larger), 0.0), jnp.exp(log_scale - larger)
    gradient = new * descent
    first = beta * old * first + (1 - beta) * gradient
    second = second_share * (old * jnp.sqrt(second)) ** 2 + (1 - second_share) * gradient**2
    return first, second, larger


def _adam_move(means: Means, t: AnyArray, beta: AnyArray, second_share: AnyArray) -> AnyArray:
    """Adam's direction with epsilon = 0, its means corrected for their start at 0."""
    first, second = means[0] / (1 - beta ** (t + 1.0)), means[1] / (1 - second_share ** (t + 1.0))
    return jnp.where(second > 0, first / jnp.sqrt(jnp.where(second > 0, second, 1.0)), 0.0)


def gaussian_classes(rng: np.random.Generator, k: int, d: int, each: int, spread: float) -> Multiclass:
    """`each` points N(mean, spread^2 I) of each class, the means uniform on the sphere."""
    means = rng.normal(size=(k, d))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    classes = np.repeat(np.arange(k), each)
    return Multiclass(means[classes] + spread * rng.normal(size=(k * each, d)), classes, k)
