"""The command line: list, reproduce, check, report.

Exit codes: 0 when everything holds, 1 when a verdict fails, 2 for misuse, with one line that says what to do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmargin import __version__
from tokenmargin.errors import DataAbsentError, TokenMarginError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmargin._progress import Progress
    from tokenmargin.experiments.experiment import Config, Experiment
    from tokenmargin.experiments.store import Saved
    from tokenmargin.theory.claim import Claim

HOLDS, FAILED, MISUSE = 0, 1, 2

DESCRIPTION = """\
Which tokens does softmax attention select, and why those?

tokenmargin reproduces the figures of two theory papers and judges every number it can:
  [M] Max-Margin Token Selection in Attention Mechanism
  [E] Attention with Trained Embeddings Provably Selects Important Tokens
"""

EXAMPLES = """\
examples:
  tokenmargin list                                     what can be reproduced
  tokenmargin reproduce maxmargin-fig1                 one figure in seconds (smoke size)
  tokenmargin reproduce maxmargin-fig1 --preset paper  the same at the paper's size
  tokenmargin reproduce maxmargin-fig1 --help          every hyper-parameter of that figure
  tokenmargin reproduce maxmargin-fig1 --lr 0.5        change one
  tokenmargin reproduce all                            every figure, and the page results/index.html
  tokenmargin check                                    every theorem on its own instance
"""


class Misuse(Exception):
    """The command line does not say what to do; the message does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except Misuse as problem:
        print(f"tokenmargin: {problem}", file=sys.stderr)
        return MISUSE
    except TokenMarginError as problem:
        print(f"tokenmargin: {problem}", file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        print("tokenmargin: interrupted; nothing half-written was left behind", file=sys.stderr)
        return 130


def _run(arguments: list[str]) -> int:
    parser = _parser()
    if not arguments:
        parser.print_help()
        return HOLDS
    known, rest = parser.parse_known_args(arguments)
    if rest and known.command != "reproduce":
        raise Misuse(f"{known.command} does not know {rest[0]!r}; see tokenmargin {known.command} --help")
    commands: dict[str, Callable[[argparse.Namespace, list[str]], int]] = {
        "list": _list,
        "reproduce": _reproduce,
        "check": _check,
        "report": _report,
    }
    return commands[known.command](known, rest)


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are one line."""

    def error(self, message: str) -> Any:
        """One line that says what to do."""
        raise Misuse(f"{message}; see {self.prog} --help")


def _parser() -> _Parser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="tokenmargin", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"tokenmargin {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    commands.add_parser("list", help="list figures and what each shows")
    reproduce = commands.add_parser("reproduce", help="reproduce figures and judge their numbers", **REPRODUCE_WORDS)
    _add_reproduce_arguments(reproduce)
    check = commands.add_parser("check", help="check theorems on their own instances")
    check.add_argument("keys", nargs="*", metavar="CLAIM", help="claims to check (default: all)")
    check.add_argument("--problem", type=Path, metavar="FILE", help="check them on your own problem, an .npz file")
    check.add_argument("--markdown", action="store_true", help="print the page of claims of the documents instead")
    check.add_argument("--paper", choices=("maxmargin", "embeddings"), help="only those of one paper")
    report = commands.add_parser("report", help="write index.html from saved results")
    report.add_argument("results", nargs="?", type=Path, default=Path("results"), help="results folder")
    return parser


#: What the help of `reproduce` says around its arguments; -h is its own argument, as one figure's help differs.
REPRODUCE_WORDS: Any = {
    "description": "Compute figures, judge their numbers against the paper's, and write results/<id>/<preset>/ with "
    "result.npz, summary.json, manifest.json, figure.png and figure.pdf, and the page results/index.html.",
    "epilog": "Flags of a figure's own hyper-parameters follow its name: tokenmargin reproduce ID --help lists them.",
    "add_help": False,
}


def _add_reproduce_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="figures, as `tokenmargin list` names them, or all")
    parser.add_argument("--preset", choices=("smoke", "cpu", "paper"), default="smoke", help="size (default: smoke)")
    parser.add_argument("--out", type=Path, default=Path("results"), help="results folder (default: results)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("-h", "--help", action="store_true", help="this help, and with one ID its hyper-parameters")


def _list(_: argparse.Namespace, __: list[str]) -> int:
    from tokenmargin.experiments.registry import experiments

    table = _table("figure", "paper", "what it shows", "claims")
    for experiment in experiments().values():
        _row(
            table,
            experiment.id,
            f"[{experiment.paper}, {experiment.figure}]",
            experiment.title,
            ", ".join(experiment.claims),
        )
    _console().print(table)
    return HOLDS


def _reproduce(known: argparse.Namespace, rest: list[str]) -> int:
    from tokenmargin.experiments.registry import experiments

    available = experiments()
    if known.help and len(known.ids) != 1:
        _reproduce_help()
        return HOLDS
    if not known.ids:
        raise Misuse("name at least one figure, or all; tokenmargin list shows them")
    ids = list(available) if known.ids == ["all"] else known.ids
    for name in ids:
        if name not in available:
            raise Misuse(f"no figure is called {name!r}; tokenmargin list shows their names")
    if known.help:
        _config_from_flags(available[ids[0]], known.preset, ["--help"])
        return HOLDS
    if rest and len(ids) > 1:
        raise Misuse(f"{rest[0]!r} is a flag of one figure's hyper-parameters; name exactly one figure with it")
    configs = {name: _config_from_flags(available[name], known.preset, rest) for name in ids}
    return _reproduce_all([available[name] for name in ids], configs, known)


def _reproduce_all(chosen: list[Experiment], configs: dict[str, Config], known: argparse.Namespace) -> int:
    from tokenmargin.experiments.run import failures, reproduce
    from tokenmargin.report import write_page

    failed: list[str] = []
    missing: list[tuple[str, str]] = []
    for experiment in chosen:
        try:
            with _progress(experiment.id) as progress:
                saved = reproduce(
                    experiment, known.out, known.preset, known.seed, configs[experiment.id], progress=progress
                )
        except DataAbsentError as absent:
            missing.append((experiment.id, f"data absent ({absent})"))
            print(f"{experiment.id}: not reproduced: data absent. {absent}")
            continue
        _show(saved)
        failed += [f"{experiment.id}: {name}" for name in failures(saved)]
    if len(missing) < len(chosen):
        print(f"page: {write_page(known.out, missing=missing)}")
    for name in failed:
        print(f"FAILS  {name}", file=sys.stderr)
    return FAILED if failed else HOLDS


def _config_from_flags(experiment: Experiment, preset: str, flags: list[str]) -> Config:
    """The preset's configuration with flags applied; every field of the dataclass is a flag."""
    if not flags:
        return experiment.preset(preset)
    import tyro

    complaint = StringIO()
    try:
        with redirect_stderr(complaint):
            return tyro.cli(
                experiment.config,
                default=experiment.preset(preset),
                args=flags,
                prog=f"tokenmargin reproduce {experiment.id}",
                description=f"{experiment.title} [{experiment.paper}, {experiment.figure}]. "
                "Beside these: --preset smoke|cpu|paper, --out DIR, --seed N.",
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise SystemExit(0) from None
        raise Misuse(
            f"{experiment.id} does not understand {' '.join(flags)!r}; "
            f"tokenmargin reproduce {experiment.id} --help lists its flags"
        ) from None


def _reproduce_help() -> None:
    parser = _Parser(prog="tokenmargin reproduce", **REPRODUCE_WORDS)
    _add_reproduce_arguments(parser)
    parser.print_help()


def _check(known: argparse.Namespace, _: list[str]) -> int:
    from tokenmargin.theory.registry import claims

    available = claims()
    for key in known.keys:
        if key not in available:
            raise Misuse(f"no claim is called {key!r}; tokenmargin check lists them all")
    papers = {"maxmargin": "M", "embeddings": "E"}
    chosen = [
        claim
        for key, claim in available.items()
        if (not known.keys or key in known.keys) and (known.paper is None or claim.paper == papers[known.paper])
    ]
    if not chosen:
        raise Misuse(f"none of these claims is of the paper {known.paper!r}; tokenmargin check lists them all")
    if known.markdown:
        from tokenmargin.report.claims_page import claims_page

        print(claims_page(chosen), end="")
        return HOLDS
    table = _table("claim", "label", "instance", "applies", "holds", "slack", "because")
    good = True
    for claim in chosen:
        for where, instance in _instances(claim, known.problem):
            outcome = claim.check(instance)
            holds = "-" if outcome.holds is None else "yes" if outcome.holds else "NO"
            slack = "-" if outcome.holds is None else f"{outcome.slack:.1e}"
            label = f"[{claim.paper}, {claim.label}]"
            _row(table, claim.key, label, where, outcome.applies.value, holds, slack, outcome.because)
            good &= outcome.holds is not False
    _console().print(table)
    return HOLDS if good else FAILED


def _instances(claim: Claim[Any, Any], problem: Path | None) -> list[tuple[str, Any]]:
    """A claim's own two instances, or the one a user's problem makes."""
    if problem is None:
        return [("inside", claim.inside()), ("outside", claim.outside())]
    from tokenmargin.theory.problem import load_problem

    given = load_problem(problem)
    return [] if claim.of_problem is None else [(problem.name, claim.of_problem(given))]


def _report(known: argparse.Namespace, _: list[str]) -> int:
    from tokenmargin.report import write_page

    print(f"page: {write_page(known.results)}")
    return HOLDS


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)


def _table(*columns: str) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(Text(name), overflow="fold")
    return table


def _row(table: Any, *cells: str) -> None:
    """Add cells as plain text: square brackets in a citation are not markup."""
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells))


