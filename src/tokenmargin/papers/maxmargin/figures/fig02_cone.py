"""[M, Fig. 2]: the cone around a locally optimal direction, for a real problem, with the constants the proof gives.

The paper draws a sketch. Here is the cone C(mu, R) of token 1 of Fig. 1(b), with mu from (32), beside what the flow
does: starts on the border of the cone converge to its axis, and so does far more than the cone. There are two radii: R
of (39) is Lemma 7's, beyond which there is no stationary point, and R of Theorem 3, from which on descent is proved to
converge, is 1e8 times as large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress, renamed
from tokenmargin.attention import AttentionRisk, Flow, Trajectory, follow
from tokenmargin.data import Selection
from tokenmargin.experiments.experiment import Arrays, Config, Experiment, Number, Result
from tokenmargin.margin import MarginSolution, att_svm
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.claims.cone_radius import (
    FARTHEST,
    POINTS,
    WITHIN,
    ConeRadius,
    NeededRadius,
    cone_radius,
    descent_in_cone,
    needed_radius,
    points_of_cone,
)
from tokenmargin.theory import SAME_DIRECTION, basin_map, one_minus_cosine

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


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Constants, flows from the border of the cone, and the basin at large; nothing is random."""
    del key
    data = toys.fig1b()
    solution = att_svm(data, Selection.from_indices([SELECTED], data.n_places))
    found = cone_radius(solution)
    needed, far = needed_radius(solution, found), _far_flows(solution, found)
    half_angle = float(np.arccos(1 - found.mu))
    tilt = float(np.arctan2(*solution.direction[::-1]))
    border = _border(config.border_starts, tilt, half_angle, found.lemma_7)
    on_border = basin_map(data, border)
    errors = [np.inf if a is None else a.velocity_error for a in on_border.agreements]
    captured = [
        limit.diverges and limit.selection == solution.selection and error <= SAME_DIRECTION
        for limit, error in zip(on_border.limits, errors, strict=True)
    ]
    risk = AttentionRisk(data)
    pull = min(float(risk.force(p) @ solution.direction) for p in border)
    reach = 1.3 * found.lemma_7
    axis = np.linspace(-reach, reach, config.grid)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    around = basin_map(data, points, progress=renamed(progress, "basins of Fig. 2"))
    mine = np.array([limit.diverges and limit.selection == solution.selection for limit in around.limits])
    at_radius = np.abs(np.linalg.norm(points, axis=1) - found.lemma_7) < 2.5 * reach / config.grid
    angles = _angle_to(points[mine & at_radius], solution.direction)
    widest = float(np.degrees(angles.max()))
    angles = np.concatenate(
        [
            np.linspace(-0.9, 0.9, config.inside) * half_angle,
            np.linspace(-0.95, 0.95, config.outside) * np.radians(widest),
        ]
    )
    flows = [follow(risk, _at(found.lemma_7, tilt + angle), Flow(until_norm=1e5, atol=1e-9)).points for angle in angles]
    arrays = {
        "direction": solution.direction,
        "mu": np.array(found.mu),
        "radius": np.array(found.lemma_7),
        "radius_of_theorem": np.array(found.theorem_3),
        "needed": np.array([needed.lemma_7, needed.theorem_3]),
        "far_flows": {str(j): run.points for j, run in enumerate(far)},
        "basin": np.where(mine, 1, 0).reshape(config.grid, config.grid),
        "axis": axis,
        "border": border,
        "flows": {str(j): path for j, path in enumerate(flows)},
    }
    numbers = (
        Number("mu of (32), token 1 of Fig. 1(b)", found.mu),
        Number("half-angle of the cone, degrees", float(np.degrees(half_angle))),
        *_radius_numbers(solution, found, needed, far),
        Number(
            "share of starts on the border of the cone of (39) whose flow goes to its axis", float(np.mean(captured))
        ),
        Number.exact(
            "minus the smallest pull along the axis on the border (negative: no stationary point there)",
            -pull,
            at_most=0.0,
        ),
        Number("largest angle at norm R from which the flow goes there, degrees", widest),
    )
    return Result(arrays, numbers, (_sentence(half_angle, widest), _radii_sentence(found, needed)))


def _far_flows(solution: MarginSolution, found: ConeRadius) -> list[Trajectory]:
    """Flows from the border of Theorem 3's cone and from its axis, at its radius, to a thousand times as far."""
    risk, tilt = AttentionRisk(solution.sequences), float(np.arctan2(*solution.direction[::-1]))
    method = Flow(until_norm=FARTHEST * found.theorem_3)
    half_angle = WITHIN * float(np.arccos(1 - found.mu))
    return [follow(risk, _at(found.theorem_3, tilt + share * half_angle), method) for share in (-1.0, 0.0, 1.0)]


