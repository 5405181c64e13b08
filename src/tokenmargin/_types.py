"""Shapes, in one place. The letters are those of the papers and of `docs/notation.md`.

n: input sequences, T: tokens of a sequence, d: width of keys (and of p), k: width of tokens (and of v),
m: inequality rows of a margin problem, q: its equality rows, s: points of a trajectory, V: tokens of a vocabulary,
c: margins of a document (one for two classes, one a class for more).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Array, Bool, Float, Int

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike
else:
    # What a user may pass for an array is checked where it enters, with an error that says what to do.
    ArrayLike = Any

#: What takes the place of the built-in `map`: `map(function, *iterables)` gives the answers in order. That of an
#: executor or of a cluster spreads the work; whoever starts one hands it in.
Map = Callable[..., Iterable[Any]]

# Host arrays: data, selections and margin problems (NumPy).
Tokens = Float[np.ndarray, "n T k"]
Keys = Float[np.ndarray, "n T d"]
Labels = Float[np.ndarray, "n"]
TokenNumbers = Float[np.ndarray, "n T"]
TokenFlags = Bool[np.ndarray, "n T"]
InputFlags = Bool[np.ndarray, "n"]
InputNumbers = Float[np.ndarray, "n"]
Vector = Float[np.ndarray, "d"]
HeadVector = Float[np.ndarray, "k"]
Path = Float[np.ndarray, "s d"]
Rows = Float[np.ndarray, "m d"]
RightHandSide = Float[np.ndarray, "m"]
EqualityRows = Float[np.ndarray, "q d"]
RowNumbers = Float[np.ndarray, "m"]
EqualityNumbers = Float[np.ndarray, "q"]
Triples = Int[np.ndarray, "m 3"]
EqualityTriples = Int[np.ndarray, "q 3"]
Scores = Float[np.ndarray, "V"]
Values = Float[np.ndarray, "V c"]
Margins = Float[np.ndarray, "n c"]
Intercepts = Float[np.ndarray, "c"]
Probabilities = Float[np.ndarray, "n K"]

# Traced arrays: models and dynamics (JAX; NumPy arrays are accepted where a function is not under a transformation).
KeysJ = Float[Array | np.ndarray, "n T d"]
TokenNumbersJ = Float[Array | np.ndarray, "n T"]
PairNumbersJ = Float[Array | np.ndarray, "n T T"]
VectorJ = Float[Array | np.ndarray, "d"]
MatrixJ = Float[Array | np.ndarray, "d d"]
InputNumbersJ = Float[Array | np.ndarray, "n"]
InputVectorsJ = Float[Array | np.ndarray, "n d"]
ScalarJ = Float[Array | np.ndarray, ""]

#: An array of any shape, on the host or traced: batches and states, whose leading axis depends on the caller.
AnyArray = Array | np.ndarray
