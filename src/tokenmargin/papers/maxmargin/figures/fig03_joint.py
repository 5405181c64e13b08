"""[M, Fig. 3]: head v and attention p trained together, each to its max-margin direction.

Panels (a) to (c) are the paper's. Panel (d) is ours: on the data of (b), the limit of p is the relaxed direction if and
only if the growth of |v| over that of |p| reaches the relaxing rate, which Theorem 6 does not ask. The flow is drawn;
that all global minimisers over |v| <= r, |p| <= R go there too is proved by a bracket of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.attention import AttentionRisk, Flow, JointRisk, NormalizedDescent, follow
from tokenmargin.attention.blocks import by_block
from tokenmargin.data import Selection
from tokenmargin.experiments.experiment import Arrays, Config, Experiment, Number, Result
from tokenmargin.margin import (
    att_svm,
    rate_direction,
    relaxed_inputs,
    relaxed_svm,
    relaxing_rate,
    selected_label_svm,
)
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.claims.joint_balls import LEVEL, JointBalls, joint_path
from tokenmargin.theory import SAME_DIRECTION, one_minus_cosine

START_V, START_P = (-1.0, 0.0), (0.0, -1.0)
THIRD = {"a": (0.5, 1.0), "b": (0.5, 1.5)}  # the optimal token of the third input
OPTIMAL = Selection.from_indices([1, 1, 1], 2)
#: (iteration, mean attention of the optimal tokens, mean logistic probability) of the paper's notebook, panel (a).
PROBABILITIES = ((0, 0.4230, 0.5249), (30, 0.7186, 0.8686), (60, 0.9669, 0.9963))
#: lr_p / lr_v of panel (d), the last with v fixed at v_mm.
REGIMES = {"half": 0.5, "equal": 1.0, "double": 2.0}

#: Radii R of the regularisation path, with r = R lr_v/lr_p.
RADII = 2.0 ** np.arange(17)

NOTEBOOK = "official notebook"
CLOSED_FORM = 1e-9
FOUR_DIGITS, THREE_DIGITS = 5e-5, 5e-4
#: 1 - cos between p and its limit at the end of descent: p/|p| carries the start like 1/|p|, and |p| is at least 100.
AFTER_DESCENT = 1e-4


@dataclass(frozen=True)
class Settings(Config):
    """Both gradients normalised, lr 0.1, 1000 iterations, the first 200 drawn, as in [M, Fig. 3]."""

    lr: float = 0.1
    """Step length of v and of p."""
    steps: int = 1000
    """Iterations of panels (a) and (b)."""
    drawn: int = 200
    """Iterations drawn."""
    long_steps: int = 100_000
    """Iterations of each regime of panel (d)."""
    until_norm: float = 1e6
    """Norm of v to which the flow of each regime is followed."""

    @classmethod
    def smoke(cls) -> Settings:
        """Shorter runs of the regimes."""
        return cls(long_steps=10_000)


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """The paper's two data sets, then the regimes; nothing is random, so the key is not used."""
    del key
    arrays: dict[str, Any] = {"drawn": np.array(config.drawn)}
    numbers: list[Number] = []
    for done, name in enumerate(THIRD):
        panel = _panel(name, config)
        arrays[name] = panel
        numbers += _panel_numbers(name, panel)
        progress(done + 1, 3, "joint training of Fig. 3")
    for step, attention, logistic in PROBABILITIES:
        ours = arrays["a"]["probabilities"][step]
        numbers.append(
            Number.exact(
                f"(a) softmax probability, iteration {step}", float(ours[0]), attention, FOUR_DIGITS, source=NOTEBOOK
            )
        )
        numbers.append(
            Number.exact(
                f"(a) logistic probability, iteration {step}", float(ours[1]), logistic, FOUR_DIGITS, source=NOTEBOOK
            )
        )
    regimes, regime_numbers, sentence = _regimes(config)
    progress(3, 3, "joint training of Fig. 3")
    spare = int(relaxed_inputs(toys.fig3(THIRD["b"]), OPTIMAL).sum())
    largest = float(JointRisk(toys.fig3(THIRD["a"])).attention((START_V, START_P)).max(axis=1).mean())
    first = (
        "(a) Every selected token is a support vector of the classifier: v goes to v_mm and p to the max-margin "
        "direction of (ATT-SVM).",
        f"(b) {spare} of 3 inputs has label margin to spare: with equal steps p goes to the relaxed direction.",
        "(c) The softmax curve is the attention of the optimal tokens; the largest attention, which the paper's "
        f"formula takes, would start at {largest:.4f}.",
    )
    return Result(arrays | {"d": regimes}, (*numbers, *regime_numbers), (*first, sentence))


