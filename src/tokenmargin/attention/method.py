"""Contract of a method, which moves p a step at a time, and the numbers that a step is given.

A method is a frozen value. `step` moves p, `init` makes its state; both are pure JAX and see one point, however many
are followed at once. Subclass it to bring your own (see `docs/add-a-method.md`):

    class Polyak(Method):
        def step(self, gradient, excess, state, p):
            return p - jnp.exp(excess.log_size - gradient.log_norm) * gradient.unit, state

The flow is no such method, as its steps are as long as their error allows: see `Flow`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from tokenmargin._module import Module
from tokenmargin._types import AnyArray
from tokenmargin.attention._pulls import Pulls
from tokenmargin.attention._scaled import ScaledVector, length
from tokenmargin.norms import Norm

#: State that a method keeps between steps: any tree of arrays, () for none.
State = Any


class Gradient(Module):
    """grad L at a point, right however saturated the softmax is.

    `descent` holds -grad L in blocks: one for p, or one for v and one for p where both are trained.
    """

    descent: tuple[ScaledVector, ...]
    pulls: Pulls | None = None  #: -grad L as a sum over tokens, where the field says it
    net: AnyArray | None = None  #: weights of the tokens' keys in -grad L, moduli of sum 2, shape (n, T)
    as_one: bool = eqx.field(default=False, static=True)  #: True if all blocks have one log_scale and one length

    @property
    def value(self) -> AnyArray:
        """grad L, shape (d,): zero once it underflows, past a logit gap of 745."""
        return -jnp.concatenate([block.value for block in self.descent])

    @property
    def unit(self) -> AnyArray:
        """grad L over its norm, at any size; zeros where it is exactly zero."""
        return -self.whole.unit

    @property
    def log_norm(self) -> AnyArray:
        """log |grad L|, at any size; -inf where it is exactly zero."""
        return self.whole.log_norm

    @property
    def whole(self) -> ScaledVector:
        """-grad L with one scale for all blocks."""
        if len(self.descent) == 1:
            return self.descent[0]
        largest = jnp.max(jnp.stack([block.log_scale for block in self.descent]))
        parts = [jnp.exp(block.log_scale - largest) * block.direction for block in self.descent]
        return ScaledVector(jnp.concatenate(parts), largest)


class Excess(Module):
    """L(p) minus the least that the risk can be, as a sign and a logarithm, so that it never underflows.

    With a linear head the least is the loss of the tokens of highest score. Behind a nonlinear head the same tokens are
    what L is compared with, and the difference may be negative. Where v is trained too, the least is 0.
    """

    sign: AnyArray
    log_size: AnyArray

    @property
    def value(self) -> AnyArray:
        """The difference itself, zero once it underflows."""
        return self.sign * jnp.exp(self.log_size)


class Method(Module):
    """Method by which p moves: a frozen value to subclass; its fields are annotated as in a dataclass.

    Numbers among the fields are handed to compiled code as data, so that another learning rate compiles nothing.
    """

    #: True if `step` works on many points side by side along a last axis as it stands. Where it does not it is mapped
    #: over them, which turns arrays round and back: half the speed of a short step.
    takes_lanes: ClassVar[bool] = False

    @property
    def geometry(self) -> Norm | None:
        """The norm in which short steps are steepest descent; None where it is not known, or is none.

        It decides the max-margin problem that a limit is judged by. A method whose norm rotations leave alone is
        followed in the span of the key differences, which is what makes wide problems cheap; one that looks at
        coordinates, as Adam does, is not. Write `geometry = L2()` in a class that moves along the gradient.
        """
        return None

    def init(self, p: AnyArray) -> State:
        """The state to begin with at p, shape (d,): any tree of arrays; () where nothing is kept."""
        del p
        return ()

    def begin(self, gradient: Gradient, p: AnyArray) -> State:
        """The state to begin with, where it needs the form of a gradient too: that of `init`, unless overridden."""
        del gradient
        return self.init(p)

    def counted(self, before: AnyArray, after: AnyArray) -> AnyArray:
        """Length by which a step counts in the weights of a run (`Trajectory.margin_interval`): Euclidean."""
        return length(after - before)

    @abstractmethod
    def step(self, gradient: Gradient, excess: Excess, state: State, p: AnyArray) -> tuple[AnyArray, State]:
        """The next p and the next state. What is not used of gradient and excess is not computed."""


def as_data(method: Method) -> Method:
    """The method with its numbers as arrays, which a compiled function takes as data."""
    return jax.tree.map(lambda x: jnp.asarray(x, float) if isinstance(x, float) else x, method)
