"""Certificates: written, read back and checked in exact arithmetic; whatever is changed in them is refused."""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tokenmargin as tm
import tokenmargin.verify
from tests.instances import fig1a, fig1c
from tokenmargin import cli
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory import write_certificate
from tokenmargin.verify import digest, kernel, seal, verify, verify_file

#: Largest relative width of the square of a bracket from float64: rounding of p, of its rows and of the multipliers.
BRACKET_WIDTH = 1e-12

SHAPES = ((2, 3, 2), (4, 6, 5), (3, 4, 2), (2, 4, 6))


def random_problem(seed: int) -> tm.EmbeddedSequences:
    """Whole numbers for every third, masks for every fourth, a repeated token for every fifth."""
    rng = np.random.default_rng(seed)
    n, T, d = SHAPES[seed % len(SHAPES)]
    keys = rng.integers(-2, 3, size=(n, T, d)).astype(float) if seed % 3 == 0 else rng.normal(size=(n, T, d))
    if seed % 5 == 0:
        keys[:, 1] = keys[:, 0]
    mask = np.arange(T) < rng.integers(2, T + 1, size=n)[:, None] if seed % 4 == 0 else None
    return tm.EmbeddedSequences(keys, rng.choice([-1, 1], size=n), rng.normal(size=d), mask=mask)


def first_of(n: int, T: int) -> tm.Selection:
    return tm.Selection.from_indices([0] * n, T)


def content_of(answer, tmp_path) -> dict:
    path = tmp_path / "certificate.json"
    write_certificate(answer, path)
    assert verify_file(path).verified, verify_file(path).because
    return json.loads(path.read_text())


def resealed(content: dict) -> dict:
    """As a forger would leave it: digest and seal fit, so that arithmetic alone must notice."""
    problem = content["problem"]
    if isinstance(problem, dict):
        problem = {**problem, "digest": digest(problem)}
    content = {**content, "problem": problem}
    return {**content, "seal": seal(content)}


def test_margins_and_conflicts_come_back_verified(tmp_path):
    seen = {tm.Status.OPTIMAL: 0, tm.Status.INFEASIBLE: 0}
    for seed in range(60):
        data = random_problem(seed)
        picked = np.random.default_rng(seed).integers(0, 2, size=data.n_inputs)
        solution = tm.att_svm(data, tm.Selection.from_indices(picked, data.n_places))
        kind = content_of(solution, tmp_path)["kind"]
        assert kind == ("shortest" if solution.status is tm.Status.OPTIMAL else "infeasible")
        seen[solution.status] += 1
    assert min(seen.values()) >= 20, seen


def test_margins_with_ties_and_with_relaxed_inputs_come_back_verified(tmp_path):
    tied = tm.att_svm(
        tm.EmbeddedSequences([[[1.0, 1.0], [1.0, -1.0], [0.0, 0.3]]], [1], [1.0, 0.0]),
        tm.Selection([[True, True, False]]),
    )
    assert content_of(tied, tmp_path)["problem"]["selected"] == [[0, 1]]
    from tests.instances import fig3

    relaxed = tm.relaxed_svm(fig3((0.5, 1.5)), tm.Selection.from_indices([1, 1, 1], 2))
    margins = content_of(relaxed, tmp_path)["problem"]["margins"]
    assert sorted(map(float.fromhex, margins)) == [0.0, 1.0, 1.0]


def test_limits_come_back_verified(tmp_path):
    found = 0
    for seed in range(40):
        data = random_problem(seed)
        limit = tm.follow(tm.AttentionRisk(data), np.zeros(data.width), tm.Flow()).limit
        if limit.diverges:
            assert content_of(limit, tmp_path)["kind"] == "limit"
            found += 1
    assert found >= 20


