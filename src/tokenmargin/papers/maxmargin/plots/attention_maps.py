"""Attention of [CLS] as pictures, and how sparse it becomes as its weights grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenmargin.plots.canvas import BLUE, RED, shades


def draw_picture(ax: Any, image: np.ndarray, title: str = "") -> None:
    """A picture without axes."""
    ax.imshow(image, interpolation="nearest")
    ax.set_axis_off()
    ax.set_title(title, fontsize=7)


def draw_map(ax: Any, weights: np.ndarray, title: str = "") -> None:
    """A map over a square of patches, bright where the weight is; each on a scale of its own."""
    side = int(np.sqrt(len(weights)))
    ax.imshow(weights.reshape(side, side), cmap="viridis", interpolation="nearest", vmin=0.0)
    ax.set_axis_off()
    ax.set_title(title, fontsize=7)


def draw_sparsity_and_norm(ax: Any, epochs: np.ndarray, share: np.ndarray, norm: np.ndarray) -> None:
    """Red, left: nnz/T of every run. Blue, right: |W|_F of every run. Both of shape (runs, epochs)."""
    beside = ax.twinx()
    beside.spines["right"].set_visible(True)
    for own, length in zip(share, norm, strict=True):
        ax.plot(epochs, own, color=RED, lw=1.3)
        beside.plot(epochs, length, color=BLUE, lw=1.3)
    ax.set_ylim(0, 1)
    ax.set(xlabel="epoch")
    ax.set_ylabel("sparsity nnz/T", color=RED)
    beside.set_ylabel(r"$\|W\|_F$", color=BLUE)


def draw_layers(ax: Any, epochs: np.ndarray, values: np.ndarray, what: str) -> None:
    """One line a layer, dark to light, values of shape (epochs, layers)."""
    for layer, colour in enumerate(shades(values.shape[1])):
        ax.plot(epochs, values[:, layer], color=colour, lw=1.0, label=f"layer {layer + 1}")
    ax.set(xlabel="epoch", ylabel=what)


def draw_beside(ax: Any, names: Sequence[str], before: np.ndarray, after: np.ndarray, what: str) -> None:
    """Two dots a row, joined: how a number of each model changed from its start to its end."""
    places = np.arange(len(names))[::-1]
    ax.hlines(places, np.minimum(before, after), np.maximum(before, after), color="#bbbbbb", lw=2)
    ax.plot(before, places, "o", color="white", mec="black", ms=5, label="at the start")
    ax.plot(after, places, "o", color="black", ms=5, label="at the end")
    ax.set_yticks(places, names)
    ax.set(xlabel=what)
