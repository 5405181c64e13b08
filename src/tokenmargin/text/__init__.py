"""Counts of the tokens in texts; each step is a switch of a recipe.

Names are found when they are asked for: counting new texts needs NumPy alone.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.text._lexicon import CUT as CUT
    from tokenmargin.text._lexicon import word_pieces as word_pieces
    from tokenmargin.text.corpus import CountedTexts as CountedTexts
    from tokenmargin.text.corpus import CountingSteps as CountingSteps
    from tokenmargin.text.corpus import TokenizedCorpus as TokenizedCorpus
    from tokenmargin.text.counter import Located as Located
    from tokenmargin.text.counter import TokenCounter as TokenCounter
    from tokenmargin.text.counting import count_tokens as count_tokens
    from tokenmargin.text.pipeline import tokenize as tokenize
    from tokenmargin.text.recipe import Alphabet as Alphabet
    from tokenmargin.text.recipe import Markup as Markup
    from tokenmargin.text.recipe import Recipe as Recipe
    from tokenmargin.text.recipe import plain_recipe as plain_recipe
    from tokenmargin.text.word_contexts import WordContexts as WordContexts
    from tokenmargin.text.word_contexts import word_contexts as word_contexts
    from tokenmargin.text.word_map import WordMap as WordMap


found_on_demand(__name__, __file__)