def test_what_cancels_up_to_rounding_is_a_bound_and_no_proof_of_infeasibility(tmp_path):
    """The third difference is minus a sum of the two others, rounded: weights cancel to 1e-16 and not exactly."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(2, 3))
        keys = [[np.zeros(3), -a, -b, 0.3 * a + 0.7 * b]]
        solution = tm.att_svm(tm.EmbeddedSequences(keys, [1], [1, 0, 0]), tm.Selection.from_indices([0], 4))
        content = content_of(solution, tmp_path)
        assert content["kind"] == "bound"
        assert "any p that separates 3 pairs by 1 has norm at least" in verify(content).because
        longer = copy.deepcopy(content)
        longer["proof"]["low"][0] = hex(int(content["proof"]["low"][0], 16) + 1)
        assert "less than what is stated" in verify(resealed(longer)).because
        claimed = copy.deepcopy(content)
        claimed["kind"] = "infeasible"
        del claimed["proof"]["low"]
        assert "do not cancel" in verify(resealed(claimed)).because


def test_more_rows_than_can_be_solved_exactly_make_a_bracket(tmp_path, monkeypatch):
    """p is scaled, and with ties projected, until it does all that is asked; where not even that can be, a bound."""
    rng = np.random.default_rng(4)
    plain = tm.att_svm(tm.EmbeddedSequences(rng.normal(size=(6, 2, 8)), [1] * 6, np.ones(8)), first_of(6, 2))
    ties = np.array([[True, True, False]] * 3)
    tied = tm.att_svm(tm.EmbeddedSequences(rng.normal(size=(3, 3, 8)), [1] * 3, np.ones(8)), tm.Selection(ties))
    relaxed = tm.relaxed_svm(plain.sequences, plain.selection, np.arange(6) < 3)
    for solution, limit, kinds in (
        (plain, 3, ["bracket"]),
        (tied, 3, ["bracket"]),
        (tied, 2, ["bound"]),
        (relaxed, 3, ["bracket"]),
    ):
        monkeypatch.setattr("tokenmargin.margin.exact_shortest.ROWS_LIMIT", limit)
        monkeypatch.setattr("tokenmargin.theory._exact_proof.ROWS_LIMIT", limit)
        content = content_of(solution, tmp_path)
        assert [content["kind"]] == kinds
        said = verify(content).because
        assert "that p is the shortest is not proved" in said or kinds == ["bound"]
        if kinds == ["bracket"]:
            low, high = (Fraction(*(int(x, 16) for x in content["proof"][name])) for name in ("low", "high"))
            assert 0 < high / low - 1 < BRACKET_WIDTH
            for name, factor in (("low", 2), ("high", Fraction(1, 2))):
                changed = copy.deepcopy(content)
                value = Fraction(*(int(x, 16) for x in content["proof"][name])) * factor
                changed["proof"][name] = [hex(value.numerator), hex(value.denominator)]
                assert "the bracket is not the one that is proved" in verify(resealed(changed)).because


def test_an_answer_that_holds_up_to_rounding_only_is_not_written(tmp_path):
    """Three tied tokens on a line up to rounding: exactly, p is held to the plane of what rounding left."""
    a, b = np.array([0.1, 0.7, 0.3]), np.array([0.3, -0.2, 0.9])
    keys = [[a, a + b, a + 0.3 * b, [-3.0, -4.0, -2.0]]]
    data = tm.EmbeddedSequences(keys, [1], [1.0, 0.0, 0.0])
    solution = tm.att_svm(data, tm.Selection([[True, True, True, False]]))
    assert (
        "is the shortest p* that separates 1 pair by 1 and keeps 2 tied"
        in verify(content_of(solution, tmp_path)).because
    )
    line = tm.EmbeddedSequences([[*keys[0][:2], keys[0][3]]], [1], [1.0, 0.0, 0.0])
    of_the_line = tm.att_svm(line, tm.Selection([[True, True, False]])).p  # ties the third up to rounding
    with pytest.raises(InvalidInputError, match="up to rounding of the keys"):
        write_certificate(replace(solution, p=of_the_line, exact=None), tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


def test_a_limit_with_ties_needs_its_tie_weights(tmp_path):
    """Two tokens of one score stay tied along (1, 0), though the pairs of the first alone sum to another."""
    keys = [[(1.0, 1.0), (1.0, -1.0), (0.0, 0.0)]]
    data = tm.EmbeddedSequences.from_scores(keys, [[1.0, 1.0, 0.0]])
    limit = tm.follow(tm.AttentionRisk(data), [0.0, 0.0], tm.Flow()).limit
    content = content_of(limit, tmp_path)
    assert content["problem"]["selected"] == [[0, 1]]
    assert "whether it attracts is not proved" in verify(content).because
    content["proof"]["tie_duals"][0][3] = "0x0"
    assert "has to be the shortest exactly" in verify(resealed(content)).because


def test_a_limit_behind_a_nonlinear_head(tmp_path):
    from tokenmargin.papers.maxmargin.claims.thm8_lemma14_heads import two_ways

    limit = tm.follow(two_ways().risk, [0.1, 0.2], tm.Flow()).limit
    assert limit.diverges
    assert content_of(limit, tmp_path)["kind"] == "limit"


def test_a_token_of_higher_score_that_keeps_its_distance_refutes_a_limit(tmp_path):
    """Along (0, 1) tokens 0 and 2 fall behind token 1 alike; with more than its score token 0 would pull for ever."""
    data = tm.EmbeddedSequences.from_scores([[(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]], [[0.4, 0.5, 0.0]])
    limit = tm.follow(tm.AttentionRisk(data), [-30.0, 0.5], tm.Flow()).limit
    content = content_of(limit, tmp_path)
    assert content["problem"]["selected"] == [[1]]
    content["problem"]["scores"][0][0] = (1.0).hex()
    assert "token 0 of input 0 holds p back" in verify(resealed(content)).because


# --- what is changed is refused ---------------------------------------------------------------------------------------


def conflict() -> tm.MarginSolution:
    return tm.att_svm(
        tm.EmbeddedSequences([[[0.0, 0.5], [1.0, 0.0], [-1.0, 1.0]]], [1], [1.0, 0.0]),
        tm.Selection.from_indices([0], 3),
    )


def limit() -> tm.Limit:
    return tm.follow(tm.AttentionRisk(fig1c()), [0.0, 0.0], tm.Flow()).limit


ANSWERS = {"shortest": lambda: tm.global_margin(fig1c()), "infeasible": conflict, "limit": limit}


def numbers_in(node, path=()):
    """Where the numbers of a certificate stand: texts, and the numbers of tokens."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from numbers_in(value, (*path, name))
    elif isinstance(node, list):
        for place, value in enumerate(node):
            yield from numbers_in(value, (*path, place))
    elif node is not None and not isinstance(node, bool):
        yield path


