"""The playground: it asks for nothing, and what it computes in a browser is what Python computes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tokenmargin as tm
from tokenmargin.attention import KinkedHead
from tokenmargin.attention.follow import follow_all
from tokenmargin.cli import main
from tokenmargin.papers.maxmargin.toys import fig1b, fig8, planar
from tokenmargin.report import playground_page
from tokenmargin.theory.problem import load_problem

#: Largest relative difference between a direction in the page and the same in Python.
SAME = 1e-6

#: Share of flows that the page must decide; it stops after 4,000 steps, and says so where it has not decided.
DECIDED = 0.97

SHAPES = ((1, 3), (2, 3), (3, 4))


def random_problems(count, seed):
    """Problems of three shapes and scales from 0.1 to 10, a quarter of them with scores that tie, each with a start."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        n, T = SHAPES[k % len(SHAPES)]
        scale = 10.0 ** rng.uniform(-1, 1)
        keys, scores = rng.normal(size=(n, T, 2)) * scale, rng.normal(size=(n, T))
        yield keys, np.round(scores) if k % 4 == 3 else scores, rng.normal(size=2) * rng.choice([0.1, 1, 10]) / scale


def in_the_page(keys, scores):
    return [
        [{"x": float(x), "y": float(y), "score": float(score)} for (x, y), score in zip(*rows, strict=True)]
        for rows in zip(keys, scores, strict=True)
    ]


def test_the_command_writes_the_page_that_holds_all_it_needs(tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(["playground", "--out", str(out)]) == 0
    assert "page.html" in capsys.readouterr().out
    text = out.read_text(encoding="utf-8")
    assert text == playground_page()
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """One page for all tests that a browser runs; at the end it must have asked for nothing and logged nothing."""
    file = tmp_path_factory.mktemp("playground") / "page.html"
    file.write_text(playground_page(), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1240, "height": 900})
    shown = context.new_page()
    asked, logged = [], []
    shown.on("request", lambda request: asked.append(request.url))
    shown.on("console", lambda message: logged.append(message.text))
    shown.on("pageerror", lambda error: logged.append(str(error)))
    shown.goto(file.as_uri())
    yield shown
    assert [url for url in asked if not url.startswith(("data:", "file:", "blob:"))] == []
    assert logged == []
    context.close()


def compared(page, count, seed):
    """Share of flows that the page decides; whatever it decides, and every margin, must be what Python has."""
    problems = list(random_problems(count, seed))
    asked = [{"inputs": in_the_page(keys, scores), "start": start.tolist()} for keys, scores, start in problems]
    answers = page.evaluate(
        """(asked) => asked.map(({ inputs, start }) => {
          const run = tokenmargin.flow(inputs, start);
          return { margins: tokenmargin.localMargins(inputs), ...run, path: run.path.slice(-1) };
        })""",
        asked,
    )
    sequences = [planar(keys, scores) for keys, scores, _ in problems]
    runs = follow_all([tm.AttentionRisk(one) for one in sequences], [start for *_, start in problems], tm.Flow())
    decided, n_margins = 0, 0
    for data, run, found in zip(sequences, runs, answers, strict=True):
        own = {tuple(one.selection.chosen.argmax(axis=1)): one.p for one in tm.local_margins(data)}
        theirs = {tuple(one["chosen"]): np.array(one["p"]) for one in found["margins"]}
        assert own.keys() == theirs.keys()
        n_margins += len(own)
        for chosen, p in own.items():
            assert np.linalg.norm(theirs[chosen] - p) <= SAME * np.linalg.norm(p)
        if found["kind"] == "stalled":
            continue
        decided, limit = decided + 1, run.limit
        assert found["kind"] == limit.kind.value
        assert found["chosen"] == [np.flatnonzero(row).tolist() for row in limit.selection.chosen]
        if limit.finite:
            assert np.linalg.norm(found["path"][0] - limit.point) <= SAME * (1 + np.linalg.norm(limit.point))
        else:
            assert np.linalg.norm(np.array(found["velocity"]) - limit.velocity) <= SAME
    assert n_margins > count / 4
    return decided / count


def test_margins_and_limits_are_those_of_python(page):
    assert compared(page, 24, seed=5) >= DECIDED - 1 / 24


@pytest.mark.long
def test_margins_and_limits_are_those_of_python_on_many_problems(page):
    assert compared(page, 240, seed=11) >= DECIDED


class Bent(KinkedHead):
    """psi(z) = z - by relu(z - at) of tokens that are their scores."""

    at: np.ndarray
    by: np.ndarray

    @property
    def width(self):
        return 1

    def through(self, z, relu):
        return z[0] - self.by * relu(z[0] - self.at)


