"""RESULTS.md: what each benchmark printed, with the commit, the day and the machine.

    python -m benchmarks.results flow "one_layer --scaling"     run these, replace their sections
    python -m benchmarks.results --take FILE                    take over the sections of another RESULTS.md

A section is named after its command, so that a second run replaces the first. Where the tree was copied without its
history, name its commit in $TOKENMARGIN_COMMIT.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

from tokenmargin._provenance import commit

RESULTS = Path(__file__).with_name("RESULTS.md")

HEAD = """# Results

What `make bench` printed last, section by section; GPU sections are run by hand where there is one. Written by
`python -m benchmarks.results`: not edited by hand.
"""


def sections_of(text: str) -> dict[str, str]:
    """Body of each section by its title."""
    parts = text.split("\n## ")[1:]
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


def page_of(sections: dict[str, str]) -> str:
    """The page of these sections, in the order of their titles."""
    return HEAD + "".join(f"\n## {title}\n\n{body}\n" for title, body in sorted(sections.items()))


def take(sections: dict[str, str], path: Path = RESULTS) -> None:
    """Put these sections into a page, in place of those with the same titles."""
    there = sections_of(path.read_text()) if path.exists() else {}
    path.write_text(page_of(there | sections))


def run(command: str) -> dict[str, str]:
    """Run one benchmark, show what it prints, and return it as a section."""
    begin, where = datetime.datetime.now(tz=datetime.UTC), machine(command)
    arguments = [sys.executable, "-m", *f"benchmarks.{command}".split()]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout or ():
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait() != 0:
        raise SystemExit(f"`python -m benchmarks.{command}` ended with {process.returncode}: nothing is recorded.")
    printed = "".join(lines).rstrip()
    head = f"`python -m benchmarks.{command}`, {begin:%Y-%m-%d}, commit {commit()}, {where}."
    return {command: f"{head}\n\n```\n{printed}\n```"}


def machine(command: str) -> str:
    """What the numbers were measured on."""
    if "--gpu" in command.split():
        import jax

        return f"on a GPU: {jax.devices()[0].device_kind}"
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    load = os.getloadavg()[0]
    return f"{len(names) or '?'} cores, {names[0] if names else platform.machine()}, load {load:.1f} at the start"


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def main() -> None:
    match sys.argv[1:]:
        case ["--take", path]:
            take(sections_of(Path(path).read_text()))
        case []:
            raise SystemExit(__doc__)
        case commands:
            for command in commands:
                take(run(command))


if __name__ == "__main__":
    main()
