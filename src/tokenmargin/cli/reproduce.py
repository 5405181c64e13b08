"""`tokenmargin reproduce`: figures computed again, their numbers judged, and the page of results written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tokenmargin.cli import _console
from tokenmargin.cli._config_flags import config_from_flags
from tokenmargin.cli._exit import DATA_ABSENT, FAILED, HOLDS, Misuse
from tokenmargin.cli._parse import Arguments, add_scheduler
from tokenmargin.errors import DataAbsentError

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands, Parser
    from tokenmargin.experiments.experiment import Config, Experiment
    from tokenmargin.experiments.store import Saved

DESCRIPTION = (
    "Compute figures, judge their numbers against the paper's, and write results/<id>/<preset>/ with "
    "result.npz, summary.json, manifest.json, figure.png and figure.pdf, and the page results/index.html. "
    "Exit status: 1 where something that we expect fails; 0 where it does not, also where a number refutes the "
    "paper, which is printed as a finding; 2 for a misuse; 3 where the data of a figure that was named are absent."
)

EPILOG = "Flags of a figure's own hyper-parameters follow its name: tokenmargin reproduce ID --help lists them."


def add_to(commands: Commands) -> None:
    """Add `reproduce` to the commands."""
    # -h is an argument of its own here: what it shows depends on whether a figure was named.
    parser = commands.add_parser(
        "reproduce",
        help="reproduce figures and judge their numbers",
        description=DESCRIPTION,
        epilog=EPILOG,
        add_help=False,
    )
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="figures, as `tokenmargin list` names them or by a unique ending, or all"
    )
    parser.add_argument("--preset", choices=("smoke", "cpu", "paper"), default="smoke", help="size (default: smoke)")
    parser.add_argument("--out", type=Path, default=Path("results"), help="results folder (default: results)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    add_scheduler(parser, "figures of many parts, such as random trials,")
    parser.add_argument("-h", "--help", action="store_true", help="this help, and with one ID its hyper-parameters")
    parser.set_defaults(run=lambda known, rest: _run(parser, known, rest))


def _run(parser: Parser, known: Arguments, rest: list[str]) -> int:
    if known.help and len(known.ids) != 1:
        parser.print_help()
        return HOLDS
    chosen = _chosen(known.ids)
    flags = ["--help"] if known.help else rest
    if rest and len(chosen) > 1:
        raise Misuse(f"{rest[0]!r} is a flag of one figure's hyper-parameters; name exactly one figure with it")
    # All of them before any is computed: a misuse of the last is said at once.
    configs = [config_from_flags(experiment, experiment.preset(known.preset), flags) for experiment in chosen]
    return _reproduce(chosen, configs, known)


def _chosen(ids: list[str]) -> list[Experiment]:
    from tokenmargin.experiments.registry import experiments
    from tokenmargin.theory.registry import found_name

    available = experiments()
    if not ids:
        raise Misuse("name at least one figure, or all; tokenmargin list shows them")
    if ids == ["all"]:
        return list(available.values())
    return [available[found_name(name, available, "figure")] for name in ids]


def _reproduce(chosen: list[Experiment], configs: list[Config], known: Arguments) -> int:
    from tokenmargin.experiments.experiment import Verdict
    from tokenmargin.experiments.run import check_ready, failures, reproduce
    from tokenmargin.parallel import map_of
    from tokenmargin.report import write_page
    from tokenmargin.report.number_cells import finding

    check_ready(known.out)
    _check_spreads(chosen, known)
    failed: list[str] = []
    findings: list[str] = []
    missing: list[tuple[str, str]] = []
    with map_of(known.scheduler) as over:
        for experiment, config in zip(chosen, configs, strict=True):
            try:
                with _console.progress(experiment.id) as progress:
                    saved = reproduce(experiment, known.out, known.preset, known.seed, config, progress, over)
            except DataAbsentError as absent:
                missing.append((experiment.id, f"data absent ({absent})"))
                _console.line(f"{experiment.id}: not reproduced: data absent. {absent}")
                continue
            _show(saved)
            failed += [f"{experiment.id}: {name}" for name in failures(saved)]
            rows = [row for row in saved.summary["numbers"] if row["verdict"] == Verdict.FINDING.value]
            findings += [f"{experiment.id}: {finding(row)}" for row in rows]
    if len(missing) < len(chosen):
        _console.line(f"page: {write_page(known.out, missing=missing)}")
    for sentence in findings:
        _console.line(f"finding: {sentence}")
    for name in failed:
        _console.complaint(f"FAILS  {name}")
    if failed:
        return FAILED
    return DATA_ABSENT if missing and known.ids != ["all"] else HOLDS


def _check_spreads(chosen: list[Experiment], known: Arguments) -> None:
    """Complain where a cluster is asked for that no figure would use; `all` uses it where it can."""
    from tokenmargin.experiments.registry import experiments

    if known.scheduler is not None and not any(experiment.spreads for experiment in chosen):
        able = ", ".join(name for name, experiment in experiments().items() if experiment.spreads)
        raise Misuse(f"{chosen[0].id} is computed in one piece: --scheduler is for {able}")


def _show(saved: Saved) -> None:
    """The verdict table of one figure, its sentences, and where it lies."""
    from tokenmargin.report.number_cells import number_cells

    numbers = [number_cells(row) for row in saved.summary["numbers"]]
    rows = [(each.name, each.ours, each.paper, each.expected, each.verdict) for each in numbers]
    rows += [(f"claim {key}", "", "", "", words) for key, words in saved.manifest["claims"].items()]
    _console.heading(f"\n{saved.summary['id']}: {saved.summary['title']}")
    _console.table(("number", "ours", "the paper's", "expected", "verdict"), rows)
    for sentence in saved.summary["sentences"]:
        _console.paragraph(sentence)
    _console.line(f"figure: {saved.folder / 'figure.png'}")
