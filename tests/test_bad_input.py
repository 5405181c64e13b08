"""What nobody should hand in: only errors of ours, soon, and no file that runs.

`tests/torture` tries tens of thousands; here are the worst of them, as a user meets them: without the checks of
signatures that the other tests run under, which is why most of this happens in one process of its own.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tokenmargin as tm
from tests.torture import _entries, fuzz_calls, fuzz_cli, svm_verdicts
from tests.torture._exact_margin import exact, is_beyond, is_contradictory, is_shortest
from tests.torture._mutation import fuzzed
from tests.torture._worst import TABLE
from tests.torture.svm_verdicts import RIGHT, UNDECIDED, WRONG
from tokenmargin import verify
from tokenmargin._checks import checked, fits_in_memory, float_dtype, real_array, whole_number
from tokenmargin.attention import descent
from tokenmargin.errors import InvalidInputError, TokenMarginError, TooLargeError, WrongTypeError
from tokenmargin.margin import Status, pair_svm
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.vit.cifar10 import cifar10
from tokenmargin.sources import open_table

ROOT = Path(__file__).parents[1]
WORST = TABLE.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def tried() -> dict[str, Any]:
    words = [sys.executable, "-m", "tests.torture._worst", str(fuzz_calls.COUNT // 10)]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture
def outcomes(tried) -> dict[str, str]:
    return tried["found"]


class TestTheWorst:
    def test_all_are_answered_or_refused_in_our_words(self, outcomes):
        assert len(set(WORST)) == len(WORST) >= 500
        assert outcomes["a billion steps, and a signal"] == "interrupted"
        assert set(WORST) < set(outcomes)
        assert {
            case: said for case, said in outcomes.items() if said not in ("answered", "refused", "interrupted")
        } == {}
        assert sum(outcomes[case] == "refused" for case in WORST) > 0.9 * len(WORST)

    def test_every_public_name_was_tried_with_nothing_right(self, outcomes):
        tried = {case.split("|")[0] for case in outcomes if "|everything|" in case}
        assert {"tokenmargin.follow", "tokenmargin.margin.least_norm", "tokenmargin.sources.table"} <= tried
        assert len(tried) > 200


class TestTheFuzzer:
    def test_a_tenth_of_its_calls_bring_no_foreign_error_and_no_hang(self, tried):
        assert fuzz_calls.COUNT >= 12_000
        assert tried["drawn"] > 350
        assert tried["fuzzed"] == {}

    def test_it_draws_from_every_public_name(self, tried):
        assert tried["undrawn"] == []
        assert tried["drawn"] > tried["right"] > 200


class TestWhereArgumentsEnter:
    @pytest.mark.parametrize("path", ["a" * 5000, "/".join(["a"] * 5000), "a\0b", "half \ud800"])
    def test_the_path_of_no_file(self, path):
        for call in (_entries.dataset().save, tm.TokenDataset.load, open_table, tm.load):
            with pytest.raises(InvalidInputError, match="is the path of no file"):
                call(path)

    @pytest.mark.parametrize(
        ("value", "says"),
        [
            (range(10**12), "would take 8e\\+03 GB"),
            (np.broadcast_to(1.0, (10**11,)), "would take 800 GB"),
        ],
    )
    def test_more_than_memory_before_anybody_goes_through_it(self, value, says):
        with pytest.raises(TooLargeError, match=says):
            real_array(value, "keys", "(n,)")

    def test_lists_without_an_end(self):
        held: list = [1.0]
        held.append(held)
        deep: list = []
        for _ in range(3000):
            deep = [deep]
        for value in (held, deep):
            with pytest.raises(InvalidInputError, match="holds itself: give plain lists"):
                real_array(value, "keys", "(n,)")

    def test_one_key_and_not_many(self):
        with pytest.raises(InvalidInputError, match="key is an array of 3 keys"):
            tm.OneLayer(4).initial(jax.random.split(jax.random.key(0), 3), 4)


class TestNamed:
    """Each of these once hung, ended the process, or raised what is not ours."""

    def test_one_id_that_is_no_token(self):
        with pytest.raises(TooLargeError, match="give the vocabulary, or number the tokens anew"):
            tm.TokenDataset.from_token_ids([[10**9], [2]], [0, 1])

    def test_a_selection_of_a_number_mistaken_for_T(self):
        with pytest.raises(TooLargeError, match="T is the tokens of one input"):
            tm.Selection.from_indices([0], T=10**10)

    @pytest.mark.parametrize(
        "call",
        [
            lambda: tm.norms.L2().value([1.0, 2.0]),
            lambda: tm.norms.Spectral().steepest(jax.random.key(0)),
            lambda: tm.losses.label_log.bounds(0.0, 1.0),
            lambda: tm.losses.label_log.bounds(10**400, 1.0),
        ],
    )
    def test_methods_of_what_is_public(self, call):
        with pytest.raises(TokenMarginError):
            call()

    def test_rows_that_there_are_not(self):
        with pytest.raises(InvalidInputError, match="rows hold 10, but there are 4 documents"):
            _entries.dataset().subset([10])

    def test_a_path_that_no_memory_holds(self):
        with pytest.raises(TooLargeError, match="keep fewer with every="):
            tm.follow(tm.AttentionRisk(toys.fig8()), [1.0, 0.5], tm.Descent(0.1), steps=10**13)

    def test_files_that_are_not_there_or_another_thing(self, tmp_path):
        (tmp_path / "text").write_text("no arrays")
        for path in (tmp_path / "absent.npz", tmp_path, tmp_path / "text"):
            with pytest.raises(InvalidInputError, match="give a saved TokenDataset"):
                tm.TokenDataset.load(path)

    def test_what_is_written_is_whole_or_is_not_there(self, tmp_path):
        (tmp_path / "d.npz").mkdir()
        with pytest.raises(InvalidInputError, match="is a folder"):
            _entries.dataset().save(tmp_path / "d.npz")
        _entries.dataset().save(tmp_path / "e")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["d.npz", "e.npz"]
        assert tm.TokenDataset.load(tmp_path / "e.npz").vocabulary == _entries.WORDS

    def test_a_data_set_whose_arrays_do_not_fit(self, tmp_path):
        stored = {"data": [1, 1], "indices": [0, 7], "indptr": [0, 1, 2], "labels": [1.0, -1.0]}
        np.savez(tmp_path / "d.npz", **stored, vocabulary=["a", "b"], class_names=["x", "y"])
        with pytest.raises(InvalidInputError, match="damaged TokenDataset"):
            tm.TokenDataset.load(tmp_path / "d.npz")

    def test_a_certificate_that_is_nested_too_deep_or_too_large(self):
        deep: dict = {}
        for _ in range(100_000):
            deep = {"a": deep}
        headed = {"format": verify.FORMAT, "version": verify.VERSION}
        assert not verify.verify(headed | {"kind": "margin", "problem": deep}).verified
        problem = {"keys": [[["1"], [f"1{'0' * 400}"]]], "selected": [[1]], "margins": ["1"]}
        content = headed | {"kind": "margin", "problem": problem}
        content["proof"] = {"p": ["1"], "duals": [[0, 1, 0, f"9{'0' * 400}"]], "tie_duals": []}
        assert not verify.verify(content | {"seal": verify.seal(content)}).verified

    def test_a_pickle_that_would_run(self, tmp_path):
        class Evil:
            def __reduce__(self):
                return Path.touch, (tmp_path / "ran",)

        (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": Evil(), b"labels": [1]}))
        with pytest.raises(InvalidInputError, match="could run a program"):
            cifar10(tmp_path, split="test", verify=False)
        assert not (tmp_path / "ran").exists()


class TestLongRuns:
    def test_many_calls_take_the_steps_of_one(self, monkeypatch):
        risk, how = tm.AttentionRisk(toys.fig8()), {"steps": 48, "every": 24}
        whole = tm.follow(risk, [1.0, 0.5], tm.NormalizedDescent(0.3), **how)
        monkeypatch.setattr(descent, "STEPS_AT_ONCE", 8)
        parts = tm.follow(risk, [1.0, 0.5], tm.NormalizedDescent(0.3), **how)
        np.testing.assert_allclose(parts.points, whole.points, rtol=1e-13)
        assert parts.points.shape == whole.points.shape

    def test_spans_cover_every_record_once_with_all_its_steps(self):
        for records, every, most in ((10, 3, 7), (4, 20, 6), (1, 5, 5), (5, 1, 100)):
            steps = dict.fromkeys(range(records), 0)
            for first, at_once, spacing in descent._spans(records, every, most):
                assert at_once * spacing <= max(most, every)
                for record in range(first, first + at_once):
                    steps[record] += spacing
            assert set(steps.values()) == {every}


class TestChecks:
    def test_a_function_refuses_what_its_signature_does_not_say(self):
        @checked
        def f(a: int, b: str | None = None, *, c: tuple[float, ...] = (), d: list[tm.Selection] | None = None) -> int:
            return a

        assert f(np.int64(3), "x", c=(1, np.float32(2.0))) == 3
        assert f(1, d=[tm.Selection([[True]])]) == 1
        for wrong in ((None,), (True,), (2.5,), (1, 2), (np.ones(2),)):
            with pytest.raises(WrongTypeError, match="must be"):
                f(*wrong)
        for wrong in ({"c": [1.0]}, {"c": ("x",)}, {"d": [1]}, {"d": "text"}):
            with pytest.raises(TypeError, match="must be"):
                f(1, **wrong)

    def test_a_dataclass_does_too_and_says_what_it_wants(self):
        @checked
        @dataclass(frozen=True)
        class Settings:
            share: float = 0.5

        assert Settings(1).share == 1
        with pytest.raises(InvalidInputError, match=r"share must be a number, got str: 'half'\."):
            Settings("half")

    def test_an_error_does_not_depend_on_the_repr_of_what_was_given(self):
        class Hostile:
            def __repr__(self):
                raise RuntimeError("no")

        with pytest.raises(WrongTypeError, match="got Hostile"):
            tm.one_step(Hostile(), 0.1, 4, np.random.default_rng(0))

    def test_numbers(self):
        for value in (10**30, -1):
            with pytest.raises(InvalidInputError, match="n must be a whole number >= 0"):
                whole_number(value, "n", 0)
        assert float_dtype(np.float32) == float_dtype("float32") == "float32"
        for kind in (None, "int8", np.ones(2), object()):
            with pytest.raises(InvalidInputError, match="float32 or float64"):
                float_dtype(kind)
        fits_in_memory(10, "ten numbers", "never")
        with pytest.raises(TooLargeError, match=r"would take .* GB, and this machine has .* GB: take less\."):
            fits_in_memory(10**18, "it", "take less")

    @given(
        hnp.arrays(
            st.sampled_from([np.float64, np.int8, np.bool_, np.complex128, np.dtype("U3"), object]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
            elements=None,
            fill=st.nothing(),
        )
    )
    def test_an_array_comes_out_as_asked_for_or_not_at_all(self, array):
        try:
            found = real_array(array, "x", "(n, d)")
        except InvalidInputError:
            return
        assert found.dtype == np.float64
        assert found.ndim == 2
        assert np.isfinite(found).all()


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


class TestProperties:
    """Whatever is handed in: a value, or an error of ours."""

    @settings(max_examples=80)
    @given(JSON_LIKE, JSON_LIKE)
    def test_data_sets(self, counts, labels):
        for make in (tm.TokenDataset, tm.TokenDataset.from_token_ids):
            with contextlib.suppress(TokenMarginError, TypeError):
                assert len(make(counts, labels)) > 0

    @settings(max_examples=80)
    @given(JSON_LIKE, JSON_LIKE, JSON_LIKE)
    def test_sequences_and_selections(self, tokens, labels, head):
        for make, arguments in ((tm.EmbeddedSequences, (tokens, labels, head)), (tm.Selection, (tokens,))):
            with contextlib.suppress(TokenMarginError, TypeError):
                make(*arguments)

    @settings(max_examples=80)
    @given(st.dictionaries(st.sampled_from(["kind", "problem", "proof", "seal", "format"]), JSON_LIKE))
    def test_certificates(self, content):
        content = {"format": verify.FORMAT, "version": verify.VERSION} | content
        with contextlib.suppress(InvalidInputError):  # another format
            assert not verify.verify(content).verified
            assert not verify.verify(content | {"seal": verify.seal(content)}).verified

    @settings(max_examples=60)
    @given(st.binary(max_size=200), st.sampled_from(["csv", "tsv", "jsonl", "parquet", "csv.gz"]))
    def test_tables(self, tmp_path_factory, data, ending):
        path = tmp_path_factory.mktemp("tables") / f"table.{ending}"
        path.write_bytes(data)
        with contextlib.suppress(TokenMarginError):
            open_table(path).source.load()

    def test_command_lines(self, capsys):
        assert fuzz_cli.main(12, seed=1) == 0


class TestVerdicts:
    def test_hundreds_of_margin_problems_are_judged_right(self):
        found, wrong = svm_verdicts.hunt(210, seed=7)
        assert wrong == []
        assert svm_verdicts.undecided_share(found) <= svm_verdicts.MOST_UNDECIDED
        kinds = {(kind, asked) for kind, asked, _ in found}
        assert kinds == {(kind, asked) for kind in svm_verdicts.PROBLEMS for asked in svm_verdicts.ASKED}

    def test_the_judge_finds_a_wrong_shortest_vector(self):
        rows, one = exact(np.eye(2)), [Fraction(1)] * 2
        assert is_shortest(rows, one, [], one, one, [])
        assert not is_shortest(rows, one, [], [Fraction(2)] * 2, one, [])  # feasible and too long
        assert not is_shortest(rows, one, [], [Fraction(1), Fraction(0)], one, [])  # misses a row
        assert not is_shortest(rows, one, [], one, [Fraction(0)] * 2, [])  # right and not proved

    def test_the_judge_finds_contradictions_and_only_those(self):
        rows = exact(np.array([[1.0, 0.0], [-1.0, 0.0]]))
        assert is_contradictory(rows, [Fraction(1)] * 2, [])
        assert not is_contradictory(rows, [Fraction(0)] * 2, [])
        nearly = exact(np.array([[1.0, 0.0], [-1.0, 2.0**-50]]))
        assert not is_contradictory(nearly, [Fraction(1)] * 2, [])
        assert is_contradictory(nearly, [Fraction(1)] * 2, exact(np.array([[0.0, 1.0]])))
        assert is_beyond(nearly, [Fraction(1)] * 2, [], [Fraction(1)] * 2, [])
        assert not is_beyond(exact(np.eye(2)), [Fraction(1)] * 2, [], [Fraction(1)] * 2, [])

    def test_a_verdict_turned_round_is_wrong(self):
        answer = pair_svm(np.eye(2))
        problem = (exact(np.eye(2)), np.ones(2), [])
        numbers = (answer.p, answer.duals, np.zeros(0))
        assert svm_verdicts.verdict(Status.OPTIMAL, problem, numbers, (None, None)) == RIGHT
        assert svm_verdicts.verdict(Status.INFEASIBLE, problem, numbers, (np.ones(2), None)) == WRONG
        assert svm_verdicts.verdict(Status.UNDECIDED, problem, numbers, (None, None)) == UNDECIDED

    def test_nearly_opposite_rows_of_which_nothing_is_asked(self):
        sequences, selection = svm_verdicts.nearly_infeasible(np.random.default_rng([0, 821]))
        relaxed = tm.relaxed_svm(sequences, selection, [True, True, False])
        assert relaxed.status is Status.INFEASIBLE  # it was called optimal, and no p satisfies it
        assert relaxed.certificate.exact


def test_the_engine_keeps_what_reaches_new_lines():
    seen = []
    inputs = list(fuzzed([b'{"seal": 1}'], lambda data: seen.append(data), 30, seed=3))
    assert inputs == seen
    assert len(set(inputs)) > 15


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: tm.AttentionRisk(toys.fig1b(), "logistic"), r"losses\.logistic"),
        (lambda: tm.one_step(tm.TokenDataset([[1, 0], [0, 1]], [1, -1]), 1.0, d=8, key=0), r"jax\.random\.key"),
    ],
    ids=["loss", "key"],
)
def test_a_wrong_type_is_told_how_the_right_one_is_made(call, remedy):
    with pytest.raises(WrongTypeError, match=remedy):
        call()
