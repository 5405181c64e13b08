"""From texts to counts of tokens, each step a switch of a recipe.

Names are found when they are asked for: counting new texts needs NumPy alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenmargin.text._lexicon import CUT, word_pieces
    from tokenmargin.text.corpus import CountedTexts, TextReport, TokenizedCorpus
    from tokenmargin.text.counter import Located, TokenCounter
    from tokenmargin.text.counting import count_tokens
    from tokenmargin.text.pipeline import tokenize
    from tokenmargin.text.recipe import Alphabet, Markup, Recipe, plain_recipe
    from tokenmargin.text.word_map import WordMap

__all__ = [
    "CUT",
    "Alphabet",
    "CountedTexts",
    "Located",
    "Markup",
    "Recipe",
    "TextReport",
    "TokenCounter",
    "TokenizedCorpus",
    "WordMap",
    "count_tokens",
    "plain_recipe",
    "tokenize",
    "word_pieces",
]

#: The module of each name.
_HOMES = {
    "CUT": "_lexicon",
    "word_pieces": "_lexicon",
    "CountedTexts": "corpus",
    "TextReport": "corpus",
    "TokenizedCorpus": "corpus",
    "Located": "counter",
    "TokenCounter": "counter",
    "count_tokens": "counting",
    "tokenize": "pipeline",
    "Alphabet": "recipe",
    "Markup": "recipe",
    "Recipe": "recipe",
    "plain_recipe": "recipe",
    "WordMap": "word_map",
}


def __getattr__(name: str) -> Any:
    """Find a name where it lives, on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