def _radius_numbers(
    solution: MarginSolution, found: ConeRadius, needed: NeededRadius, far: list[Trajectory]
) -> tuple[Number, ...]:
    """Both radii, what each is made of, how loose it is, and what is proved beyond Theorem 3's."""
    norms = found.theorem_3 * np.geomspace(1.0, FARTHEST, POINTS)
    descent = descent_in_cone(solution, found.mu, points_of_cone(solution.direction, found.mu, norms))
    arrived = [
        run.limit.diverges and one_minus_cosine(run.limit.velocity, solution.direction) <= SAME_DIRECTION for run in far
    ]
    return (
        Number("R of (39), Lemma 7", found.lemma_7),
        Number("R of (46), with C_0 = 96", found.perturbation),
        Number("R of (49)", found.aside),
        Number("R of the term after (49)", found.uneven),
        Number("R of (58), with 2|p| kept in (54b)", found.step),
        Number("R of Theorem 3, the largest of the last four", found.theorem_3),
        Number("least norm without a stationary point in the cone", needed.lemma_7),
        Number("least norm from which on (53) and (55) hold in the cone", needed.theorem_3),
        Number("log10 of R of (39) over the least norm", float(np.log10(found.lemma_7 / needed.lemma_7))),
        Number("log10 of R of Theorem 3 over the least norm", float(np.log10(found.theorem_3 / needed.theorem_3))),
        Number.exact(
            "share of starts at R of Theorem 3, on border and axis, whose flow goes to the axis",
            float(np.mean(arrived)),
            1,
            0,
            source="Thm 3",
        ),
        Number.exact(
            f"largest miss of (53) and (55) at {POINTS} points from there to {FARTHEST:g} R",
            float(max(descent.turn.max(), descent.leave.max())),
            at_most=0.0,
        ),
    )


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


def _radii_sentence(found: ConeRadius, needed: NeededRadius) -> str:
    return (
        f"R of (39), {found.lemma_7:.4g}, is Lemma 7's; Theorem 3 needs {found.theorem_3:.2g}, by (49). On a sample of "
        f"the cone there is no stationary point from norm {needed.lemma_7:.2g} on (a hundredth of |p_mm| is the least "
        f"looked at), and descent stays in it from {needed.theorem_3:.3g} on."
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
        left.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title="the plane of p, to scale")
        left.set(xlabel="$p_1$", ylabel="$p_2$")
        plane.draw_basins(left, arrays["basin"], (-reach, reach, -reach, reach))
        turn = np.linspace(0, 2 * np.pi, 300)
        left.plot(
            radius * np.cos(turn), radius * np.sin(turn), ":", color="black", lw=1, label=f"R = {radius:.1f}, (39)"
        )
        wedge = np.array(
            [_at(r, tilt + s * half_angle) for s, r in ((-1, radius), (-1, 2 * reach), (1, 2 * reach), (1, radius))]
        )
        left.fill(*wedge.T, color=canvas.BLUE, alpha=0.9, lw=0, label=rf"cone, $\mu$ = {mu:.1e}")
        captured = [bool(np.degrees(abs(np.arctan2(p[-1, 1], p[-1, 0]) - tilt)) < 1) for p in flows]
        colours = [canvas.BLUE if yes else canvas.RED for yes in captured]
        flows = [plane.refined(path) for path in flows]
        plane.draw_trajectories(left, [path[np.linalg.norm(path, axis=1) < 4 * reach] for path in flows], colours)
        left.legend(loc="lower left")
        right.set(xscale="log", title="norm and angle", xlabel=r"$\|p\|$", ylabel=r"angle to $p^{mm}$, degrees")
        for path, colour in zip(flows, colours, strict=True):
            signed = np.degrees(np.arctan2(path[:, 1], path[:, 0]) - tilt)
            right.plot(np.linalg.norm(path, axis=1), signed, color=colour, lw=1.1)
            right.plot(np.linalg.norm(path[0]), signed[0], "o", color=colour, ms=3)
        _draw_cones(right, arrays, canvas, plane)
        right.set(ylim=(-200, 200))
        right.set_yscale("asinh", linear_width=0.7)  # the cone is a degree wide, the basin a hundred
        ticks = [-100, -30, -10, -1, 0, 1, 10, 30, 100]
        right.set_yticks(ticks, [str(tick) for tick in ticks])
        right.legend(loc="upper right")
    return figure


def _draw_cones(ax: Any, arrays: Arrays, canvas: Any, plane: Any) -> None:
    """Both cones on a logarithmic radius, the least norms that would do, and flows from the far one."""
    direction, far = arrays["direction"], float(arrays["radius_of_theorem"])
    degrees, end = float(np.degrees(np.arccos(1 - float(arrays["mu"])))), FARTHEST * far
    for start, alpha, label in ((float(arrays["radius"]), 0.2, "(39)"), (far, 0.5, "Theorem 3")):
        look = {"color": canvas.BLUE, "alpha": alpha, "lw": 0}
        ax.fill_between([start, end], -degrees, degrees, label=rf"$C_{{\mu,R}}$, $R$ = {start:.2g}, {label}", **look)
    for norm, line, label in zip(arrays["needed"], (":", "-."), ("no stationary point", "(53), (55)"), strict=True):
        ax.axvline(norm, color=canvas.GREY, ls=line, lw=1.2, label=f"{label} from {norm:.2g} on")
    for path in map(plane.refined, arrays["far_flows"].values()):
        turned = np.degrees(np.arctan2(path[:, 1], path[:, 0]) - np.arctan2(direction[1], direction[0]))
        ax.plot(np.linalg.norm(path, axis=1), turned, color=canvas.BLUE, lw=1.1)
    ax.axhline(0, color=canvas.BLUE, ls="--", lw=1.2, label=r"$p^{mm}$ of token 1")
    ax.set(xlim=(0.5 * min(float(arrays["radius"]), *arrays["needed"]), end))


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig2",
        title="The cone around a locally optimal direction, with its computed constants",
        in_plain_words=(
            "How close to such a direction must training start to be sure to end there? The proof gives a narrow cone; "
            "this computes how narrow, and how much farther away training may start in truth."
        ),
        paper="M",
        figure="Fig. 2",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("maxmargin-thm3",),
    ),
)
