"""The first gradient step of [E], explicit or in Gram space at any width, with its bounds."""

from tokenmargin.first_step.descent import EmbeddingDescent, descend_embeddings
from tokenmargin.first_step.gram import gram_step
from tokenmargin.first_step.step import FirstStep, one_step

__all__ = [
    "EmbeddingDescent",
    "FirstStep",
    "descend_embeddings",
    "gram_step",
    "one_step",
]
