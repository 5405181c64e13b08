"""[M, Fig. 5]: the same limit direction, different transients: which input is favoured depends on the loss.

Two inputs with differences (1, 1), score C, and (1, -1), score 1. Along the limit direction (1, 0) both pairs weigh the
same in the end, so p approaches a line p2 = const. With log-weights -(p1 + p2) + log(C |l'(C)|) and
-(p1 - p2) + log|l'(1)| that constant is log(C |l'(C)| / |l'(1)|) / 2: log(C)/2 for the correlation loss and
log(C (1 + e) / (1 + e^C)) / 2 for the logistic loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.attention import AttentionRisk, Flow, Loss, NormalizedDescent, correlation, follow, logistic
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.papers.maxmargin import toys
from tokenmargin.theory import one_minus_cosine

LOSSES: dict[str, Loss] = {"correlation": correlation, "logistic": logistic}

#: Distance to the asymptote at |p| = 1e4: the flow approaches it exponentially, so what is left is its tolerance.
ASYMPTOTE = 1e-6

#: 1 - cos to (1, 0) at the end of a flow to |p| = 1e4: it is (p2/|p|)^2/2, and p2 goes to -48 at most.
ALONG_THE_AXIS = 1e-4

#: Share of the way of 1000 steps that does not lead along the axis: on the way p2 goes to -48, and p1 gets 82 of 100.
OFF_THE_AXIS = 0.25


@dataclass(frozen=True)
class Settings(Config):
    """Scores C of the first optimal token; the second has score 1. Start p = 0."""

    scores: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 100.0)
    """Values of C."""
    until_norm: float = 1e4
    """Norm to which the flow is followed."""
    atol: float = 1e-9
    """Tolerance of the flow."""
    lr: float = 0.1
    """Learning rate of normalised descent."""
    steps: int = 1000
    """Iterations of descent."""

    @classmethod
    def smoke(cls) -> Settings:
        """Fewer scores."""
        return cls(scores=(1.0, 2.0, 5.0, 10.0))


def asymptote(C: float, loss: str) -> float:
    """p2 in the limit."""
    if loss == "correlation":
        return 0.5 * float(np.log(C))
    return 0.5 * float(np.log(C) + np.logaddexp(0.0, 1.0) - np.logaddexp(0.0, C))


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Descent and flow for every score and both losses; nothing is random."""
    del key
    paths: dict[str, dict[str, np.ndarray]] = {name: {} for name in LOSSES}
    descents: dict[str, dict[str, np.ndarray]] = {name: {} for name in LOSSES}
    numbers: list[Number] = []
    # Fewer or shorter steps than the paper's do not get there.
    stated = Number.exact if config.lr * config.steps >= Settings.lr * Settings.steps else Number
    total, done = len(config.scores) * len(LOSSES), 0
    for name, loss in LOSSES.items():
        errors = []
        for C in config.scores:
            risk = AttentionRisk(toys.fig5(C), loss)
            run = follow(risk, [0, 0], Flow(until_norm=config.until_norm, atol=config.atol))
            steps = follow(risk, [0, 0], NormalizedDescent(config.lr), steps=config.steps)
            paths[name][f"{C:g}"], descents[name][f"{C:g}"] = run.points, steps.points
            errors.append(abs(float(run.final[1]) - asymptote(C, name)))
            if name == "logistic" and C in (2.0, 5.0, 10.0):
                numbers.append(
                    Number.exact(
                        f"logistic, C = {C:g}: p2 at the end of the flow",
                        float(run.final[1]),
                        asymptote(C, name),
                        ASYMPTOTE,
                        source="closed form",
                    )
                )
            done += 1
            progress(done, total, "flows of Fig. 5")
        numbers.append(Number.exact(f"{name}: largest distance of p2 to its asymptote", max(errors), at_most=ASYMPTOTE))
        left = [abs(float(descents[name][f"{C:g}"][-1, 1]) - asymptote(C, name)) for C in config.scores]
        numbers += [
            stated(
                f"{name}: largest distance of p2 to its asymptote, {config.steps} steps", max(left), at_most=ASYMPTOTE
            ),
            # At C = 1 the asymptote goes through the start: p that never moved is on it, too.
            Number.exact(
                f"{name}: largest 1 - cos of the end of a flow to (1, 0)",
                float(np.max([one_minus_cosine(path[-1], (1.0, 0.0)) for path in paths[name].values()])),
                at_most=ALONG_THE_AXIS,
            ),
            stated(
                f"{name}: largest 1 - p1/L after {config.steps} steps of length L in all",
                max(1 - float(descents[name][f"{C:g}"][-1, 0]) / (config.lr * config.steps) for C in config.scores),
                at_most=OFF_THE_AXIS,
            ),
        ]
    arrays = {"scores": np.array(config.scores), "flow": paths, "descent": descents}
    return Result(arrays, tuple(numbers), (_sentence(config),))


def _sentence(config: Settings) -> str:
    largest = max(config.scores)
    return (
        f"All paths go to the direction (1, 0). On the way the correlation loss favours the token of high score "
        f"(p2 -> {asymptote(largest, 'correlation'):.3f} at C = {largest:g}), the logistic loss the one of low score "
        f"(p2 -> {asymptote(largest, 'logistic'):.3f})."
    )


def draw(result: Result) -> Any:
    """One panel per loss: descent, the flow over it in thin black, and, dotted, their asymptotes."""
    from tokenmargin.plots import canvas, plane

    scores = result.arrays["scores"]
    colours = canvas.shades(len(scores))
    titles = {"correlation": r"correlation loss $\ell(x) = -x$", "logistic": "logistic loss"}
    windows = {"correlation": (-0.5, 14, -1.6, 3.2), "logistic": (-0.5, 14, -4.0, 1.6)}
    keys = np.array([[(0, 0), (1, 1)], [(0, 0), (1, -1)]], dtype=float)
    with canvas.style():
        figure, axes = canvas.panels(1, 2, 9.0, 3.9)
        for ax, (name, title) in zip(axes, titles.items(), strict=True):
            left, right, bottom, top = windows[name]
            ax.set(xlim=(left, right), ylim=(bottom, top), title=title, xlabel="$p_1$", ylabel="$p_2$")
            for C, colour in zip(scores, colours, strict=True):
                descent, flow = (result.arrays[way][name][f"{C:g}"] for way in ("descent", "flow"))
                ax.plot(*descent.T, color=colour, lw=2.2, label=f"C = {C:g}")
                ax.plot(*flow.T, "--", color="black", lw=0.6)
                ax.axhline(asymptote(float(C), name), color=colour, lw=0.8, ls=":")
            ax.plot([0, right], [0, 0], "--", color=canvas.RED, lw=1.5, label="GMM direction")
            ax.plot([], [], "--", color="black", lw=0.6, label="gradient flow")
            plane.draw_tokens(ax, keys, np.array([[0.0, 1.0], [0.0, 1.0]]))
        axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig5",
        title="Transients: which input is favoured depends on the loss",
        in_plain_words=(
            "Does the loss that is minimised matter? Not for the end, which is the same, but for the way there: one "
            "loss favours the input with the better token first, the other the input with the worse one."
        ),
        paper="M",
        figure="Fig. 5",
        config=Settings,
        compute=compute,
        draw=draw,
    ),
)
