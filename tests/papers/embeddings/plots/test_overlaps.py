"""Names of tokens beside overlaps: each once, where it covers nothing; points beyond the axes are marked."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tokenmargin.papers.embeddings.plots.overlaps import BEYOND, Room, in_sight, keep_in_sight, name_extremes


def test_a_word_is_named_once_however_many_of_its_pieces_stand_out():
    ax = Figure().add_subplot()
    x, y = np.array([-0.9, -0.8, 0.7, 0.8, 0.9]), np.array([2.0, 1.0, 1.0, 2.0, 3.0])
    ax.set(xlim=(-1.5, 1.5), ylim=(0, 4))
    name_extremes(ax, x, y, ["worst", "bad", "good", "takoyaki", "takoyaki"])
    found = {text.get_text(): text.xy for text in ax.texts}
    assert sorted(text.get_text() for text in ax.texts) == ["bad", "good", "takoyaki", "worst"]
    assert found["takoyaki"] == (0.9, 3.0)


def test_no_name_covers_a_point_a_curve_or_another_name():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000) * 0.3
    y = np.abs(x) * 3 + rng.normal(size=3000)
    curves = np.linspace(-1, 1, 80), np.abs(np.linspace(-3, 3, 80))[None]
    figure = Figure(figsize=(5, 4))
    ax = figure.add_subplot()
    ax.set(xlim=(-1.3, 1.3), ylim=in_sight(y))
    name_extremes(ax, x, y, [f"word{k}" for k in range(3000)], curves=curves)
    assert len(ax.texts) >= 6
    drawn = ax.transData.transform(
        np.concatenate([np.column_stack([x, y]), np.column_stack([curves[0], curves[1][0]])])
    )
    boxes = [text.get_window_extent().get_points() for text in ax.texts]
    frame = ax.get_window_extent().get_points()
    for number, box in enumerate(boxes):
        assert (box[0] >= frame[0]).all()
        assert (box[1] <= frame[1]).all()
        assert not ((drawn > box[0]) & (drawn < box[1])).all(axis=1).any()
        assert all((box[1] < other[0]).any() or (other[1] < box[0]).any() for other in boxes[:number])


def test_where_there_is_no_room_nothing_is_written():
    ax = Figure(figsize=(2, 2)).add_subplot()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    everywhere = np.stack(np.meshgrid(np.linspace(0, 1, 200), np.linspace(0, 1, 200)), axis=-1).reshape(-1, 2)
    assert not Room(ax, everywhere).write("word", (0.5, 0.5))
    assert Room(ax, np.array([[0.5, 0.5]])).write("word", (0.5, 0.5))
    assert not Room(ax, np.zeros((1, 2))).write("a word that is wider than the axes are", (0.5, 0.5))


def test_few_points_lie_beyond_the_axes_and_are_marked_and_counted():
    y = np.random.default_rng(1).normal(size=20_000)
    y[:3] = 1e6, -1e6, 1e5
    low, high = in_sight(y)
    assert high - low < 12
    assert ((y < low) | (y > high)).mean() <= BEYOND
    ax = Figure().add_subplot()
    ax.set(xlim=(0, 1), ylim=(low, high))
    keep_in_sight(ax, np.full(20_000, 0.5), y)
    beyond = int(((y < low) | (y > high)).sum())
    assert [text.get_text() for text in ax.texts] == [f"{beyond} beyond"]
    assert sum(len(marks.get_offsets()) for marks in ax.collections) == beyond >= 3
