"""Names of a package that are found when they are asked for.

`import tokenmargin` is quick, and prediction needs no JAX. So a package's `__init__` imports its public names below
`if TYPE_CHECKING:`, each as itself, which tells type checkers that it is public, and calls `found_on_demand`: the same
lines then serve at run time, and are its `__all__`.
"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def found_on_demand(package: str, init: str) -> None:
    """Let a package, by its `__name__` and `__file__`, import names of its `if TYPE_CHECKING:` block on first use."""
    module, homes = sys.modules[package], _homes(Path(init).read_text(encoding="utf-8"))
    module.__dict__.update({"_homes": homes, "__all__": module.__dict__.get("__all__", sorted(homes))})
    module.__class__ = _Package


def _homes(source: str) -> dict[str, tuple[str, str]]:
    """Each name that the type checker is told of, with its module and its name there."""
    blocks = (node.body for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = (node for block in blocks for node in block if isinstance(node, ast.ImportFrom) and node.module)
    return {a.asname or a.name: (str(node.module), a.name) for node in imports for a in node.names}


class _Package(ModuleType):
    """A package whose public names are imported on first use, and then kept."""

    _homes: dict[str, tuple[str, str]]

    def __getattr__(self, name: str) -> Any:
        """Import a public name from its module."""
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home, own_name = self._homes[name]
        module = import_module(home)
        is_submodule = module is self or not hasattr(module, own_name)
        value = import_module(f"{home}.{own_name}") if is_submodule else getattr(module, own_name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep a submodule from hiding the function of the same name: `data.scores` is the function."""
        home, _ = self._homes.get(name, (self.__name__, name))
        if home == self.__name__ or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        """List the public names alone, for completion at a prompt."""
        return sorted(self.__dict__["__all__"])
