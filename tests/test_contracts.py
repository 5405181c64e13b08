"""Every method, claim and experiment is swept: a new one is tested by existing."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import re
from functools import partial
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.instances import fig1c
from tokenmargin import (
    Adam,
    AttentionRisk,
    Descent,
    FactoredRisk,
    Flow,
    HeadRisk,
    JointRisk,
    MatrixRisk,
    MirrorDescent,
    NextTokenRisk,
    NormalizedDescent,
    SteepestDescent,
    attention,
    follow,
    sources,
)
from tokenmargin._progress import silent
from tokenmargin.attention import Field, LimitKind, Method, QuadraticHead, Risk
from tokenmargin.attention.blocks import by_block
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.experiments.experiment import Config, Experiment, Number, Relation, Result, Verdict
from tokenmargin.experiments.registry import experiments
from tokenmargin.experiments.run import failures, reproduce
from tokenmargin.experiments.store import flattened, load
from tokenmargin.norms import L2, Norm
from tokenmargin.papers.embeddings.figures import _reviews
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.rates._polyak import Polyak
from tokenmargin.sources.labelled import LabelledTexts, TextChunk
from tokenmargin.theory import Applies, claims, compare, one_minus_cosine, papers
from tokenmargin.theory.evidence import laws

PAPERS = papers()
EXPERIMENTS = experiments()
CLAIMS = claims()
SRC = Path(__file__).parents[1] / "src" / "tokenmargin"


def names_in(stem: str) -> set[str]:
    """ "fig09_10_trials" -> {"fig9", "fig10", "trials"}: the names of figures that a file may hold."""
    numbered = re.fullmatch(r"fig((?:\d+_)+)\w+", stem)
    return {f"fig{int(number)}" for number in (numbered[1] if numbered else "").split("_") if number} | set(
        stem.split("_")
    )


def test_every_paper_lists_each_module_of_its_folder_once_and_the_sweeps_find_something():
    """A claim, law or figure that its PAPER forgets is swept by nothing."""
    folders = {path.parent.name for path in (SRC / "papers").glob("*/__init__.py")}
    assert folders == set(PAPERS)
    assert folders
    for key, paper in PAPERS.items():
        folder = SRC / "papers" / key
        for kind, what in (("claims", "CLAIMS"), ("figures", "EXPERIMENTS"), ("laws", "LAWS")):
            defines = re.compile(rf"^{what}\b.*=", re.MULTILINE)
            files = [path for path in (folder / kind).glob("*.py") if defines.search(path.read_text())]
            assert files
            assert sorted(getattr(paper, kind)) == sorted(f"{kind}.{path.stem}" for path in files)
        assert len(claims(key)) == sum(map(len, (m.CLAIMS for m in modules_of(paper, paper.claims)))) > 0
        assert len(experiments(key)) == sum(map(len, (m.EXPERIMENTS for m in modules_of(paper, paper.figures)))) > 0
    assert set(laws()) == set(CLAIMS)


def modules_of(paper, names):
    return [import_module(f"{paper.package}.{name}") for name in names]


def subclasses(kind: type) -> set[type]:
    """All that can be made of a class: its subclasses of the package, theirs too, without what is abstract.

    What a figure defines for its own problem is not for all others.
    """
    for module in pkgutil.walk_packages(attention.__path__, f"{attention.__name__}."):
        importlib.import_module(module.name)
    found = {one for child in kind.__subclasses__() for one in (child, *subclasses(child))}
    own = {one for one in found if one.__module__.startswith("tokenmargin.") and ".figures." not in one.__module__}
    return {one for one in own if not isabstract(one)}


def a_risk(kind: type[Risk]) -> tuple[Risk, Any]:
    """A risk of this class on a small problem, and a start."""
    data = toys.fig3((0.5, 1.0))
    crossed = CrossSequences(
        data.tokens, queries=[(1.0, 0.5), (-0.5, 1.0), (0.5, 1.0)], labels=data.labels, head=[0.3, 1.0]
    )
    return {
        AttentionRisk: (AttentionRisk(fig1c()), [-1.0, 0.5]),
        HeadRisk: (HeadRisk(data, QuadraticHead(0.1 * np.eye(2), [0.0, 1.0])), [0.3, -1.0]),
        JointRisk: (JointRisk(data), ([-1.0, 0.0], [0.0, -1.0])),
        MatrixRisk: (MatrixRisk(crossed), [[0.1, 0.2], [-0.3, 0.1]]),
        FactoredRisk: (FactoredRisk(crossed, rank=2), ([[0.1, 0.0], [0.2, 0.1]], [[-0.3, 0.2], [0.1, 0.1]])),
        NextTokenRisk: (NextTokenRisk([[0, 1], [1, 0]], [0, 1], np.eye(2)), [[0.3, 0.1], [-0.2, 0.4]]),
    }[kind]


METHODS = {
    Descent: Descent(0.5),
    NormalizedDescent: NormalizedDescent(0.5),
    SteepestDescent: SteepestDescent("spectral", 0.1),
    MirrorDescent: MirrorDescent(1.75, 0.1),
    Adam: Adam(0.1),
    Polyak: Polyak(0.1),
    Flow: Flow(),
}
STEPPING, RISKS = subclasses(Method), subclasses(Risk)


def test_every_method_of_the_package_is_swept():
    """Methods that step, found by their class, and the flow, which is integrated."""
    assert STEPPING
    assert STEPPING | {Flow} == set(METHODS)


def test_every_risk_of_the_package_is_swept():
    assert len(RISKS) >= 3
    for kind in RISKS:
        a_risk(kind)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
class TestMethods:
    def test_is_a_frozen_value(self, method):
        value = METHODS[method]
        assert dataclasses.is_dataclass(value)
        assert value == dataclasses.replace(value)
        assert hash(value) == hash(dataclasses.replace(value))
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, 1.0)

    @pytest.mark.parametrize("kind", sorted(RISKS, key=lambda k: k.__name__), ids=lambda k: k.__name__)
    def test_follow_returns_a_trajectory_that_descends(self, method, kind):
        risk, start = a_risk(kind)
        run = follow(risk, start, METHODS[method])
        assert run.risk is risk
        assert run.method == METHODS[method]
        assert run.points.shape == (len(run.times), sum(block.size for block in risk.blocks.values()))
        np.testing.assert_array_equal(risk.point(run.start), risk.point(start))
        assert risk.value(run.final) < risk.value(run.start)
        assert isinstance(run.limit.kind, LimitKind)
        assert compare(run.limit).explain()
        assert len(repr(run)) < 300
        assert len(repr(run.limit)) < 300

    def test_names_the_norm_in_which_it_moves(self, method):
        assert isinstance(METHODS[method].geometry, Norm)

    def test_is_documented(self, method):
        assert method.__doc__


@pytest.mark.parametrize("kind", sorted(RISKS, key=lambda k: k.__name__), ids=lambda k: k.__name__)
class TestRisks:
    def test_has_every_part_of_the_contract(self, kind):
        risk, start = a_risk(kind)
        n, T = risk.sequences.n_inputs, risk.sequences.n_places
        assert isinstance(risk.field, Field)
        assert risk.in_span is None or np.shape(risk.in_span[0].keys)[:2] == (n, T)
        assert isinstance(risk.optimal, Selection)
        assert isinstance(risk.felt(start), EmbeddedSequences)
        assert isinstance(risk.limit_norm(L2()), Norm)
        np.testing.assert_allclose(risk.attention(start).sum(axis=1), 1.0)
        assert risk.optimal.chosen.shape == (n, T)
        assert [weights.ndim in (1, 3) for weights in risk.field.log_weights(risk.point(start))] == [True] * len(
            risk.blocks
        )

    def test_a_point_is_as_it_is_written_or_one_vector_or_blocks_by_name(self, kind):
        risk, start = a_risk(kind)
        vector = risk.point(start)
        np.testing.assert_array_equal(risk.point(vector), vector)
        np.testing.assert_array_equal(risk.point(by_block(risk.blocks, vector)), vector)
        many, are_many = risk.starts([start, start])
        assert are_many
        np.testing.assert_array_equal(many, [vector, vector])
        for wrong in (None, "start", np.zeros(len(vector) + 1), np.full(len(vector), np.nan), []):
            with pytest.raises(InvalidInputError):
                risk.point(wrong)

    def test_gradient_is_that_of_autodiff_in_every_form(self, kind):
        risk, start = a_risk(kind)
        y = risk.point(start)
        expected = np.asarray(jax.jit(jax.grad(risk.field.value))(y))
        np.testing.assert_allclose(risk.point(risk.gradient(start)), expected, rtol=1e-9, atol=1e-12)
        direction, scale = risk.descent_direction(start)
        sizes = [block.size for block in risk.blocks.values()]
        np.testing.assert_allclose(-np.exp(np.repeat(scale, sizes)) * risk.point(direction), expected, rtol=1e-9)
        moving = by_block(risk.blocks, -expected)
        for name, velocity in by_block(risk.blocks, risk.point(risk.force(start))).items():
            assert one_minus_cosine(velocity.ravel(), moving[name].ravel()) <= 1e-12


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
class TestClaims:
    def test_names_its_paper_and_says_something(self, claim):
        assert claim.paper == PAPERS[claim.key.partition("-")[0]].cited_as
        assert len(claim.statement) > 40
        assert claim.statement.endswith(".")
        assert claim.tolerance > 0
        assert claim.tolerance_reason

    def test_applies_and_holds_inside(self, claim):
        outcome = claim.check(claim.inside())
        assert outcome.applies is Applies.YES
        assert outcome.holds is True
        assert outcome.slack >= 0
        assert outcome.because

    def test_does_not_apply_outside(self, claim):
        outcome = claim.check(claim.outside())
        assert outcome.applies is Applies.NO
        assert outcome.holds is None
        assert np.isnan(outcome.slack)
        assert outcome.because

    def test_fails_when_what_is_observed_is_mutated(self, claim):
        instance = claim.inside()
        outcome = claim.conclude(instance, claim.mutate(claim.observe(instance)))
        assert outcome.holds is False
        assert outcome.slack < 0


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Every figure at smoke size, once; skipped where its data set is absent."""
    return Results(tmp_path_factory.mktemp("results"))


