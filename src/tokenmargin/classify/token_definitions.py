"""Columns of the table of tokens in plain words: one definition for the table, the page and the documents."""

from __future__ import annotations

from typing import NamedTuple


class Definition(NamedTuple):
    """A column in plain words, and what its sign means ("" where it has none)."""

    meaning: str
    sign: str = ""


#: In the order in which tables show them.
DEFINITIONS: dict[str, Definition] = {
    "token": Definition(
        "a word, a stem, a piece of a word or a phrase, as the model reads it. A word counts with the runs of "
        "characters in it; a run such as “…ing” stands by itself only for words too rare to be tokens"
    ),
    "words": Definition("the words of the texts that became this token, the most frequent first"),
    "documents": Definition("texts that hold the token, of those that the model learnt from"),
    "count": Definition("how often the token occurs in them"),
    "posterior_difference": Definition(
        "of the token's occurrences, the share in texts of the class minus the share in all others, from -1 to 1",
        "above 0: it occurs more often in texts of the class than in others",
    ),
    "excess": Definition(
        "of the token's occurrences, the share in texts of the class, less the share of all occurrences of tokens that "
        "are in such texts: where the token stands, measured from the base rate",
        "above 0: it is more at home in texts of the class than tokens are in general",
    ),
    "alpha": Definition(
        "signed frequency: the mean over all texts of the token's share of the text, taken with + in texts of the "
        "class and with - in others; what the first step of training adds to its embedding",
        "above 0: texts of the class give it more room",
    ),
    "score": Definition(
        "how loudly the token asks for attention: a text gives each of its tokens attention in proportion to e^score",
        "only differences matter: a score higher by 0.69 gets twice the attention",
    ),
    "attention": Definition("the token's share of all the attention that the texts give"),
    "selected": Definition("of the texts that hold the token, the share in which no other token gets more attention"),
    "value": Definition(
        "what the token says once it is attended to, in log-odds for each unit of attention",
        "above 0: it speaks for the class",
    ),
    "pull": Definition(
        "what the token adds to the log-odds of a text that holds it, mean over those texts",
        "above 0: towards the class",
    ),
    "pull_low": Definition("lower end of the 95% interval of the pull, had other texts of the same kind been drawn"),
    "pull_high": Definition("upper end of that interval"),
    "decides": Definition(
        "the share of all texts in which no other token pulls harder towards the class that the model predicts, for "
        "the class where that share is largest; 0 where the interval of the pull holds 0. The table is sorted by it, "
        "so that a rare token does not win by chance"
    ),
    "spread": Definition("standard deviation of the pull when the model is fitted again to texts drawn with repeats"),
    "rank_low": Definition("best place of the token in this table in 95% of those fits, from 1"),
    "rank_high": Definition("worst place in them"),
    "first": Definition("the share of those fits in which the token stands first"),
}

#: In their place where there are more than two classes: each class has a number of its own.
OF_MANY_CLASSES = {
    "value": Definition(
        "what the token says for the class once it is attended to; the difference of two classes is what it says for "
        "the one against the other, in log-odds for each unit of attention",
        "above 0: it speaks for the class more than for classes on average",
    ),
    "pull": Definition(
        "what the token adds to the class in a text that holds it, mean over those texts; the difference of two "
        "classes is what it adds to the log-odds of the one against the other",
        "above 0: towards the class, beside classes on average",
    ),
}


def definitions_for(n_classes: int) -> dict[str, Definition]:
    """The definitions, in the words of two classes or of more."""
    return DEFINITIONS if n_classes == 2 else DEFINITIONS | OF_MANY_CLASSES
