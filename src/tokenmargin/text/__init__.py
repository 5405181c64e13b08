"""Counts of the tokens in texts; each step is a switch of a recipe.

Names are found when they are asked for: counting new texts needs NumPy alone.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.text._lexicon import CUT, word_pieces
    from tokenmargin.text.corpus import CountedTexts, CountingSteps, TokenizedCorpus
    from tokenmargin.text.counter import Located, TokenCounter
    from tokenmargin.text.counting import count_tokens
    from tokenmargin.text.pipeline import tokenize
    from tokenmargin.text.recipe import Alphabet, Markup, Recipe, plain_recipe
    from tokenmargin.text.word_contexts import WordContexts, word_contexts
    from tokenmargin.text.word_map import WordMap

__all__ = [
    "CUT",
    "Alphabet",
    "CountedTexts",
    "CountingSteps",
    "Located",
    "Markup",
    "Recipe",
    "TokenCounter",
    "TokenizedCorpus",
    "WordContexts",
    "WordMap",
    "count_tokens",
    "plain_recipe",
    "tokenize",
    "word_contexts",
    "word_pieces",
]

found_on_demand(__name__, __file__)