def _panel(name: str, config: Settings) -> dict[str, np.ndarray]:
    data = toys.fig3(THIRD[name])
    risk = JointRisk(data)
    run = follow(risk, (START_V, START_P), NormalizedDescent(config.lr), steps=config.steps)
    drawn = run.points[: config.drawn + 1]
    return {
        "keys": data.keys,
        "scores": data.labels[:, None] * (data.tokens @ selected_label_svm(data, OPTIMAL).v),
        "heads": run.blocks["v"],
        "points": run.blocks["p"],
        "v_mm": selected_label_svm(data, OPTIMAL).v,
        "p_mm": att_svm(data, OPTIMAL).p,
        "p_relax": relaxed_svm(data, OPTIMAL).p,
        "relaxed": relaxed_inputs(data, OPTIMAL),
        "probabilities": np.array([_probabilities(risk, point) for point in drawn]),
    }


def _probabilities(risk: JointRisk, point: np.ndarray) -> tuple[float, float]:
    """(mean attention of the optimal tokens, mean of 1/(1 + exp(-Y f))): the curves of [M, Fig. 3(c)].

    The paper plots this attention of the optimal tokens; its formula takes the largest of each input instead.
    """
    data, attention, v = risk.sequences, risk.attention(point), by_block(risk.blocks, point)["v"]
    output = data.labels * (np.einsum("nt,ntk->nk", attention, data.tokens) @ v)
    selected = np.where(OPTIMAL.chosen, attention, 0.0).sum(axis=1)
    return float(selected.mean()), float(np.exp(-np.logaddexp(0.0, -output)).mean())


def _panel_numbers(name: str, panel: dict[str, np.ndarray]) -> list[Number]:
    """Solutions against closed forms, and how near descent ends."""
    by_hand = {
        "a": {"p_mm": (4 / 3, 1 / 3), "p_relax": (4 / 3, 1 / 3)},
        "b": {"p_mm": (1.25, 0.25), "p_relax": (1.0, 0.0)},
    }[name]
    words = ("first", "second")
    numbers = [
        Number.exact(
            f"({name}) {word} entry of v_mm",
            float(ours),
            printed,
            CLOSED_FORM,
            source="closed form",
            paper=printed,
            place="Sec. 3, App. E",
        )
        for word, ours, printed in zip(words, panel["v_mm"], (0.0, 1.0), strict=True)
    ]
    numbers += [
        Number.exact(f"({name}) {word} entry of {vector}", float(ours), value, CLOSED_FORM, source="closed form")
        for vector, values in by_hand.items()
        for word, ours, value in zip(words, panel[vector], values, strict=True)
    ]
    spare = {"a": 0, "b": 1}[name]
    numbers.append(Number.exact(f"({name}) relaxed inputs", float(panel["relaxed"].sum()), spare, 0))
    for what, path, target in (("v to v_mm", "heads", "v_mm"), ("p to p_relax", "points", "p_relax")):
        error = one_minus_cosine(panel[path][-1], panel[target])
        numbers.append(Number.exact(f"({name}) 1 - cos, {what}, equal steps", error, at_most=AFTER_DESCENT))
    return numbers


