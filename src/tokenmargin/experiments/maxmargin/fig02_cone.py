"""[M, Fig. 2]: the cone around a locally optimal direction, for a real problem, with the constants the proof gives.

The paper draws a sketch. Here is the cone C(mu, R) of token 1 of Fig. 1(b), with mu from (32) and R from (39), beside
what the flow does: starts on the border of the cone converge to its axis, and so does far more than the cone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress, renamed
from tokenmargin.attention import AttentionRisk, Flow, follow
from tokenmargin.data import Selection, toys
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.margin import att_svm, cone_constants
from tokenmargin.theory import SAME_DIRECTION, basin_map

SELECTED = 1  # the token whose cone is drawn: locally, not globally, optimal


@dataclass(frozen=True)
class Settings(Config):
    """Fig. 1(b), token 1, logistic loss."""

    border_starts: int = 40
    """Starts on the border of the cone."""
    grid: int = 121
    """Basin map: points along each side."""
    inside: int = 4
    """Flows drawn from inside the cone, at norm R."""
    outside: int = 6
    """Flows drawn from angles spread over the basin and beyond, at norm R."""

    @classmethod
    def smoke(cls) -> Settings:
        """A coarse basin map and few starts."""
        return cls(border_starts=8, grid=31)

    @classmethod
    def paper(cls) -> Settings:
        """A fine basin map."""
        return cls()


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Constants, flows from the border of the cone, and the basin at large; nothing is random."""
    del key
    data = toys.fig1b()
    solution = att_svm(data, Selection.from_indices([SELECTED], data.n_places))
    constants = cone_constants(solution)
    half_angle = float(np.arccos(1 - constants.mu))
    tilt = float(np.arctan2(*solution.direction[::-1]))
    border = _border(config.border_starts, tilt, half_angle, constants.radius)
    on_border = basin_map(data, border)
    errors = [np.inf if a is None else a.velocity_error for a in on_border.agreements]
    captured = [
        limit.diverges and limit.selection == solution.selection and error <= SAME_DIRECTION
        for limit, error in zip(on_border.limits, errors, strict=True)
    ]
    risk = AttentionRisk(data)
    pull = min(float(risk.field(p) @ solution.direction) for p in border)
    reach = 1.3 * constants.radius
    axis = np.linspace(-reach, reach, config.grid)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    around = basin_map(data, points, progress=renamed(progress, "basins of Fig. 2"))
    mine = np.array([limit.diverges and limit.selection == solution.selection for limit in around.limits])
    at_radius = np.abs(np.linalg.norm(points, axis=1) - constants.radius) < 2.5 * reach / config.grid
    angles = _angle_to(points[mine & at_radius], solution.direction)
    widest = float(np.degrees(angles.max()))
    angles = np.concatenate(
        [
            np.linspace(-0.9, 0.9, config.inside) * half_angle,
            np.linspace(-0.95, 0.95, config.outside) * np.radians(widest),
        ]
    )
    flows = [
        follow(risk, _at(constants.radius, tilt + angle), Flow(until_norm=1e5, atol=1e-9)).points for angle in angles
    ]
    arrays = {
        "direction": solution.direction,
        "mu": np.array(constants.mu),
        "radius": np.array(constants.radius),
        "basin": np.where(mine, 1, 0).reshape(config.grid, config.grid),
        "axis": axis,
        "border": border,
        "flows": {str(j): path for j, path in enumerate(flows)},
    }
    numbers = (
        Number("mu of (32), token 1 of Fig. 1(b)", constants.mu),
        Number("R of (39)", constants.radius),
        Number("half-angle of the cone, degrees", float(np.degrees(half_angle))),
        Number.exact(
            "share of starts on its border whose flow goes to its axis", float(np.mean(captured)), 1, 0, source="Thm 3"
        ),
        Number.exact(
            "minus the smallest pull along the axis on the border (negative: no stationary point there)",
            -pull,
            at_most=0.0,
        ),
        Number("largest angle at norm R from which the flow goes there, degrees", widest),
    )
    return Result(arrays, numbers, (_sentence(half_angle, widest),))


def _at(radius: float, angle: float) -> np.ndarray:
    return radius * np.array([np.cos(angle), np.sin(angle)])


