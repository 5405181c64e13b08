"""Names of the columns of a count matrix: checked when given, and compared before two vocabularies count as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from tokenmargin._checks import none_missing
from tokenmargin._sentences import some
from tokenmargin.errors import InvalidInputError

#: Names shown in an error message.
SHOWN = 3


def vocabulary_names(vocabulary: Any) -> tuple[str, ...]:
    """One name a column, in the order of the columns; of a dict, token -> column as in CountVectorizer.vocabulary_."""
    if isinstance(vocabulary, Mapping):
        names = _by_column(vocabulary)
    elif isinstance(vocabulary, str | bytes):
        raise InvalidInputError(f"the vocabulary is one string, {vocabulary!r}: give a list of names, one a column.")
    elif isinstance(vocabulary, Set):
        raise InvalidInputError(
            f"the vocabulary is a {type(vocabulary).__name__}, which does not say which column is which: give a list "
            "in the order of the columns, as CountVectorizer.get_feature_names_out() does, or a dict token -> column."
        )
    else:
        try:
            names = list(vocabulary)
        except TypeError as error:
            raise InvalidInputError(f"the vocabulary must be a list of names, got {vocabulary!r}.") from error
    return _distinct(names)


def check_same_vocabulary(known: tuple[str, ...], given: tuple[str, ...], whose: str) -> None:
    """Raise unless two vocabularies have the same names in the same columns; the error calls the given one `whose`."""
    if known == given:
        return
    elsewhere = [k for k, (a, b) in enumerate(zip(known, given, strict=False)) if a != b]
    if len(known) != len(given):
        what = f"{len(given)} tokens, where training had {len(known)}"
    elif set(known) == set(given):
        what = f"the {len(known)} tokens of training in another order"
    else:
        lacking = len(set(known) - set(given))
        what = f"as many tokens as training, {len(known)}, but {lacking} of them are others"
    example = (
        f": column {elsewhere[0]} is {given[elsewhere[0]]!r}, and was {known[elsewhere[0]]!r}" if elsewhere else ""
    )
    raise InvalidInputError(
        f"{whose} has {what}{example}. Columns would be read as the wrong tokens. Count all texts with the vocabulary "
        "of the training texts: tokenize(texts, vocabulary=corpus), or CountVectorizer.transform with the one that was "
        "fitted on them."
    )


def _by_column(vocabulary: Mapping[Any, Any]) -> list[Any]:
    columns = list(vocabulary.values())
    if not all(isinstance(column, int | np.integer) and not isinstance(column, bool) for column in columns) or sorted(
        columns
    ) != list(range(len(columns))):
        raise InvalidInputError(
            f"a vocabulary that is a dict must map each token to its column, 0 to {len(columns) - 1}, each once, as "
            "CountVectorizer.vocabulary_ does; this one does not: give a list of names in the order of the columns."
        )
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _distinct(given: Iterable[Any]) -> tuple[str, ...]:
    listed = list(given)
    none_missing(listed, "the names of tokens", "give every column a name, or leave it out")
    names = tuple(str(name) for name in listed)
    if len(set(names)) != len(names):
        twice = [name for name, times in Counter(names).items() if times > 1]
        shown = some(map(repr, twice), SHOWN)
        raise InvalidInputError(
            f"the vocabulary names {shown} more than once: give every column a name of its own, or add up the columns "
            "that are the same token."
        )
    return names