def _regimes(config: Settings) -> tuple[dict[str, Any], list[Number], str]:
    """The data of (b) at three ratios of step lengths and with v fixed: where p goes, and which problem says so."""
    data = toys.fig3(THIRD["b"])
    strict, relaxed = att_svm(data, OPTIMAL).direction, relaxed_svm(data, OPTIMAL).direction
    every = max(1, config.long_steps // 100)
    ends, flows, velocities, minimisers = {}, {}, {}, {}
    for name, ratio in REGIMES.items():
        risk, start = JointRisk(data, speeds=(1.0, ratio)), (START_V, START_P)
        steps = follow(risk, start, NormalizedDescent(config.lr), steps=config.long_steps, every=every)
        ends[name] = steps.blocks["p"][-1]
        flow = follow(risk, start, Flow(until_norm=config.until_norm))
        flows[name], velocities[name] = flow.blocks["p"], flow.limit.blocks["p"].velocity
        path = joint_path(risk, START_V, START_P, RADII / ratio, RADII)
        minimisers[name] = path.points[-1] if path.found else np.full(2, np.nan)
    fixed = AttentionRisk(data)  # its head is v_mm
    ends["fixed"] = follow(fixed, START_P, NormalizedDescent(config.lr), steps=config.long_steps, every=every).final
    alone = follow(fixed, START_P, Flow(until_norm=config.until_norm))
    flows["fixed"] = alone.points
    velocities["fixed"] = alone.limit.velocity if alone.limit.diverges else np.full(2, np.nan)
    predicted = {name: rate_direction(data, OPTIMAL, 1 / ratio) for name, ratio in REGIMES.items()}
    predicted["fixed"] = rate_direction(data, OPTIMAL, 0.0)
    between, rate = velocities["double"], relaxing_rate(data, OPTIMAL)
    numbers = [
        Number.exact(
            "(d) least growth of |v| over |p| that relaxes",
            rate,
            1.0,
            CLOSED_FORM,
            source="closed form",
        ),
        Number.exact("(d) lr_p = 2 lr_v: first entry of the limit", float(between[0]), 0.995, THREE_DIGITS),
        Number.exact("(d) lr_p = 2 lr_v: second entry of the limit", float(between[1]), 0.099, THREE_DIGITS),
    ]
    for name, words in _regime_words().items():
        for kind, direction in (("strict", strict), ("relaxed", relaxed)):
            error = one_minus_cosine(ends[name], direction)
            numbers.append(Number(f"(d) {words}: 1 - cos, descent to the {kind} direction", error))
        error = one_minus_cosine(ends[name], predicted[name])
        numbers.append(
            Number.exact(f"(d) {words}: 1 - cos, descent to its predicted limit", error, at_most=AFTER_DESCENT)
        )
        error = one_minus_cosine(velocities[name], predicted[name])
        what = f"(d) {words}: 1 - cos, velocity of the flow to its predicted limit"
        numbers.append(Number.exact(what, error, at_most=SAME_DIRECTION))
        if name in minimisers:
            error = one_minus_cosine(minimisers[name], predicted[name])
            what = f"(d) |v|/|p| as with {words}: 1 - cos, minimiser under norm constraints to the same limit"
            numbers.append(Number.exact(what, error, at_most=SAME_DIRECTION))
    numbers += _bracket_numbers(predicted)
    nearest = {name: _nearest(ends[name], strict, relaxed) for name in ends}
    sentence = (
        f"(d) On the data of (b), descent ends at the {nearest['half']} direction with lr_p = lr_v/2, at the "
        f"{nearest['equal']} one with lr_p = lr_v, at {nearest['double']} with lr_p = 2 lr_v (the limit is "
        f"({between[0]:.4f}, {between[1]:.4f})), and at the {nearest['fixed']} one with v fixed. The limit is the "
        f"relaxed direction if and only if the growth of |v| over |p| reaches the relaxing rate, {rate:.4g} here, for "
        "the flow as for all global minimisers over |v| <= r, |p| <= R, of which Theorem 6 speaks and which are "
        "bracketed; it states no such condition."
    )
    return {"flows": flows, "limits": predicted}, numbers, sentence


def _bracket_numbers(predicted: dict[str, np.ndarray]) -> list[Number]:
    """Largest distance of a global minimiser over |v| <= r, |p| <= R from its limit, for each growth of r."""
    data = toys.fig3(THIRD["b"])
    rates = {f"r = {1 / ratio:g} R": (1 / ratio, predicted[name]) for name, ratio in REGIMES.items()}
    rates["r = exp(Xi R)"] = (float("inf"), relaxed_svm(data, OPTIMAL).direction)
    numbers = []
    for words, (rate, limit) in rates.items():
        bracket = JointBalls(data, OPTIMAL, rate).bracket
        found = bracket is not None and bracket.selection == OPTIMAL
        error = bracket.direction_error(limit) if bracket is not None and found else float("nan")
        what = f"(d) {words}: largest 1 - cos of a global minimiser to its limit, at R = {LEVEL:g} |p_mm|"
        numbers.append(Number.exact(what, error, at_most=SAME_DIRECTION))
    return numbers


def _nearest(p: np.ndarray, strict: np.ndarray, relaxed: np.ndarray) -> str:
    """Index of the one of the two directions at which p ended."""
    if one_minus_cosine(p, strict) <= AFTER_DESCENT:
        return "strict"
    return "relaxed" if one_minus_cosine(p, relaxed) <= AFTER_DESCENT else "neither of the two"


def _regime_words() -> dict[str, str]:
    return {"half": "lr_p = lr_v/2", "equal": "lr_p = lr_v", "double": "lr_p = 2 lr_v", "fixed": "v fixed"}


def _regime_labels() -> dict[str, str]:
    """The same for a legend."""
    return {
        "half": r"$\eta_p = \eta_v/2$",
        "equal": r"$\eta_p = \eta_v$",
        "double": r"$\eta_p = 2\,\eta_v$",
        "fixed": "$v$ fixed",
    }


def draw(result: Result) -> Any:
    """The paper's three panels, and the regimes as angle of p against its norm."""
    from tokenmargin.plots import canvas, plane

    arrays = result.arrays
    drawn = int(arrays["drawn"]) + 1
    titles = {"a": "all inputs are support vectors", "b": "(0.5, 1.5) is not a support vector"}
    with canvas.style():
        figure, axes = canvas.panels(2, 2, 9.6, 8.2)
        for ax, (name, title) in zip(axes, titles.items(), strict=False):
            panel = arrays[name]
            ax.set(xlim=(-2.0, 9.0), ylim=(-2.6, 8.4), aspect="equal", title=title)
            ax.set(xlabel="first coordinate", ylabel="second coordinate")
            rays = (
                ("v_mm", r"$v^{mm}$", canvas.BLUE),
                ("p_mm", r"$p^{mm}$ (ATT-SVM)", canvas.GREY if name == "b" else canvas.RED),
                *((("p_relax", r"$p^{relax}$, (10)", canvas.RED),) if name == "b" else ()),
            )
            for vector, label, colour in rays:
                unit = panel[vector] / np.linalg.norm(panel[vector])
                ax.plot(*np.outer(unit, [0.0, 16.0]), "--", color=colour, lw=1.8, label=label, zorder=1)
            paths = [panel["points"][:drawn], panel["heads"][:drawn]]
            plane.draw_trajectories(ax, paths, [canvas.RED, canvas.BLUE])
            plane.draw_tokens(ax, panel["keys"], panel["scores"])
            ax.legend(loc="lower right")
        _draw_probabilities(axes[2], arrays["a"]["probabilities"], canvas)
        _draw_regimes(axes[3], arrays["d"], canvas)
    return figure


def _draw_probabilities(ax: Any, curves: np.ndarray, canvas: Any) -> None:
    ax.set(title="probabilities in (a)", xlabel="iteration", ylim=(0.0, 1.03))
    ax.set_ylabel("mean probability")
    for curve, label, colour in zip(curves.T, ("softmax", "logistic"), (canvas.RED, canvas.BLUE), strict=True):
        ax.plot(curve, color=colour, label=f"{label} probability")
    for step, attention, logistic in PROBABILITIES:
        ax.plot([step, step], [attention, logistic], "o", ms=4, mfc="none", color="black")
    ax.plot([], [], "o", ms=4, mfc="none", color="black", label="official notebook")
    ax.legend(loc="lower right")


def _draw_regimes(ax: Any, regimes: Arrays, canvas: Any) -> None:
    ax.set(title=r"data of (b): the limit depends on the growth of $\|v\|$", xlabel=r"$\|p\|$", xscale="log")
    colours = dict(zip(_regime_words(), (canvas.GREEN, canvas.RED, canvas.ORANGE, canvas.GREY), strict=True))
    for name, label in _regime_labels().items():
        path, limit = regimes["flows"][name], regimes["limits"][name]
        ax.plot(
            np.linalg.norm(path, axis=1),
            np.degrees(np.arctan2(path[:, 1], path[:, 0])),
            color=colours[name],
            label=label,
        )
        ax.axhline(np.degrees(np.arctan2(limit[1], limit[0])), ls="--", lw=1, color=colours[name], zorder=1)
    ax.set(xlim=(0.5, 1e6), ylim=(-8, 24), ylabel="angle of $p$, degrees (dashed: predicted limit)")
    ax.legend(loc="upper right")


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig3",
        title="Head and attention trained together go to their max-margin directions",
        in_plain_words=(
            "What changes when the classifier that reads the selected tokens is trained together with attention? Both "
            "go to max-margin directions of their own, and which one attention takes depends on how fast the other "
            "grows."
        ),
        paper="M",
        figure="Fig. 3",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=(
            "maxmargin-thm5",
            "maxmargin-thm5-flow",
            "maxmargin-thm6",
            "maxmargin-thm6-below",
            "maxmargin-thm6-flow",
        ),
    ),
)