def bent_problems(count, seed):
    """Two or three inputs of three tokens behind a head that falls again beyond a score that the tokens reach."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        keys, scores = rng.normal(size=(2 + k % 2, 3, 2)), rng.normal(size=(2 + k % 2, 3))
        yield keys, scores, Bent(np.array(rng.uniform(0, 1)), np.array(rng.uniform(1.5, 4))), rng.normal(size=2)


def bent_compared(page, count, seed):
    """How many flows behind a kink are decided by both, and how many of these a kink holds; they must agree."""
    problems = list(bent_problems(count, seed))
    asked = [
        [in_the_page(keys, scores), start.tolist(), float(head.at), float(head.by)]
        for keys, scores, head, start in problems
    ]
    answers = page.evaluate(
        """(asked) => asked.map(([inputs, start, at, by]) => {
          const run = tokenmargin.bentFlow(inputs, start, { at, by });
          return { ...run, path: run.path.slice(-1) };
        })""",
        asked,
    )
    risks = [
        tm.HeadRisk(tm.EmbeddedSequences(scores[..., None], np.ones(len(keys), int), np.ones(1), keys=keys), head)
        for keys, scores, head, _ in problems
    ]
    runs = follow_all(risks, [start for *_, start in problems], tm.Flow())
    decided, held = 0, 0
    for run, found in zip(runs, answers, strict=True):
        limit = run.limit
        if "stalled" in (found["kind"], limit.kind.value):
            continue
        decided, held = decided + 1, held + bool(found["held"])
        assert found["kind"] == limit.kind.value
        assert sorted(found["held"]) == sorted({kink.input for kink in limit.kinks})
        if limit.finite:
            assert np.linalg.norm(found["path"][0] - limit.point) <= SAME * (1 + np.linalg.norm(limit.point))
        else:
            assert np.linalg.norm(np.array(found["velocity"]) - limit.velocity) <= SAME
            assert found["chosen"] == [np.flatnonzero(row).tolist() for row in limit.selection.chosen]
    return decided, held


def test_flows_behind_a_kink_are_those_of_python(page):
    decided, held = bent_compared(page, 16, seed=3)
    assert decided == 16
    assert held > 4


@pytest.mark.long
def test_flows_behind_a_kink_are_those_of_python_on_many_problems(page):
    decided, held = bent_compared(page, 200, seed=4)
    assert decided == 200
    assert held > 50


def test_the_scene_of_a_kink_says_what_holds_p_and_saves_no_other_problem(page):
    page.get_by_role("button", name="A kink").click()
    told = page.locator("#ends").inner_text()
    assert "The kink of input 1 holds it" in told
    assert page.get_by_role("button", name="Save problem.json").is_disabled()
    page.get_by_label("score of token 1 of input 2").fill("1")
    assert "p comes to rest" in page.locator("#ends").inner_text()
    page.reload()
    assert "p comes to rest" in page.locator("#ends").inner_text()
    page.get_by_role("button", name="Two answers").click()
    assert page.get_by_role("button", name="Save problem.json").is_enabled()


def test_a_mixed_limit_is_told_from_a_finite_one(page):
    keys, scores = [[(1, 0), (-1, 0)], [(1, 0), (-1, 0)], [(0, 1), (0, -1)]], [[1, -1], [-0.5, 1], [1, 0]]
    limit = tm.follow(tm.AttentionRisk(planar(keys, scores)), [1.5, -1.5], tm.Flow()).limit
    found = page.evaluate(
        "([inputs, start]) => tokenmargin.flow(inputs, start)", [in_the_page(keys, scores), [1.5, -1.5]]
    )
    assert found["kind"] == limit.kind.value == "mixed"
    assert np.allclose(found["velocity"], limit.velocity, atol=SAME)
    finite = page.evaluate(
        "([inputs, start]) => tokenmargin.flow(inputs, start)", [in_the_page(keys[:2], scores[:2]), [2, 0]]
    )
    assert finite["kind"] == "finite"


def test_a_wrong_sign_would_be_noticed(page):
    data = fig1b()
    flipped = in_the_page(data.keys, -np.array([[1, 0.9, 0]]))
    found = page.evaluate("(inputs) => tokenmargin.localMargins(inputs).map((one) => one.chosen)", flipped)
    assert found != [one.selection.chosen.argmax(axis=1).tolist() for one in tm.local_margins(data)]


def test_what_is_saved_is_a_problem_that_check_takes(page, tmp_path):
    page.get_by_role("button", name="Two limits under one assumption").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save problem.json").click()
    file = tmp_path / "problem.json"
    download.value.save_as(file)
    problem = load_problem(file)
    assert np.array_equal(problem.sequences.keys, fig8().keys)
    assert problem.start == (0.0, 2.0)
    assert main(["check", "maxmargin-thm2", "--problem", str(file)]) == 0


def test_dragging_a_token_moves_the_answer_and_the_address(page):
    page.get_by_role("button", name="Two answers").click()
    before, address = page.locator("#margins").inner_text(), page.url
    token = page.locator('[data-name="0.1"]').bounding_box()
    page.mouse.move(token["x"] + 9, token["y"] + 9)
    page.mouse.down()
    page.mouse.move(token["x"] + 60, token["y"] + 80, steps=3)
    page.mouse.up()
    assert page.locator("#margins").inner_text() != before
    assert page.url != address
    moved = page.locator("#margins").inner_text()
    page.goto("about:blank")
    page.go_back()
    assert page.locator("#margins").inner_text() == moved


@pytest.mark.parametrize("hostile", ["%7B", '{"inputs": []}', '{"view": 1e999}', "__proto__"])
def test_an_address_that_holds_no_problem_shows_the_first_scene(page, hostile):
    page.goto(page.url.split("#")[0] + "#" + hostile)
    page.reload()
    assert "Fig. 1(b)" in page.locator("#scene-words").inner_text()


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_everyone_can_use_it(page, width, colours):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra test)")
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=colours)
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


class TestProblemFiles:
    def test_lists_are_read_as_arrays_are(self, tmp_path):
        data, file = fig8(), tmp_path / "problem.json"
        lists = {"tokens": data.tokens.tolist(), "labels": data.labels.tolist(), "head": data.head.tolist()}
        file.write_text(json.dumps(lists))
        assert np.array_equal(load_problem(file).sequences.keys, data.keys)

    @pytest.mark.parametrize("content", ["[1, 2]", "{", '{"tokens": [[1], [2, 3]]}', "[" * 100_000])
    def test_what_is_no_problem_is_refused_in_a_sentence(self, tmp_path, content):
        file = tmp_path / "problem.json"
        file.write_text(content)
        with pytest.raises(tm.errors.InvalidInputError, match=r"problem\.json"):
            load_problem(file)
