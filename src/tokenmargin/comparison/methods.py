"""The methods that are compared, in plain words, and one of them run: within a time, or a sentence says why not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from tokenmargin._notebook import Told
from tokenmargin.comparison.explained import ExplainedTexts
from tokenmargin.comparison.text_methods import TEXT_METHODS, THIRD_PARTY, Knowledge, why_not


class Description(NamedTuple):
    """Description of a method for people: its name, and the meaning of its number."""

    name: str
    meaning: str


#: Methods in the order in which tables show them. The first is the one whose defeats are shown.
METHODS: dict[str, Description] = {
    "attention_value": Description(
        "attention × value (ours)",  # noqa: RUF001
        "what a token adds to the log-odds of our classifier, as a fit shows it; over a corpus, the mean "
        "over the texts that hold it",
    ),
    "attention": Description("attention alone (ours)", "the share of attention that a token gets; it has no sign"),
    "value": Description("value alone (ours)", "what a token says once it is attended to, whatever attention it gets"),
    "alpha": Description("α_s", "signed frequency: what the first step of training adds to a token's embedding"),  # noqa: RUF001
    "posterior_difference": Description(
        "posterior difference", "share of a token's occurrences in texts of the class, less the share in others"
    ),
    "tfidf_coefficient": Description(
        "TF-IDF + LR", "the coefficient in a logistic regression of TF-IDF weights; in a text, times its weight there"
    ),
    "chi_squared": Description("χ²", "how far a token's counts in the classes are from independence, with a sign"),
    "doubted_chi_squared": Description(
        "χ² of doubted labels (ours)",
        "the same of the classes that texts are believed to be of: labels are doubted as far as a fit to other texts "
        "gives reason to",
    ),
    "dirichlet_log_odds": Description(
        "log-odds with Dirichlet prior",
        "log-odds ratio between the class and the others with an informative prior, in its standard errors (Monroe, "
        "Colaresi and Quinn, 2008)",
    ),
    "occlusion": Description("occlusion", "what the log-odds lose when the token is left out"),
    "integrated_gradients": Description(
        "integrated gradients", "gradients of the log-odds added up on the way from the empty text, exactly"
    ),
    "shap_linear": Description(
        "SHAP (linear)", "what shap.LinearExplainer says, whose background is the texts learnt from"
    ),
    "shap_permutation": Description("SHAP (permutations)", "what shap.PermutationExplainer says of the log-odds"),
    "shap_kernel": Description("SHAP (kernel)", "what shap.KernelExplainer says of the log-odds"),
    "lime": Description("LIME", "what lime.LimeTextExplainer says of the probability, with its default kernel"),
    "random": Description("at random", "numbers that know nothing: what a method must beat"),
}

OURS = "attention_value"

RAN = "ran"

#: A method that takes less than QUICK seconds is timed REPEATS times more, and the least time counts.
QUICK, REPEATS = 0.1, 3


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Told):
    """Result of a method.

    Args:
        status: "ran", or a sentence that says why not.
        numbers: one number for each stored count of the texts, if it ran.
        seconds: time that it took; after one text that is not counted, for what compiles or loads on first use;
            the least of several times where it is quick.
        texts: number of texts that it explained in that time.
    """

    status: str
    numbers: np.ndarray | None
    seconds: float
    texts: int

    @property
    def ran(self) -> bool:
        """True if it has explained every text."""
        return self.numbers is not None


def run(
    key: str, judged: ExplainedTexts, known: Knowledge, budget: float, *, clock: Callable[[], float] = time.perf_counter
) -> Outcome:
    """Explain every text by a method, unless that takes longer than the budget in seconds."""
    reason = why_not(key, judged)
    if not reason and key in THIRD_PARTY and find_spec(THIRD_PARTY[key]) is None:
        reason = "not run: needs the extra 'compare' (pip install 'tokenmargin[compare]')"
    if reason:
        return Outcome(reason, None, 0.0, 0)
    try:
        return _timed(key, judged, known, budget, clock)
    except Exception as problem:
        # A package that is broken, or chokes on a text, is a row too: hours of other methods are not lost to it.
        if key not in THIRD_PARTY:
            raise
        said = (str(problem).strip() or "no reason given").splitlines()[0]
        return Outcome(f"failed in {THIRD_PARTY[key]}: {type(problem).__name__}: {said}", None, 0.0, 0)


def _timed(key: str, judged: ExplainedTexts, known: Knowledge, budget: float, clock: Callable[[], float]) -> Outcome:
    """Explain the texts one after the other, until they are done or the time is over."""
    explain = TEXT_METHODS[key]
    for _ in explain(judged.part(0, 1), known):
        pass
    begin, parts, done = clock(), [np.zeros(0)], 0
    for numbers in explain(judged, known):
        parts.append(numbers)
        done += len(numbers)
        spent = clock() - begin
        if spent > budget and done < judged.counts.nnz:
            texts = int(np.searchsorted(judged.counts.indptr, done, side="right")) - 1
            status = f"did not finish: {texts:,} of {judged.counts.shape[0]:,} texts in {budget:g} s"
            return Outcome(status, None, spent, texts)
    seconds = clock() - begin
    for _ in range(REPEATS if seconds < QUICK else 0):
        begin = clock()
        for _ in explain(judged, known):
            pass
        seconds = min(seconds, clock() - begin)
    return Outcome(RAN, np.concatenate(parts), seconds, judged.counts.shape[0])
