"""Every public entry with one, two or three wrong arguments: an answer or an error of ours, within seconds.

`python -m tests.torture.fuzz_calls 10000`. All single wrong arguments are tried before pairs are. Public names
are found by themselves: one without an entry is called with nothing right.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter

from tests.torture._bad_values import BAD_VALUES, is_too_long
from tests.torture._call import outcome
from tests.torture._entries import SLOW, Entries, folder
from tests.torture._entries_of_answers import answer_entries
from tests.torture._entries_of_texts import all_entries
from tests.torture._worst import all_wrong, public

COUNT = 12_000

Case = tuple[str, tuple[tuple[str, str], ...]]


def cases(entries: Entries, count: int, seed: int = 0) -> list[Case]:
    """(entry, ((argument, bad value), ...)): a shuffle of the single ones, then random pairs and triples."""
    rng = random.Random(seed)
    single = [
        (name, ((argument, bad),))
        for name, (_, arguments) in entries.items()
        for argument in arguments
        for bad in BAD_VALUES
        if not is_too_long(argument, bad)
    ]
    rng.shuffle(single)
    found: list[Case] = single[:count]
    names = list(entries)
    while len(found) < count:
        name = rng.choice(names)
        several = rng.sample(list(entries[name][1]), k=min(len(entries[name][1]), rng.choice((2, 3))))
        wrong = tuple((argument, rng.choice(list(BAD_VALUES))) for argument in several)
        if not any(is_too_long(*one) for one in wrong):
            found.append((name, wrong))
    return found


def without_entry(entries: Entries) -> Entries:
    """Public names that nobody has written right arguments for: every argument that must be given is wrong at once."""
    known = {getattr(function, "__wrapped__", function) for function, _ in entries.values()}
    return {
        name: (function, all_wrong(function, "None"))
        for name, function in public().items()
        if getattr(function, "__wrapped__", function) not in known and all_wrong(function, "None")
    }


def tried(entries: Entries, case: Case) -> str:
    """What came of a case."""
    name, wrong = case
    function, arguments = entries[name]
    return outcome(function, arguments | {argument: BAD_VALUES[bad]() for argument, bad in wrong})


def failures(right: Entries, count: int, seed: int = 0) -> tuple[Counter[str], int]:
    """What should not have come out, how often, and the number of entries; each is printed when it is first seen."""
    drawn = right | answer_entries(right, public())
    entries = {name: entry for name, entry in (drawn | without_entry(drawn)).items() if name not in SLOW}
    found = Counter[str]()
    for case in cases(entries, count, seed):
        said = tried(entries, case)
        if said not in ("answered", "refused"):
            key = f"{case[0]}: {said}"
            if key not in found:  # at once: the rest may take an hour
                print(f"  {key}\n    {case[1]}", file=sys.stderr, flush=True)
            found[key] += 1
    return found, len(entries)


def refused_when_right(right: Entries) -> list[str]:
    """Entries whose right arguments are no right ones: of these, a wrong one would be refused for another's sake."""
    return [name for name, (function, arguments) in right.items() if outcome(function, arguments) == "refused"]


def main(count: int = COUNT, seed: int = 0) -> int:
    """The number of different failures."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a wrong path may be taken for a data set to download
    right = all_entries()
    os.chdir(folder())  # a string that is taken for a path leads here
    found, entries = failures(right, count, seed)
    for name in refused_when_right(right):
        found[f"{name}: refused with all arguments right"] += 1
    for key, times in found.items():
        print(f"  {times} times {key}")
    print(f"{count} calls of {entries} public entries with wrong arguments: {len(found)} failures")
    return len(found)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
