"""Reproduce one figure: compute, judge its claims, save, draw."""

from __future__ import annotations

import builtins
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import jax

from tokenmargin._atomic import check_writable
from tokenmargin._fingerprint import fingerprint
from tokenmargin._precision import keep_precision
from tokenmargin._progress import Progress, silent
from tokenmargin._types import Map
from tokenmargin.errors import MissingExtraError
from tokenmargin.experiments.experiment import Config, Experiment, Result, Verdict
from tokenmargin.experiments.store import Saved, save, study_computed_by
from tokenmargin.theory.claim import ClaimOutcome
from tokenmargin.theory.registry import claims, found_name


def reproduce(
    experiment: Experiment,
    out: Path,
    preset: str = "smoke",
    seed: int = 0,
    config: Config | None = None,
    progress: Progress = silent,
    map: Map = builtins.map,
) -> Saved:
    """Compute a figure and write `out/<id>/<preset>/`.

    Args:
        experiment: which figure.
        out: results folder.
        preset: "smoke", "cpu" or "paper".
        seed: of the random key; the same seed gives the same numbers.
        config: hyper-parameters; those of the preset when absent.
        progress: shown on long computations.
        map: spreads the parts of a figure that has parts, such as the `map` of a cluster; with the same numbers.
    """
    chosen = experiment.preset(preset) if config is None else config
    # Before the study: a claim that does not exist would end it when all is computed.
    asked = [claims()[found_name(key, claims(), "claim")] for key in experiment.claims]
    begin = time.perf_counter()
    # Until the result lies on disk: a disk that is full then costs the last step, not the study.
    with _kept_until_done(chosen, out / ".unfinished" / experiment.id / preset) as resumable:
        result = _compute(experiment, resumable, seed, progress, map)
        outcomes = {claim.key: in_words(claim.check(claim.inside())) for claim in asked}
        return save(
            experiment, chosen, preset, seed, result, time.perf_counter() - begin, outcomes, out, _drawer(experiment)
        )


def check_ready(out: Path) -> None:
    """Notice before computing what would stop the saving of a result: nothing to draw with, nowhere to write."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("Drawing figures", "figures")
    check_writable(out)


@contextmanager
def _kept_until_done(config: Config, folder: Path) -> Iterator[Config]:
    """A configuration whose finished parts lie in a folder until all is done: an interrupted study goes on by itself.

    The folder is named after the code that computes, the versions and the device, so that parts of others are not taken
    up. A figure without a field `resume`, or with a folder of the user's in it, is left as it is.
    """
    if getattr(config, "resume", None) != "":
        yield config
        return
    own = folder / f"code-{fingerprint(study_computed_by())}"
    changed: dict[str, str] = {"resume": str(own)}
    yield replace(config, **changed)
    shutil.rmtree(own, ignore_errors=True)
    for empty in (folder, folder.parent, folder.parent.parent):
        if empty.is_dir() and not any(empty.iterdir()):
            empty.rmdir()


@keep_precision
def _compute(experiment: Experiment, config: Config, seed: int, progress: Progress, map: Map) -> Result:
    spread = {"map": map} if experiment.spreads else {}
    return experiment.compute(config, jax.random.key(seed), progress, **spread)


def _drawer(experiment: Experiment) -> Callable[[Result, Path], None]:
    def draw(result: Result, folder: Path) -> None:
        from tokenmargin.plots.canvas import save_figure

        save_figure(experiment.draw(result), folder)

    return draw


def in_words(outcome: ClaimOutcome) -> str:
    """A claim's outcome on its own instance, as a manifest records it."""
    if outcome.holds is None:
        return f"does not apply ({outcome.applies.value})"
    return f"{'holds' if outcome.holds else 'fails'} (slack {outcome.slack:.1e})"


def failures(saved: Saved) -> list[str]:
    """Names of the numbers and claims of a saved result that fail; a finding is no failure."""
    numbers = [row["name"] for row in saved.summary["numbers"] if row["verdict"] == Verdict.FAILS.value]
    return numbers + [key for key, words in saved.manifest["claims"].items() if words.startswith("fails")]
