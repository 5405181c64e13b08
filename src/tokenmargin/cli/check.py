"""`tokenmargin check`: theorems on their own instances, or on a problem of the user's."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmargin.cli import _console
from tokenmargin.cli._exit import FAILED, HOLDS, Misuse
from tokenmargin.cli._parse import Arguments, RawText, add_scheduler, refuse

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands
    from tokenmargin.theory.claim import Claim, ClaimOutcome
    from tokenmargin.theory.evidence import Evidence
    from tokenmargin.theory.problem import Problem
    from tokenmargin.theory.problem_check import ClaimAnswer

COLUMNS = ("claim", "label", "instance", "applies", "holds", "slack", "because")


def add_to(commands: Commands) -> None:
    """Add `check` to the commands."""
    parser = commands.add_parser(
        "check",
        help="check theorems on their own instances, or on a problem of yours",
        epilog=_file_help(),
        formatter_class=RawText,
    )
    parser.add_argument(
        "keys",
        nargs="*",
        metavar="CLAIM",
        help="claims to check, by name or by a unique ending such as thm3 (default: all)",
    )
    parser.add_argument("--problem", type=Path, metavar="FILE", help="check them on your own problem, an .npz file")
    parser.add_argument("--markdown", action="store_true", help="print the page of claims of the documents instead")
    parser.add_argument("--instances", type=int, metavar="N", help="draw N random instances inside their hypotheses")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="with --instances: write the counts, as JSON; rows of other claims stay",
    )
    parser.add_argument("--evidence", type=Path, metavar="FILE", help="with --markdown: the counts that the page shows")
    add_scheduler(parser, "the claims")
    parser.add_argument("--paper", metavar="KEY", help="only those of one paper, such as maxmargin")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    chosen = _chosen(known.keys, known.paper)
    if known.markdown:
        from tokenmargin.report.claims_page import claims_page
        from tokenmargin.theory.evidence import read_evidence

        _console.data(claims_page(chosen, None if known.evidence is None else read_evidence(known.evidence)))
        return HOLDS
    if known.instances is not None:
        return _on_random_instances(chosen, known.instances, known.out, known.scheduler)
    if known.problem is not None:
        return _on_a_problem(chosen, known.problem, known.scheduler)
    asked = [(claim, where) for claim in chosen for where in ("inside", "outside")]
    from tokenmargin.parallel import map_of

    with map_of(known.scheduler) as over:
        outcomes = list(over(_on_its_own, [claim.key for claim, _ in asked], [where for _, where in asked]))
    _console.table(COLUMNS, [_row(*which, outcome) for which, outcome in zip(asked, outcomes, strict=True)])
    return FAILED if any(outcome.holds is False for outcome in outcomes) else HOLDS


def _on_its_own(key: str, where: str) -> ClaimOutcome:
    """A claim on its instance inside or outside; by name, which is all that another machine needs."""
    from tokenmargin.theory.registry import claims

    claim = claims()[key]
    return claim.check(claim.inside() if where == "inside" else claim.outside())


def _answered(given: Problem, key: str) -> ClaimAnswer:
    """A claim, by name, on a user's problem."""
    from tokenmargin.theory.problem_check import answer
    from tokenmargin.theory.registry import claims

    return answer(claims()[key], given)


