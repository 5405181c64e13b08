"""Papers are found through entry points, loaded on demand, and refused by a sentence where something is wrong."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.theory import Claim, Law, Paper, claims, papers
from tokenmargin.theory import paper as module
from tokenmargin.theory.evidence import laws
from tokenmargin.theory.registry import check_names, found_name

ROOT = Path(__file__).parents[2]

OTHER = Paper("other", "O", "Other", ("A",), 2020, "", "tests.theory", laws=("test_paper",))

#: Read by `Paper.load` in the tests below.
CLAIMS = (1,)
LAWS = (Law("maxmargin-thm1", "Nothing is drawn.", lambda rng: None),)


@pytest.fixture
def doors(monkeypatch):
    """Put entry points in the place of those that are installed."""

    def put(*found: EntryPoint) -> None:
        monkeypatch.setattr(module, "entry_points", lambda group: found)
        module._papers.cache_clear()

    yield put
    monkeypatch.undo()
    module._papers.cache_clear()


#: Folders of `tokenmargin/papers`, by the years of their papers.
OURS = [
    "maxmargin",
    "transformers_as_svms",
    "mirror_descent",
    "next_token",
    "rates",
    "embeddings",
    "optimiser_geometry",
]


def door(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, module.GROUP)


def test_ours_are_found_without_metadata_and_once_with_them(doors):
    doors()
    assert list(papers()) == OURS
    stale = ("maxmargin", "embeddings", "a_folder_that_was_deleted")
    doors(*(door(key, f"tokenmargin.papers.{key}:PAPER") for key in stale))
    assert list(papers()) == OURS


def test_the_metadata_announce_every_folder():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][module.GROUP] == {one.name: one.value for one in module._own_doors()}


def test_a_paper_of_another_package_takes_its_place_by_year(doors):
    doors(door("other", f"{__name__}:OTHER"))
    assert list(papers()) == ["other", *OURS]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (door("gone", "no_such_package:PAPER"), "'gone' cannot be loaded from no_such_package:PAPER"),
        (door("other", f"{__name__}:NOTHING"), "'other' cannot be loaded"),
        (door("other", f"{__name__}:ROOT"), "leads to a PosixPath"),
        (door("another", f"{__name__}:OTHER"), "a Paper with the key 'another'"),
    ],
)
def test_an_entry_point_that_leads_to_no_paper_is_refused_with_its_name(doors, entry, reason):
    doors(entry)
    with pytest.raises(InvalidInputError, match=reason):
        papers()


def test_a_law_for_a_claim_of_another_paper_is_refused(doors):
    doors(door("other", f"{__name__}:OTHER"))
    with pytest.raises(InvalidInputError, match="is for 'maxmargin-thm1', which is none of its claims"):
        laws()


def test_two_papers_of_one_key_are_refused(doors):
    doors(door("other", f"{__name__}:OTHER"), door("other", f"{__name__} : OTHER"))
    with pytest.raises(InvalidInputError, match="two papers have the key 'other'"):
        papers()


def test_finding_papers_imports_no_claim_and_no_figure():
    code = (
        "import sys; from tokenmargin.theory import papers; papers();"
        "print([m for m in sys.modules if m.startswith('tokenmargin.papers.') and m.count('.') > 2])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("key", ["", "Two", "two-tokens", "2"])
def test_a_key_that_no_name_can_begin_with_is_refused(key):
    with pytest.raises(InvalidInputError, match="small letters"):
        Paper(key, "O", "Other", ("A",), 2020, "", "nowhere")


def test_modules_that_lack_what_they_are_named_for_are_refused():
    own = Paper("own", "O", "Own", ("A",), 2020, "", "tests.theory")
    with pytest.raises(InvalidInputError, match="names the module nowhere, but No module named"):
        own.load(("nowhere",), "CLAIMS", Claim)
    with pytest.raises(InvalidInputError, match=r"names the module test_nan, but .* no attribute 'CLAIMS'"):
        own.load(("test_nan",), "CLAIMS", Claim)
    with pytest.raises(InvalidInputError, match="must hold only Claim, and has a int"):
        own.load(("test_paper",), "CLAIMS", Claim)


@pytest.mark.parametrize("found", [[("mine-thm1", "O")], [("other-thm1", "M")], [("other-thm1", "O")] * 2])
def test_names_begin_with_the_key_and_cite_the_paper(found):
    check_names(OTHER, [("other-thm1", "O"), ("other-thm2", "O")])
    with pytest.raises(InvalidInputError, match="cannot be one of the paper 'other'"):
        check_names(OTHER, found)


@pytest.mark.parametrize("key", ["maxmargin", "embeddings"])
def test_a_paper_says_what_it_is(key):
    paper = papers()[key]
    assert paper.bibtex in (ROOT / "references.bib").read_text()
    assert paper.title in paper.bibtex
    assert str(paper.year) in paper.bibtex
    assert all(name.split()[-1] in paper.bibtex for name in paper.authors)
    assert len(paper.errata) > 25
    for erratum in paper.errata:
        assert paper.cited_as in erratum.where or "early appendix" in erratum.where
        assert erratum.printed
        assert erratum.right
        assert "`" in erratum.shown_by


def test_names_of_a_paper_are_found_on_first_use():
    from tokenmargin.papers import embeddings, maxmargin

    for package in (maxmargin, embeddings):
        for name in package.__all__:
            assert getattr(package, name).__doc__
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = package.nothing


class TestFoundName:
    names = ("maxmargin-thm5", "maxmargin-thm6", "maxmargin-thm6-below", "embeddings-thm5")

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [("maxmargin-thm5", "maxmargin-thm5"), ("thm6", "maxmargin-thm6"), ("thm6-below", "maxmargin-thm6-below")],
    )
    def test_a_name_or_its_unique_ending(self, wanted, found):
        assert found_name(wanted, self.names, "claim") == found

    def test_an_ending_of_several_lists_them(self):
        with pytest.raises(InvalidInputError, match="write maxmargin-thm5 or embeddings-thm5"):
            found_name("thm5", self.names, "claim")

    @pytest.mark.parametrize("wanted", ["5", "m6", "below6", ""])
    def test_an_ending_begins_after_a_hyphen(self, wanted):
        with pytest.raises(InvalidInputError, match="no claim is called"):
            found_name(wanted, self.names, "claim")

    def test_a_name_that_is_not_there_lists_the_nearest(self):
        with pytest.raises(InvalidInputError, match="the nearest are maxmargin-thm5, maxmargin-thm6, embeddings-thm5;"):
            found_name("thm7", self.names, "claim")
        with pytest.raises(InvalidInputError, match=f"there are {', '.join(self.names)};"):
            found_name("zzz", self.names, "claim")


def test_claims_come_paper_by_paper_theorems_before_lemmas_by_number():
    keys = list(claims())
    assert keys.index("maxmargin-thm8") < keys.index("maxmargin-lemma2") < keys.index("maxmargin-lemma14")
    assert keys.index("maxmargin-lemma14") < keys.index("embeddings-thm5") < keys.index("embeddings-lemma2")
    assert list(claims("embeddings")) == [key for key in keys if key.startswith("embeddings-")]
