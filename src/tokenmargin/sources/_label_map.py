"""Map from the labels of a table to classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tokenmargin._checks import none_missing
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources._rows import LabelOf, label_as_given
from tokenmargin.sources.rows_read import Oddity

#: "positive=4,5;negative=1,2", or from class to labels {"positive": [4, 5]}, or from label to class {4: "positive"}.
LabelMap = Mapping[Any, Any] | str


def label_reader(label_map: LabelMap | None) -> LabelOf:
    """Function from a label of the file to its class: the label itself, or its class in the map."""
    if label_map is None:
        return label_as_given
    classes = _class_of_label(label_map)

    def label_of(value: object) -> str | Oddity | None:
        given = label_as_given(value)
        return None if given is None else classes.get(_key(given), Oddity.UNNAMED_LABEL)

    return label_of


def _class_of_label(label_map: LabelMap) -> dict[str, str]:
    pairs: list[tuple[Any, Any]] = []
    if isinstance(label_map, str):
        for part in filter(str.strip, label_map.split(";")):
            name, equals, labels = part.partition("=")
            if not equals or not name.strip() or not labels.strip():
                raise InvalidInputError(f"label map: {part!r} is not class=label,label: 'positive=4,5;negative=1,2'.")
            pairs += [(label, name) for label in labels.split(",")]
    else:
        for name, labels in label_map.items():
            is_group = isinstance(labels, Iterable) and not isinstance(labels, str)
            pairs += [(label, name) for label in labels] if is_group else [(name, labels)]
    classes: dict[str, str] = {}
    none_missing((one for pair in pairs for one in pair), "labels and classes of the label map", "name every one")
    for label, name in pairs:
        own = str(name).strip()
        if classes.setdefault(_key(label), own) != own:
            raise InvalidInputError(f"label map: {label!r} is of class {classes[_key(label)]!r} and of {own!r}.")
    if len(set(classes.values())) < 2:
        raise InvalidInputError("the label map names fewer than two classes: 'positive=4,5;negative=1,2'.")
    return classes


def _key(label: object) -> str:
    """A label as it is compared: 4, "4" and "4.0" are one."""
    text = str(label).strip()
    return text[:-2] if text.endswith(".0") and text[:-2].lstrip("-").isdecimal() else text
