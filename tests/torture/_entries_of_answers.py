"""What answers are made of, and the methods that they have: entries that nobody has to write.

An answer of a right call is a dataclass whose fields are right arguments of its own constructor; so are the answers
inside it. Its methods are tried with nothing right.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from inspect import isfunction, signature
from typing import Any

from tests.torture._entries import Entries

#: Entries whose right calls take no time and whose answers hold those of most kinds.
ASKED = (
    *("AttentionRisk", "NextTokenRisk", "graph_svm", "finite_part", "regularization_path", "att_svm", "att_svm_any"),
    *("corpus_svm", "label_svm", "pair_svm", "directional_margin", "one_step", "coordinates_of", "embedding_bounds"),
    *("compare", "corpus_agreement", "speaks_of", "fit_tokens", "evaluate", "fit_texts"),
    *("TextModel.explain", "AttentionClassifier.explain", "word_contexts", "count_tokens", "tokenize", "assumption4"),
    *("TokenCounter.located", "attention_measures", "distribution", "query_direction", "token_statistics", "JointRisk"),
    *("count_batches", "document_batches", "OneLayer.initial", "MatrixRisk", "FactoredRisk", "HeadRisk", "TokenGraph"),
)

#: Methods by which parts of the library speak with each other, of arrays and norms that it made itself.
INNER = {
    *("margins_of", "contributions_of", "weights", "rows", "layout", "value_of", "log_slope_of", "log_slope_shares"),
    *("followed_in", "limit_norm", "descent_directions"),
}

#: How deep answers are looked into, and how many of a list.
DEPTH, SOME = 6, 20


def answers(right: Entries) -> dict[type, Any]:
    """One answer of every kind that the entries `ASKED` give or take, by its type."""
    found: dict[type, Any] = {}
    for name in ASKED:
        function, arguments = right[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _collect([arguments, function(**arguments)], found, DEPTH)
    return found


def _collect(value: Any, found: dict[type, Any], depth: int) -> None:
    if depth == 0:
        return
    for inner in _inside(value):
        _collect(inner, found, depth - 1)
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith("tokenmargin."):
        found.setdefault(type(value), value)


def _inside(value: Any) -> Iterator[Any]:
    if is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, own.name) for own in fields(value) if hasattr(value, own.name))
    elif isinstance(value, list | tuple):
        yield from value[:SOME]
    elif isinstance(value, dict):
        yield from list(value.values())[:SOME]


def answer_entries(right: Entries, public: dict[str, Callable[..., Any]]) -> Entries:
    """Constructors of public answers with the fields of a real one, and methods of every answer."""
    known = {function for function, _ in right.values()}
    kinds = {kind: name for name, kind in public.items() if isinstance(kind, type)}
    made: Entries = {}
    for kind, answer in answers(right).items():
        asked = {name for name, one in signature(kind).parameters.items() if one.kind is not one.VAR_POSITIONAL}
        if kind in kinds and kind not in known and all(hasattr(answer, name) for name in asked):
            made[f"{kinds[kind]} as answered"] = (kind, {name: getattr(answer, name) for name in asked})
        for name, method in vars(kind).items():
            is_public = isfunction(method) and not name.startswith("_") and name not in INNER
            if is_public and (arguments := _arguments(getattr(answer, name))):
                made[f"{kind.__name__}.{name} of an answer"] = (getattr(answer, name), arguments)
    return made


def _arguments(method: Callable[..., Any]) -> dict[str, Any]:
    """None for what must be given, and what it is by default for the rest."""
    found = signature(method).parameters.values()
    named = [one for one in found if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return {one.name: None if one.default is one.empty else one.default for one in named}
