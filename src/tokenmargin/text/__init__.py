"""From texts to counts of tokens, each step a switch of a recipe."""

from tokenmargin.text.corpus import TextReport, TokenizedCorpus
from tokenmargin.text.pipeline import tokenize
from tokenmargin.text.recipe import Alphabet, Markup, Recipe
from tokenmargin.text.word_map import WordMap

__all__ = ["Alphabet", "Markup", "Recipe", "TextReport", "TokenizedCorpus", "WordMap", "tokenize"]