class Results(dict):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def __missing__(self, experiment):
        try:
            self[experiment] = reproduce(experiment, self.out / str(len(self)))
        except DataAbsentError as absent:
            pytest.skip(f"data absent: {absent}")
        return self[experiment]


PUBLISHED = Path(__file__).parent.parent / "docs" / "results"

#: Numbers that the full size alone has.
AT_FULL_SIZE = {"embeddings-fig1": {"best held-out accuracy"}}


def names_of(numbers) -> set[str]:
    """What the numbers of a summary are, without data sets, settings and sizes."""
    return {
        re.sub(
            r"\d[\d,.e-]*", "#", name.split(": ", 1)[-1] if "imdb" in name.lower() or "yelp" in name.lower() else name
        )
        for name in numbers
    }


#: Figures on reviews that are reproduced by every `make test`, of every eighth: to count all takes longer.
ON_REVIEWS = ("embeddings-fig3", "embeddings-margin")

#: What was counted of these, in the place of `_READ`.
COUNTED: dict = {}


def of_few_reviews(experiment: Experiment) -> Experiment:
    def few(source):
        def read(size):
            for chunk in source().read(size):
                kept = [values and values[::8] for values in (chunk.texts, chunk.labels, chunk.splits)]
                yield TextChunk(*kept, report=chunk.report)

        return lambda progress: LabelledTexts("a part", "the tests", read)

    def compute(config, key, progress):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_reviews, "_READ", COUNTED)
            patch.setattr(sources, "imdb", few(partial(sources.imdb, verify=False)))
            patch.setattr(sources, "yelp", few(sources.yelp))
            return experiment.compute(config, key, progress)

    return dataclasses.replace(experiment, compute=compute)


