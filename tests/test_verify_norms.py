"""Certificates in every norm: written, verified, forged, and verified a second time in another language."""

from __future__ import annotations

import copy
import json
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tokenmargin as tm
import tokenmargin.report
from tests import forged_certificates, forged_norms
from tokenmargin import cli
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status
from tokenmargin.norms import Lp, Max, Nuclear, Spectral, Sum
from tokenmargin.theory import write_certificate
from tokenmargin.theory.certificate_data import speaks_of
from tokenmargin.theory.problem import Problem
from tokenmargin.verify import seal, verify, verify_file

NORMS = (Max(), Sum(), Nuclear(), Spectral(), Lp(1.75), Lp(3.0), Lp(1.1))

#: Largest relative width of a bracket: ten times less than the gap to which solutions are held.
WIDTH = 1e-9

#: Weights, and entries of p, below this share of the largest are what a solver left of 0.
DEBRIS = 1e-9

TEMPLATES = Path(tokenmargin.report.__file__).parent / "templates"
SCRIPTS = TEMPLATES / "verify_trained.js", TEMPLATES / "verify.js"


def self_attention(seed: int, n: int = 3, T: int = 4, d: int = 3, e: int = 2) -> tm.CrossSequences:
    """Whole numbers for every third, masks for every fourth."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, T, d)), rng.normal(size=(n, e))
    if seed % 3 == 0:
        X, Z = np.rint(2 * X), np.rint(2 * Z)
    mask = np.arange(T) < rng.integers(2, T + 1, size=n)[:, None] if seed % 4 == 0 else None
    return tm.CrossSequences(X, queries=Z, labels=np.ones(n), head=np.ones(d), mask=mask)


def selection_for(data: tm.CrossSequences, seed: int) -> tm.Selection:
    """The tokens that a random W selects for most, any for every fifth."""
    rng = np.random.default_rng(seed)
    if seed % 5 == 4:
        return tm.Selection.from_indices([0] * data.n_inputs, data.n_places)
    logits = np.where(data.mask, data.logits(rng.normal(size=data.width)), -np.inf)
    return tm.Selection.from_indices(logits.argmax(axis=1), data.n_places)


def written(solution, tmp_path) -> dict:
    path = tmp_path / "certificate.json"
    write_certificate(solution, path)
    verdict = verify_file(path)
    assert verdict.verified, verdict
    return json.loads(path.read_text())


def bounds(content: dict) -> tuple[float, float]:
    return tuple(int(a, 16) / int(b, 16) for a, b in (content["proof"]["low"], content["proof"]["high"]))


@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm.name)
def test_solutions_in_every_norm_come_back_verified(norm, tmp_path):
    seen = {Status.OPTIMAL: 0, Status.INFEASIBLE: 0}
    for seed in range(12):
        data = self_attention(seed)
        solution = tm.att_svm(data, selection_for(data, seed), norm=norm)
        content = written(solution, tmp_path)
        seen[solution.status] += 1
        if solution.status is Status.INFEASIBLE:
            assert content["kind"] in ("infeasible", "bound")
            continue
        assert content["kind"] == "bracket"
        low, high = bounds(content)
        assert low <= high <= low * (1 + WIDTH)
        assert low * (1 - WIDTH) <= solution.value <= high * (1 + WIDTH)
        assert content["problem"]["blocks"] == [["W", *data.shape]]
        assert speaks_of(content, Problem(sequences=data)).verified
        other = tm.CrossSequences(data.tokens, queries=data.queries * 2, labels=data.labels, head=data.head)
        assert "query of input 0" in speaks_of(content, Problem(sequences=other)).because or seed % 4 == 0
    assert seen[Status.OPTIMAL] >= 8
    assert seen[Status.INFEASIBLE] >= 1


@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm.name)
def test_ties_relaxed_margins_and_plain_vectors_come_back_verified(norm, tmp_path):
    data = self_attention(1, n=3, T=3, d=4, e=3)
    tied = tm.att_svm(data, tm.Selection([[True, True, False], [True, False, False], [False, False, True]]), norm=norm)
    assert tied.status is Status.OPTIMAL
    assert "keeps 1 tied" in verify(written(tied, tmp_path)).because
    relaxed = tm.relaxed_svm(data, selection_for(data, 1), [True, False, False], norm=norm)
    assert "margins of 0 to 1" in verify(written(relaxed, tmp_path)).because
    plain = tm.EmbeddedSequences(data.tokens, data.labels, data.head)
    content = written(tm.att_svm(plain, tm.Selection.from_indices([0, 0, 0], 3), norm=norm), tmp_path)
    assert content["problem"]["blocks"] == [["p", 4]]


def test_what_has_no_short_exponent_is_refused_in_words(tmp_path):
    data = self_attention(1)
    solution = tm.att_svm(data, selection_for(data, 1), norm=Lp(1.5 + 1e-9))
    with pytest.raises(InvalidInputError, match="ratio of whole numbers up to 1000"):
        write_certificate(solution, tmp_path / "none.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("way", forged_norms.FALSE, ids=lambda way: way.__name__)
def test_what_proves_nothing_in_a_norm_is_not_verified(way):
    rng = random.Random(way.__name__)
    for _ in range(40):
        forged = forged_norms.closed(copy.deepcopy(way(rng, forged_norms.known_problem(rng))))
        verdict = verify(forged)
        assert not verdict.verified, json.dumps(forged)
        assert "is not what it should be" not in verdict.because, verdict


def test_true_twins_in_every_norm_are_verified():
    rng, norms = random.Random(1), set()
    for _ in range(120):
        true = forged_norms.truth(rng)
        assert verify(true).verified, json.dumps(true)
        norms.add(true["problem"]["norm"])
    assert norms == set(forged_norms.NORMS)


def test_every_number_of_a_proof_matters(tmp_path):
    """Each number of a tight proof off by a percent is refused, in each norm; of a witness, all numbers together."""
    for norm in NORMS:
        data = self_attention(2)
        content = written(tm.att_svm(data, selection_for(data, 2), norm=norm), tmp_path)
        largest = max(int(row[3], 16) for row in content["proof"]["duals"])
        longest = max(abs(int(x, 16)) for x in content["proof"]["p"]["whole"])
        for path in forged_norms.paths(content["proof"], ("proof",)):
            if path[1] in ("above", "below"):
                continue  # another factor may leave no more than this one did
            if path[1] == "duals" and int(content["proof"]["duals"][path[2]][3], 16) < largest * DEBRIS:
                continue
            if path[2] == "whole" and abs(int(content["proof"]["p"]["whole"][path[3]], 16)) < longest * DEBRIS:
                continue
            changed = copy.deepcopy(content)
            *way, last = path
            place = changed
            for step in way:
                place = place[step]
            old = place[last]
            if isinstance(old, int):
                place[last] = old + 1
            else:
                place[last] = hex(int(old, 16) * 101 // 100 + 1)
            weaker = path[1] in ("low", "high") and (path[1] == "low") == (last == 1)  # a wider bracket is true
            assert not verify(forged_norms.closed(changed)).verified or weaker, (norm, path)
        for name in ("above", "below"):
            changed = copy.deepcopy(content)
            for part in changed["proof"][name] or {}:
                rows = content["proof"][name][part]
                changed["proof"][name][part] = [[(1.01 * float.fromhex(x)).hex() for x in row] for row in rows]
            assert verify(forged_norms.closed(changed)).verified is (content["proof"][name] is None), (norm, name)


def test_an_expansion_that_would_fill_the_memory_is_refused():
    made = forged_norms.closed(forged_norms.truth(random.Random(0)))
    many = 3000
    made["problem"] |= {"keys": [[["0x0.0p+0"] * many] * 2], "selected": [[0]], "margins": ["0x1.0000000000000p+0"]}
    made["problem"] |= {"queries": [["0x0.0p+0"] * many], "blocks": [["W", many, many]]}
    assert "18000000 numbers" in verify(forged_norms.closed(made)).because


# --- the second verifier ----------------------------------------------------------------------------------------------


def by_node(texts: list[str], tmp_path: Path) -> list[bool]:
    """The verdicts of the second verifier on files with these contents."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine; tests/report has the same page in a browser")
    given, run = tmp_path / "texts.json", tmp_path / "run.mjs"
    given.write_text(json.dumps(texts))
    script = tmp_path / "verify.mjs"
    script.write_text("\n".join(one.read_text() for one in SCRIPTS))
    run.write_text(
        'import { readFileSync } from "node:fs";\n'
        f"await import({json.dumps(script.as_uri())});\n"
        f"const texts = JSON.parse(readFileSync({json.dumps(str(given))}, 'utf8')), said = [];\n"
        "for (const text of texts) said.push((await verifyCertificate(text)).verified);\n"
        "console.log(JSON.stringify(said));\n"
    )
    done = subprocess.run([node, str(run)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_python(text: str, path: Path) -> bool:
    path.write_text(text, encoding="utf-8")
    try:
        return verify_file(path).verified
    except InvalidInputError:
        return False


def both_agree(true: int, false: int, tmp_path: Path) -> None:
    rng, sources = random.Random(5), (forged_certificates, forged_norms)
    contents = [sources[k % 2].truth(rng) for k in range(true)]
    contents += [sources[k % 2].forgery(rng)[1] for k in range(false)]
    texts = [json.dumps(content, indent=1) for content in contents]
    ours = [by_python(text, tmp_path / "c.json") for text in texts]
    assert sum(ours[:true]) == true
    assert sum(ours[true:]) == 0
    assert by_node(texts, tmp_path) == ours


def test_the_second_verifier_agrees(tmp_path):
    both_agree(100, 100, tmp_path)


@pytest.mark.long
def test_the_second_verifier_agrees_on_a_thousand_of_each(tmp_path):
    both_agree(1000, 1000, tmp_path)


def test_the_second_verifier_agrees_on_files_of_the_library_and_on_texts_that_mean_two_things(tmp_path):
    texts = []
    for seed, norm in enumerate((*NORMS, "l2")):
        data = self_attention(seed)
        texts.append(json.dumps(written(tm.att_svm(data, selection_for(data, seed), norm=norm), tmp_path)))
    limit = tm.follow(
        tm.AttentionRisk(tm.EmbeddedSequences([[[1.0, 2.0], [0.0, 1.0]]], [1], [1.0, 0.5])), [0.0, 0.0], tm.Flow()
    )
    texts.append(json.dumps(written(limit.limit, tmp_path)))
    genuine = len(texts)
    one = texts[2]
    for old, new in (
        ('"version": 2', '"version": 2.0'),
        ('"version": 2', '"version": 2, "version": 2'),
        ('"version": 2', '"version": true'),
        ('"version": 2', '"version": 02'),
        ('"version": 2', '"version": 2e0'),
        ('"version": 2', '"version": NaN'),
        ('"version": 2', '"version": 2000000000000'),
        ('"kind"', '"kind": "infeasible", "kind"'),
        ('"seal": "', '"seal": "0'),
        ("{", "\ufeff{"),
        ("{", "[{"),
        ('"seal"', '"__proto__": 1, "seal"'),
        ('"problem"', '"constructor"'),
    ):
        assert old in one
        texts.append(one.replace(old, new, 1))
    texts += [one[:-1], one + "x", one + " \n", "", "[]", "null", "[" * 100_000, "toString"]
    ours = [by_python(text, tmp_path / "c.json") for text in texts]
    assert sum(ours) == genuine + 1  # with the one that ends in white space
    assert by_node(texts, tmp_path) == ours


#: What a forger may write where a name or a number stands, by its place in a certificate in the norm l7/4.
WRITTEN = {
    ("problem", "norm"): (
        "l1.75", "l7/4 ", "l14/8", "l4/7", "l7/0", "l07/4", "L7/4", "l7/4\n", "l\u0667/\u0664", "7/4", 1, None, True,
        f"l{'9' * 50}/4", "l1001/2", ["l7/4"], {"q": "7/4"}, "constructor", "__proto__",
    ),
    ("problem", "digest"): ("", None, 0, "0" * 64, ["0" * 64]),
    ("problem", "margins", 0): (
        "-0x0.0p+0", "0x\uff11.0000000000000p+0", "0x1.0000000000000p+\uff10", "0x1p+0", "1e400", "1.0", "inf", None, 1,
    ),
    ("proof", "p", "over"): ("-0x1", "0x0", "0x\u0661", "0X1", "0x1_0", "0x", " 0x1", "1", 1, f"0x{1 << 280_000:x}"),
    ("proof", "duals", 0, 1): (-1, True, "0", None, 999_999_999),
    ("proof", "above"): ({}, [], "", {"K": [["0x0.0p+0"]], "Q": [["0x0.0p+0"]]}),
    ("proof", "note"): ("x", None),
    ("problem", "__proto__"): ({}, None),
}  # fmt: skip


def test_both_verifiers_refuse_what_a_forger_writes_for_names_and_numbers(tmp_path):
    data = self_attention(2)
    genuine = written(tm.att_svm(data, selection_for(data, 2), norm=Lp(1.75)), tmp_path)
    texts = [json.dumps(genuine)]
    for path, values in WRITTEN.items():
        for value in values:
            forged = copy.deepcopy(genuine)
            place = forged
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
            texts.append(json.dumps(forged_norms.closed(forged) if path[-1] != "digest" else resealed(forged)))
    ours = [by_python(text, tmp_path / "c.json") for text in texts]
    assert sum(ours) == ours[0] == 1
    assert by_node(texts, tmp_path) == ours


def resealed(content: dict) -> dict:
    """The content under the seal that fits it, its digest as it is."""
    return {**content, "seal": seal({name: value for name, value in content.items() if name != "seal"})}


def test_the_command_writes_the_page(tmp_path, capsys):
    page = tmp_path / "page.html"
    assert cli.main(["verify", "--page", str(page)]) == 0
    assert "verifies what is dropped on it" in capsys.readouterr().out
    assert all(one.read_text().splitlines()[0] in page.read_text() for one in SCRIPTS)
    assert "https://" not in page.read_text()
    assert cli.main(["verify"]) == 2
    assert "no certificate to verify" in capsys.readouterr().err
