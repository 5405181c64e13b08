"""[M, Thms 1 and 4]: regularisation paths beside descent, flow and the max-margin direction, and where they cannot go.

First part: on the problems of Fig. 1, 1 - cos to the globally optimal max-margin (GMM) direction against |p|, and the
bound on it that holds for every global minimiser, found or not (`papers.maxmargin.claims._path_bound`). Second
part: on random problems, paths restricted to a cone around a direction. Around directions that are not locally optimal
max-margin (LMM) they must not converge to it; around LMM directions, in the cone of Lemma 7, (32) and (39), they do.
Descent asks for more than (39): the radius of Theorem 3 is beside it, and the least norms that would do for each.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin._types import Map
from tokenmargin.attention import AttentionRisk, Flow, NormalizedDescent, follow
from tokenmargin.data import EmbeddedSequences
from tokenmargin.experiments import store
from tokenmargin.experiments.expectations import expect_study
from tokenmargin.experiments.experiment import Arrays, Config, Experiment, Number, Result
from tokenmargin.margin import (
    MarginSolution,
    att_svm_batch,
    feasible_selections,
    global_margin,
)
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.claims.thm1_4_7_paths import (
    DISTANCE_FLOOR,
    PathCase,
    decay_exponent,
    has_distinct_scores,
    in_general_position,
)
from tokenmargin.papers.maxmargin.figures._local_cones import (
    RADII,
    Around,
    Cone,
    LocalEnds,
    block_ends,
    cones_of,
    draw_ends,
    draw_radii,
    has_radii,
    radii_of,
    radius_numbers,
)
from tokenmargin.theory import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.path_optimality import certify_path, enumerated_path
from tokenmargin.theory.problem import given

PROBLEMS = {"a": toys.fig1a, "b": toys.fig1b, "c": toys.fig1c}
WAYS = ("path", "descent", "flow")

#: Norm from which on exponents are fitted: |p_bar - R u| is constant from there to one part in a thousand.
FIT_FROM = 1e4

#: Largest distance of a fitted exponent from -2: the next term, of relative size 1/R, is still felt at the first radii.
EXPONENT = 0.02

#: Why -2 is expected: p is a ray plus a bounded vector.
RATE = "ray plus a bounded vector"

#: Largest KKT residual |G - (G'u)u|/|G| of a path: logits of size 1e5 round to 1e-11, margins go down to 1e-2.
KKT = 1e-8

#: Local paths of one finished part, and the name of such parts.
BLOCK, BLOCKS = 12, "local-paths"

#: Local paths from which on a few are timed first, and how many.
LONG_CONES, TIMED_CONES = 200, 12


@dataclass(frozen=True)
class Settings(Config):
    """Radii up to 1e5; random problems with tokens on the sphere."""

    radii: int = 21
    """Radii of each path, from 1 to 1e5."""
    steps: int = 20_000
    """Iterations of normalised descent with lr 0.1."""
    problems: int = 100
    """Random problems of the second part."""
    n: int = 3
    """Inputs of a random problem."""
    T: int = 4
    """Tokens of an input."""
    d: int = 3
    """Width."""
    each: int = 3
    """Directions of each kind (not LMM, random, LMM) in every problem."""
    epsilon: float = 0.01
    """1 - cos of the half-angle of the cones around directions that are not LMM."""
    inner_radius: float = 5.0
    """R0 of those cones."""
    resume: str = ""
    """Folder for finished paths."""

    @classmethod
    def smoke(cls) -> Settings:
        """Ten problems, one direction of each kind."""
        return cls(radii=11, steps=2_000, problems=10, each=1)


def compute(config: Settings, key: jax.Array, progress: Progress, map: Map = builtins.map) -> Result:
    """Both parts, the local paths of the second spread by `map`; the key makes the random problems."""
    arrays: dict[str, Any] = {}
    residual, certified = 0.0, 0
    exponents: dict[tuple[str, str], float] = {}
    for name, problem in PROBLEMS.items():
        fixed = (config.radii, config.steps)
        found = store.part(config.resume, f"figure-1{name}", fixed, partial(_comparison, problem(), config))
        panel = arrays[name] = found["panel"]
        residual, certified = max(residual, float(found["residual"])), certified + int(found["certified"])
        progress(len(exponents) // len(WAYS) + 1, len(PROBLEMS), "problems of Fig. 1")
        exponents |= {(name, way): _exponent(panel[way]["norm"], panel[way]["distance"]) for way in WAYS}
    seed = np.asarray(jax.random.key_data(key)).ravel()
    rng = np.random.default_rng(seed)
    ends = {kind: LocalEnds([], [], []) for kind in ("other", "random", "lmm")}
    outside, radii = 0, []
    cones: list[Cone] = []
    around = Around(config.each, config.epsilon, config.inner_radius)
    for j in range(config.problems):
        data = toys.random_sphere(rng, config.n, config.T, config.d)
        outside += not (has_distinct_scores(data) and in_general_position(data))
        solutions = _solutions(data)
        cones += cones_of(data, solutions, around, rng)
        radii += [radii_of(solution) for solution in solutions if has_radii(solution)]
        progress(j + 1, config.problems, "random problems")
    blocks = [cones[begin : begin + BLOCK] for begin in range(0, len(cones), BLOCK)]
    settings, done = (replace(config, resume=""), seed.tolist()), 0
    if map is builtins.map:
        left = store.missing(config.resume, BLOCKS, settings, blocks)
        _expect([cone for block in left for cone in block], progress)
    spread = store.keeping(config.resume, BLOCKS, settings, map)
    for block, followed in zip(blocks, spread(block_ends, blocks), strict=True):
        for cone, end in zip(block, followed["ends"], strict=True):
            ends[cone.kind] = ends[cone.kind].with_end(end)
        done += len(block)
        progress(done, len(cones), "local paths")
    arrays["local"] = {
        kind: {"norm": np.array(end.norm), "distance": np.array(end.distance), "to_lose": np.array(end.to_lose)}
        for kind, end in ends.items()
    }
    arrays["radii"] = np.array(radii).reshape(-1, len(RADII))
    numbers = (
        *_numbers(arrays, exponents, residual, certified, ends),
        *radius_numbers(arrays["radii"]),
        Number.exact("random problems outside the hypotheses of Theorem 4", float(outside), at_most=0),
    )
    return Result(arrays, numbers, _sentences(arrays, exponents, ends))


def _expect(cones: Sequence[Cone], progress: Progress) -> None:
    """Say how long many local paths will take, from a few of them."""
    if len(cones) >= LONG_CONES:
        few = cones[:: len(cones) // TIMED_CONES]
        expect_study(progress, {f"{len(few)} local paths": (lambda: block_ends(few), len(cones) / len(few))})


def _comparison(sequences: EmbeddedSequences, config: Settings) -> Arrays:
    """Norms and distances of the three ways, the path's largest KKT residual, and whether it is certified."""
    target = global_margin(sequences).direction
    path = enumerated_path(sequences, np.geomspace(1.0, 1e5, config.radii))
    risk, start = AttentionRisk(sequences), np.zeros(sequences.width)
    points = {
        "path": path.points,
        "descent": follow(risk, start, NormalizedDescent(0.1), steps=config.steps, every=20).points[1:],
        "flow": follow(risk, start, Flow(until_norm=1e5)).points[1:],
    }
    panel = {
        way: {
            "norm": np.linalg.norm(passed, axis=1),
            "distance": np.array([one_minus_cosine(p, target) for p in passed]),
        }
        for way, passed in points.items()
    }
    bounded = given(PathCase(sequences).bounded)
    levels = panel["path"]["norm"] * bounded.solution.margin
    panel["path"]["bound"] = np.array([bounded.bound(level) for level in levels])
    certified = np.array(certify_path(path).certified)
    return {"panel": panel, "residual": np.array(path.residuals.max()), "certified": certified}


