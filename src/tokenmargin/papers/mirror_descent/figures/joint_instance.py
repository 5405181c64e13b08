"""Head and attention trained together by mirror descent: which tokens are selected is a matter of the exponent [L].

The problem is that of the official script joint_training, whose notebook prints the tokens that are selected after
1,500 steps: 1 and 0 for q = 1.75 and 2, and 0 and 0 for q = 3. The same loop in plain float64, with the 2.2e-16 of the
official code, stands beside: of its W no digit that is printed changes from step 100 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin._types import AnyArray
from tokenmargin.attention import Excess, Gradient, JointRisk, Method, follow
from tokenmargin.data import CrossSequences
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.margin import pair_svm
from tokenmargin.norms import Lp
from tokenmargin.papers.transformers_as_svms.margins import beside, least_gap, most_attended

#: Tokens that the official notebook plotter prints as selected, by exponent.
PRINTED = {1.75: (1, 0), 2.0: (1, 0), 3.0: (0, 0)}

#: W of q = 1.75 after a run of the official code, to the digits that are known of it.
FROZEN = np.array([[-1.811174, -0.986917], [-2.153779, 5.580143]])

#: Share of the largest margin of what is selected that W may miss.
MISSED = 0.05

#: The step from which on plain float64 is frozen, and the last digit that is known of its W.
FROZEN_FROM, LAST_DIGIT = 100, 1e-6


@dataclass(frozen=True)
class Settings(Config):
    """The problem and the steps of the official script; v = 0 and W = 0 at the start."""

    steps: int = 1500
    """Steps of every exponent, a multiple of 100."""
    lr: float = 0.1
    """Length of a step in the dual norm."""

    @classmethod
    def smoke(cls) -> Settings:
        """The same: it takes seconds."""
        return cls()


def joint_problem() -> CrossSequences:
    """Two inputs of three tokens in the plane, each asked for by its first token."""
    tokens = [[[-2.7, 1.2], [1.4, 2.1], [1.3, -0.1]], [[0.4, -2.2], [-1.1, -0.4], [0.9, 0.1]]]
    return CrossSequences(tokens, queries=0, labels=[1, -1], head=[1.0, 0.0])


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Every exponent in logarithms, and in plain float64."""
    del key
    data, paths = joint_problem(), {}
    for done, q in enumerate(PRINTED, start=1):
        run = follow(JointRisk(data), (np.zeros(2), np.zeros(4)), JointMirror(q, config.lr), steps=config.steps)
        plain = np.stack([W for _, W in plain_joint(data, q, config.lr, config.steps)])
        W = run.blocks["p"][1:].reshape(-1, *data.shape)
        paths[f"{q:g}"] = {"W": W, "v": run.blocks["v"][1:], "plain": plain}
        progress(done, len(PRINTED), "exponents")
    numbers, sentences = judged(data, paths)
    return Result({"paths": paths}, tuple(numbers), tuple(sentences))


def judged(data: CrossSequences, paths: dict[str, dict[str, np.ndarray]]) -> tuple[list[Number], list[str]]:
    """The numbers and sentences of the paths of all exponents."""
    numbers, told, other = [], [], 0
    for (q, printed), (name, found) in zip(PRINTED.items(), paths.items(), strict=True):
        W, v = found["W"][-1], found["v"][-1]
        chosen = most_attended(data, W)
        other += int((chosen.indices != printed).sum()) if least_gap(data, chosen, W) > 0 else len(printed)
        missing = 1 - beside(data, W, Lp(q), chosen).ratio
        numbers.append(
            Number.exact(f"q = {name}: missing share of the l_q margin of these tokens", missing, at_most=MISSED)
        )
        rows = data.labels[:, None] * data.tokens[np.arange(2), chosen.indices]
        best, size = pair_svm(rows, norm=Lp(q)).value, float(Lp(q).value(v))
        head = float((rows @ v).min()) / size * best if size > 0 else float("nan")
        told.append(f"q = {name}: v has {head:.4f} of the largest l_q label margin of the tokens {chosen}.")
    first = next(iter(paths.values()))
    start, end = first["plain"][FROZEN_FROM - 1], first["plain"][-1]
    lengths = np.linalg.norm(first["W"][[FROZEN_FROM - 1, -1]], axis=(1, 2))
    grown = float(lengths[1] / lengths[0]) if lengths[0] > 0 else float("nan")
    numbers += [
        Number.exact("selected tokens, of both inputs and all exponents, that are not those printed", other, at_most=0),
        Number.exact(
            f"q = 1.75 in plain float64: largest change of W after {FROZEN_FROM} steps",
            float(np.abs(end - start).max()),
            at_most=LAST_DIGIT,
        ),
        Number.exact(
            "q = 1.75 in plain float64: largest distance of W from that of the official code",
            float(np.abs(end - FROZEN).max()),
            at_most=LAST_DIGIT,
        ),
        Number.exact(f"q = 1.75: |W| at the end over that after {FROZEN_FROM} steps", grown),
    ]
    return numbers, told


