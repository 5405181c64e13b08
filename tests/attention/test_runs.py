"""Lists of risks, starts and methods: one array of runs, each the run that it would be alone, whatever the shapes."""

from __future__ import annotations

from collections import Counter

import jax
import numpy as np
import pytest

from tests.instances import fig1c
from tokenmargin import (
    AttentionRisk,
    Descent,
    EmbeddedSequences,
    Flow,
    JointRisk,
    LimitKind,
    NextTokenRisk,
    NormalizedDescent,
    follow,
)
from tokenmargin.attention import (
    HeadRisk,
    MatrixRisk,
    QuadraticHead,
    Runs,
    _lane_field,
    exponential,
    limits_of,
    logistic,
)
from tokenmargin.attention import flow as flow_module
from tokenmargin.attention._size_classes import (
    WORTH_A_PROGRAM,
    filled_up,
    in_shape,
    is_small,
    shared_shapes,
    size_class,
)
from tokenmargin.data import CrossSequences
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import label_log, label_squared

#: 1 - cos of two velocities of one limit, computed in arrays of different shapes.
SAME_VELOCITY = 1e-12


def drawn(rng, count, loss=logistic):
    """Problems of mixed shapes: masked tokens, repeated tokens, tied scores, several scales, starts near and far."""
    risks, starts = [], []
    for number in range(count):
        n, T, d = (int(x) for x in (rng.integers(1, 6), rng.integers(2, 7), rng.integers(1, 9)))
        keys, scores = rng.normal(size=(n, T, d)), rng.normal(size=(n, T))
        mask = np.ones((n, T), dtype=bool)
        if number % 5 == 1:
            mask[0, T - 1] = False
        if number % 5 == 2:
            keys[0, 1], keys[-1] = keys[0, 0], keys[0] * (1.0 if n == 1 else -1.0)
        if number % 5 == 3:
            scores = np.round(scores)
        if number % 5 == 4:  # two inputs of one pair that pull opposite ways, which holds part of p
            keys[-1, :2], scores[-1, :2] = -keys[0, :2], scores[0, :2]
        risks.append(
            AttentionRisk(EmbeddedSequences.from_scores(10.0 ** rng.integers(-2, 3) * keys, scores, mask), loss)
        )
        starts.append(rng.normal(size=d) * 10.0 ** rng.integers(-1, 3) if number % 2 else np.zeros(d))
    return risks, starts


def same(limit, alone):
    assert limit.kind is alone.kind
    assert limit.selection == alone.selection
    if limit.diverges or limit.mixed:
        assert 0.5 * np.sum((limit.velocity - alone.velocity) ** 2) < SAME_VELOCITY
    if limit.finite:
        np.testing.assert_allclose(limit.point, alone.point, atol=1e-7 * (1 + np.abs(alone.point).max()))


def alone_by_exact_shapes(risks, starts, monkeypatch):
    """The slow twin: one problem at a time in its own shape, as if there were no size classes."""
    with monkeypatch.context() as patch:
        for name in ("tokenmargin.attention._size_classes", "tokenmargin.attention._stacks"):
            patch.setattr(f"{name}.shared_shapes", lambda shapes: [tuple(shape) for shape in shapes])
        return [follow(risk, start, Flow()).limit for risk, start in zip(risks, starts, strict=True)]


@pytest.mark.parametrize("count", [pytest.param(24), pytest.param(240, marks=pytest.mark.long)], ids=["few", "many"])
def test_mixed_shapes_together_end_where_each_ends_alone_in_its_own_shape(rng, count, monkeypatch):
    risks, starts = drawn(rng, count, exponential if count < 100 else logistic)
    some = range(count) if count > 100 else [1, 4]  # alone, each shape compiles
    together = follow(risks, starts, Flow())
    assert together.shape == (count,)
    kinds = set(together.kinds.tolist())
    assert {"diverges", "finite"} <= kinds
    assert count < 100 or "mixed" in kinds
    alone = alone_by_exact_shapes([risks[j] for j in some], [starts[j] for j in some], monkeypatch)
    for j, own in zip(some, alone, strict=True):
        same(together[j].limit, own)


def test_few_programs_serve_many_shapes(rng):
    risks, starts = drawn(rng, 60, exponential)
    shapes = {risk.in_span[0].keys.shape for risk in risks}
    assert len(shapes) > 30
    before = flow_module._advance._cached._cache_size()
    follow(risks, starts, Flow())
    # One for all of them, and for one, two or a few that are followed from nearer or further.
    assert flow_module._advance._cached._cache_size() - before <= 4


