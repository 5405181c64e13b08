"""A point of training in numbers: the trained query and random ones, each beside its own max-margin direction."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, fields
from typing import Any

import jax
import numpy as np

from tokenmargin.data import TokenDataset
from tokenmargin.experiments.experiment import Arrays
from tokenmargin.theory.corpus_agreement import CorpusAgreement, corpus_agreement, documents_selecting

#: Tokens and pairs that are named.
NAMED = 15


@dataclass(frozen=True)
class QueryRow:
    """One query beside the max-margin direction p_hat of its own selection [E, (9)]."""

    selected_tokens: int  #: distinct tokens selected in some document
    ties: int  #: documents that select more than one token
    selected_weight: float  #: softmax weight on the selected tokens, mean over documents
    pairs: int  #: distinct pairs of tokens asked apart
    rounds: int  #: of constraint generation
    active_pairs: int  #: pairs that carry a multiplier
    kkt_residual: float  #: the worst
    solved: bool  #: the problem was decided and its KKT residuals checked
    norm: float  #: |p_hat|
    largest_margin: float  #: 1/|p_hat|
    margin: float  #: of p/|p|
    margin_share: float  #: margin over largest margin
    cosine: float  #: of p and p_hat
    direction_error: float  #: 1 - cosine, with its digits


@dataclass(frozen=True, eq=False)
class MarginPoint:
    """A point of training: the trained query, and random ones with the same embeddings and the same norm."""

    epoch: int
    loss: float
    accuracy: float
    query_norm: float
    trained: QueryRow
    random: tuple[QueryRow, ...]
    seconds: float  #: selection, max-margin problem and comparison for the trained query
    random_seconds: float  #: the same for all random queries
    selected_in: np.ndarray  #: documents in which each token is selected by the trained query, shape (V,)
    support: tuple[tuple[str, str, float], ...]  #: (selected, other, multiplier) of pairs that limit the margin most

    def flat(self) -> dict[str, Any]:
        """A line of a table."""
        line: dict[str, Any] = {name: getattr(self, name) for name in ("epoch", "loss", "accuracy", "query_norm")}
        line |= asdict(self.trained) | {"seconds": round(self.seconds, 2)}
        line["random queries"] = [asdict(row) for row in self.random]
        return line | {"seconds of the random queries": round(self.random_seconds, 2)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for a file: numbers and names as a text, and the array."""
        words = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "selected_in"}
        words |= {"trained": asdict(self.trained), "random": [asdict(row) for row in self.random]}
        text = json.dumps(words, default=lambda number: number.item())  # of NumPy's numbers
        return {"words": np.array(text), "selected_in": self.selected_in}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> MarginPoint:
        """The point again."""
        words = json.loads(str(arrays["words"]))
        words["trained"], words["random"] = QueryRow(**words["trained"]), tuple(QueryRow(**r) for r in words["random"])
        words["support"] = tuple((str(a), str(b), float(c)) for a, b, c in words["support"])
        return cls(**words, selected_in=np.asarray(arrays["selected_in"]))

    @property
    def n_farther(self) -> int:
        """Number of random queries that are farther from their max-margin direction than the trained one is."""
        return sum(row.direction_error > self.trained.direction_error for row in self.random)

    def most_selected(self) -> np.ndarray:
        """Ids of the tokens selected in most documents, most first."""
        order = np.argsort(-self.selected_in, kind="stable")[:NAMED]
        return np.asarray(order[self.selected_in[order] > 0])


def margin_point(
    dataset: TokenDataset,
    epoch: int,
    trained: tuple[Any, Any],
    loss_and_accuracy: tuple[float, float],
    keys: jax.Array,
) -> MarginPoint:
    """Compare the query of a one-layer model, and random queries, with their max-margin directions.

    Args:
        dataset: the documents that were trained on.
        epoch: epochs done.
        trained: embeddings, and the query whose products with them are the logits.
        loss_and_accuracy: loss and accuracy of these parameters.
        keys: one for each random query.
    """
    # Copies: training goes on in the same buffers.
    E, p = (np.array(x, dtype=np.float64) for x in trained)
    norm = float(np.linalg.norm(p))
    drawn = [np.asarray(jax.random.normal(key, p.shape), dtype=np.float64) for key in keys]
    begin = time.perf_counter()
    own = corpus_agreement(dataset, E, p)
    middle = time.perf_counter()
    random = tuple(_row(dataset, corpus_agreement(dataset, E, q * (norm / float(np.linalg.norm(q))))) for q in drawn)
    end = time.perf_counter()
    return MarginPoint(
        epoch,
        *loss_and_accuracy,
        query_norm=norm,
        trained=_row(dataset, own),
        random=random,
        seconds=middle - begin,
        random_seconds=end - middle,
        selected_in=documents_selecting(dataset, own.selection),
        support=own.solution.support(NAMED),
    )


def _row(dataset: TokenDataset, agreement: CorpusAgreement) -> QueryRow:
    selection, solution = agreement.selection, agreement.solution
    return QueryRow(
        selected_tokens=len(selection.tokens(dataset)),
        ties=selection.n_ties,
        selected_weight=agreement.selected_weight,
        pairs=solution.n_constraints,
        rounds=len(solution.rounds),
        active_pairs=solution.n_active,
        kkt_residual=solution.residuals.worst,
        solved=agreement.is_solved,
        norm=solution.value,
        largest_margin=solution.margin,
        margin=agreement.margin,
        margin_share=agreement.margin_share,
        cosine=agreement.cosine,
        direction_error=agreement.direction_error,
    )
