"""Attention over tokens as a scikit-learn classifier: sparse counts in, a score and a value for each token out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import bounded, real_array, share, shown
from tokenmargin._types import ArrayLike
from tokenmargin.classify.prior import Prior
from tokenmargin.classify.token_fit import Fitted, fit_tokens
from tokenmargin.classify.token_model import Contributions, TokenModel, checked_counts
from tokenmargin.classify.token_table import TokenTable, deciding_tokens
from tokenmargin.data.labels import check_not_missing
from tokenmargin.errors import InvalidInputError, MissingExtraError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_random_state
    from sklearn.utils.class_weight import compute_class_weight
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtraError("AttentionClassifier", "sklearn") from error

if TYPE_CHECKING:
    Real = float
    Whole = int
    Flag = bool
else:
    # An estimator is made with whatever it is given, and says what is wrong when it is fitted.
    Real = Whole = Flag = Any

#: Tokens shown for each class beside the estimator's diagram.
SHOWN = 10


@contextmanager
def _in_our_words() -> Iterator[None]:
    """Turn an error of scikit-learn into InvalidInputError, which is a ValueError too."""
    try:
        yield
    except InvalidInputError:
        raise
    except (ValueError, OverflowError) as problem:
        if str(problem).startswith("could not convert string to float"):
            raise InvalidInputError(
                f"X holds texts, and counts of their words are needed ({problem}): put a CountVectorizer before it "
                "(sklearn.pipeline.make_pipeline), or use tokenmargin.classify.fit_texts, which takes texts."
            ) from None
        raise InvalidInputError(str(problem)) from None


class AttentionClassifier(ClassifierMixin, BaseEstimator):
    """One layer of softmax attention over the tokens of a document, in the two numbers a token that it acts through.

    margin = intercept + sqrt(m) sum_s attention_s value_s, attention_s ~ count_s^power exp(score_s), where m is the
    number of distinct tokens [E, (1)]. A document's margin is the sum of what its words contribute: `explain(X)`.

    Counts are not negative. Where X has negative entries nevertheless (features that are differences), every column is
    read as two tokens, what is above 0 and what is below: 2V scores and values, the second half named "-name".

    Args:
        power: a token that occurs twice has 2^power times the weight.
        prior: where, and in which units, values are kept: "plain", "idf", "naive_bayes" or "near_naive_bayes" (see
            `classify.Prior`).
        ridge: on values.
        ridge_score: on scores; infinite holds attention where it starts. What is None of these three is chosen on
            documents held out for that, the same ones every time.
        class_weight: None, "balanced", or a dictionary of weights by class.
        early_stopping: hold out a part, and keep the step with the least loss on it.
        validation_fraction: the size of that part.
        width: None fits scores and values by L-BFGS. A number trains embeddings of that width by AdamW, as [E] does:
            power 1, no root, no intercept, no ridge; two classes, no weights.
        epochs: number of epochs of training with a width.
        max_iter: steps of L-BFGS at most.
        tol: L-BFGS stops when a step gains less than this share of the loss.
        random_state: decides the part that is held out, and with a width the start and the order of documents.
        checkpoint: a `tokenmargin.training.Checkpoint`: where a long fit is kept as it goes on, and taken up by the
            same fit, to end in the same bytes; with a width, give a `random_state` too.

    Attributes:
        classes_: the classes, sorted.
        token_model_: scores, values and intercept, usable without scikit-learn.
        score_: shape (V,). value_: shape (V, 1) for two classes, (V, K) for more. intercept_: shape (1,) or (K,).
        token_table_: a `TokenTable`: what each token's counts, attention, pull and interval are on the documents that
            were fitted, the most deciding tokens first.
        prior_: the prior that was used. ridge_, ridge_score_: the ridges that were used.
        n_iter_: steps (or epochs) to the parameters kept.
    """

    def __init__(
        self,
        *,
        power: Real = 0.5,
        prior: Any = None,
        ridge: Real | None = None,
        ridge_score: Real | None = None,
        class_weight: Any = None,
        early_stopping: Flag = False,
        validation_fraction: Real = 0.1,
        width: Whole | None = None,
        epochs: Whole = 20,
        max_iter: Whole = 200,
        tol: Real = 3e-4,
        random_state: Any = None,
        checkpoint: Any = None,
    ) -> None:
        """Keep the parameters; they are checked by `fit`."""
        self.power = power
        self.prior = prior
        self.ridge = ridge
        self.ridge_score = ridge_score
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.width = width
        self.epochs = epochs
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> AttentionClassifier:
        """Fit to counts X (n, V), sparse or dense, and their classes y; a document of weight two is two documents."""
        with _in_our_words():
            bounded(X, "X")
            bounded(y, "y")
            if y is not None:  # which scikit-learn has its own words for
                check_not_missing(y)
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
            check_classification_targets(y)
        self.classes_, targets = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(f"y holds one class only, {self.classes_[0]!r}: a classifier needs two or more.")
        matrix = sp.csr_array(X)
        self.signed_ = bool((matrix.data < 0).any())
        counts = checked_counts(_both_signs(matrix) if self.signed_ else matrix)
        if self.width is None:
            fitted = self._fit_tokens(counts, targets, sample_weight)
        else:
            fitted = self._fit_embeddings(self.width, counts, targets, sample_weight)
        self.token_model_ = fitted.model
        self.prior_ = fitted.prior.name.lower()
        self.ridge_, self.ridge_score_ = fitted.ridge_value, fitted.ridge_score
        self.n_iter_ = fitted.n_iter
        self._table: TokenTable | None = None
        self._of_table: tuple[sp.csr_array, np.ndarray] | None = (counts, targets)
        return self

    def _fit_tokens(self, counts: sp.csr_array, targets: np.ndarray, sample_weight: ArrayLike | None) -> Fitted:
        """Scores and values by L-BFGS."""
        weights = sample_weight
        if self.class_weight is not None:
            bounded(self.class_weight, "class_weight")
            weights = (
                np.ones(len(targets)) if sample_weight is None else real_array(sample_weight, "sample_weight", "(n,)")
            )
            with _in_our_words():
                by_class = compute_class_weight(
                    self.class_weight, classes=self.classes_, y=self.classes_[targets], sample_weight=weights
                )
            weights = weights * by_class[targets]
        return fit_tokens(
            counts,
            targets,
            len(self.classes_),
            sample_weight=weights,
            power=self.power,
            prior=_prior(self.prior),
            ridge_value=self.ridge,
            ridge_score=self.ridge_score,
            max_iter=self.max_iter,
            tol=self.tol,
            validation=self._held_out(targets),
            checkpoint=self.checkpoint,
        )

    def _fit_embeddings(
        self, width: int, counts: sp.csr_array, targets: np.ndarray, sample_weight: ArrayLike | None
    ) -> Fitted:
        """Embeddings by AdamW [E, App. E]."""
        # JAX is asked for by this alone: a fit without a width starts no compiler.
        import jax

        from tokenmargin.classify.embedding_fit import fit_embeddings

        if len(self.classes_) > 2:
            raise InvalidInputError(
                f"a width has two classes, y has {len(self.classes_)}: with embeddings a token would have a score for "
                "each class. Use sklearn.multiclass.OneVsRestClassifier(AttentionClassifier(width=...)), or width=None."
            )
        if sample_weight is not None or self.class_weight is not None:
            raise InvalidInputError("training with a width has no weights: leave them out, or use width=None.")
        with _in_our_words():
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return fit_embeddings(
            counts,
            targets,
            width=width,
            key=jax.random.key(seed),
            epochs=self.epochs,
            validation=self._held_out(targets),
            checkpoint=self.checkpoint,
        )

    def _held_out(self, targets: np.ndarray) -> np.ndarray | None:
        """The documents that early stopping watches, of every class where each has two or more."""
        if not isinstance(self.early_stopping, bool | np.bool_):
            raise InvalidInputError(f"early_stopping must be True or False, got {shown(self.early_stopping)}.")
        if not self.early_stopping:
            return None
        share(self.validation_fraction, "validation_fraction")
        shares = targets if np.bincount(targets).min() > 1 else None
        with _in_our_words():
            _, chosen = train_test_split(
                np.arange(len(targets)),
                test_size=self.validation_fraction,
                stratify=shares,
                random_state=self.random_state,
            )
        held = np.zeros(len(targets), dtype=bool)
        held[chosen] = True
        return held

    # --- what it predicts ---------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """Margins: shape (n,) for two classes, above 0 for the one that sorts last; shape (n, K) for more."""
        margins = self._model().margins(self._counts(X))
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, shape (n, K)."""
        return self._model().probabilities(self._counts(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each document."""
        margins = self._model().margins(self._counts(X))
        chosen = (margins[:, 0] > 0).astype(int) if margins.shape[1] == 1 else margins.argmax(axis=1)
        return self.classes_[chosen]

    def explain(self, X: Any) -> Contributions:
        """Contributions of a document's tokens to its margins: their sum plus the intercept is `decision_function`."""
        return self._model().contributions(self._counts(X))

    def _model(self) -> TokenModel:
        check_is_fitted(self)
        model: TokenModel = self.token_model_
        return model

    def _counts(self, X: Any) -> Any:
        bounded(X, "X")
        with _in_our_words():
            matrix = sp.csr_array(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        return _both_signs(matrix) if self.signed_ else matrix

    # --- what it says of tokens ---------------------------------------------------------------------------------------

    @property
    def score_(self) -> np.ndarray:
        """Attention score of each token, shape (V,)."""
        return self._model().score

    @property
    def value_(self) -> np.ndarray:
        """Value of each token, shape (V, 1) for two classes and (V, K) for more."""
        return self._model().value

    @property
    def intercept_(self) -> np.ndarray:
        """The margins of an empty document."""
        return self._model().intercept

    @property
    def token_table_(self) -> TokenTable:
        """Table of the tokens in the documents that were fitted, the most deciding first; made on first use."""
        model = self._model()
        if self._table is None:
            assert self._of_table is not None, "documents are let go of when the table is made"
            counts, targets = self._of_table
            classes = [str(name) for name in self.classes_]
            self._table = deciding_tokens(model, counts, targets, classes, self._names().tolist())
            self._of_table = None
        return self._table

    def __getstate__(self) -> dict[str, Any]:
        """State to pickle: with the table of tokens, without the documents that the table is made from."""
        if hasattr(self, "token_model_"):
            _ = self.token_table_
        state: dict[str, Any] = super().__getstate__()
        return state

    def _names(self) -> np.ndarray:
        """The names of the columns, or x0, x1, ...; of what is below 0, where there is any, with a minus before."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = np.array([f"x{column}" for column in range(self.n_features_in_)], dtype=object)
        return np.concatenate([names, [f"-{name}" for name in names]]).astype(object) if self.signed_ else names

    def __sklearn_tags__(self) -> Any:
        """Counts may be sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """The usual diagram, and after a fit the tokens that decide below it."""
        diagram = super()._repr_html_
        return lambda: diagram() + self._deciding_tokens()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """The same for notebooks, which ask for all formats at once."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._deciding_tokens()
        return bundle

    def _deciding_tokens(self) -> str:
        """Tokens that decide most often for each class, as HTML."""
        if not hasattr(self, "token_model_"):
            return ""
        table = self.token_table_
        rows = []
        for name in table.classes:
            tokens = ", ".join(escape(str(table.token[row])) for row in table.towards(name, SHOWN))
            rows.append(f"<tr><th scope='row'>{escape(name)}</th><td>{tokens}</td></tr>")
        return f"<table><caption>Tokens that decide most often for each class</caption>{''.join(rows)}</table>"


def _prior(name: Any) -> Prior | None:
    """The prior of that name."""
    known = {prior.name.lower(): prior for prior in Prior}
    if name is not None and name not in known:
        raise InvalidInputError(f"prior={shown(name)}: give None, or one of {', '.join(map(repr, known))}.")
    return None if name is None else known[name]


def _both_signs(matrix: sp.csr_array) -> sp.csr_array:
    """Positive parts, and beside them negative parts with their sign changed: shape (n, 2V), nothing below 0."""
    return sp.csr_array(sp.hstack([matrix.maximum(0), (-matrix).maximum(0)]))
