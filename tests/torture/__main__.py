"""Run `main(count)` of every module here, or of those named: `python -m tests.torture kills --count 100`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time

import tests.torture


def main() -> int:
    """The exit code: 1 if anything failed."""
    found = sorted(module.name for module in pkgutil.iter_modules(tests.torture.__path__) if module.name[0] != "_")
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(found)}; all when none is named")
    parser.add_argument("--count", type=int, help="how often; each module has its own number")
    parser.add_argument("--seed", type=int, default=0, help="of what is random; other seeds try other things")
    known = parser.parse_args()
    if unknown := set(known.names) - set(found):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    failures = {}
    for name in known.names or found:
        begin = time.perf_counter()
        run = importlib.import_module(f"tests.torture.{name}").main
        failures[name] = run(seed=known.seed) if known.count is None else run(known.count, seed=known.seed)
        print(f"{name}: {failures[name]} failures, {time.perf_counter() - begin:.0f} s", flush=True)
    return int(any(failures.values()))


if __name__ == "__main__":
    sys.exit(main())