def at(content, path):
    for step in path:
        content = content[step]
    return content


#: Where a hexadecimal number ends in another digit.
OTHER = {digit: "7" if digit != "7" else "6" for digit in "0123456789abcdef"}


@pytest.mark.parametrize("kind", ANSWERS)
def test_any_flipped_digit_breaks_the_seal(kind, tmp_path):
    content = content_of(ANSWERS[kind](), tmp_path)
    for path in numbers_in(content["proof"], ("proof",)):
        changed = copy.deepcopy(content)
        old = at(content, path)
        at(changed, path[:-1])[path[-1]] = old + 1 if isinstance(old, int) else old[:-1] + OTHER[old[-1]]
        assert "seal" in verify(changed).because, path


def larger(text: str) -> str:
    """A number of a percent more, or 1 more; a float for a float."""
    if "p" in text:
        return (float.fromhex(text) * 1.01 or 1.0).hex()
    return hex(int(text, 16) * 101 // 100 + 1)


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_number_of_a_proof_matters_to_the_arithmetic(kind, tmp_path):
    """Each number off by a percent, each token another, with a seal that fits."""
    content = content_of(ANSWERS[kind](), tmp_path)
    assert verify(resealed(content)).verified
    for path in numbers_in(content["proof"], ("proof",)):
        if path[:2] == ("proof", "sine_square"):
            continue  # a larger sine is a weaker statement, and true
        changed = copy.deepcopy(content)
        old = at(content, path)
        at(changed, path[:-1])[path[-1]] = old + 1 if isinstance(old, int) else larger(old)
        assert not verify(resealed(changed)).verified, path


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_dropped_pair_or_a_negative_weight_is_refused(kind, tmp_path):
    content = content_of(ANSWERS[kind](), tmp_path)
    name = "weights" if kind == "infeasible" else "duals"
    for place in range(len(content["proof"][name])):
        changed = copy.deepcopy(content)
        del changed["proof"][name][place]
        assert not verify(resealed(changed)).verified, place
        changed = copy.deepcopy(content)
        changed["proof"][name][place][3] = "-" + changed["proof"][name][place][3]
        assert "a weight is negative" in verify(resealed(changed)).because


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_part_that_is_missing_or_of_another_kind_is_refused(kind, tmp_path):
    content = content_of(ANSWERS[kind](), tmp_path)
    for group in ("problem", "proof"):
        for name in content[group]:
            for other in (None, "x", [], [["nan"]], ["inf"], 3, ["1e999999999"]):
                if other == content[group][name] or name == "digest":
                    continue
                changed = copy.deepcopy(content)
                changed[group][name] = other
                assert not verify(resealed(changed)).verified, (group, name, other)
            changed = copy.deepcopy(content)
            del changed[group][name]
            assert name == "digest" or not verify(resealed(changed)).verified, (group, name)
    for kinds in (*ANSWERS, "bracket", "bound", "other"):
        assert verify(resealed({**content, "kind": kinds})).verified == (kinds == kind)


def test_a_wrong_problem_is_not_proved(tmp_path):
    """The other selection, a flipped velocity, flipped scores."""
    content = content_of(tm.global_margin(fig1a()), tmp_path)
    content["problem"]["selected"] = [[1]]
    assert not verify(resealed(content)).verified
    content = content_of(limit(), tmp_path)

    def flip(x):
        return [flip(y) for y in x] if isinstance(x, list) else (-float.fromhex(x)).hex()

    for part, name in (("proof", "velocity"), ("problem", "scores")):
        changed = copy.deepcopy(content)
        changed[part][name] = flip(content[part][name])
        assert not verify(resealed(changed)).verified, name


def test_scaled_keys_change_no_verdict(tmp_path):
    for scale in (1e-6, 1e6):
        data = fig1c()
        scaled = tm.EmbeddedSequences(data.tokens, data.labels, data.head, keys=scale * data.keys)
        assert content_of(tm.global_margin(scaled), tmp_path)["kind"] == "shortest"


def test_what_proves_nothing_is_not_written(tmp_path):
    trivial = tm.att_svm(tm.EmbeddedSequences([[[1.0]]], [1], [1.0]), tm.Selection([[True]]))
    with pytest.raises(InvalidInputError, match="nothing to certify"):
        write_certificate(trivial, tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_says_one_line_and_its_exit_code(tmp_path, capsys):
    path = tmp_path / "c.json"
    write_certificate(conflict(), path)
    assert cli.main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith("verified: no p separates 2 pairs by 1, because 2 weighted")
    path.write_text(path.read_text().replace('"kind": "infeasible"', '"kind": "shortest"'))
    assert cli.main(["verify", str(path)]) == 1
    assert capsys.readouterr().out.startswith("NOT verified: ")
    for text in ("hello", "[]", "{}", '{"format": "other", "version": 1}', "[" * 100_000, "\udcff"):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert cli.main(["verify", str(path)]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert cli.main(["verify", str(tmp_path / "absent.json")]) == 2
    assert cli.main(["verify", str(tmp_path)]) == 2


def test_a_certificate_is_bound_to_the_data_that_it_speaks_of(tmp_path, capsys):
    """Equal to the last bit or not of these data: keys, the selection where one is named, the scores of a limit."""
    data = random_problem(4)  # masked
    arrays = {"tokens": data.tokens, "labels": data.labels, "head": data.head, "mask": data.mask}
    path, own = tmp_path / "c.json", tmp_path / "own.npz"

    def said(**changed: object) -> tuple[int, str]:
        np.savez(own, **{**arrays, **changed})
        code = cli.main(["verify", str(path), "--problem", str(own)])
        return code, capsys.readouterr().out

    solution = tm.global_margin(data)
    write_certificate(solution, path)
    code, out = said()
    assert code == 0
    assert "to the last bit; the selection, [[" in out
    assert "and so is the selection" in said(selection=solution.selection.chosen)[1]
    off = data.tokens.copy()
    off[1, 0, 0] = np.nextafter(off[1, 0, 0], 9)
    code, out = said(tokens=off)
    assert code == 1
    assert "does NOT speak" in out
    assert "the key of token 0 of input 1 is not that of the data" in out
    assert "the selection of input" in said(selection=other_selection(solution))[1]
    assert "it has 2 inputs, and the data 1" in said(**{n: a if n == "head" else a[:1] for n, a in arrays.items()})[1]
    write_certificate(tm.follow(tm.AttentionRisk(data), np.zeros(data.width), tm.Flow()).limit, path)
    assert "its keys and scores are those of the data" in said()[1]
    assert "the score of token" in said(head=data.head * 2, keys=data.keys)[1]
    counts = tmp_path / "counts.npz"
    np.savez(counts, counts=np.ones((2, 3), dtype=int), labels=[1, -1])
    assert cli.main(["verify", str(path), "--problem", str(counts)]) == 2


def other_selection(solution: tm.MarginSolution) -> np.ndarray:
    chosen = solution.selection.chosen.copy()
    place = np.flatnonzero(~chosen[0] & solution.sequences.mask[0])[0]
    chosen[0] = np.arange(chosen.shape[1]) == place
    return chosen


def beyond_the_standard_library(path: Path) -> set[str]:
    import ast

    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    return {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}


def test_the_verifier_needs_no_solver_and_no_numpy():
    own = {"tokenmargin.errors", "tokenmargin.verify"}
    own |= {
        f"tokenmargin.verify.{name}"
        for name in ("kernel", "lengths", "_intervals", "_stationary", "_parsing", "_trained", "_words")
    }
    folder = Path(tokenmargin.verify.__file__).parent
    assert all(beyond_the_standard_library(path) <= own for path in folder.glob("*.py"))
    assert beyond_the_standard_library(Path(kernel.__file__)) == set()


def test_what_one_has_to_trust_is_read_in_one_sitting():
    assert len(Path(kernel.__file__).read_text().splitlines()) <= 210
    assert len(Path(kernel.__file__).with_name("lengths.py").read_text().splitlines()) <= 150
    assert len(Path(kernel.__file__).with_name("_stationary.py").read_text().splitlines()) <= 230


def test_what_has_no_certificate_is_refused_in_words_and_leaves_no_file(tmp_path):
    from tokenmargin import label_svm

    cross = tm.CrossSequences(np.eye(3)[None], queries=[[1.0, 2.0]], labels=[1], head=[1.0, 0.0, 0.0])
    factors = tm.follow(tm.FactoredRisk(cross, rank=1), (np.full((3, 1), 0.1), np.full((2, 1), 0.1)), tm.Flow()).limit
    label = label_svm([[1.0, 0.0], [0.0, -1.0]], [1, -1])
    for answer, words in (
        (factors, "a limit of K and Q together"),
        (label, "a LabelSolution"),
        (3, "int"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            write_certificate(answer, tmp_path / "proof.json")
    assert list(tmp_path.iterdir()) == []