def draw(result: Result) -> Any:
    """Draw |W| over the steps, ours and in plain float64."""
    from tokenmargin.plots import canvas

    paths = result.arrays["paths"]
    with canvas.style():
        figure, axes = canvas.panels(1, len(paths), 11.0, 3.4)
        for ax, (name, found) in zip(axes, paths.items(), strict=True):
            steps = np.arange(1, len(found["W"]) + 1)
            for part, look, label in (("W", "-", "in logarithms"), ("plain", ":", "plain float64")):
                norms = np.linalg.norm(found[part], axis=(1, 2))
                has_moved = norms > 0  # the start has no logarithm
                ax.loglog(steps[has_moved], norms[has_moved], look, color=canvas.BLUE, label=label)
            ax.set(xlabel="steps", ylabel=r"$\|W\|_F$", title=f"q = {name}")
        axes[0].legend(frameon=False)
    return figure


EXPERIMENTS = (
    Experiment(
        id="mirror_descent-joint",
        title="Head and attention by mirror descent: the exponent decides what is selected",
        in_plain_words=(
            "When the classifier is trained together with attention, the way of measuring size decides which words are "
            "attended to. And ordinary arithmetic stops moving long before the training has ended."
        ),
        paper="L",
        figure="joint training",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("mirror_descent-lp",),
    ),
)


#: What the official code adds to the norm of a gradient.
EPSILON = 2.2e-16


class JointMirror(Method):
    """psi'(x) <- psi'(x) - lr g / |g|_q' for each block x of v and W, psi = |x|_q^q / q.

    Args:
        q: the exponent.
        lr: length of a step, in the dual norm.
    """

    q: float = eqx.field(static=True)
    lr: float

    def step(self, gradient: Gradient, excess: Excess, state: Any, p: AnyArray) -> tuple[AnyArray, Any]:
        """Move the image of each block by the length of a step, and map it back."""
        del excess
        norm = Lp(self.q).dual
        sizes = [norm.value(block.direction) for block in gradient.descent]
        units = [
            block.direction / jnp.where(size > 0, size, 1.0)
            for block, size in zip(gradient.descent, sizes, strict=True)
        ]
        return mapped_back(mapped(p, self.q) + self.lr * jnp.concatenate(units), self.q), state


def mapped(p: AnyArray, q: float) -> AnyArray:
    """psi'(p) = sign(p) |p|^(q - 1)."""
    return jnp.sign(p) * jnp.abs(p) ** (q - 1.0)


def mapped_back(image: AnyArray, q: float) -> AnyArray:
    """The p with this psi'(p)."""
    return jnp.sign(image) * jnp.abs(image) ** (1.0 / (q - 1.0))


def plain_joint(data: CrossSequences, q: float, lr: float, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(v, W) after every step of the textbook's loop in float64 from 0, normalised with an epsilon."""
    X, keys, Y = data.tokens, data.keys, data.labels
    v, W = np.zeros(X.shape[2]), np.zeros(keys.shape[2])
    for _ in range(steps):
        logits = keys @ W
        softmax = np.exp(logits - logits.max(axis=1, keepdims=True))
        softmax /= softmax.sum(axis=1, keepdims=True)
        gamma = Y[:, None] * (X @ v)
        output = (softmax * gamma).sum(axis=1)
        slope = 1 / (1 + np.exp(output)) / len(Y)
        towards_v = np.einsum("n,nt,ntk->k", slope * Y, softmax, X)
        towards_W = np.einsum("nt,ntk->k", softmax * (gamma - output[:, None]) * slope[:, None], keys)
        moved = []
        for x, descent in ((v, towards_v), (W, towards_W)):
            image = np.sign(x) * np.abs(x) ** (q - 1) + lr * descent / (Lp(q).dual.value(descent) + EPSILON)
            moved.append(np.sign(image) * np.abs(image) ** (1 / (q - 1)))
        v, W = moved
        yield v, W.reshape(data.shape)
