"""The cases of tests/worst_input.txt, tried one after the other; what came of each as JSON, for a test to read."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from inspect import isabstract, isclass, isfunction, signature
from pathlib import Path
from typing import Any

import tokenmargin as tm
from tests.torture._bad_values import BAD_VALUES
from tests.torture._call import HangError, outcome, patience
from tests.torture._entries import folder
from tests.torture._entries_of_texts import all_entries
from tokenmargin.papers.maxmargin import toys

#: One case a line: entry | argument | bad value.
TABLE = Path(__file__).parents[1] / "worst_input.txt"


#: Where public names are looked for.
NAMESPACES = (
    *("", ".data", ".attention", ".margin", ".models", ".training", ".first_step", ".theory", ".classify"),
    *(".sources", ".text", ".probe", ".parallel", ".parallel.shards", ".verify"),
)

#: What every required argument of a public name is, at once: a name that has no entry is tried with these alone.
ALL_WRONG = ("None", "an object", "a string", "a number", "a dict", "an empty list", "a ragged list", "a matrix")


def public() -> dict[str, Callable[..., Any]]:
    """Every public function, and every class that is no enumeration, exception, protocol or abstract."""
    found = {}
    for namespace in NAMESPACES:
        module = import_module(f"tokenmargin{namespace}")
        for name in module.__all__:
            value = getattr(module, name)
            is_value = isclass(value) and not issubclass(value, Enum | BaseException) and not isabstract(value)
            if isfunction(value) or (is_value and not getattr(value, "_is_protocol", False)):
                found[f"tokenmargin{namespace}.{name}"] = value
    return found


def all_wrong(function: Callable[..., Any], bad: str) -> dict[str, Any]:
    """Every argument that must be given, wrong."""
    needed = [one for one in signature(function).parameters.values() if one.default is one.empty]
    return {one.name: BAD_VALUES[bad]() for one in needed if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}


def interrupted() -> str:
    """Whether a signal ends a descent that would take an hour; how Ctrl-C is heard, and no other process is needed."""
    try:
        with patience(2):
            how = {"steps": 10**9, "keep_path": False}
            tm.follow(tm.AttentionRisk(toys.fig8()), [1.0, 0.5], tm.Descent(0.1), **how)
    except HangError:
        return "interrupted"
    return "not interrupted"


def main() -> None:
    """Print {case: outcome}; with a number, as many calls of the fuzzer too: its failures, and what it drew from."""
    from tests.torture.fuzz_calls import failures, without_entry  # which ask this file for public names

    logging.disable()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a wrong path may be taken for a data set to download
    table = TABLE.read_text(encoding="utf-8").splitlines()
    os.chdir(folder())  # a string that is taken for a path leads here
    entries = all_entries()
    found: dict[str, Any] = {}
    for line in table:
        name, argument, bad = line.split("|")
        function, arguments = entries[name]
        assert argument in arguments, line
        found[line] = outcome(function, {**arguments, argument: BAD_VALUES[bad]()})
    for name, function in public().items():
        for bad in ALL_WRONG:
            if arguments := all_wrong(function, bad):
                found[f"{name}|everything|{bad}"] = outcome(function, arguments)
    found["a billion steps, and a signal"] = interrupted()
    fuzzed, drawn = failures(entries, int(sys.argv[1])) if sys.argv[1:] else ({}, 0)
    known = {getattr(function, "__wrapped__", function) for function, _ in (entries | without_entry(entries)).values()}
    needing = {name: getattr(one, "__wrapped__", one) for name, one in public().items() if all_wrong(one, "None")}
    undrawn = [name for name, one in needing.items() if one not in known]
    print(json.dumps({"found": found, "fuzzed": fuzzed, "drawn": drawn, "right": len(entries), "undrawn": undrawn}))


if __name__ == "__main__":
    main()
