"""The API reference, made while the site is built: a page a namespace, with every name of its `__all__`.

A page that is written by hand forgets names. What is documented here is what can be imported; a name that several
namespaces offer is documented once, in the one that defines it, and linked from the others.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

SRC = Path(__file__).resolve().parents[2] / "src"
if str(SRC) not in sys.path:  # the documentation is that of this tree, installed or not
    sys.path.insert(0, str(SRC))

PAGE = "reference.md"
#: Written below the namespaces on the hand-written page.
MARK = "<!-- namespaces -->"
#: Commands and drawings are no namespaces; the figures are values of `experiments`.
LEFT_OUT = ("cli", "plots")
#: Modules that offer more than their namespace does, by the namespace on whose page they stand.
MORE = {
    "theory": ("claim", "registry", "problem", "problem_check", "certificate_file"),
    "training": ("examples", "batches"),
    "first_step": ("bounds", "wishart"),
    "experiments": ("experiment", "run", "store"),
    "parallel": ("shards",),
}


@dataclass(frozen=True)
class Entry:
    """A public name: where it is imported from, where it is defined, and what it is in one sentence."""

    namespace: str
    name: str
    thing: Any

    @property
    def public(self) -> str:
        """The path by which a user imports it."""
        return f"{self.namespace}.{self.name}"

    @property
    def defined(self) -> str | None:
        """The path of its definition, for a class or a function of this package; None for a value."""
        module, name = getattr(self.thing, "__module__", ""), getattr(self.thing, "__qualname__", "")
        is_own = str(module).startswith("tokenmargin") and inspect.isroutine(self.thing) | inspect.isclass(self.thing)
        return f"{module}.{name}" if is_own and name else None

    @property
    def key(self) -> str:
        """One for each thing, by however many paths it is imported; values of one name may be different things."""
        return self.defined or f"{self.name} {id(self.thing)}"

    @property
    def sentence(self) -> str:
        """The first paragraph of its docstring, or the comment above a value."""
        if isinstance(self.thing, ModuleType) or self.defined:
            told = inspect.getdoc(self.thing) or ""
        else:
            told = comments().get(self.name, "")
        return told.split("\n\n")[0].replace("\n", " ").strip().replace("|", r"\|")


@cache
def comments() -> dict[str, str]:
    """What stands in `#:` comments above the values of the package, by their names."""
    found: dict[str, str] = {}
    for path in sorted((SRC / "tokenmargin").rglob("*.py")):
        for lines, name in re.findall(r"((?:^#:.*\n)+)^(\w+)(?:: [^=]+)? = ", path.read_text(), flags=re.MULTILINE):
            found.setdefault(name, " ".join(line.removeprefix("#:").strip() for line in lines.splitlines()))
    return found


@cache
def namespaces() -> dict[str, ModuleType]:
    """Every public namespace by the path that users write, the package itself first."""
    package = importlib.import_module("tokenmargin")
    found = {"tokenmargin": package}
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_") and module.name not in LEFT_OUT:
            found[f"tokenmargin.{module.name}"] = importlib.import_module(f"tokenmargin.{module.name}")
    papers = found.pop("tokenmargin.papers")  # which offers nothing but its folders
    for folder in pkgutil.iter_modules(papers.__path__, "tokenmargin.papers."):
        found[folder.name] = importlib.import_module(folder.name)
    found |= {
        f"tokenmargin.{name}": getattr(package, name)
        for name in package.__all__
        if isinstance(getattr(package, name), ModuleType)
    }
    return {path: module for path, module in found.items() if hasattr(module, "__all__")}


@cache
def owners() -> dict[str, Entry]:
    """The one place where each thing is documented: the namespace in whose modules it is defined, else the first."""
    chosen: dict[str, Entry] = {}
    for path, module in reversed(namespaces().items()):
        for name in module.__all__:
            entry = Entry(path, name, getattr(module, name))
            if isinstance(entry.thing, ModuleType):
                continue
            key = entry.key
            home = (entry.defined or "").startswith(f"{module.__name__}.") and path != "tokenmargin"
            if key not in chosen or home:
                chosen[key] = entry
    return chosen


def page_of(path: str) -> str:
    """The file of a namespace's page."""
    return PAGE if path == "tokenmargin" else f"reference-{path.removeprefix('tokenmargin.').replace('.', '-')}.md"


