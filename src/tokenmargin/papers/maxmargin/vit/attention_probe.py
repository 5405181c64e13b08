"""The attention of our own vision transformer, on a finished model or epoch by epoch while it is trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np

from tokenmargin._checks import checked, whole_number
from tokenmargin._progress import Progress, silent
from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.maxmargin.vit.vit import ClsAttention, Vit, VitParameters
from tokenmargin.probe.attention_maps import AttentionMaps
from tokenmargin.probe.head_measures import AttentionMeasures, attention_measures
from tokenmargin.probe.measures import key_query_norm
from tokenmargin.probe.query_direction import QueryDirection, query_direction

#: Pictures that are read at once: keys of all layers and heads of a small one are a few hundred megabytes.
PICTURES_AT_ONCE = 50


class AttentionProbe:
    """Measures of the attention of [CLS] on some pictures, by layer and head; a callback of training.

    `probe.measure(parameters)` looks at a finished model. `train(..., on_epoch=probe)` looks after the epochs
    in `epochs`, and leaves what it saw in `reports`, a dictionary by epoch. [CLS] itself is not counted among the
    tokens: what is measured is its attention to the patches, brought to sum 1.

    Args:
        model: a `Vit`.
        images: as the model takes them, shape (n, side, side, 3).
        epochs: those to look at; every epoch when absent.
        kept: number of pictures, from the first on, whose maps are kept, in `maps`, by epoch.
        layers: whose queries and keys are kept for the same pictures, in `readings`, by epoch; none when empty.
    """

    @checked
    def __init__(
        self,
        model: object,
        images: np.ndarray,
        *,
        epochs: tuple[int, ...] | None = None,
        kept: int = 0,
        layers: tuple[int, ...] = (),
    ) -> None:
        """Nothing is computed yet."""
        if not isinstance(model, Vit):
            raise InvalidInputError(
                f"AttentionProbe looks into a Vit, got a {type(model).__name__}: models of other libraries go through "
                "tokenmargin.probe.torch_attention or bert_attention, and attention_measures."
            )
        _check_pictures(model, images)
        whole_number(kept, "kept", 0)
        if kept > len(images):
            raise InvalidInputError(f"maps of {kept} pictures are to be kept, and there are {len(images)}.")
        self._model, self._images, self._epochs = model, images, epochs
        self._kept, self._layers = kept, tuple(layers)
        self.reports: dict[int, AttentionMeasures] = {}
        self.maps: dict[int, np.ndarray] = {}
        self.readings: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, epoch: int, parameters: VitParameters) -> None:
        """Look at the parameters of an epoch, if it is one to look at."""
        if self._epochs is not None and epoch not in self._epochs:
            return
        self.reports[epoch] = self.measure(parameters)
        if self._kept:
            # As many at once as are measured at once: another number would be another compilation.
            some = _read(self._model, parameters, self._images[: max(PICTURES_AT_ONCE, self._kept)])
            self.maps[epoch] = np.asarray(some.maps)[:, : self._kept]
            if self._layers:
                own = np.ix_(self._layers, range(self._kept))
                self.readings[epoch] = np.asarray(some.queries)[own], np.asarray(some.keys)[own]

    def measure(self, parameters: VitParameters, progress: Progress = silent) -> AttentionMeasures:
        """Measures of every layer and head over all pictures."""
        norms = key_query_norms(self._model, parameters)
        readings = vit_attention(self._model, parameters, self._images)
        return attention_measures(readings, norms, total=len(self._images), progress=progress)


@checked
def vit_attention(
    model: Vit, parameters: VitParameters, images: np.ndarray, at_once: int = PICTURES_AT_ONCE
) -> Iterator[AttentionMaps]:
    """The attention of [CLS] to the patches, some pictures at a time."""
    whole_number(at_once, "at_once", 1)
    _check_pictures(model, images)
    for begin in range(0, len(images), at_once):
        read = _read(model, parameters, images[begin : begin + at_once])
        maps = np.asarray(read.maps)
        mask = np.ones((maps.shape[1], maps.shape[3]), bool)
        mask[:, 0] = False
        yield AttentionMaps(maps, mask, np.asarray(read.queries), np.asarray(read.keys))


def _check_pictures(model: Vit, images: np.ndarray) -> None:
    """Refuse what is no picture of the model's size, with what to do about it, before anything is computed."""
    side = model.side
    wanted = f"the model takes pictures of shape (n, {side}, {side}, 3)"
    shape = images.shape
    if shape[1:] == (side, side) or shape[1:] == (side, side, 1):
        raise InvalidInputError(
            f"{wanted}, and these are grey, {shape}: repeat their channel, "
            "np.repeat(x.reshape(*x.shape[:3], 1), 3, -1)."
        )
    if shape[1:] == (side, side, 4):
        raise InvalidInputError(f"{wanted}, and these have a fourth channel, {shape}: leave it out, x[..., :3].")
    if shape[1:] == (3, side, side):
        raise InvalidInputError(f"{wanted}, and these have their channels first: give x.transpose(0, 2, 3, 1).")
    if len(shape) == 4 and shape[3] == 3:
        if shape[1:3] != (side, side):
            raise InvalidInputError(f"{wanted}, and these are of {shape[1]} x {shape[2]}: resize them.")
    else:
        raise InvalidInputError(f"{wanted}, got {shape}.")
    if images.dtype.kind not in "fui" or not np.isfinite(images).all():
        raise InvalidInputError(f"{wanted}, of finite numbers; these are of {images.dtype} or hold NaN: decode them.")


@eqx.filter_jit
def _read(model: Vit, parameters: VitParameters, images: Any) -> ClsAttention:
    return model.cls_attention(parameters, images)


@checked
def key_query_norms(model: Vit, parameters: VitParameters) -> np.ndarray:
    """|W_Q'W_K|_F of every head, shape (L, H)."""
    return np.stack([key_query_norm(_by_head(b.query, model), _by_head(b.key, model)) for b in parameters.blocks])


def layer_key_query_norms(parameters: VitParameters) -> np.ndarray:
    """|W_Q W_K'|_F of every layer's whole matrices, all heads together, shape (L,): the blue curve of [M, Fig. 7]."""
    return np.array([float(key_query_norm(np.asarray(b.query).T, np.asarray(b.key).T)) for b in parameters.blocks])


def _by_head(matrix: Any, model: Vit) -> np.ndarray:
    """Reshape (d, d), heads one after the other along the last axis, to (H, k, d)."""
    return np.asarray(matrix, np.float64).T.reshape(model.heads, model.width // model.heads, model.width)


@checked
def head_directions(
    queries: np.ndarray, keys: np.ndarray, rng: np.random.Generator, baseline: int = 20
) -> list[list[QueryDirection]]:
    """`query_direction` for each of n pictures and H heads of a layer: queries (n, H, k), keys (n, H, T, k) with [CLS].

    [CLS] is left out of what there is to select, as it is of the maps.
    """
    if queries.ndim != 3 or keys.ndim != 4 or queries.shape[:2] != keys.shape[:2]:
        raise InvalidInputError(
            f"queries {queries.shape} and keys {keys.shape} do not fit: give (n, H, k), (n, H, T, k)."
        )
    return [
        [query_direction(q, K[1:], rng, baseline=baseline) for q, K in zip(by_head, keys_by_head, strict=True)]
        for by_head, keys_by_head in zip(queries, keys, strict=True)
    ]
