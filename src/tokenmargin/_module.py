"""The base class of what is an `equinox.Module` and made by users: losses, methods, models, their arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx

from tokenmargin._checks import bounded


class _Bounded(type(eqx.Module)):  # type: ignore[misc]
    """Looks at arguments before equinox goes through them, where a list that holds itself ends in a SystemError."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        for place, value in enumerate(args, 1):
            bounded(value, f"argument {place} of {cls.__name__}")
        for name, value in kwargs.items():
            bounded(value, name)
        return super().__call__(*args, **kwargs)


if TYPE_CHECKING:
    Module = eqx.Module  # the type checker does not know what it is that `type(eqx.Module)` makes
else:

    class Module(eqx.Module, metaclass=_Bounded):
        """An `equinox.Module` that refuses arguments without an end."""
