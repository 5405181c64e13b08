"""The command line: fit, explain, predict, export, compare, probe, graph for people with texts, others for the papers.

Exit codes: 0 when everything holds, 1 when a verdict fails, 2 for misuse, with one line that says what to do, 3 when a
figure that was named lacks its data, 70 for a fault of the program itself, and 130 when interrupted.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
import traceback
from collections.abc import Sequence

from tokenmargin import __version__
from tokenmargin.cli import (
    _compiler,
    _console,
    check,
    compare,
    explain,
    export,
    fit,
    graph,
    list_papers,
    playground,
    probe,
    report,
    reproduce,
    verify,
)
from tokenmargin.cli._exit import HOLDS, INTERNAL, INTERRUPTED, MISUSE, Misuse
from tokenmargin.cli._parse import program
from tokenmargin.errors import TokenMarginError

__all__ = ["main"]

DESCRIPTION = """\
Which tokens does softmax attention select, and why those?

tokenmargin learns from labelled texts which words decide, and shows them on one page. It also reproduces the figures of
two theory papers and judges every number it can:
  [M] Max-Margin Token Selection in Attention Mechanism
  [E] Attention with Trained Embeddings Provably Selects Important Tokens
"""

EXAMPLES = """\
examples:
  tokenmargin fit reviews.csv                          which words decide: one page, a model, a table
  tokenmargin explain fit-reviews 'Not bad at all.'    the words that decided a text
  tokenmargin predict fit-reviews new.csv              the class of every text of a file
  tokenmargin export fit-reviews --js                  a scorer without Python: JavaScript, ONNX or JSON
  tokenmargin compare reviews.csv                      ours beside SHAP, LIME and others, judged
  tokenmargin probe all-MiniLM-L6-v2 reviews.csv       what a pretrained model's [CLS] selects; does that decide?
  tokenmargin graph reviews.csv                        which words compete to come next, which are ruled out
  tokenmargin playground                               a page on which tokens are dragged and limits move along
  tokenmargin list                                     what can be reproduced
  tokenmargin reproduce maxmargin-fig1                 one figure in seconds (smoke size)
  tokenmargin reproduce maxmargin-fig1 --preset paper  the same at the paper's size
  tokenmargin reproduce maxmargin-fig1 --help          every hyper-parameter of that figure
  tokenmargin reproduce maxmargin-fig1 --lr 0.5        change one
  tokenmargin reproduce all                            every figure, and the page results/index.html
  tokenmargin check                                    every theorem on its own instance
  tokenmargin check --problem problem.npz              every theorem on a problem of yours
  tokenmargin verify certificate.json                  a proof from a file, in exact arithmetic

Compiled programs are kept in the user's cache folder, for the next run; TOKENMARGIN_COMPILED=off keeps none.
"""

#: Commands in the order in which the help lists them.
COMMANDS = (fit, explain, export, compare, probe, graph, list_papers, reproduce, check, verify, report, playground)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # redirected on Windows, or in the locale C, it may not know a quote
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(words)
    except (Misuse, TokenMarginError) as problem:
        _console.complaint(f"tokenmargin: {problem}")
        return MISUSE
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (what is still in the buffer goes there at exit)
        return HOLDS
    except OSError as problem:
        where = f" ({problem.filename})" if problem.filename else ""
        _console.complaint(
            f"tokenmargin: {problem.strerror or problem}{where}; nothing half-written was left behind, and what was "
            "there before is as it was"
        )
        return MISUSE
    except KeyboardInterrupt:
        _console.complaint(
            "tokenmargin: interrupted; nothing half-written was left behind. To go on: "
            f"{shlex.join(['tokenmargin', *words])}"
        )
        return INTERRUPTED
    except Exception as fault:  # Python's own exit code for it, 1, would read as a refuted claim
        traceback.print_exc()
        _console.complaint(
            f"tokenmargin: a fault of this program, {type(fault).__name__}; nothing is refuted by it. Please report "
            "the lines above."
        )
        return INTERNAL


def _run(arguments: list[str]) -> int:
    parser, commands = program(DESCRIPTION, EXAMPLES, __version__)
    for command in COMMANDS:
        command.add_to(commands)
    if not arguments:
        parser.print_help()
        return HOLDS
    known, rest = parser.parse_known_args(arguments)
    known.words = arguments
    _compiler.prepare()
    exit_code: int = known.run(known, rest)
    return exit_code
