"""Pictures of answers, and what a notebook and a prompt show of them."""

from __future__ import annotations

import dataclasses
import inspect
import re

import jax
import numpy as np
import pytest

import tokenmargin as tm
from tests.test_docs import public_names
from tokenmargin.papers.maxmargin import toys
from tokenmargin.parallel import PhaseDiagram
from tokenmargin.theory import Evidence, claims, papers, plot_evidence

Figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed (extra figures)").Figure

#: Characters that a prompt shows of an answer at most.
SHORT = 300


@pytest.fixture(scope="module")
def answers():
    data = toys.fig1b()
    starts = np.stack(np.meshgrid(*[np.linspace(-1, 1, 9)] * 2), axis=-1).reshape(-1, 2)
    run = tm.follow(tm.AttentionRisk(data), [0.0, -1.0], tm.Flow())
    rng = np.random.default_rng(0)
    wide = tm.EmbeddedSequences(rng.normal(size=(3, 4, 5)), [1, -1, 1], rng.normal(size=5))
    far = tm.follow(tm.AttentionRisk(wide), np.zeros(5), tm.NormalizedDescent(0.1), steps=50)
    law = tm.synthetic.KLevel(irrelevant=20, sizes=(2, 2), relevant_share=0.3, levels=(0.3, 0.02), T=16)
    corpus = tm.synthetic.k_level(rng, n=32, law=law)
    trained = tm.train(corpus, tm.OneLayer(width=4), tm.AdamW(lr=1e-2), epochs=2, key=jax.random.key(0))
    return {
        "run": run,
        "limit": run.limit,
        "agreement": tm.compare(run.limit),
        "basins": tm.basin_map(data, starts),
        "margin": tm.global_margin(data),
        "wide run": far,
        "wide margin": tm.global_margin(wide),
        "training": trained,
        "path": tm.regularization_path(data, radii=(1.0, 10.0, 100.0)),
        "diagram": PhaseDiagram(("d", (2, 4)), ("T", (3,)), 20, np.array([[5, 19]]), np.array([[0, 1]])),
        "statistics": tm.token_statistics(corpus),
    }


DRAWN = ("run", "limit", "basins", "margin", "wide run", "wide margin", "training", "path", "diagram")


@pytest.mark.parametrize("name", DRAWN)
def test_it_draws_itself_on_a_figure_of_its_own(answers, name, tmp_path):
    figure = answers[name].plot()
    assert isinstance(figure, Figure)
    (ax, *_) = figure.axes
    assert ax.get_xlabel()
    assert ax.lines or ax.patches or ax.collections or ax.images
    figure.savefig(tmp_path / "picture.pdf")
    written = (tmp_path / "picture.pdf").read_bytes()
    assert written.startswith(b"%PDF")
    assert b"/Type42" in written or b"/CIDFontType2" in written
    assert b"/Type3" not in written


@pytest.mark.parametrize("name", DRAWN)
def test_it_draws_itself_on_given_axes(answers, name):
    figure = Figure()
    ax = figure.subplots()
    assert answers[name].plot(ax=ax) is figure
    assert ax.lines or ax.patches or ax.collections or ax.images


def test_the_path_drawn_is_the_path(answers):
    (ax,) = answers["run"].plot().axes
    assert any(np.array_equal(line.get_xydata(), answers["run"].points) for line in ax.lines)


def test_of_a_path_that_goes_far_the_bend_is_shown(answers):
    (ax,) = answers["run"].plot().axes
    inside = [ax.viewLim.contains(*point) for point in answers["run"].points]
    assert sum(inside) > 10
    assert not all(inside)


def test_what_has_no_solution_shows_the_weights_that_prove_it():
    apart = tm.EmbeddedSequences([[[1.0], [-1.0]], [[1.0], [-1.0]]], labels=[1, -1], head=[1.0])
    (ax,) = tm.global_margin(apart).plot().axes
    assert [bar.get_width() for bar in ax.patches] == [0.5, 0.5]
    assert ax.get_xlabel() == "share in the proof that no p exists"


def test_the_attention_drawn_is_the_attention(answers):
    run = answers["wide run"]
    (ax,) = run.plot().axes
    ends = [line.get_ydata()[-1] for line in ax.lines]
    assert np.allclose(ends, run.risk.attention(run.final).max(axis=1))


def test_starts_have_the_colour_of_their_limit(answers):
    basins = answers["basins"]
    (ax,) = basins.plot().axes
    colours = ax.collections[0].get_facecolors()
    for basin in np.unique(basins.basin):
        assert len(np.unique(colours[basins.basin == basin], axis=0)) == 1
    assert len(np.unique(colours, axis=0)) == len(np.unique(basins.basin)) > 1


def test_evidence_is_drawn_by_law():
    counts = {"drawn": 10, "inside": 8, "held": 6, "refuted": 1, "not_decided": 1}
    found = [Evidence("a-thm1", "a law", 0, **counts, asked={}, failed={}, ratio=None, commit="", versions={})]
    (ax,) = plot_evidence(found).axes
    assert [bar.get_width() for bar in ax.patches] == [6, 1, 1]


def test_what_a_prompt_shows_is_short(answers):
    for name, answer in answers.items():
        assert len(repr(answer)) <= SHORT, name


#: Types in which an array, or a container of any length, may lie.
LONG = r"ndarray|Vector|csr_|Numbers|Flags|Mapping|dict\[|list\["


def test_no_public_type_prints_its_arrays():
    types = {thing for _, thing in public_names() if inspect.isclass(thing) and dataclasses.is_dataclass(thing)}
    generated = [kind for kind in types if inspect.unwrap(kind.__repr__).__code__.co_filename == "<string>"]
    shown = {kind: " ".join(str(one.type) for one in dataclasses.fields(kind) if one.repr) for kind in generated}
    assert len(types) > len(generated) > 20
    assert {kind.__name__ for kind, fields in shown.items() if re.search(LONG, fields)} == set()


def test_large_answers_are_short_too():
    rng = np.random.default_rng(0)
    rows = tm.margin.least_norm(rng.normal(size=(40, 300)), np.ones(40))
    everything = tm.Selection(np.ones((40, 500), dtype=bool))
    few = tm.regularization_path(toys.fig1b(), radii=np.arange(1.0, 14.0))
    arrays = {name: each for name, each in vars(few).items() if isinstance(each, np.ndarray)}
    path = dataclasses.replace(few, **{name: np.repeat(each, 23, axis=0) for name, each in arrays.items()})
    corpus = tm.classify.LabelledCorpus(("a text " * 1000,) * 1000, ("a",) * 1000)
    for answer in (rows, everything, path, corpus, claims()["maxmargin-thm2"], papers()["maxmargin"]):
        assert len(repr(answer)) <= SHORT
        assert repr(answer).startswith(type(answer).__name__)
    assert "radii=float64[299]" in repr(path)


def test_a_notebook_shows_sentences_and_escapes_them(answers):
    for name in ("run", "limit", "agreement", "basins", "margin"):
        html = answers[name]._repr_html_()
        assert html.startswith(f"<div><strong>{type(answers[name]).__name__}</strong>")
    assert "&gt;" in type("Odd", (type(answers["run"]).__mro__[-2],), {"explain": lambda self: "a > b"})()._repr_html_()
