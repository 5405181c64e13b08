"""Reports of fits that never happened, of a realistic shape and size: what `fit_page` is tested on."""

from __future__ import annotations

import numpy as np

from tokenmargin.classify.fit_report import ConfusedPair, Deciding, DocumentView, FitReport, Mark
from tokenmargin.classify.token_definitions import definitions_for
from tokenmargin.classify.token_table import TokenTable

PULLING = {
    "great": 1.9, "excel": 2.3, "perfect": 1.8, "wonder": 1.6, "favorit": 1.5, "amaz": 1.5, "best": 1.2, "love": 0.9,
    "superb": 2.1, "hilari": 1.2, "worst": -2.9, "aw": -2.5, "wast": -2.7, "bore": -2.1, "bad": -1.6, "terribl": -2.0,
    "poor": -2.0, "dull": -1.9, "horribl": -1.8, "noth": -1.0, "mess": -1.5, "minut": -0.7,
}  # fmt: skip
ONSETS, VOWELS, CODAS = (
    ("b", "br", "c", "ch", "d", "f", "gr", "h", "l", "m", "n", "pl", "r", "st", "t", "w"),
    "aeiou",
    ("l", "n", "r", "st"),
)


def fake_report(
    classes=("negative", "positive"),
    n_tokens=7352,
    n_documents=200,
    n_words=230,
    *,
    seed=0,
    spread=False,
    names=(),
    title="Film reviews: negative or positive?",
    sentence="",
) -> FitReport:
    """A report of the given size; `names` are the first tokens, and `sentence` opens every document."""
    rng = np.random.default_rng(seed)
    tokens = fake_tokens(rng, tuple(classes), n_tokens, spread, tuple(names))
    documents = tuple(fake_document(rng, tokens, row, n_words, sentence) for row in range(n_documents))
    documents = tuple(sorted(documents, key=lambda d: (d.truth == d.predicted, -d.probability)))
    confusion = np.zeros((len(classes), len(classes)), int)
    for _ in range(5000):
        truth = int(rng.integers(len(classes)))
        confusion[truth, truth if rng.random() < 0.88 else rng.integers(len(classes))] += 1
    share = confusion.sum(1)
    edges = np.linspace(0.05, 0.95, 10)
    return FitReport(
        title=title,
        classes=tuple(classes),
        facts=(
            f"The model tells {' from '.join(classes[:2])} right in 89.6% of the 5,000 reviews that it had not seen.",
            "Thirty of its words carry half of what it says; “worst”, “wast” and “great” decide most.",
            "It listens to few words: in half of the reviews a tenth of the words has most of the attention.",
        ),
        deciding=tuple(
            Deciding(name, {str(tokens.token[row]): row for row in tokens.towards(name, 8)}, True)
            for name in (classes if len(classes) <= 8 else ())
        ),
        trust=(
            "On other reviews of this kind the accuracy lies between 88.9% and 90.3%, 95 times in 100.",
            "TF-IDF with logistic regression is as good to within the error of this comparison (−0.1 to +0.9).",  # noqa: RUF001
            "Words in fewer than 20 documents have wide intervals: do not read much into a single one.",
        ),
        tokens=tokens,
        documents=documents,
        examples=fake_examples(documents),
        metrics={
            "accuracy": 0.896, "accuracy_interval": [0.889, 0.903], "baseline_accuracy": 0.892, "majority": 0.502,
            "baseline": "a naive-Bayes SVM",
            "difference_interval": [-0.001, 0.009], "macro_f1": 0.895, "auc": 0.959 if len(classes) == 2 else None,
            "log_loss": 0.262, "test_documents": 5000, "train_documents": 20000,
            "per_class": {
                name: {
                    "precision": float(confusion[k, k] / max(1, confusion[:, k].sum())),
                    "recall": float(confusion[k, k] / share[k]), "f1": 0.89, "documents": int(share[k]), "auc": 0.93,
                }
                for k, name in enumerate(classes)
            },
        },
        calibration=tuple((float(p), float(p + 0.04 * np.sin(5 * p)), int(900 * abs(p - 0.5) + 60)) for p in edges),
        confusion=confusion,
        confused=fake_pairs(tokens, confusion),
        claims=(
            {"key": "embeddings-lemma2", "label": "Lemma 2", "statement": "After one step the value of a token is a "
             "positive multiple of its signed share.", "applies": "yes", "holds": "holds", "because": "gap of 3e-9"},
            {"key": "embeddings-lemma6", "label": "Lemma 6", "statement": "Tokens that occur in one class only are "
             "selected.", "applies": "no", "holds": "", "because": "5,911 tokens occur in both classes"},
        ),
        reading=("25,000 rows of reviews.csv", "text from the column “review”, class from “label”"),
        rows_left_out=(("no label", 3, "rows 17, 2041 and 9001"), ("the text is empty", 1, "row 88")),
        manifest={"version": "0.1.0", "seed": seed, "recipe": {"language": "english", "ngrams": 1}, "seconds": 41.7},
        command="tokenmargin fit reviews.csv --out fit-reviews",
        definitions=definitions_for(len(classes)),
    )  # fmt: skip