def _on_random_instances(chosen: list[Claim[Any, Any]], wanted: int, out: Path | None, scheduler: str | None) -> int:
    """A row for every mutation of every law: how often hypotheses and claim held, and the mutation failed."""
    from tokenmargin.theory.evidence import gather_all, laws, read_evidence, write_evidence
    from tokenmargin.theory.registry import claims

    if wanted < 1:
        raise Misuse(f"--instances {wanted}: draw at least one")
    keys = [claim.key for claim in chosen if claim.key in laws()]
    without = ", ".join(claim.key for claim in chosen if claim.key not in laws())
    if not keys:
        raise Misuse(f"no law draws random instances of {without}: name one in `laws` of its PAPER")
    if without:
        _console.complaint(f"left out, as no law draws random instances: {without}")
    before = read_evidence(out) if out is not None and out.is_file() else {}  # what cannot be added to is said at once
    from tokenmargin.parallel import map_of

    with _console.progress("evidence") as progress, map_of(scheduler) as over:
        found = gather_all(keys, wanted, map=over, progress=progress)
    rows = []
    places = {id(one): place for key in {one.key for one in found} for place, one in enumerate(_of(found, key), 1)}
    for one in found:
        numbers = (str(places[id(one)]), f"{one.inside} of {one.drawn}", one.held, one.refuted, one.not_decided)
        counts = (one.key, *(str(number) for number in numbers))
        rows += [(*counts, name, f"{one.failed[name]} of {asked}") for name, asked in one.asked.items()]
        rows += [] if one.asked else [(*counts, "-", "-")]
    _console.table(("claim", "law", "inside", "held", "refuted", "not decided", "mutation", "failed"), rows)
    if out is not None:
        table = before | {one.key: _of(found, one.key) for one in found}
        write_evidence([one for key in claims() for one in table.get(key, ())], out)
    return FAILED if any(one.refuted for one in found) else HOLDS


def _of(found: list[Evidence], key: str) -> list[Evidence]:
    """The laws of one claim."""
    return [one for one in found if one.key == key]


def _on_a_problem(chosen: list[Claim[Any, Any]], path: Path, scheduler: str | None) -> int:
    """A row for every claim; where the file lets none of them be asked, that is a misuse, and says what to add."""
    from tokenmargin.theory.problem import load_problem

    given = load_problem(path)
    from tokenmargin.parallel import map_of

    with map_of(scheduler) as over:
        found = over(partial(_answered, given), [claim.key for claim in chosen])
        answers = list(zip(chosen, found, strict=True))
    rows = [
        _row(claim, path.name, said.outcome)
        if said.outcome is not None
        else (claim.key, _label(claim), path.name, "-", "-", "-", f"needs {', '.join(said.needs)}")
        for claim, said in answers
    ]
    _console.table(COLUMNS, rows)
    outcomes = [said.outcome for _, said in answers if said.outcome is not None]
    if not outcomes:
        wanted = dict.fromkeys(name for _, said in answers for name in said.needs)
        raise Misuse(
            f"{path} lets none of these claims be asked: add {', '.join(wanted)}; see tokenmargin check --help"
        )
    return FAILED if any(outcome.holds is False for outcome in outcomes) else HOLDS


def _chosen(keys: list[str], paper: str | None) -> list[Claim[Any, Any]]:
    """The claims of these names and of this paper, in the order of the papers."""
    from tokenmargin.theory.registry import claims, found_name

    available = claims(paper)
    kind = "claim" if paper is None else f"claim of the paper {paper!r}"
    wanted = {found_name(key, available, kind) for key in keys} or set(available)
    return [claim for key, claim in available.items() if key in wanted]


def _file_help() -> str:
    """Help on the arrays that a problem file may hold."""
    from tokenmargin.theory.problem_fields import FIELDS

    lines = [f"  {name:<12} {what}" for name, what in FIELDS.items()]
    return "\n".join(
        [
            "a problem file is an .npz of plain arrays, written by numpy.savez. It holds labels, and tokens with",
            "a head, or counts, or both; a claim that needs more than it holds says what:",
            *lines,
        ]
    )


def _label(claim: Claim[Any, Any]) -> str:
    return f"[{claim.paper}, {claim.label}]"


def _row(claim: Claim[Any, Any], where: str, outcome: ClaimOutcome) -> tuple[str, ...]:
    holds = "-" if outcome.holds is None else "yes" if outcome.holds else "NO"
    slack = "-" if outcome.holds is None else f"{outcome.slack:.1e}"
    return claim.key, _label(claim), where, outcome.applies.value, holds, slack, outcome.because