def test_a_new_shape_of_a_class_compiles_nothing(rng):
    def problems(n, T, d, count=40):
        return [
            AttentionRisk(EmbeddedSequences.from_scores(rng.normal(size=(n, T, d)), rng.normal(size=(n, T))))
            for _ in range(count)
        ]

    def programs():
        return [one._cached._cache_size() for one in (flow_module._advance, _lane_field._evaluate)]

    first, later = problems(5, 4, 5), [*problems(6, 4, 6), *problems(5, 4, 6, count=7)]
    assert size_class(5) == size_class(6) == 6
    assert set(follow(first, [np.zeros(5)] * 40, Flow()).kinds) <= {"diverges", "finite"}
    before = programs()
    follow(later, [np.zeros(6)] * 47, Flow()).explain()
    assert programs() == before


def test_a_list_of_all_kinds_of_risks_ends_where_each_ends_alone(rng):
    """Fixed scores, a nonlinear head, v and p, W, (K, Q), next tokens, several stacks of each of the first."""
    tokens, labels = rng.normal(size=(3, 4, 3)), np.array([1, -1, 1])
    plain = [AttentionRisk(EmbeddedSequences(rng.normal(size=(3, 4, d)), labels, rng.normal(size=d))) for d in (3, 9)]
    both = CrossSequences(tokens, queries=rng.normal(size=(3, 2)), labels=labels, head=rng.normal(size=3))
    quadratic = QuadraticHead(rng.normal(size=(3, 3)), rng.normal(size=3))
    risks = [
        plain[0],
        HeadRisk(plain[0].sequences, quadratic),
        MatrixRisk(both),
        NextTokenRisk([[0, 1, 2], [2, 1, 0], [1, 0, 1]], [1, 2, 0], rng.normal(size=(3, 4))),
        JointRisk(plain[0].sequences),
        plain[1],
        plain[0],
    ]
    starts = [0.1 * rng.normal(size=sum(block.size for block in risk.blocks.values())) for risk in risks]
    for method, options in ((Flow(), {}), (NormalizedDescent(0.3), {"steps": 40})):
        together = follow(risks, starts, method, **options)
        for risk, start, run in zip(risks, starts, together, strict=True):
            alone = follow(risk, start, method, **options)
            if method == Flow():
                same(run.limit, alone.limit)
                continue
            finals = [one if isinstance(one, tuple) else (one,) for one in (run.final, alone.final)]
            for part, own in zip(*finals, strict=True):
                np.testing.assert_allclose(part, own, rtol=1e-6, atol=1e-9)


def test_every_list_is_an_axis(rng):
    risks = [
        AttentionRisk(EmbeddedSequences.from_scores(rng.normal(size=(2, 3, d)), rng.normal(size=(2, 3))))
        for d in (2, 3)
    ]
    starts = [rng.normal(size=(4, risk.sequences.width)) for risk in risks]
    methods = [NormalizedDescent(0.1), Descent(0.5)]
    runs = follow(risks, starts, methods, steps=20)
    assert isinstance(runs, Runs)
    assert runs.shape == (2, 4, 2)
    assert repr(runs) == "Runs(2 x 4 x 2)"
    for (i, j, k), run in np.ndenumerate(runs.trajectories):
        assert run.risk is risks[i]
        assert run.method is methods[k]
        p = starts[i][j]
        np.testing.assert_array_equal(run.start, p)
        for _ in range(20):  # the slow twin
            gradient = risks[i].gradient(p)
            p = p - (0.1 * gradient / np.linalg.norm(gradient) if k == 0 else 0.5 * gradient)
        np.testing.assert_allclose(run.final, p, rtol=1e-10, atol=1e-12)
        assert runs.finals[i, j, k].tolist() == run.final.tolist()
    assert runs[0].shape == (4, 2)
    assert [run.shape for run in runs] == [(4, 2)] * 2
    assert follow(risks[0], starts[0], methods, steps=5).shape == (4, 2)
    assert follow(risks[0], starts[0][0], methods, steps=5).shape == (2,)
    assert follow(risks[0], starts[0], methods[0], steps=5).shape == (4,)
    kept = follow(risks, [one[0] for one in starts], methods[0], steps=6, every=2, keep_path=True)
    assert [len(run.points) for run in kept] == [4, 4]
    assert [run.weights.shape for run in kept] == [(4, 2, 3)] * 2
    mixed = follow(
        [risks[0], JointRisk(risks[0].sequences)], [starts[0][0], (np.ones(1), starts[0][0])], methods[0], steps=5
    )
    assert [len(final) for final in mixed.finals] == [2, 3]


def test_the_columns_are_those_of_the_limits(rng):
    risk = AttentionRisk(fig1c())
    starts = np.array([[0.0, 0.0], [1.0, 2.0], [-3.0, 0.1]])
    runs = follow(risk, starts, Flow())
    limits = limits_of([risk] * 3, [run.final for run in runs])
    assert runs.kinds.tolist() == [limit.kind.value for limit in limits]
    assert runs.selections.tolist() == [limit.selection for limit in limits]
    np.testing.assert_array_equal(runs.velocities, [limit.velocity for limit in limits])
    assert runs.limits[0] is runs[0].limit
    assert f"{(runs.kinds == LimitKind.DIVERGES.value).sum()} diverges" in runs.explain()
    nonlinear = HeadRisk(fig1c(), QuadraticHead(np.eye(3), np.ones(3)))
    assert follow([risk, nonlinear], starts[:2], Flow()).limits[0].kind is limits[0].kind


