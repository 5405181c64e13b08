"""A paper: its claims, figures, laws and errata, named by modules that are loaded on demand.

Papers are found through the entry points of the group `tokenmargin.papers`, whose names are the papers' keys and whose
values are `Paper` objects. Entry points of our own papers are made from the folders of `tokenmargin/papers`, as a
checkout on PYTHONPATH has no metadata, or old ones.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from importlib.util import find_spec
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin.errors import InvalidInputError

#: The entry-point group in which a package announces its papers.
GROUP = "tokenmargin.papers"


@checked
@dataclass(frozen=True)
class Erratum:
    """A place where a paper is wrong, or right only if read with care.

    Args:
        where: cited place, "[M, Thm 2]".
        printed: text or formula as the paper has it.
        right: correct statement, or the reading under which the paper is right.
        shown_by: commands that show it, in Markdown.
        is_wrong: False where the paper is right if read with care.
    """

    where: str
    printed: str
    right: str
    shown_by: str
    is_wrong: bool = True


@checked
@dataclass(frozen=True)
class TestedLemma:
    """A technical lemma, which is a property test instead of a claim.

    Args:
        where: cited place, "[M, Lemma 4]".
        says: its statement in a few words.
        test: file of the test.
        words: expression by which `pytest -k` finds the test; "" for the whole file.
    """

    #: Tells pytest that this class holds no tests.
    __test__ = False

    where: str
    says: str
    test: str
    words: str = ""


@checked
@dataclass(frozen=True, repr=False)
class Paper(Told):
    """A paper as a folder: everything about it that can be known before its code is imported.

    Modules are named relative to `package` and imported when they are asked for.

    Args:
        key: beginning of the names of its claims and figures, "maxmargin" for "maxmargin-thm2"; no hyphen.
        cited_as: letter or word by which texts cite it, "M" for "[M, Thm 2]".
        title: full title.
        authors: names, in the order of the paper.
        year: year of publication; papers are listed in this order.
        bibtex: one BibTeX entry.
        package: import path of its package, `__name__` where PAPER is defined.
        claims: modules, each with a tuple `CLAIMS` of `Claim`.
        laws: modules, each with a tuple `LAWS` of `Law`.
        figures: modules, each with a tuple `EXPERIMENTS` of `Experiment`.
        lemmas: technical lemmas that are tested instead of claimed.
        errata_file: TOML file in the package: tables `wrong` and `with_care`, a list `not_covered` and a
            `note`; "" for none.
    """

    key: str
    cited_as: str
    title: str
    authors: tuple[str, ...]
    year: int
    bibtex: str
    package: str
    claims: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    lemmas: tuple[TestedLemma, ...] = ()
    errata_file: str = ""

    def __post_init__(self) -> None:
        """Refuse a key that names of claims could not begin with."""
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.key):
            raise InvalidInputError(
                f"a paper cannot have the key {self.key!r}: take small letters, digits and _, as in 'mirror_descent'."
            )

    @property
    def errata(self) -> tuple[Erratum, ...]:
        """Errata of the paper, in its order: first what is wrong, then what must be read with care."""
        tables = self._errata_tables()
        wrong = [Erratum(**row) for row in tables.get("wrong", ())]
        return (*wrong, *(Erratum(**row, is_wrong=False) for row in tables.get("with_care", ())))

    @property
    def errata_note(self) -> str:
        """A sentence that a reader of its errata needs; "" for none."""
        return str(self._errata_tables().get("note", ""))

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Parts of the paper that no claim or figure covers, a sentence each."""
        return tuple(self._errata_tables().get("not_covered", ()))

    def _errata_tables(self) -> dict[str, Any]:
        if not self.errata_file:
            return {}
        return tomllib.loads((files(self.package) / self.errata_file).read_text(encoding="utf-8"))

    def load(self, modules: Iterable[str], name: str, kind: type) -> list[Any]:
        """Import some of its modules and collect the tuple that each of them calls `name`.

        Args:
            modules: relative to the package, such as `paper.claims`.
            name: name of the tuple, "CLAIMS".
            kind: class that every member must have.
        """
        found: list[Any] = []
        for module in modules:
            try:
                members = getattr(import_module(f"{self.package}.{module}"), name)
            except (ImportError, AttributeError) as fault:
                raise InvalidInputError(
                    f"the paper {self.key!r} names the module {module}, but {fault}: correct its PAPER, or install "
                    "what the module imports."
                ) from fault
            strangers = [type(member).__name__ for member in members if not isinstance(member, kind)]
            if strangers:
                raise InvalidInputError(
                    f"{self.package}.{module}.{name} must hold only {kind.__name__}, and has a {strangers[0]}."
                )
            found += members
        return found


def papers() -> MappingProxyType[str, Paper]:
    """Every paper by its key, in the order of their years; no claim and no figure is imported."""
    return _papers()


@cache
def _papers() -> MappingProxyType[str, Paper]:
    # Ours are named by the metadata too, which in a checkout may be older than its folders.
    others = [door for door in entry_points(group=GROUP) if not door.value.startswith(f"{GROUP}.")]
    found: dict[str, Paper] = {}
    for door in (*_own_doors(), *others):
        paper = _opened(door)
        if paper.key in found:
            raise InvalidInputError(
                f"two papers have the key {paper.key!r}, of the packages {found[paper.key].package} and "
                f"{paper.package}: uninstall one, or change its key."
            )
        found[paper.key] = paper
    return MappingProxyType({paper.key: paper for paper in sorted(found.values(), key=lambda one: (one.year, one.key))})


def _own_doors() -> list[EntryPoint]:
    """One entry point for every folder of `tokenmargin/papers`."""
    own = find_spec(GROUP)
    folders = iter_modules(own.submodule_search_locations) if own and own.submodule_search_locations else ()
    return [EntryPoint(folder.name, f"{GROUP}.{folder.name}:PAPER", GROUP) for folder in folders if folder.ispkg]


def _opened(door: EntryPoint) -> Paper:
    """Load the paper of an entry point; raise InvalidInputError that names its package where that fails."""
    owner = f" of the package {door.dist.name}" if door.dist else ""
    try:
        paper = door.load()
    except (ImportError, AttributeError) as fault:
        raise InvalidInputError(
            f"the paper {door.name!r}{owner} cannot be loaded from {door.value} ({fault}): install what it needs, or "
            "uninstall it."
        ) from fault
    if not isinstance(paper, Paper) or paper.key != door.name:
        called = f"the key {paper.key!r}" if isinstance(paper, Paper) else f"a {type(paper).__name__}"
        raise InvalidInputError(
            f"the entry point {door.name!r}{owner} leads to {called} in {door.value}: it must lead to a Paper with "
            f"the key {door.name!r}."
        )
    return paper