def _border(count: int, tilt: float, half_angle: float, radius: float) -> np.ndarray:
    """Starts on the border of C(mu, R): its two sides out to 10 R and the arc at R."""
    per_part = max(2, count // 3)
    out = radius * np.geomspace(1.0, 10.0, per_part)
    sides = [_at(r, tilt + sign * half_angle) for sign in (-1, 1) for r in out]
    arc = [_at(radius, tilt + a) for a in np.linspace(-half_angle, half_angle, per_part)]
    return np.array(sides + arc)


def _angle_to(points: np.ndarray, direction: np.ndarray) -> np.ndarray:
    cosine = points @ direction / np.linalg.norm(points, axis=1)
    return np.arccos(np.clip(cosine, -1, 1))


def _sentence(half_angle: float, widest: float) -> str:
    return (
        f"The proof's cone has a half-angle of {np.degrees(half_angle):.2f} degrees; at the same norm the flow "
        f"converges to its axis from as far as {widest:.0f} degrees away (on one side): the constants are sufficient "
        "and far from necessary."
    )


def draw(result: Result) -> Any:
    """Left: the plane to scale. Right: norm against angle, where the cone is wide enough to see."""
    from tokenmargin.plots import canvas, plane

    arrays = result.arrays
    direction, radius, mu = arrays["direction"], float(arrays["radius"]), float(arrays["mu"])
    half_angle, tilt = float(np.arccos(1 - mu)), float(np.arctan2(direction[1], direction[0]))
    flows = list(arrays["flows"].values())
    reach = float(arrays["axis"][-1])
    with canvas.style():
        figure, (left, right) = canvas.panels(1, 2, 10.0, 4.6)
        left.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title="(a) the plane of p, to scale")
        left.set(xlabel="$p_1$", ylabel="$p_2$")
        plane.draw_basins(left, arrays["basin"], (-reach, reach, -reach, reach))
        turn = np.linspace(0, 2 * np.pi, 300)
        left.plot(radius * np.cos(turn), radius * np.sin(turn), ":", color="black", lw=1, label=f"R = {radius:.1f}")
        wedge = np.array(
            [_at(r, tilt + s * half_angle) for s, r in ((-1, radius), (-1, 2 * reach), (1, 2 * reach), (1, radius))]
        )
        left.fill(*wedge.T, color=canvas.BLUE, alpha=0.9, lw=0, label=rf"cone, $\mu$ = {mu:.1e}")
        captured = [bool(np.degrees(abs(np.arctan2(p[-1, 1], p[-1, 0]) - tilt)) < 1) for p in flows]
        colours = [canvas.BLUE if yes else canvas.RED for yes in captured]
        flows = [plane.refined(path) for path in flows]
        plane.draw_trajectories(left, [path[np.linalg.norm(path, axis=1) < 4 * reach] for path in flows], colours)
        left.legend(loc="lower left")
        right.set(xscale="log", title="(b) norm and angle", xlabel=r"$\|p\|$", ylabel=r"angle to $p^{mm}$, degrees")
        for path, colour in zip(flows, colours, strict=True):
            signed = np.degrees(np.arctan2(path[:, 1], path[:, 0]) - tilt)
            right.plot(np.linalg.norm(path, axis=1), signed, color=colour, lw=1.1)
            right.plot(np.linalg.norm(path[0]), signed[0], "o", color=colour, ms=3)
        degrees = np.degrees(half_angle)
        right.fill_between([radius, 1e5], -degrees, degrees, color=canvas.BLUE, alpha=0.35, lw=0, label=r"$C_{\mu,R}$")
        right.axhline(0, color=canvas.BLUE, ls="--", lw=1.2, label=r"$p^{mm}$ of token 1")
        right.set(xlim=(0.7 * radius, 1e5), ylim=(-200, 200))
        right.set_yscale("asinh", linear_width=0.7)  # the cone is a degree wide, the basin a hundred
        ticks = [-100, -30, -10, -1, 0, 1, 10, 30, 100]
        right.set_yticks(ticks, [str(tick) for tick in ticks])
        right.legend(loc="center right", bbox_to_anchor=(1.0, 0.8))
    return figure


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig2",
        title="The cone around a locally optimal direction, with its computed constants",
        paper="M",
        figure="Fig. 2",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("maxmargin-thm3",),
    ),
)
