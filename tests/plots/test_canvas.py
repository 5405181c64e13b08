"""Where the panels of a figure are, for a page that shows them one below the other."""

import numpy as np

from tokenmargin.plots.canvas import decimals, lettered, panel_boxes, panels, save_figure


def test_panels_are_told_in_reading_order_and_hold_what_is_drawn_around_their_axes():
    figure, axes = panels(2, 2, 8, 6)
    for ax in axes:
        ax.set_xlabel("a label below")
    axes[1].twinx()
    figure.colorbar(axes[2].imshow(np.eye(2)), ax=axes[2])
    figure.draw_without_rendering()
    boxes = panel_boxes(figure)
    assert len(boxes) == 4, "a twin and a colour bar are no panels of their own"
    for (left, top, width, height), ax in zip(boxes, axes, strict=True):
        place = ax.get_position()
        assert left < place.x0
        assert left + width > place.x1
        assert top < 1 - place.y1
        assert top + height > 1 - place.y0 + 0.03, "the label is below the axes"
    bar = figure.axes[-1].get_position()
    assert boxes[2][0] + boxes[2][2] > bar.x1


def test_a_narrow_figure_is_shown_whole(tmp_path):
    figure, _ = panels(2, 3, 4, 6)
    save_figure(figure, tmp_path)
    assert (tmp_path / "panels.json").read_text() == "[]\n"


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def test_panels_have_letters_in_reading_order_and_twins_bars_and_pictures_have_none():
    figure, axes = panels(2, 2, 8, 6)
    axes[0].set_title("first", loc="left")
    axes[0].twinx()
    figure.colorbar(axes[1].imshow(np.eye(2)), ax=axes[1])
    axes[2].set_axis_off()
    lettered(figure)
    assert titles(figure) == ["(a) first", "(b)", "", "(c)", "", ""]


def test_one_panel_and_a_wall_of_pictures_have_no_letters():
    alone, wall = panels(1, 1, 4, 3)[0], panels(6, 5, 8, 8)[0]
    for figure in (alone, wall):
        lettered(figure)
        assert set(titles(figure)) == {""}


def test_a_short_logarithmic_axis_has_plain_ticks():
    figure, (ax,) = panels(1, 1, 4, 3)
    ax.semilogy([0.03, 0.4])
    decimals(ax.yaxis)
    figure.draw_without_rendering()
    shown = [tick.get_text() for tick in ax.get_yticklabels()]
    assert {"0.05", "0.1", "0.2"} <= set(shown)
    assert not [tick.get_text() for tick in ax.get_yticklabels(minor=True) if tick.get_text()]