def _exponent(norms: np.ndarray, distances: np.ndarray) -> float:
    # Descent of a smoke run ends before FIT_FROM; its last decade is what there is.
    late = norms >= min(FIT_FROM, norms.max() / 10)
    return decay_exponent(norms[late], distances[late])


def _solutions(data: EmbeddedSequences) -> Sequence[MarginSolution]:
    """(ATT-SVM) for every selection that can be separated."""
    selections = feasible_selections(data)
    return att_svm_batch([data] * len(selections), selections)


def _numbers(
    arrays: Arrays,
    exponents: dict[tuple[str, str], float],
    residual: float,
    certified: int,
    ends: dict[str, LocalEnds],
) -> tuple[Number, ...]:
    last = max(float(arrays[name]["path"]["distance"][-1]) for name in PROBLEMS)
    share = max(float((arrays[name]["path"]["distance"] / arrays[name]["path"]["bound"]).max()) for name in PROBLEMS)
    bound = max(float(arrays[name]["path"]["bound"][-1]) for name in PROBLEMS)
    sides = {kind: end.away / max(len(end.norm), 1) for kind, end in ends.items()}
    return (
        Number.exact("(a, b, c) paths certified global by enumeration", float(certified), 3, 0, source="all of them"),
        Number.exact("largest KKT residual of a path", residual, at_most=KKT),
        Number.exact("largest 1 - cos, path at R = 1e5 to the GMM direction", last, at_most=SAME_DIRECTION),
        Number.exact("largest 1 - cos of a path, as a share of what a global minimiser can have", share, at_most=1),
        Number("largest 1 - cos that a global minimiser at R = 1e5 can have", bound),
        Number.exact("(c) exponent of 1 - cos in R, path", exponents["c", "path"], -2, EXPONENT, source=RATE),
        Number.exact("(c) exponent of 1 - cos in |p|, flow", exponents["c", "flow"], -2, EXPONENT, source=RATE),
        Number.exact("(a) exponent of 1 - cos in |p|, flow", exponents["a", "flow"], -2, EXPONENT, source=RATE),
        Number.exact("(b) exponent of 1 - cos in |p|, flow", exponents["b", "flow"], -2, EXPONENT, source=RATE),
        Number("(c) exponent of 1 - cos in |p|, normalised descent", exponents["c", "descent"]),
        Number.exact(
            "share of non-LMM max-margin directions whose local path stays away", sides["other"], 1, 0, source="Thm 4"
        ),
        Number.exact("share of random directions whose local path stays away", sides["random"], 1, 0, source="Thm 4"),
        Number.exact(
            "share of LMM directions whose local path, in the cone of Lemma 7, goes there",
            ends["lmm"].toward / max(len(ends["lmm"].norm), 1),
            1,
            0,
            source="Thm 4",
        ),
        Number(
            "largest share of 1 - cos that a local path around another direction is still to lose",
            float(np.nanmax([0.0, *ends["other"].to_lose, *ends["random"].to_lose])),
        ),
        Number.exact("local paths not decided", float(sum(end.undecided for end in ends.values())), at_most=0),
    )


