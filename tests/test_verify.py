"""Certificates: written, read back and checked in exact arithmetic; whatever is changed in them is refused."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tokenmargin as tm
import tokenmargin.verify
from tests.instances import fig1a, fig1c
from tokenmargin import cli
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory import write_certificate
from tokenmargin.verify import kernel, seal, verify, verify_file

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


def content_of(answer, tmp_path) -> dict:
    path = tmp_path / "certificate.json"
    write_certificate(answer, path)
    assert verify_file(path).verified, verify_file(path).because
    return json.loads(path.read_text())


def resealed(content: dict) -> dict:
    """As a forger would leave it: the seal fits, so that arithmetic alone must notice."""
    return {**content, "seal": seal(content)}


def test_margins_and_conflicts_come_back_verified(tmp_path):
    seen = {tm.Status.OPTIMAL: 0, tm.Status.INFEASIBLE: 0}
    for seed in range(60):
        data = random_problem(seed)
        picked = np.random.default_rng(seed).integers(0, 2, size=data.n_inputs)
        solution = tm.att_svm(data, tm.Selection.from_indices(picked, data.n_places))
        kind = content_of(solution, tmp_path)["kind"]
        assert kind == ("margin" if solution.status is tm.Status.OPTIMAL else "infeasible")
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
        assert content["proof"]["exact"] is False
        assert "no p shorter than" in verify(content).because
        longer = copy.deepcopy(content)
        longer["proof"]["norm_bound"] = (2 * float.fromhex(content["proof"]["norm_bound"])).hex()
        assert not verify(resealed(longer)).verified
        claimed = copy.deepcopy(content)
        claimed["proof"]["exact"] = True
        assert "do not cancel" in verify(resealed(claimed)).because


def test_a_limit_with_ties_needs_its_tie_weights(tmp_path):
    """Two tokens of one score stay tied along (1, 0), though the pairs of the first alone sum to another."""
    keys = [[(1.0, 1.0), (1.0, -1.0), (0.0, 0.0)]]
    data = tm.EmbeddedSequences.from_scores(keys, [[1.0, 1.0, 0.0]])
    limit = tm.follow(tm.AttentionRisk(data), [0.0, 0.0], tm.Flow()).limit
    content = content_of(limit, tmp_path)
    assert content["problem"]["selected"] == [[0, 1]]
    content["proof"]["tie_weights"][0][3] = (0.0).hex()
    assert "weighted sum" in verify(resealed(content)).because


def test_a_limit_behind_a_nonlinear_head(tmp_path):
    from tokenmargin.theory.maxmargin.thm8_lemma14_heads import two_ways

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
    assert "higher score" in verify(resealed(content)).because


# --- what is changed is refused ---------------------------------------------------------------------------------------


def conflict() -> tm.MarginSolution:
    return tm.att_svm(
        tm.EmbeddedSequences([[[0.0, 0.5], [1.0, 0.0], [-1.0, 1.0]]], [1], [1.0, 0.0]),
        tm.Selection.from_indices([0], 3),
    )


def limit() -> tm.Limit:
    return tm.follow(tm.AttentionRisk(fig1c()), [0.0, 0.0], tm.Flow()).limit


ANSWERS = {"margin": lambda: tm.global_margin(fig1c()), "infeasible": conflict, "limit": limit}


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


@pytest.mark.parametrize("kind", ANSWERS)
def test_any_flipped_digit_breaks_the_seal(kind, tmp_path):
    content = content_of(ANSWERS[kind](), tmp_path)
    for path in numbers_in(content["proof"], ("proof",)):
        changed = copy.deepcopy(content)
        old = at(content, path)
        at(changed, path[:-1])[path[-1]] = (
            old + 1 if isinstance(old, int) else old.replace(old[-1], "7" if old[-1] != "7" else "6")
        )
        assert not verify(changed).verified, path


def larger(text: str) -> str:
    """A text of a number of a percent more; 1 for 0."""
    value = float.fromhex(text) if "0x" in text else float(text)
    return (value * 1.01 if value else 1.0).hex()


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_number_of_a_proof_matters_to_the_arithmetic(kind, tmp_path):
    """Each number off by a percent, each token another, with a seal that fits."""
    content = content_of(ANSWERS[kind](), tmp_path)
    assert verify(resealed(content)).verified
    for path in numbers_in(content["proof"], ("proof",)):
        changed = copy.deepcopy(content)
        old = at(content, path)
        at(changed, path[:-1])[path[-1]] = old + 1 if isinstance(old, int) else larger(old)
        assert not verify(resealed(changed)).verified, path


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_dropped_pair_or_a_negative_weight_is_refused(kind, tmp_path):
    content = content_of(ANSWERS[kind](), tmp_path)
    lists = {"margin": [("duals",)], "infeasible": [("pairs", "weights")], "limit": [("support", "weights")]}[kind]
    for together in lists:
        for place in range(len(content["proof"][together[0]])):
            changed = copy.deepcopy(content)
            for name in together:
                del changed["proof"][name][place]
            if kind == "limit" and changed["proof"]["weights"]:  # sum to 1 again, as a forger would have them
                left = [float.fromhex(w) for w in changed["proof"]["weights"]]
                changed["proof"]["weights"] = [(w / sum(left)).hex() for w in left]
            assert not verify(resealed(changed)).verified, (together, place)
    changed = copy.deepcopy(content)
    if kind == "margin":
        heaviest = max(changed["proof"]["duals"], key=lambda row: float.fromhex(row[3]))
        heaviest[3] = "-" + heaviest[3]
    else:
        changed["proof"]["weights"][0] = "-" + changed["proof"]["weights"][0]
    verdict = verify(resealed(changed))
    assert not verdict.verified
    assert "negative" in verdict.because or "not positive" in verdict.because


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_part_that_is_missing_or_of_another_kind_is_refused(kind, tmp_path):
    content = content_of(ANSWERS[kind](), tmp_path)
    for group in ("problem", "proof"):
        for name in content[group]:
            for other in (None, "x", [], [["nan"]], ["inf"], 3, ["1e999999999"]):
                if other == content[group][name]:
                    continue
                changed = copy.deepcopy(content)
                changed[group][name] = other
                assert not verify(resealed(changed)).verified, (group, name, other)
            changed = copy.deepcopy(content)
            del changed[group][name]
            assert not verify(resealed(changed)).verified, (group, name)
    assert not verify(resealed({**content, "kind": "other"})).verified
    for kinds in ANSWERS:
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
        assert content_of(tm.global_margin(scaled), tmp_path)["kind"] == "margin"


def test_what_proves_nothing_is_not_written(tmp_path):
    trivial = tm.att_svm(tm.EmbeddedSequences([[[1.0]]], [1], [1.0]), tm.Selection([[True]]))
    with pytest.raises(InvalidInputError, match="nothing to certify"):
        write_certificate(trivial, tmp_path / "none.json")
    from tests.instances import theorem2_counterexample

    finite = tm.follow(tm.AttentionRisk(theorem2_counterexample()), [3.0], tm.Flow()).limit
    with pytest.raises(InvalidInputError, match="nothing to certify"):
        write_certificate(finite, tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_says_one_line_and_its_exit_code(tmp_path, capsys):
    path = tmp_path / "c.json"
    write_certificate(conflict(), path)
    assert cli.main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith("verified: no p exists")
    path.write_text(path.read_text().replace('"kind": "infeasible"', '"kind": "margin"'))
    assert cli.main(["verify", str(path)]) == 1
    assert capsys.readouterr().out.startswith("NOT verified: ")
    for text in ("hello", "[]", "{}", '{"format": "other", "version": 1}', "[" * 100_000, "\udcff"):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert cli.main(["verify", str(path)]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert cli.main(["verify", str(tmp_path / "absent.json")]) == 2
    assert cli.main(["verify", str(tmp_path)]) == 2


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
    own = {"tokenmargin.errors", "tokenmargin.verify", "tokenmargin.verify.kernel"}
    assert beyond_the_standard_library(Path(tokenmargin.verify.__file__)) == own
    assert beyond_the_standard_library(Path(kernel.__file__)) == set()


def test_what_one_has_to_trust_is_read_in_one_sitting():
    assert len(Path(kernel.__file__).read_text().splitlines()) <= 145


def test_what_has_no_certificate_is_refused_in_words_and_leaves_no_file(tmp_path):
    from tokenmargin import AttentionRisk, EmbeddedSequences, Flow, JointRisk, follow, label_svm
    from tokenmargin.data import toys

    tug = EmbeddedSequences.from_scores([[(1, 0), (0, 0)], [(-1, 0), (0, 0)], [(0, 1), (0, 0)]], [[1.0, 0.0]] * 3)
    mixed = follow(AttentionRisk(tug), [0.0, 0.0], Flow()).limit
    joint = follow(JointRisk(toys.fig3((0.5, 1.0))), ((-1.0, 0.0), (0.0, -1.0)), Flow()).limit
    label = label_svm([[1.0, 0.0], [0.0, -1.0]], [1, -1])
    for answer, words in (
        (mixed, "the limit is mixed"),
        (joint, "a JointLimit"),
        (label, "a LabelSolution"),
        (3, "int"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            write_certificate(answer, tmp_path / "proof.json")
    assert list(tmp_path.iterdir()) == []