#: Tens of seconds each even at smoke size; figures of the same kind are reproduced by every `make test`.
LONG = (*ON_REVIEWS, "embeddings-reading", "embeddings-fig1", "embeddings-fig4", "maxmargin-fig7", "maxmargin-path")


@pytest.mark.parametrize(
    "experiment",
    [
        *(pytest.param(one, id=key, marks=[pytest.mark.long] * (key in LONG)) for key, one in EXPERIMENTS.items()),
        *(pytest.param(of_few_reviews(EXPERIMENTS[key]), id=f"{key} of few reviews") for key in ON_REVIEWS),
    ],
)
class TestExperiments:
    def test_id_module_and_title(self, experiment):
        paper, _, name = experiment.id.partition("-")
        assert experiment.paper == PAPERS[paper].cited_as
        assert name in names_in(EXPERIMENTS[experiment.id].compute.__module__.rpartition(".")[2])
        assert experiment.title
        assert set(experiment.claims) <= set(CLAIMS)

    def test_config_is_frozen_with_documented_presets(self, experiment):
        for config in (experiment.preset("smoke"), experiment.preset("paper")):
            assert isinstance(config, Config)
            assert isinstance(config, experiment.config)
            assert hash(config) is not None
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(experiment.preset("smoke"), dataclasses.fields(experiment.config)[0].name, 0)

    def test_saves_everything_and_nothing_fails(self, experiment, saved):
        one = saved[experiment]
        assert {p.name for p in one.folder.iterdir()} == {
            "result.npz",
            "summary.json",
            "manifest.json",
            "figure.png",
            "figure.pdf",
            "panels.json",
        }
        assert failures(one) == []
        assert one.result.numbers
        assert one.result.sentences
        assert (one.folder / "figure.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert (one.folder / "figure.pdf").read_bytes()[:5] == b"%PDF-"
        assert [p for p in one.folder.parent.iterdir() if p.name.startswith(".")] == []

    def test_manifest_tells_how_to_make_it_again(self, experiment, saved):
        manifest = saved[experiment].manifest
        assert manifest["command"] == f"tokenmargin reproduce {experiment.id} --preset smoke --seed 0"
        for name in ("config", "seed", "commit", "versions", "device", "precision", "wall_seconds", "claims"):
            assert name in manifest
        assert set(manifest["claims"]) == set(experiment.claims)

    def test_same_seed_same_numbers(self, experiment, saved):
        before = saved[experiment].result.arrays
        again = experiment.compute(experiment.preset("smoke"), jax.random.key(0), silent)
        before, again = flattened(before), flattened(again.arrays)
        assert set(before) == set(again)
        for name, value in again.items():
            np.testing.assert_array_equal(value, before[name])

    def test_published_numbers_have_the_names_that_are_computed(self, experiment, saved):
        """A run under docs/results that lacks a number, or has one that is no more, is of older code, or says so."""
        runs = [path.parent for path in PUBLISHED.glob(f"{experiment.id}*/summary.json")]
        runs = [run for run in runs if json.loads((run / "summary.json").read_text())["id"] == experiment.id]
        today = names_of(row["name"] for row in saved[experiment].summary["numbers"])
        for run in runs:
            published = names_of(row["name"] for row in json.loads((run / "summary.json").read_text())["numbers"])
            is_old = "old" in json.loads((run / "manifest.json").read_text())
            assert is_old or published == today | AT_FULL_SIZE.get(experiment.id, set()), run.name

    def test_draws_from_the_file_alone(self, experiment, saved):
        figure = experiment.draw(load(saved[experiment].folder).result)
        assert figure.get_axes()


@pytest.mark.parametrize(
    ("number", "preset", "verdict"),
    [
        (Number("x", 1.0), "paper", Verdict.REPORTED),
        (Number("x", 1.0, paper=1.05, place="Fig. 1", tolerance=0.1), "paper", Verdict.HOLDS),
        (Number("x", 1.0, paper=1.2, place="Fig. 1", tolerance=0.1), "paper", Verdict.FINDING),
        (Number("x", -1.0, paper=1.0, place="Fig. 1", tolerance=0.1), "paper", Verdict.FINDING),
        # What we expect, too, fails; what the paper says without a number does not.
        (Number("x", 1.0, 1.2, 0.1, paper=1.2, place="Fig. 1"), "paper", Verdict.FAILS),
        (Number("x", 1.2, 1.2, 0.1, paper=1.2, place="Fig. 1"), "paper", Verdict.HOLDS),
        (Number("x", 1.0, 1.0, 0.1, paper=1.2, place="Fig. 1"), "paper", Verdict.FINDING),
        (Number("x", 1.0, at_most=0.0, says="none", place="Fig. 1"), "paper", Verdict.FINDING),
        (Number("x", 0.0, at_most=0.0, says="none", place="Fig. 1"), "paper", Verdict.HOLDS),
        (Number("x", float("nan"), at_most=0.0, says="none", place="Fig. 1"), "paper", Verdict.FAILS),
        (Number("x", 1.0, paper=1.2, place="Fig. 1", tolerance=0.1), "smoke", Verdict.NOT_COMPARABLE),
        (Number.exact("x", 1.0, paper=1.2, place="Fig. 1", tolerance=0.1), "smoke", Verdict.FINDING),
        (Number("x", 1.0, expected=1.05, tolerance=0.1), "paper", Verdict.HOLDS),
        (Number("x", 1.0, expected=1.2, tolerance=0.1), "paper", Verdict.FAILS),
        (Number.exact("x", 1.0, 1.05, 0.1), "smoke", Verdict.HOLDS),
        (Number.exact("x", 0.0, 1.05, 0.1), "smoke", Verdict.FAILS),
        (Number.exact("x", 1.0, at_most=0.5), "smoke", Verdict.FAILS),
        (Number("x", 1.0, at_most=0.5), "paper", Verdict.FAILS),
        (Number("x", float("nan"), paper=1.0, place="Fig. 1", tolerance=0.1), "paper", Verdict.FAILS),
        (Number("x", float("nan"), expected=1.0, tolerance=0.1), "paper", Verdict.FAILS),
        (Number("x", float("nan"), at_most=1.0), "paper", Verdict.FAILS),
    ],
)
def test_verdicts(number, preset, verdict):
    assert number.verdict(preset) is verdict


@pytest.mark.parametrize(
    ("relation", "value", "interval", "verdict"),
    [
        (Relation.BELOW, 0.005, (0.004, 0.009), Verdict.HOLDS),
        (Relation.BELOW, 0.005, (0.004, 0.011), Verdict.NOT_DECIDED),
        (Relation.BELOW, 0.012, (0.009, 0.014), Verdict.NOT_DECIDED),
        (Relation.BELOW, 0.012, (0.011, 0.014), Verdict.FINDING),
        (Relation.BELOW, 0.01, None, Verdict.FINDING),  # strictly below
        (Relation.BELOW, 0.009, None, Verdict.HOLDS),
        (Relation.BELOW, float("nan"), (0.0, 0.001), Verdict.FAILS),  # nothing was measured
        (Relation.BELOW, float("nan"), None, Verdict.FAILS),
        (Relation.ABOVE, 0.012, (0.011, 0.014), Verdict.HOLDS),
        (Relation.ABOVE, 0.012, (0.009, 0.014), Verdict.NOT_DECIDED),
        (Relation.ABOVE, 0.005, (0.004, 0.009), Verdict.FINDING),
        (Relation.ABOVE, 0.0, None, Verdict.FINDING),
    ],
)
def test_a_bound_of_the_papers_is_judged_by_the_interval(relation, value, interval, verdict):
    number = Number("x", value, paper=0.01, place="App. E", relation=relation, interval=interval)
    assert number.verdict("paper") is verdict
    assert number.verdict("smoke") is Verdict.NOT_COMPARABLE


@pytest.mark.parametrize(
    ("value", "interval", "verdict"),
    [
        (0.9, (0.8, 1.0), Verdict.HOLDS),
        (0.9, (0.8, 1.1), Verdict.NOT_DECIDED),
        (1.1, (0.9, 1.3), Verdict.NOT_DECIDED),
        (1.2, (1.1, 1.3), Verdict.FAILS),
        (1.1, None, Verdict.FAILS),
    ],
)
def test_a_bound_of_ours_is_judged_by_the_interval_too(value, interval, verdict):
    assert Number("x", value, at_most=1.0, interval=interval).verdict("paper") is verdict
    # Beside the paper's bound, ours decides what fails; between the two is a finding.
    paper = {"paper": 0.5, "place": "App. E", "relation": Relation.BELOW}
    beside = Number("x", value, at_most=1.0, interval=interval, **paper).verdict("paper")
    assert beside is (Verdict.FAILS if verdict is Verdict.FAILS else Verdict.FINDING)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"paper": 1.0, "tolerance": 0.1}, "needs the place"),
        ({"paper": 1.0, "place": "Fig. 1"}, "needs a tolerance"),
        ({"expected": 1.0}, "needs a tolerance"),
        ({"says": "less", "at_most": 1.0}, "needs the place"),
        ({"says": "less", "place": "Fig. 1"}, "put to the test by at_most"),
        ({"says": "less", "place": "Fig. 1", "at_most": 1.0, "expected": 1.0, "tolerance": 0.1}, "by nothing else"),
    ],
)
def test_a_number_says_what_it_is_compared_with_and_how(stated, reason):
    with pytest.raises(ValueError, match=reason):
        Number("x", 1.0, **stated)


def test_a_run_that_breaks_leaves_the_old_result(tmp_path):
    from tokenmargin._atomic import complete_folder

    with complete_folder(tmp_path / "smoke") as folder:
        (folder / "a").write_text("old")

    def break_half_way():
        with complete_folder(tmp_path / "smoke") as folder:
            (folder / "a").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_half_way()
    assert (tmp_path / "smoke" / "a").read_text() == "old"
    with complete_folder(tmp_path / "smoke") as folder:
        (folder / "a").write_text("new")
    assert (tmp_path / "smoke" / "a").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["smoke"]


def test_nan_survives_the_file(tmp_path):
    from tokenmargin._plain_json import write_json

    write_json(tmp_path / "x.json", {"a": float("nan"), "b": [np.float64(1.5), np.int64(2)], "c": float("inf")})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": None, "b": [1.5, 2], "c": None}
    assert Result({}, ()).sentences == ()