def _show(saved: Saved) -> None:
    """The verdict table of one figure, its sentences, and where it lies."""
    table = _table("number", "ours", "the paper's or a bound", "verdict")
    for row in saved.summary["numbers"]:
        _row(table, row["name"], _short(row["value"]), _stated(row), row["verdict"])
    for key, words in saved.manifest["claims"].items():
        _row(table, f"claim {key}", "", "", words)
    console = _console()
    console.print(f"\n{saved.summary['id']}: {saved.summary['title']}", style="bold", markup=False)
    console.print(table)
    for sentence in saved.summary["sentences"]:
        console.print(sentence, markup=False)
    print(f"figure: {saved.folder / 'figure.png'}")


def _stated(row: dict[str, Any]) -> str:
    if row["paper"] is not None:
        return _short(row["paper"])
    return "-" if row["at_most"] is None else f"at most {_short(row['at_most'])}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


@contextmanager
def _progress(name: str) -> Iterator[Progress]:
    """A bar with the time left, on a terminal; a line per stage elsewhere."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_console(), transient=True) as bars:
        tasks: dict[str, Any] = {"": bars.add_task(name, total=None)}

        def show(done: int, total: int | None, what: str) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(f"{name}: {what}", total=total)
            bars.update(tasks[what], completed=done)

        yield show


if __name__ == "__main__":
    sys.exit(main())
