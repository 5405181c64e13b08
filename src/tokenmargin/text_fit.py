"""`tokenmargin.fit`: labelled texts in a frame or in lists in, a model that explains itself out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._checks import checked, is_missing, shown
from tokenmargin._progress import Progress, silent
from tokenmargin.classify import (
    Candidates,
    Explanation,
    Features,
    FitSettings,
    FittedTexts,
    LabelledCorpus,
    TextModel,
    fit_texts,
    write_fit,
)
from tokenmargin.errors import InvalidInputError, MissingExtraError
from tokenmargin.text import plain_recipe

__all__ = ["TextFit", "fit"]

#: Tokens that a plot and a notebook show.
SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class TextFit:
    """Result of `tokenmargin.fit`.

    Args:
        fitted: the model, the table of its tokens, how it was judged, and the content of its page.
        frames: the package whose frames `tokens` is given in, "pandas" or "polars"; "" gives a dictionary of arrays.
        labels: the label of each class, as it was given: 1, of the class "1".
    """

    fitted: FittedTexts
    frames: str
    labels: Mapping[str, Any]

    @property
    def model(self) -> TextModel:
        """Predicts and explains; `tokenmargin.classify.save` writes it."""
        return self.fitted.model

    @property
    def score(self) -> float:
        """The share of held-out texts whose class is predicted."""
        return float(self.fitted.evaluation.accuracy)

    @property
    def metrics(self) -> dict[str, Any]:
        """Everything that was measured on held-out texts, the strongest usual classifier's numbers beside."""
        return self.fitted.metrics

    @property
    def tokens(self) -> Any:
        """A row for each token, the most deciding first; `tokenmargin.classify.DEFINITIONS` says what columns mean."""
        columns = self.fitted.tokens.columns()
        return import_module(self.frames).DataFrame(columns) if self.frames else columns

    def predict(self, texts: Iterable[Any]) -> np.ndarray:
        """The label of each text, of the type that was given, shape (n,)."""
        named = self.model.predict(texts)
        if all(isinstance(own, str) for own in self.labels.values()):
            return named
        return np.array([self.labels[name] for name in named], np.array(list(self.labels.values())).dtype)

    def explain(self, text: str, against: Any = None) -> Explanation:
        """The words and phrases that decided a text."""
        return self.model.explain(text, None if against is None else str(against))

    def plot(self, towards: Any = None) -> Any:
        """Draw the tokens that decide most, with their pulls and intervals: a matplotlib figure.

        Args:
            towards: a class; the one that sorts last when absent.
        """
        from tokenmargin.plots.tokens import draw_pulls

        table = self.fitted.tokens
        name = table.classes[-1] if towards is None else str(towards)
        column = 0 if len(table.classes) == 2 else table.classes.index(name)
        sign = -1.0 if len(table.classes) == 2 and name == table.classes[0] else 1.0
        rows = [*table.towards(name, SHOWN)]
        ends = sign * table.pull_low[rows, column], sign * table.pull_high[rows, column]
        names = [table.as_written(row)[0] for row in rows]
        return draw_pulls(names, sign * table.pull[rows, column], np.minimum(*ends), np.maximum(*ends), name)

    @checked
    def report(self, path: str | Path) -> Path:
        """Write the folder that `tokenmargin fit` writes, and give the path of its page."""
        from tokenmargin.report.fit_files import fit_files

        write_fit(self.fitted, Path(path), fit_files(self.fitted))
        return Path(path) / "report.html"

    def __repr__(self) -> str:
        """Sentences that say how texts are read and what was learnt."""
        return "\n".join((*self.fitted.chosen, *self.fitted.report.sentences))

    def _repr_html_(self) -> str:
        """HTML for notebooks: what was learnt, and the tokens that decide most for each class."""
        header, rows = self.fitted.tokens.shown(max(1, SHOWN // len(self.fitted.tokens.classes)))
        head = "".join(f"<th>{escape(name)}</th>" for name in header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in repr(self).splitlines())
        return f"<div>{said}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


@checked
def fit(
    data: Any,
    text: Any = "text",
    label: Any = "label",
    *,
    test_share: float = 0.2,
    features: str | None = None,
    language: str | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    progress: Progress = silent,
) -> TextFit:
    """Learn from labelled texts which words decide, and judge it on texts held out.

    Args:
        data: a frame of pandas or polars, a table of Arrow, a data set of Hugging Face `datasets`, a dictionary of
            columns, a list of rows that are dictionaries; or the texts themselves (a list, a Series), with their
            labels as `label`, or second, as in scikit-learn: fit(texts, labels).
        text: the column of texts.
        label: the column of labels; or the labels themselves.
        test_share: share of the texts to hold out for the test.
        features: "words", "pairs", "triples" or "characters"; chosen on held-out texts when absent.
        language: its stop words are dropped and words cut to stems; neither when absent.
        bootstrap: number of times that the model is fitted again, for the spread of pulls and ranks.
        seed: seed of everything random.
        progress: called as progress(done, total, what).

    Example:
        >>> import tokenmargin as tm
        >>> texts = ["A superb film.", "Superb, and funny.", "Dull and far too long.", "A dull film."] * 10
        >>> found = tm.fit(texts, label=["good", "good", "bad", "bad"] * 10)
        >>> found.score
        1.0
        >>> found.explain("A dull film.").units[0].name
        'dull'
    """
    if find_spec("sklearn") is None or find_spec("safetensors") is None:
        raise MissingExtraError("tokenmargin.fit", "fit")
    known = {own.name.lower(): own for own in Features}
    if features is not None and features not in known:
        raise InvalidInputError(f"features={features!r}: give None, or one of {', '.join(map(repr, known))}.")
    texts, labels = _columns(data, text, label)
    corpus = LabelledCorpus(texts, tuple(map(str, labels)))
    free = Candidates()
    candidates = Candidates(free.features if features is None else (known[features],), free.minimums)
    settings = FitSettings(plain_recipe(language), test_share, seed, bootstrap, True, candidates)
    given = {str(own): own for own in labels}
    return TextFit(fit_texts(corpus, settings, progress=progress), _frames_of(data), given)


def _columns(data: Any, text: Any, label: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Texts, and labels as they were given; what is missing is refused by its row."""
    data = data.collect() if hasattr(data, "collect") else data  # a lazy frame of polars
    if isinstance(data, str | bytes | Path):
        raise InvalidInputError(
            f"{shown(data)} is one text, or a path: give a frame, as pandas.read_csv makes it, or a list of texts."
        )
    if isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        data = {name: [row.get(name) for row in data] for name in dict.fromkeys(name for row in data for name in row)}
    is_table = isinstance(data, Mapping) or hasattr(data, "columns") or hasattr(data, "column_names")
    if not is_table and isinstance(label, str | int) and not isinstance(text, str | int):
        label = text
    if not is_table and isinstance(label, str | int):
        raise InvalidInputError("texts without a table need their labels: fit(texts, label=labels).")
    is_named = is_table and isinstance(label, str | int)
    texts = _column(data, text) if is_table else _listed(data)
    labels = _column(data, label) if is_named else _listed(label)
    known = getattr((getattr(data, "features", None) or {}).get(label), "names", None) if is_named else None
    if known:  # a data set of Hugging Face keeps the numbers of its classes, and their names apart
        labels = [known[own] if isinstance(own, int) and 0 <= own < len(known) else own for own in labels]
    for row, own in enumerate(texts):
        if not isinstance(own, str):
            what = "missing" if is_missing(own) else f"a {type(own).__name__}"
            raise InvalidInputError(f"text {row} is {what}: give strings, or leave the row out.")
    for row, own in enumerate(labels):
        if is_missing(own):
            raise InvalidInputError(f"label {row} is missing: give one, or leave the row out.")
        if isinstance(own, list | tuple | set | frozenset | np.ndarray):
            raise InvalidInputError(
                f"label {row} is a {type(own).__name__}: of several labels a text each needs a fit, such as "
                "fit(texts, label=['billing' in own for own in labels]); `tokenmargin fit --label-separator` does all."
            )
        if not isinstance(own, str | int | float | np.number | np.bool_):
            raise InvalidInputError(f"label {row} is a {type(own).__name__}: give strings or numbers.")
    both = {own for own in labels if isinstance(own, str)} & {str(own) for own in labels if not isinstance(own, str)}
    if both:
        raise InvalidInputError(f"the label {min(both)!r} is a string in some rows and not in others: make them one.")
    return tuple(texts), tuple(labels)


def _column(table: Any, name: Any) -> list[Any]:
    """The values of a column that is there, and once."""
    told = (getattr(table, own, None) for own in ("column_names", "columns"))
    names = list(next((own for own in told if own is not None), table))
    times = names.count(name) if isinstance(name, Hashable) else 0
    if times != 1:
        there, is_split = ", ".join(map(repr, names)), isinstance(getattr(table, "column_names", None), Mapping)
        remedy = f" These are splits: give one of them, data[{names[0]!r}]." if is_split and names else ""
        how_many = "more than one" if times else "no"
        remedy = remedy or " Name the columns: fit(data, text=..., label=...)."
        raise InvalidInputError(f"there is {how_many} column {shown(name)}: there are {there}.{remedy}")
    return _listed(table[name])


def _listed(values: Any) -> list[Any]:
    """Values of a column or a sequence; Arrow's own as those of Python."""
    if not isinstance(values, Iterable):
        raise InvalidInputError(f"{shown(values)} is neither a column nor a sequence: give one value a text.")
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def _frames_of(data: Any) -> str:
    """The package of a frame, or one that is installed."""
    own = type(data).__module__.split(".")[0]
    packages = (own,) if own in ("pandas", "polars") else ("pandas", "polars")
    return next((name for name in packages if find_spec(name) is not None), "")