def link(entry: Entry) -> str:
    """A link to where a name is documented."""
    if isinstance(entry.thing, ModuleType):
        return f"[`{entry.name}`]({page_of(entry.public)})"
    owner = owners()[entry.key]
    return f"[`{entry.name}`]({page_of(owner.namespace)}#{owner.public})"


def table(path: str) -> str:
    """All names of a namespace, each with a sentence."""
    entries = [Entry(path, name, getattr(namespaces()[path], name)) for name in namespaces()[path].__all__]
    rows = [f'| <a id="{entry.public}-listed"></a>{link(entry)} | {entry.sentence} |' for entry in entries]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def section(entry: Entry) -> str:
    """The documentation of one name, under an anchor by which it is imported."""
    if entry.defined is None:
        value = "" if len(repr(entry.thing)) > 100 else f" `{entry.thing!r}`"
        return f"## `{entry.name}` {{ #{entry.public} }}\n\n{entry.sentence}{value}\n"
    anchor = "" if entry.defined == entry.public else f'<a id="{entry.public}"></a>\n\n'
    options = "    options:\n      show_root_full_path: false\n      heading_level: 2\n"
    return f"{anchor}::: {entry.defined}\n{options}\n{fields(entry)}"


def fields(entry: Entry) -> str:
    """A table of the fields of a class that its docstring does not explain, with the comments beside them."""
    if not inspect.isclass(entry.thing) or not dataclasses.is_dataclass(entry.thing):
        return ""
    told, rows = inspect.getdoc(entry.thing) or "", []
    written: dict[str, tuple[str, str]] = {}
    for parent in reversed([each for each in entry.thing.__mro__ if each.__module__.startswith("tokenmargin")]):
        line = r"^    (\w+): ([^=#\n]+?)(?: = [^#\n]*)?(?:\s*#: (.*))?$"
        for name, kind, comment in re.findall(line, inspect.getsource(parent), flags=re.MULTILINE):
            written.setdefault(name, (kind.strip().replace("|", r"\|"), comment))
    for name in inspect.signature(entry.thing).parameters:
        if not re.search(rf"^\s*{name}:", told, flags=re.MULTILINE):
            kind, comment = written.get(name, ("", ""))
            rows.append(f"| `{name}` | `{kind}` | {comment.replace('|', chr(92) + '|')} |")
    head = [f"**Fields of `{entry.name}`**", "", "| field | type | what it is |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""]) if rows else ""


def namespace_page(path: str) -> str:
    """The page of one namespace."""
    module = namespaces()[path]
    own = [entry for entry in owners().values() if entry.namespace == path]
    own.sort(key=lambda entry: entry.name.lower())
    more = MORE.get(path.removeprefix("tokenmargin."), ())
    parts = [f"# {path}\n", f"{inspect.getdoc(module)}\n", f"`from {path} import ...`\n", table(path), ""]
    parts += [section(entry) for entry in own]
    parts += [f"::: {module.__name__}.{name}\n" for name in more]
    return "\n".join(parts)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the namespaces below the reference in the navigation."""
    pages = [{path: page_of(path)} for path in namespaces() if path != "tokenmargin"]
    for place, item in enumerate(config.nav or []):
        if isinstance(item, dict) and list(item.values()) == [PAGE]:
            config.nav[place] = {next(iter(item)): [{"tokenmargin": PAGE}, *pages]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the namespaces."""
    for path in namespaces():
        if path != "tokenmargin":
            files.append(File.generated(config, page_of(path), content=namespace_page(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Fill in the list of names on the page that is written by hand."""
    if page.file.src_uri != PAGE:
        return markdown
    own = [section(entry) for entry in owners().values() if entry.namespace == "tokenmargin"]
    return markdown.replace(MARK, "\n\n".join([table("tokenmargin"), *own]))