def _sentences(arrays: Arrays, exponents: dict[tuple[str, str], float], ends: dict[str, LocalEnds]) -> tuple[str, ...]:
    path = arrays["b"]["path"]
    single = float(path["distance"][path["norm"] >= FIT_FROM].max(initial=0.0))
    bounded = sum(share < 0.5 for share in ends["other"].norm)
    return (
        f"(c) Path and flow approach the GMM direction like |p|^{exponents['c', 'path']:.3f} and "
        f"|p|^{exponents['c', 'flow']:.3f}: both are a ray plus a bounded vector, so 1 - cos falls like |p|^-2.",
        f"(a, b) One support pair: the path has 1 - cos = {single:.0e} from R = {FIT_FROM:g} on, for it falls "
        "exponentially, while the flow, which remembers its start, still falls like |p|^-2.",
        f"Of {len(ends['other'].norm)} local paths around max-margin directions that are not locally optimal, "
        f"{bounded} stay bounded and the others turn away; of {len(ends['random'].norm)} around random directions "
        f"{sum(share < 0.5 for share in ends['random'].norm)} stay bounded.",
    )


def draw(result: Result) -> Any:
    """Three log-log panels of 1 - cos against the norm, and the distributions of the ends of the local paths."""
    from tokenmargin.plots import canvas

    arrays = result.arrays
    looks = {
        "path": ("regularisation path", {"color": canvas.RED, "marker": "o", "ms": 3, "lw": 1.2}),
        "flow": ("gradient flow", {"color": canvas.BLUE, "lw": 2.4, "alpha": 0.6}),
        "descent": ("normalised descent", {"color": canvas.GREEN, "lw": 1.2, "ls": "--"}),
    }
    titles = {"a": "n=1, tied scores", "b": "n=1, distinct scores", "c": "n=3, T=7"}
    with canvas.style():
        figure, axes = canvas.panels(2, 3, 11.4, 7.0)
        for ax, (name, title) in zip(axes, titles.items(), strict=False):
            for way, (label, look) in looks.items():
                passed = arrays[name][way]
                ax.loglog(passed["norm"], np.maximum(passed["distance"], DISTANCE_FLOOR), label=label, **look)
            proved = arrays[name]["path"]
            ax.loglog(proved["norm"], proved["bound"], "-.", color=canvas.ORANGE, lw=1.2, label="proved for minimisers")
            guide = np.array([1e1, 1e5])
            ax.loglog(guide, guide**-2.0, ":", color=canvas.GREY, label=r"$\|p\|^{-2}$")
            ax.axhline(DISTANCE_FLOOR, color=canvas.GREY, lw=0.8, ls="--", label="rounding")
            ax.set(title=title, xlabel=r"$\|p\|$ or $R$", xlim=(0.5, 2e5), ylim=(DISTANCE_FLOOR / 5, 3))
            ax.set_ylabel(r"$1-\cos$ to the GMM direction")
        axes[2].legend(loc="lower left")
        draw_ends(axes[3], axes[4], arrays["local"], canvas)
        draw_radii(axes[5], arrays["radii"], canvas)
    return figure


EXPERIMENTS = (
    Experiment(
        id="maxmargin-path",
        title="Regularisation paths go to max-margin directions, and nowhere else",
        in_plain_words=(
            "A second road to the same place: the best weights of bounded length, as the bound grows. Do they, too, "
            "turn towards the max-margin direction, and only towards directions that the theory allows?"
        ),
        paper="M",
        figure="Thms 1, 4",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("maxmargin-thm1", "maxmargin-thm4"),
        spreads=True,
    ),
)
