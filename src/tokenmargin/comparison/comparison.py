"""Findings of a comparison of methods, as plain values: made by `compare_texts`, drawn by the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tokenmargin._checks import checked, positive, whole_number
from tokenmargin._notebook import Told
from tokenmargin.comparison.faithfulness import SHARES
from tokenmargin.comparison.methods import METHODS
from tokenmargin.errors import InvalidInputError

Interval = tuple[float, float, float]  #: mean, low, high


@checked
@dataclass(frozen=True)
class CompareSettings:
    """Settings of a comparison, besides the texts and the recipe that turns them into tokens.

    Args:
        explained: largest number of held-out texts that are explained.
        top: number of leading tokens of which the overlap of two methods is taken.
        resamples: number of draws of the texts learnt from, for the stability.
        budget: seconds a method may take for all texts of one classifier.
        permutations: number of permutations of shap.PermutationExplainer.
        samples: number of samples of shap.KernelExplainer and LIME.
        methods: keys of `METHODS`; ours is always among them.
    """

    explained: int = 100
    top: int = 50
    resamples: int = 10
    budget: float = 60.0
    permutations: int = 10
    samples: int = 1000
    methods: tuple[str, ...] = tuple(METHODS)

    def __post_init__(self) -> None:
        """Raise unless the methods are known and the sizes at least one."""
        unknown = [key for key in self.methods if key not in METHODS]
        if unknown:
            raise InvalidInputError(f"no method is called {unknown[0]!r}: there are {', '.join(METHODS)}.")
        for name in ("explained", "top", "resamples", "permutations", "samples"):
            whole_number(getattr(self, name), name, 1)
        positive(self.budget, "budget")


@dataclass(frozen=True)
class TextRow:
    """A method on the texts that one classifier explains."""

    method: str
    status: str  #: "ran", or why not
    seconds: float
    texts: int
    comprehensiveness: Interval | None = None
    sufficiency: Interval | None = None
    comprehensiveness_over_ours: Interval | None = None  #: difference on the same texts; above 0: ours loses
    sufficiency_over_ours: Interval | None = None  #: difference on the same texts; below 0: ours loses
    deletion: tuple[float, ...] = ()  #: mean probability at `SHARES` left out
    insertion: tuple[float, ...] = ()  #: mean probability at `SHARES` left in
    other_seed: float | None = None  #: rank correlation with the same method and another seed


@dataclass(frozen=True)
class ClassifierPart:
    """Everything about the explanations of one classifier."""

    key: str
    name: str
    accuracy: float
    accuracy_interval: tuple[float, float]
    seconds_to_fit: float
    rows: tuple[TextRow, ...]
    agreeing: tuple[str, ...]  #: methods of the matrix
    agreement: tuple[tuple[float, ...], ...]  #: mean rank correlation within a text


@dataclass(frozen=True)
class CorpusRow:
    """A method on the whole corpus."""

    method: str
    seconds: float | None  #: None where it is the mean over explained texts
    tokens: int  #: that it knows
    top: dict[str, tuple[str, ...]]  #: class -> the tokens that speak most for it; "" where it has no sign
    stability: Interval | None  #: rank correlation with itself on resampled texts
    stability_top: Interval | None  #: the overlap of its top with itself on resampled texts


@dataclass(frozen=True)
class ShownText:
    """A held-out text and the words that each method names first."""

    text: str
    truth: str
    classifier: str
    predicted: str
    words: dict[str, tuple[str, ...]]


@dataclass(frozen=True, repr=False)
class Comparison(Told):
    """Content of the page and the JSON file that `tokenmargin compare` writes."""

    title: str
    classes: tuple[str, ...]
    texts_learnt_from: int
    texts_explained: int
    tokens_compared: int
    settings: CompareSettings
    corpus: tuple[CorpusRow, ...]
    correlation: tuple[tuple[float, ...], ...]  #: of the rows of `corpus`
    overlap: tuple[tuple[float, ...], ...]
    classifiers: tuple[ClassifierPart, ...]
    accuracy_difference: Interval  #: ours less TF-IDF + LR
    shown: tuple[ShownText, ...] = ()
    command: str = ""
    reading: tuple[str, ...] = ()
    manifest: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values, the manifest apart: it has a file of its own."""
        plain = asdict(self)
        plain.pop("manifest")
        return plain | {"shares": list(SHARES), "methods": {key: m._asdict() for key, m in METHODS.items()}}
