"""A change put into the running package: the functions that it touches get the code of the changed file."""

from __future__ import annotations

import gc
import inspect
import sys
from collections import defaultdict
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from tests.mutation.mutants import Mutant

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tokenmargin"

Pairs = list[tuple[CodeType, CodeType]]


def inner(code: CodeType) -> list[CodeType]:
    """The functions, lambdas and classes inside a piece of code, in its order."""
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def changed_functions(old: CodeType, new: CodeType) -> Pairs | None:
    """Each function that differs, outer ones first; None where what runs during the import differs."""
    if old.co_flags & inspect.CO_OPTIMIZED:  # a function, and not a module or a class
        return [(old, new), *_deeper(old, new)] if _own(old) != _own(new) or _deeper(old, new) else []
    return None if _own(old) != _own(new) or (found := _inside(old, new)) is None else found


def _own(code: CodeType) -> tuple:
    constants = [(type(const), repr(const)) for const in code.co_consts if not isinstance(const, CodeType)]
    return code.co_code, code.co_names, constants, len(inner(code))


def _inside(old: CodeType, new: CodeType) -> Pairs | None:
    parts = [changed_functions(*pair) for pair in zip(inner(old), inner(new), strict=True)]
    return None if None in parts else [pair for part in parts for pair in part or []]


def _deeper(old: CodeType, new: CodeType) -> Pairs:
    """As `_inside`, of a function: even a class in it is made anew whenever it runs."""
    pairs = list(zip(inner(old), inner(new), strict=False))
    return [each for pair in pairs for each in ([pair] if _own(pair[0]) != _own(pair[1]) else []) + _deeper(*pair)]


def module_of(path: str) -> ModuleType | None:
    """The module of a file of the package, if it is loaded."""
    name = ".".join(("tokenmargin", *Path(path).with_suffix("").parts)).removesuffix(".__init__")
    return sys.modules.get(name)


def changes_of(mutant: Mutant, source: str) -> Pairs | None:
    """The functions that a change touches, with their code before and after it, compiled as the module was."""
    if (module := module_of(mutant.path)) is None:
        return None
    compiled = [
        module.__loader__.source_to_code(text.encode(), module.__file__) for text in (source, mutant.applied(source))
    ]
    return changed_functions(*compiled)


def live_functions() -> dict[CodeType, list[FunctionType]]:
    """Every function of the package that exists, by its code."""
    gc.unfreeze()
    found = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(str(SOURCE)):
            found[each.__code__].append(each)
    gc.freeze()
    return found


def swap(pairs: Pairs, live: dict[CodeType, list[FunctionType]]) -> None:
    """Give every such function its new code."""
    for old, new in pairs:
        for function in live.get(old, []):
            function.__code__ = new