def test_filling_up_changes_no_number(rng):
    for loss in (logistic, exponential):
        (risk,), _ = drawn(rng, 1, loss)
        field = risk.in_span[0]
        y = rng.normal(size=field.keys.shape[2])
        wide = in_shape(field, (8, 12, 16))
        assert wide.keys.shape == (8, 12, 16)
        force, jacobian = (
            np.asarray(x) for x in jax.jit(lambda f, z: f.force_and_jacobian(z))(wide, np.pad(y, (0, 16 - len(y))))
        )
        own_force, own_jacobian = (np.asarray(x) for x in jax.jit(lambda f, z: f.force_and_jacobian(z))(field, y))
        np.testing.assert_allclose(force[: len(y)], own_force, atol=1e-14)
        np.testing.assert_allclose(jacobian[: len(y), : len(y)], own_jacobian, atol=1e-13)
        assert not force[len(y) :].any()
        assert not jacobian[len(y) :].any()


@pytest.mark.parametrize("loss", [label_log, label_squared], ids=lambda loss: type(loss).__name__)
def test_what_fills_up_next_tokens_has_a_finite_loss(rng, loss):
    """Seven sequences run as eight, wherever the label of the first stands."""
    risks = []
    for place in range(12):
        rows = [rng.choice(5, 4, replace=False) for _ in range(7)]
        labels = [rows[0][place % 4], *(rng.choice(row) for row in rows[1:])]
        risks.append(NextTokenRisk(rows, labels, rng.normal(size=(5, 5)), loss))
        field = risks[-1].in_span[0]
        y = rng.normal(size=field.keys.shape[2])
        np.testing.assert_allclose(
            in_shape(field, (8, 4, len(y))).force_and_jacobian(y)[1], field.force_and_jacobian(y)[1], atol=1e-13
        )
    kinds = Counter(follow(risks, [np.zeros((5, 5))] * 12, Flow()).kinds.tolist())
    assert kinds[LimitKind.STALLED.value] <= (loss is label_squared), kinds


def test_size_classes():
    assert [size_class(size) for size in (1, 2, 3, 4, 5, 7, 9, 13, 24, 31, 33, 50, 100)] == [
        1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 56, 112,
    ]  # fmt: skip
    assert shared_shapes([(5, 3, 7)]) == [(6, 3, 8)]
    assert shared_shapes([(2, 2, 2), (3, 4, 5)]) == [(3, 4, 6)] * 2
    many = [(2, 3, 4)] * WORTH_A_PROGRAM + [(6, 2, 2)]
    assert shared_shapes(many)[0] == (2, 3, 4), "a class of many problems is not made larger"
    wide = shared_shapes([(20, 20, 40), (2, 2, 2)])
    assert wide == [(24, 24, 40), (2, 2, 2)]
    assert not is_small(wide[0])
    keys, scores, present = filled_up(np.ones((1, 2, 1)), np.full((1, 2), 3.0), np.zeros((1, 2)), (2, 3, 2))
    assert keys.sum() == 2.0
    assert (scores == 3.0).all()
    assert np.isfinite(present).tolist() == [[True, True, False], [True, False, False]]


def test_what_is_wrong_with_lists(rng):
    risk = AttentionRisk(fig1c())
    far = AttentionRisk(EmbeddedSequences.from_scores(1e308 * fig1c().keys, np.eye(3, 7)))
    for call, words in (
        (lambda: follow([], [], Flow()), "there are no risks"),
        (lambda: follow([risk], [[0.0, 0.0]], []), "there are no methods"),
        (lambda: follow([risk, risk], [[0.0, 0.0]], Flow()), "2 risks but 1 starts: give one start for each"),
        (lambda: follow([risk, risk], 0.0, Flow()), "2 risks but start is a float"),
        (lambda: follow([risk, risk], [np.zeros(2), np.zeros((3, 2))], Flow()), "between 1 and 3 starts"),
        (lambda: follow([risk, 3], [[0.0, 0.0]] * 2, Flow()), "problem 1: risk must be a Risk"),
        (lambda: follow([risk, risk], [[0.0, 0.0], [np.nan, 0.0]], Flow()), "problem 1: start holds NaN"),
        (lambda: follow([risk, risk, far], [[0.0, 0.0]] * 3, Flow()), "problem 2: keys of one input are farther apart"),
        (lambda: follow([far, risk], [[0.0, 0.0]] * 2, Descent(1.0)), "problem 0: keys of one input are farther"),
        (lambda: follow([risk], [[0.0, 0.0]], [Descent(0.1)], every=2), "keep_path=True"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            call()
