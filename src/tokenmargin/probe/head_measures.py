"""Measures of attention in each layer and head over many inputs, in arrays of bounded size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError, WrongTypeError
from tokenmargin.probe.attention_maps import AttentionMaps
from tokenmargin.probe.measures import distribution, entropy, logit_margin, soft_sparsity, top_mass


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMeasures(Told):
    """Measures of the attention of one token, input by input; float32, a few numbers an input.

    Args:
        sparsity: |s|_1/|s|_2^2 of each head, shape (n, L, H) [M, Sec. 4].
        mean_map_sparsity: sparsity of the mean map over the heads, as [M, Fig. 7] shows it, shape (n, L).
        entropy: in nats, shape (n, L, H).
        top_mass: weight of the selected token, shape (n, L, H).
        margin: logit of the selected token over the runner-up, shape (n, L, H).
        selected: place of the token with the largest weight, shape (n, L, H).
        tokens: number of tokens to choose between, T of each input, shape (n,).
        key_query_norms: |W_Q'W_K|_F of each head, shape (L, H), where the weights are known.
    """

    sparsity: np.ndarray
    mean_map_sparsity: np.ndarray
    entropy: np.ndarray
    top_mass: np.ndarray
    margin: np.ndarray
    selected: np.ndarray
    tokens: np.ndarray
    key_query_norms: np.ndarray | None = None

    @property
    def n_inputs(self) -> int:
        """n, the number of inputs."""
        return len(self.tokens)

    def by_layer(self) -> np.ndarray:
        """Mean over inputs of |s|_1/(|s|_2^2 T) of the mean map, in (0, 1], shape (L,): as [M, Fig. 7] shows it."""
        return np.asarray((self.mean_map_sparsity / self.tokens[:, None]).mean(axis=0))

    def explain(self) -> str:
        """A sentence for each layer."""
        lines = []
        for layer in range(self.sparsity.shape[1]):
            share = np.median(self.top_mass[:, layer])
            lines.append(
                f"layer {layer + 1}: attends to {distribution(self.sparsity[:, layer])} tokens; the selected token has "
                f"{share:.0%} of the weight, {np.median(self.margin[:, layer]):.3g} above the next in its logit."
            )
        return "\n".join(lines)


@checked
def attention_measures(
    readings: Iterable[AttentionMaps],
    key_query_norms: ArrayLike | None = None,
    *,
    total: int | None = None,
    progress: Progress = silent,
) -> AttentionMeasures:
    """Measure readings one chunk after the other; the maps of a chunk are freed before the next is read.

    Args:
        readings: chunks of inputs, of one model.
        key_query_norms: norm of each head, shape (L, H), if the weights are known.
        total: number of inputs that will come, for the progress.
        progress: called as progress(inputs done, total, "probing").
    """
    parts: list[tuple[np.ndarray, ...]] = []
    done = 0
    for reading in readings:
        if not isinstance(reading, AttentionMaps):
            raise WrongTypeError(f"readings must hold AttentionMaps, got a {type(reading).__name__}.")
        parts.append(_measured(reading))
        done += reading.mask.shape[0]
        progress(done, total, "probing")
    if not parts:
        raise InvalidInputError("there is nothing to probe: give at least one input.")
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    norms = None if key_query_norms is None else real_array(key_query_norms, "key_query_norms", "(L, H)")
    sparsity, mean_map, entropies, tops, margins, selected, tokens = columns
    return AttentionMeasures(sparsity, mean_map, entropies, tops, margins, selected, tokens, norms)


def _measured(reading: AttentionMaps) -> tuple[np.ndarray, ...]:
    """The columns of a report, in their order, for one chunk; inputs lead."""
    shares, logits = reading.shares, reading.logits
    numbers = [
        soft_sparsity(shares),
        soft_sparsity(reading.mean_shares),
        entropy(shares),
        top_mass(shares),
        logit_margin(logits),
    ]
    found = [np.moveaxis(each, 1, 0).astype(np.float32) for each in numbers]
    selected = np.moveaxis(logits.argmax(axis=-1), 1, 0).astype(np.int32)
    return (*found, selected, reading.mask.sum(axis=1).astype(np.int32))
