"""Arrays in groups, and the same arrays under one name each: `{"a": {"keys": x}}` is `{"a/keys": x}` in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmargin.errors import InvalidInputError

#: Stands between the names of a group and of what is in it; at the end of a name it says that the group is empty.
JOINT = "/"


def flattened(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Every array under the names of its groups and its own, joined."""
    flat: dict[str, np.ndarray] = {}
    for name, value in arrays.items():
        if not name or JOINT in name:
            raise InvalidInputError(
                f"{name!r} cannot name an array or a group: {JOINT!r} joins the names of groups in a file, and none is "
                "empty. Use another name, or a group in the group."
            )
        if not isinstance(value, Mapping):
            flat[name] = np.asarray(value)
        elif not value:
            flat[name + JOINT] = np.empty(0)
        else:
            flat |= {name + JOINT + inner: array for inner, array in flattened(value).items()}
    return flat


def nested(flat: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The groups again, in the order in which they were flattened."""
    arrays: dict[str, Any] = {}
    for joined, value in flat.items():
        *groups, name = joined.split(JOINT)
        place = arrays
        for group in groups:
            place = place.setdefault(group, {})
        if name:
            place[name] = value
    return arrays
