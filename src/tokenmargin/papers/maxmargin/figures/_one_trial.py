"""One random trial of [M, Fig. 9] alone: its flow and its descent with their paths, computed and drawn."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tokenmargin.attention import AttentionRisk, NormalizedDescent, follow
from tokenmargin.data import scores
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.experiment import Number, Result
from tokenmargin.papers.maxmargin.trials import Study, trial
from tokenmargin.theory import compare, one_minus_cosine


def parse_trial(text: str) -> tuple[int, int]:
    """(d, number) from "d=2:17"."""
    match = re.fullmatch(r"d=(\d+):(\d+)", text)
    if match is None or int(match[1]) < 1:
        raise InvalidInputError(f"--trial {text!r} is not understood: write it as d=2:17 (width, then number).")
    return int(match[1]), int(match[2])


def one_trial(study: Study, seed: int, which: str) -> Result:
    """Flow and descent of one trial, with paths."""
    d, number = parse_trial(which)
    data = trial(study, seed, d, number)
    risk = AttentionRisk(data)
    for method in study.flows:
        flow = follow(risk, np.zeros(d), method)
        if not flow.limit.stalled:
            break
    descent = follow(risk, np.zeros(d), NormalizedDescent(study.lr), steps=study.steps)
    limit = flow.limit
    agreement = compare(limit)
    target = limit.velocity if limit.diverges else limit.point
    chosen = limit.selection.representatives
    picked = np.arange(data.n_inputs)
    arrays = {
        "flow": {
            "points": flow.points,
            "norms": flow.norms,
            "errors": np.array([one_minus_cosine(p, target) for p in flow.points]),
            "softmax": np.array([risk.attention(p)[picked, chosen] for p in flow.points]),
        },
        "descent": {
            "norms": descent.norms,
            "errors": np.array([one_minus_cosine(p, target) for p in descent.points]),
        },
        "keys": data.keys,
        "scores": scores(data),
        "selected": chosen,
        "direction": target / max(float(np.linalg.norm(target)), 1e-300),
        "which": np.array([d, number]),
    }
    numbers = [
        Number("norm at the end", float(np.linalg.norm(limit.point))),
        Number("spread of the gaps", limit.spread),
        Number("Newton step", limit.newton_step),
    ]
    said = f"{limit.kind.value}: {limit.reason}"
    if agreement is not None:
        numbers.append(Number("1 - cos(velocity, p_mm)", agreement.velocity_error))
        said += " " + agreement.explain()
    return Result(arrays, tuple(numbers), (f"Trial {number} of width {d} {said}",))


def draw_one_trial(result: Result) -> Any:
    """Softmax of the selected tokens and distance to the limit direction against the norm; for d = 2 also the plane."""
    from tokenmargin.plots import canvas, plane

    arrays, flow, descent = result.arrays, result.arrays["flow"], result.arrays["descent"]
    d, number = (int(x) for x in arrays["which"])
    with canvas.style():
        figure, axes = canvas.panels(1, 3 if d == 2 else 2, 12.0 if d == 2 else 8.5, 3.6)
        norms = np.maximum(flow["norms"], 1e-2)
        for i, values in enumerate(flow["softmax"].T):
            axes[0].plot(norms, values, label=f"input {i}, token {arrays['selected'][i]}")
        axes[0].set(xscale="log", xlabel=r"$\|p\|$", title=f"d={d}, trial {number}")
        axes[0].set_ylabel("softmax of the selected tokens")
        axes[0].legend()
        axes[1].plot(norms[1:], flow["errors"][1:], color=canvas.RED, label="flow")
        axes[1].plot(descent["norms"][1:], descent["errors"][1:], color=canvas.BLUE, label="descent")
        axes[1].set(xscale="log", yscale="log", xlabel=r"$\|p\|$", ylabel=r"$1-\cos$ to the limit")
        axes[1].legend()
        if d == 2:
            axes[2].set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", title="the plane of p")
            axes[2].set(xlabel="first key coordinate", ylabel="second key coordinate")
            plane.draw_directions(axes[2], arrays["direction"][None], ["limit"], [canvas.RED])
            plane.draw_trajectories(axes[2], [flow["points"]])
            plane.draw_tokens(axes[2], arrays["keys"], arrays["scores"])
    return figure
