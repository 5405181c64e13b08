"""Names of the arrays of a problem file: the help of the command line shows them, and imports no JAX for it."""

from __future__ import annotations

#: Arrays that a file may hold, in the order in which the help lists them, and what each array is.
FIELDS: dict[str, str] = {
    "labels": "(n,), two values: -1 and +1, or 0 and 1; every problem needs them",
    "tokens": "(n, T, k), embedded tokens: for the claims of [M], and for lemmas 3 and 20 of [E]",
    "head": "(k,), the vector v that scores tokens; needed with tokens",
    "keys": "(n, T, d), where they differ from the tokens",
    "queries": "(n, e), the query z of each input: logits are x'W z, and start, p and q are W in one line, (k e,)",
    "mask": "(n, T) booleans, True where there is a token; all of them when absent",
    "start": "(d,), the p from which training starts; 0 when absent, where a claim allows any start",
    "selection": "(n,) whole numbers or (n, T) booleans, the tokens that a claim speaks of",
    "start_v": "(k,), the v from which joint training starts",
    "speeds": "(2,), how fast |v| and |p| grow in joint training; 1 and 1 when absent",
    "p": "(d,), the point or direction p of a lemma",
    "q": "(d,), the second direction q of a lemma",
    "pi": "a number, the share pi by which one descent may exceed another",
    "head_matrix": "(k, k), A of the head z'A z + v'z; a linear head when absent",
    "allowed": "(n, T) booleans, the sets O_i of optimal tokens; those of highest score when absent",
    "counts": "(n, V) whole numbers, how often each token occurs in each document: for the claims of [E]",
    "eta0": "a number, the size of the first gradient step",
    "log10_d": "a number, log10 of the width of the embeddings, with V + 2 <= d <= 10^300",
    "seed": "a whole number, of the draw of the embeddings; 0 when absent",
    "delta": "a number between 0 and 1, the share of draws that may be unlucky; 0.1 when absent",
}
