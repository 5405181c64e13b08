"""Tokens of one input with the same key act as one token: they get the same attention whatever p is.

Left apart, a pair of them would carry weight but no force, and drown the pairs that do.
"""

from __future__ import annotations

import numpy as np

from tokenmargin._types import Keys, TokenFlags, TokenNumbers, Tokens


def same_key(keys: Keys, mask: TokenFlags) -> np.ndarray:
    """True where two tokens of an input have the same key, booleans of shape (n, T, T); False where one is masked."""
    same = (keys[:, :, None, :] == keys[:, None, :, :]).all(axis=-1)
    return np.asarray(same & mask[:, :, None] & mask[:, None, :])


def have_repeats(keys: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """True for problem j of shape (B, n, T, d) if two tokens of one of its inputs have the same key, shape (B,)."""
    ordered = np.sort(np.where(mask, keys[..., 0], np.nan), axis=2)
    suspects = (ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=(1, 2))  # equal in the first coordinate already
    for j in np.flatnonzero(suspects).tolist():
        suspects[j] = same_key(keys[j], mask[j]).sum() > mask[j].sum()
    return suspects


def repeats_merged(keys: Keys, values: Tokens, mask: TokenFlags) -> tuple[Tokens, TokenNumbers]:
    """Tokens of identical keys as one token of their multiplicity and their mean value, exactly.

    Args:
        keys: shape (n, T, d).
        values: contribution of a token that is attended to, shape (n, T, k): the token itself, or its score.
        mask: shape (n, T).

    Returns:
        (values, log multiplicity of each token): the first of each group stands for it, the others have -inf.
    """
    merged, log_multiplicity = values.copy(), np.where(mask, 0.0, -np.inf)
    same = same_key(keys, mask)
    if same.sum() == mask.sum():
        return merged, log_multiplicity
    for i, t in np.argwhere(same.sum(axis=2) > 1).tolist():
        group = np.flatnonzero(same[i, t])
        if group[0] != t:
            log_multiplicity[i, t] = -np.inf
            continue
        members = values[i, group]
        # The mean of equal numbers need not round to that number.
        merged[i, t] = np.where((members == members[0]).all(axis=0), members[0], members.mean(axis=0))
        log_multiplicity[i, t] = np.log(len(group))
    return merged, log_multiplicity
