"""Verdicts of a figure over many seeds: a bound that was tuned to one of them fails on the others.

`python -m benchmarks.seeds maxmargin-fig9 --preset paper --seeds 20` computes the figure for the seeds 0 to 19 and
prints every number that is judged: its range over the seeds, what it is held against, and how often each verdict came
out. The exit status is 1 where a number of ours failed for some seed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import jax

from tokenmargin._precision import keep_precision
from tokenmargin._progress import silent
from tokenmargin.experiments.experiment import Number, Result, Verdict
from tokenmargin.experiments.registry import experiments
from tokenmargin.report.number_cells import number_cells


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="+", metavar="ID", help="figures, as `tokenmargin list` names them")
    parser.add_argument("--preset", default="smoke", help="size (default: smoke)")
    parser.add_argument("--seeds", type=int, default=10, help="how many (default: 10)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    known = parser.parse_args(arguments)
    failed = False
    for name in known.ids:
        found = {}
        for seed in range(known.first, known.first + known.seeds):
            found[seed] = _numbers(name, known.preset, seed)
            worst = [number.name for number in found[seed] if number.verdict(known.preset) is Verdict.FAILS]
            print(f"{name}, seed {seed}: {'; '.join(worst) or 'nothing fails'}", flush=True)
        failed |= _table(list(found.values()), known.preset)
    return int(failed)


@keep_precision
def _numbers(name: str, preset: str, seed: int) -> tuple[Number, ...]:
    experiment = experiments()[name]
    found: Result = experiment.compute(experiment.preset(preset), jax.random.key(seed), silent)
    return found.numbers


def _table(runs: list[tuple[Number, ...]], preset: str) -> bool:
    """Print what is judged, by name; whether anything of ours failed."""
    failed = False
    for name in dict.fromkeys(number.name for run in runs for number in run):
        own = [number for run in runs for number in run if number.name == name]
        verdicts = Counter(number.verdict(preset).value for number in own)
        if set(verdicts) <= {Verdict.REPORTED.value, Verdict.NOT_COMPARABLE.value}:
            continue
        failed |= bool(verdicts[Verdict.FAILS.value])
        values, cells = [number.value for number in own], number_cells(own[0].row(preset))
        said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        print(
            f"  {name}: {min(values):.4g} to {max(values):.4g}; paper {cells.paper}, expected {cells.expected}: {said}"
        )
    return failed


if __name__ == "__main__":
    sys.exit(main())
