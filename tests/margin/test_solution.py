"""Every answer of the package has one shape: a status, residuals, `is_optimal` and a sentence."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, astuple, replace

import numpy as np
import pytest

from tests.instances import fig1a, theorem2_counterexample
from tokenmargin.data import Selection
from tokenmargin.data.token_selection import CorpusSelection
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.margin import (
    CORPUS_TOLERANCE,
    KKT_TOLERANCE,
    AnyOfSolution,
    CorpusMargin,
    LabelSolution,
    LeastNormSolution,
    MarginSolution,
    Residuals,
    Solution,
    Status,
    att_svm,
    att_svm_any,
    corpus_svm,
    label_svm,
    least_norm,
)
from tokenmargin.margin.solution import residuals_batch, residuals_of

OPPOSED = Selection.from_indices([0, 1], 2)
WORDS = TokenDataset([[1, 1], [1, 1]], [0, 1], ["good", "bad"])


def opposed_words() -> CorpusMargin:
    return corpus_svm(WORDS, np.eye(2), CorpusSelection.of_tokens(WORDS, [0, 1]))


SOLVED = {
    LeastNormSolution: lambda: least_norm(np.array([[1.0, 0.0], [2.0, 2.0]]), np.ones(2)),
    MarginSolution: lambda: att_svm(fig1a(), Selection.from_indices([1] * len(fig1a().labels), fig1a().n_places)),
    LabelSolution: lambda: label_svm(np.array([[1.0, 0.2], [-1.0, 0.3]]), [1, -1]),
    AnyOfSolution: lambda: att_svm_any(fig1a(), Selection.from_indices([1] * fig1a().n_inputs, fig1a().n_places)),
    CorpusMargin: lambda: corpus_svm(WORDS, np.eye(2), CorpusSelection.of_tokens(WORDS, [0, 0])),
}
IMPOSSIBLE = {
    LeastNormSolution: lambda: least_norm(np.array([[1.0], [-1.0]]), np.ones(2)),
    MarginSolution: lambda: att_svm(theorem2_counterexample(), OPPOSED),
    LabelSolution: lambda: label_svm(np.array([[1.0, 0.0], [2.0, 0.0]]), [1, -1]),
    AnyOfSolution: lambda: att_svm_any(theorem2_counterexample(), OPPOSED),
    CorpusMargin: opposed_words,
}
EMPTY = {
    MarginSolution: lambda: att_svm(fig1a(), Selection(fig1a().mask)),
    AnyOfSolution: lambda: att_svm_any(fig1a(), Selection(fig1a().mask)),
    CorpusMargin: lambda: corpus_svm(WORDS, np.eye(2), CorpusSelection(WORDS, [True] * 4)),
}
CASES = [
    pytest.param(kind, make, status, id=f"{kind.__name__}-{status.name}")
    for status, table in ((Status.OPTIMAL, SOLVED), (Status.INFEASIBLE, IMPOSSIBLE), (Status.TRIVIAL, EMPTY))
    for kind, make in table.items()
]


@pytest.mark.parametrize(("kind", "make", "status"), CASES)
def test_every_answer_is_a_solution(kind, make, status):
    solution = make()
    assert isinstance(solution, kind)
    assert isinstance(solution, Solution)
    assert solution.status is status
    assert isinstance(solution.residuals, Residuals)
    assert solution.is_optimal() is (status is Status.OPTIMAL)
    assert solution.is_infeasible is (status is Status.INFEASIBLE)
    assert np.isinf(solution.residuals.worst) == (status is Status.INFEASIBLE)
    sentence = solution.explain()
    assert sentence[0].isupper()
    assert sentence.endswith(".")


@pytest.mark.parametrize("make", SOLVED.values(), ids=[kind.__name__ for kind in SOLVED])
def test_a_residual_above_the_tolerance_is_not_optimal(make):
    solution = make()
    off = replace(solution, residuals=replace(solution.residuals, stationarity=10 * CORPUS_TOLERANCE))
    assert not off.is_optimal()
    assert off.is_optimal(100 * CORPUS_TOLERANCE)
    assert not replace(off, status=Status.UNDECIDED).is_optimal(100 * CORPUS_TOLERANCE)
    with pytest.raises(FrozenInstanceError):
        solution.status = Status.UNDECIDED


@pytest.mark.parametrize("make", SOLVED.values(), ids=[kind.__name__ for kind in SOLVED])
def test_undecided_is_said(make):
    solution = make()
    undecided = replace(solution, status=Status.UNDECIDED).explain()
    assert undecided != solution.explain()
    assert "decide" in undecided


def test_the_sentences_of_the_status_are_sentences():
    assert [status.name for status in Status] == ["OPTIMAL", "INFEASIBLE", "TRIVIAL", "BRACKETED", "UNDECIDED"]
    for status in Status:
        assert len(status.value.split()) > 3
        assert not status.value.endswith(".")


def test_a_shape_of_its_own_must_explain_itself():
    class Mute(Solution):
        pass

    with pytest.raises(TypeError, match="explain"):
        Mute(Status.OPTIMAL, Residuals(0.0, 0.0, 0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("p", "duals", "wrong"),
    [
        ([1.0, 0.0], [1.0, 0.0], None),
        ([0.5, 0.0], [0.5, 0.0], "primal"),
        ([1.0, 0.0], [2.0, -1.0], "dual"),
        ([1.0, 1.0], [1.0, 0.0], "stationarity"),
        ([2.0, 0.0], [2.0, 0.0], "complementarity"),
        ([2.0, 0.0], [2.0, 0.0], "gap"),
    ],
)
def test_each_residual_sees_what_is_wrong(p, duals, wrong):
    """min |p|^2/2 s.t. p_1 >= 1, p_2 >= -1, and answers with one thing wrong."""
    seen = residuals_of(np.eye(2), np.array([1.0, -1.0]), np.array(p), np.array(duals))
    if wrong is None:
        assert seen.worst <= KKT_TOLERANCE
    else:
        assert getattr(seen, wrong) > 0.1
        assert seen.worst >= getattr(seen, wrong)


def test_residuals_of_a_batch_are_those_of_each(rng):
    """At points that are far from optimal, shorter than 1 and longer, so that every number and unit is felt."""
    rows = rng.normal(size=(4, 5, 3))
    unit = rows / np.linalg.norm(rows, axis=2, keepdims=True)
    p = rng.normal(size=(4, 3)) * np.array([0.1, 1.0, 10.0, 100.0])[:, None]
    bound, duals = rng.random((4, 5)), rng.normal(size=(4, 5))
    slack, pull = np.einsum("bmd,bd->bm", unit, p) - bound, np.einsum("bm,bmd->bd", duals, unit) - p
    together = residuals_batch(slack, pull, bound, p, duals)
    each = [astuple(residuals_of(*one)) for one in zip(unit, bound, p, duals, strict=True)]
    np.testing.assert_allclose(together, each, rtol=1e-12)
