"""The checker that executes the annotations of the package in tests: beartype, once a call, with shapes by jaxtyping.

`--jaxtyping-packages` in pyproject.toml decorates every function of the package with `jaxtyping.jaxtyped`. What that
wraps around each call, to name the wrong argument in its own words, is slower than most of what is called: arguments
are bound to the signature in Python and checked twice. `jaxtyped` below checks the same annotations with the same
meaning of shapes (a name stands for one number within a call), and leaves the words to beartype.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping._storage import pop_shape_memo, push_shape_memo

#: An int is allowed where a float is meant; what is refused is refused with the error that jaxtyping has for it.
check = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError))

of_jaxtyping = jaxtyping.jaxtyped


def resolved(function: types.FunctionType) -> dict[str, Any]:
    """Annotations without quotation marks; Any for what only the type checker imports."""
    found = {}
    for name, annotation in function.__annotations__.items():
        try:
            found[name] = get_type_hints(
                types.SimpleNamespace(__annotations__={name: annotation}), function.__globals__, include_extras=True
            )[name]
        except NameError:  # only the type checker imports it
            found[name] = Any
    return found


def same(function: types.FunctionType, code: types.CodeType, keywords: dict[str, Any] | None) -> types.FunctionType:
    """A function of the same name and variables with other code and defaults of keywords."""
    other = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    other.__kwdefaults__, other.__qualname__, other.__module__ = keywords, function.__qualname__, function.__module__
    return other


#: The code that checks a function, and the default values that belong to it, by the function's place: one defined
#: within another is a new one at every call of that, and writing the code takes longer than most of what is called.
WRITTEN: dict[tuple[str, str, types.CodeType], types.FunctionType] = {}

#: The name by which such code calls what it checks.
CHECKED = "__beartype_func"


def checking(function: types.FunctionType) -> Callable:
    """A function whose annotations are checked at every call; the code for that is written once for each place."""
    place = function.__module__, function.__qualname__, function.__code__
    plain = same(function, function.__code__, function.__kwdefaults__)
    if (known := WRITTEN.get(place)) is not None and CHECKED in (known.__kwdefaults__ or {}):
        return same(known, known.__code__, known.__kwdefaults__ | {CHECKED: plain})
    plain.__annotations__ = resolved(function)
    written = check(plain)
    if "<locals>" in function.__qualname__ and function.__code__.co_filename != "<string>":  # as dataclasses make them
        WRITTEN[place] = written
    return written


def executed(function: types.FunctionType) -> Callable:
    """A function whose annotations are checked at every call, in a context of its own for the names of axes."""
    checked = checking(function)

    @functools.wraps(function)
    def called(*args, **kwargs):
        __tracebackhide__ = True
        push_shape_memo(NO_ARGUMENTS)
        try:
            return checked(*args, **kwargs)
        finally:
            pop_shape_memo()

    return called


#: jaxtyping reads arguments only for axes written as `{name}`, which this package has none of.
NO_ARGUMENTS: dict[str, Any] = {}


def jaxtyped(thing: Any = None, *, typechecker: Any = None) -> Any:
    """What the import hook calls for every function and class of the package."""
    if thing is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if typechecker is None:
        return of_jaxtyping(thing, typechecker=None)
    if inspect.isclass(thing):
        own = getattr(thing.__init__, "__globals__", {}).get("__name__") == __name__
        if dataclasses.is_dataclass(thing) and not own:
            thing.__init__ = executed(thing.__init__)
        return thing
    if isinstance(thing, types.FunctionType) and not inspect.isgeneratorfunction(thing):
        return executed(thing)
    return of_jaxtyping(thing, typechecker=typechecker)


jaxtyping.jaxtyped = jaxtyped