def fake_tokens(rng, classes, n_tokens, spread, names) -> TokenTable:
    """Zipf's counts, and values that follow them: rare tokens are noisy, and some words pull."""
    n_classes = len(classes)
    width = 1 if n_classes == 2 else n_classes
    words = list(dict.fromkeys((*names, *PULLING, *(_word(rng) for _ in range(3 * n_tokens)))))[:n_tokens]
    rank = np.arange(n_tokens) + 30.0
    rng.shuffle(rank)
    special = min(len(names) + len(PULLING), n_tokens)
    rank[:special] = rng.uniform(30, 300, special)
    count = np.maximum(5, (3e6 / rank / rng.uniform(0.7, 1.3, n_tokens))).astype(int)
    documents = np.maximum(1, (count * rng.uniform(0.6, 0.95, n_tokens))).astype(int)
    value = rng.normal(0, 0.35 + 0.5 / np.sqrt(count)[:, None], (n_tokens, width))
    for i, word in enumerate(words[:special]):
        value[i, 0] = PULLING.get(word, rng.normal(0, 1.5))
        if width > 1:
            value[i] = np.roll(value[i], i % width)
    posterior = np.tanh(0.45 * value + rng.normal(0, 0.08, value.shape))
    share = (1 + posterior) / 2 if width > 1 else np.hstack([1 - posterior, 1 + posterior]) / 2
    by_class = (count[:, None] * share / share.sum(1, keepdims=True)).astype(int)
    by_class[:, 0] += count - by_class.sum(1)
    score = 0.5 * np.abs(value).max(1) + rng.normal(0, 0.3, n_tokens) - 0.8
    attention = np.exp(score) * count
    attention /= attention.sum()
    pull = 0.1 * value * np.exp(score)[:, None]
    wide = 0.3 / np.sqrt(documents)[:, None]
    strength = np.hstack([-pull, pull]) if width == 1 else pull
    decides = 0.1 * np.maximum(strength, 0) * documents[:, None] / 25000
    decides[decides < np.quantile(decides.max(1), 0.5)] = 0.0  # Most tokens are never the one that pulls hardest.
    return TokenTable(
        classes=classes,
        token=np.array(words, dtype=object),
        words=tuple(f"{w}, {w}s, {w}ed" if i % 2 else "" for i, w in enumerate(words)),
        column=np.arange(n_tokens),
        documents=documents,
        count=count,
        count_by_class=by_class,
        alpha=posterior * count[:, None] / 6e6,
        posterior_difference=posterior,
        excess=posterior / 2,
        score=score,
        value=value,
        attention=attention,
        selected=np.minimum(1.0, 0.2 * np.exp(score) / 5),
        pull=pull,
        pull_low=pull - wide,
        pull_high=pull + wide,
        decides=decides.max(1),
        decides_for=decides,
        spread=0.1 + wide + 0 * value if spread else None,
    )


def fake_document(rng, tokens: TokenTable, row: int, n_words: int, sentence: str) -> DocumentView:
    """Words drawn by their counts; every second word is no token, as stop words are not."""
    classes = tokens.classes
    drawn = rng.choice(len(tokens.token), max(1, int(n_words * 0.55)), p=tokens.count / tokens.count.sum())
    sure = float(rng.uniform(0.5, 1.0))
    truth, predicted = (int(i) for i in rng.integers(len(classes), size=2))
    side = 1.0 if predicted == len(classes) - 1 else -1.0
    pull = side * tokens.pull[:, 0] if len(classes) == 2 else tokens.pull[:, predicted]
    text, fillers = sentence, ("the", "a", "of", "and", "it", "was", "this")
    places: dict[int, list[tuple[int, int]]] = {}
    for place, token in enumerate(drawn.tolist()):
        text += " " if place % 6 else ". "
        if rng.random() < 0.8:
            text += f"{fillers[int(rng.integers(len(fillers)))]} "
        places.setdefault(token, []).append((len(text), len(text) + len(tokens.token[token])))
        text += str(tokens.token[token])
    marks = [
        Mark(str(tokens.token[token]), token, tuple(at), float(pull[token]), float(rng.random() / n_words), 0.5)
        for token, at in places.items()
    ]
    # A phrase over the strongest word, which the page has no row for.
    start, end = max(marks, key=lambda mark: abs(mark.contribution)).places[0]
    marks.append(Mark("of two words", -1, ((max(0, start - 2), end),), float(np.abs(pull).max()), 0.1, 0.3))
    marks.sort(key=lambda mark: -abs(mark.contribution))
    rest = np.full(len(classes), (1 - sure) / max(1, len(classes) - 1))
    rest[predicted] = max(sure, 1 / len(classes))
    against = truth if truth != predicted else (predicted + 1) % len(classes)
    names = classes[truth], classes[predicted], classes[against]
    return DocumentView(row, *names, tuple(map(float, rest)), text, tuple(marks))


def fake_pairs(tokens: TokenTable, confusion) -> tuple[ConfusedPair, ...]:
    """The most frequent mistakes, each with three words."""
    names, wrong = tokens.classes, confusion - np.diag(np.diag(confusion))
    words = tuple((str(name), 0.4) for name in tokens.token[:3])
    order = [divmod(int(place), len(names)) for place in np.argsort(-wrong, axis=None) if wrong.flat[place]][:50]
    return tuple(
        ConfusedPair(names[a], names[b], int(wrong[a, b]), wrong[a, b] / confusion[a].sum(), words) for a, b in order
    )


def fake_examples(documents) -> dict[int, tuple[tuple[str, str], ...]]:
    """At most three snippets a token, cut from the documents."""
    found: dict[int, list[tuple[str, str]]] = {}
    for document in documents:
        for mark in document.marks:
            snippets = found.setdefault(mark.token, [])
            start, end = mark.places[0]
            if mark.token >= 0 and len(snippets) < 3:
                snippets.append((document.truth, f"…{document.text[max(0, start - 30) : end + 30].strip()}…"))
    return {token: tuple(snippets) for token, snippets in found.items() if token >= 0}


def _word(rng) -> str:
    pick = lambda of: of[int(rng.integers(len(of)))]  # noqa: E731
    return "".join(pick(ONSETS) + pick(VOWELS) for _ in range(int(rng.integers(1, 4)))) + pick(CODAS)
