"""A model for programs without Python: JavaScript, ONNX or JSON, with a card that says what it is and is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from tokenmargin._atomic import HALVES, complete_file, complete_folder
from tokenmargin._checks import checked, shown
from tokenmargin._plain_json import as_json
from tokenmargin._sentences import percent
from tokenmargin.classify.onnx_model import onnx_bytes
from tokenmargin.classify.packed_model import (
    Precision,
    description,
    packed_model,
    scorer_code,
    why_not_in_javascript,
)
from tokenmargin.classify.text_model import TextModel
from tokenmargin.errors import InvalidInputError
from tokenmargin.text.character_tables import character_tables

CARD, MANIFEST = "MODEL_CARD.md", "manifest.json"

#: Classes that the card lists one by one.
LISTED = 20

HEAD = """\
// A classifier of texts, made by tokenmargin: this file is all of it. In Node.js and in browsers:
//
//   const { load } = require("./scorer.js"); // in a page: <script src="scorer.js"></script>, then tokenmargin.load()
//   load().then((model) => {
//     const text = "Type a text here.";
//     const { label, probability, known_words } = model.predict(text);
//     console.log(`${label} with ${(100 * probability).toFixed(1)}%, ${known_words} tokens known`);
//     const told = model.explain(text);
//     for (const unit of told.units) {
//       console.log(unit.name, unit.contribution.toFixed(3), "without it:", told.without(unit).toFixed(3));
//     }
//   });
"""


class Form(Enum):
    """Forms that a model is written in."""

    JS = "scorer.js: a scorer for Node.js and browsers, model inside"
    ONNX = "model.onnx: from counted tokens to probabilities and contributions; vocabulary.txt numbers the tokens"
    JSON = "model.json: everything, for a reader of your own"
    TORCH = "torch_model.py: a module of PyTorch from counted tokens on, with model.json for its numbers"


#: All that an export may hold.
FILES = (MANIFEST, CARD, "scorer.js", "model.onnx", "vocabulary.txt", "model.json", "torch_model.py")


@checked
def export(
    model: TextModel,
    folder: str | Path,
    forms: Collection[Form],
    *,
    metrics: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    command: str = "",
) -> None:
    """Write a model into a folder of its own, in some forms, with its card; an export that is there is replaced.

    Args:
        model: the model.
        folder: new, or one that holds an export and nothing else.
        forms: forms to write, at least one.
        metrics: content of metrics.json of the fit, for the card.
        manifest: content of manifest.json of the fit, likewise.
        command: command that made it.
    """
    if len(forms) == 0 or not all(isinstance(form, Form) for form in forms):
        raise InvalidInputError(f"give at least one form of {', '.join(map(str, Form))}.")
    try:
        told = _card(model, metrics, manifest), as_json({"command": command, "fit": manifest}) + "\n"
    except (TypeError, ValueError, AttributeError, LookupError, RecursionError) as problem:
        raise InvalidInputError(
            f"metrics or manifest is not what a fit wrote ({shown(problem)}): give theirs as they are, or none."
        ) from None
    content = {name: text.encode(errors=HALVES) for name, text in zip((CARD, MANIFEST), told, strict=True)}
    for form in forms:
        content |= _WRITERS[form](model)
    with complete_folder(Path(folder), only=FILES) as staged:
        for name, own in content.items():
            with complete_file(staged / name) as file:
                file.write_bytes(own)


def _javascript(model: TextModel) -> dict[str, bytes]:
    why_not = why_not_in_javascript(model.counter.recipe)
    if why_not:
        raise InvalidInputError(f"this model cannot become JavaScript: {why_not}. ONNX and JSON can be written.")
    packed = packed_model(model, Precision.DOUBLE)
    code = f"""{HEAD}(function (root) {{
"use strict";
{scorer_code()}
const made = {{ load: () => unpackedModel("{packed}") }};
if (typeof module === "object" && module.exports) module.exports = made;
else root.tokenmargin = made;
}})(globalThis);
"""
    return {"scorer.js": code.encode()}


def _json(model: TextModel) -> dict[str, bytes]:
    content = description(model) | {
        "format": "tokenmargin scorer",
        "formula": "margin = intercept + sqrt(number of distinct tokens) * sum of attention * value, attention = "
        "softmax over distinct tokens of score + power * log(count); two classes: P(last) = 1 / (1 + exp(-margin)), "
        "more: softmax of the margins; no known token: base_rate",
        "vocabulary": list(model.counter.vocabulary),
        "score": model.tokens.score.tolist(),
        "value": model.tokens.value.tolist(),
        "characters": character_tables(model.counter.recipe),
    }
    return {"model.json": (json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n").encode()}


def _onnx(model: TextModel) -> dict[str, bytes]:
    names = "".join(f"{name}\n" for name in model.counter.vocabulary)
    return {"model.onnx": onnx_bytes(model), "vocabulary.txt": names.encode()}


_WRITERS: dict[Form, Callable[[TextModel], dict[str, bytes]]] = {
    Form.JS: _javascript,
    Form.ONNX: _onnx,
    Form.JSON: _json,
    Form.TORCH: lambda model: _json(model) | {"torch_model.py": MODULE.encode()},
}


# --- the card ---------------------------------------------------------------------------------------------------------


def _card(model: TextModel, metrics: Mapping[str, Any] | None, manifest: Mapping[str, Any] | None) -> str:
    """The card.

    Args:
        model: the model.
        metrics: content of metrics.json, where the fit's folder is there.
        manifest: content of manifest.json, likewise.
    """
    parts = [
        "# Model card",
        f"A classifier of texts into {len(model.classes)} classes, made by tokenmargin. It has one score a token (how "
        "much attention the token asks for) and one value a token and class (where it pulls to); a prediction is the "
        "sum of what its tokens contribute, and a constant.",
        "## Data",
        *_data(model, metrics, manifest),
        "## Metrics",
        *_metrics(metrics),
        "## Limits",
        *_limits(model),
        "## How it was made",
        *_made(manifest),
    ]
    return "\n\n".join(parts) + "\n"


def _data(model: TextModel, metrics: Mapping[str, Any] | None, manifest: Mapping[str, Any] | None) -> list[str]:
    order = sorted(range(len(model.classes)), key=lambda k: -model.base_rate[k])
    rows = [f"| {_cell(model.classes[k])} | {percent(float(model.base_rate[k]))} |" for k in order[:LISTED]]
    if len(order) > LISTED:
        rows.append(f"| {len(order) - LISTED} more classes | {percent(float(model.base_rate[order[LISTED:]].sum()))} |")
    told = ["\n".join(["| class | share of the texts learnt from |", "|---|---|", *rows])]
    if metrics and metrics.get("train_documents") is not None:
        told.insert(0, f"Learnt from {metrics['train_documents']:,} texts.")
    files = (manifest or {}).get("files") or {}
    if files:
        told.append("\n".join(f"- `{name}`, SHA-256 `{digest}`" for name, digest in files.items()))
    return told


def _metrics(metrics: Mapping[str, Any] | None) -> list[str]:
    if not metrics or metrics.get("accuracy") is None:
        return ["Not measured here: no metrics.json was beside the model."]
    low, high = metrics.get("accuracy_interval") or (None, None)
    interval = f" (95 % interval {percent(low)} to {percent(high)})" if low is not None else ""
    said = f"Accuracy {percent(metrics['accuracy'])}{interval} on {metrics.get('test_documents', 0):,} texts held out."
    if metrics.get("baseline_accuracy") is not None:
        others = percent(metrics["baseline_accuracy"]), percent(metrics["majority"])
        said += f" On the same texts {metrics.get('baseline', 'a usual classifier')} has {others[0]}"
        said += f", and always the largest class {others[1]}."
    classes = sorted((metrics.get("per_class") or {}).items(), key=lambda pair: pair[1].get("f1") or 0.0)
    rows = [
        f"| {_cell(name)} | {percent(own['f1'])} | {percent(own['precision'])} | {percent(own['recall'])} "
        f"| {own['documents']:,} |"
        for name, own in classes[:LISTED]
    ]
    head = "| class, the worst first | F1 | precision | recall | texts |"
    return [said, *(["\n".join([head, "|---|---|---|---|---|", *rows])] if rows else [])]


def _limits(model: TextModel) -> list[str]:
    recipe, largest = model.counter.recipe, model.classes[int(model.base_rate.argmax())]
    reach = "single words" if recipe.ngrams == 1 else f"runs of up to {recipe.ngrams} words"
    if recipe.characters:
        reach += f" and of up to {recipe.characters} characters within words"
    limits = [
        f"It reads {reach}: the order of words beyond that, irony and context are invisible to it.",
        f"It knows {len(model.counter.vocabulary):,} tokens. A text without any of them is given the shares of the "
        f"table above, hence the class {_cell(largest)}; `known_words` is 0 there.",
        "A token that decides is one that this model uses. It need not be the cause of anything.",
        "It was judged on texts from where it was learnt; on others it may do worse, and nothing here says how much.",
        "Words carry what the texts said of people and places. Whether it treats groups alike was not measured.",
    ]
    return ["\n".join(f"- {limit}" for limit in limits)]


def _made(manifest: Mapping[str, Any] | None) -> list[str]:
    if not manifest:
        return ["No manifest.json was beside the model."]
    versions = ", ".join(f"{name} {version}" for name, version in (manifest.get("versions") or {}).items())
    return [f"```sh\n{manifest.get('command', '')}\n```", f"{versions}; Python {manifest.get('python', 'unknown')}."]


def _cell(name: str) -> str:
    """A name that breaks no table."""
    return " ".join(name.replace("|", "\\|").split())


#: The file that an export holds. It begins at counted tokens, as `model.onnx` does.
MODULE = '''"""A classifier of texts made by tokenmargin, as a module of PyTorch.

    model = load("model.json")
    probabilities, contributions = model(tokens, counts)

tokens: columns of the distinct tokens of each text, shape (texts, length), in the order of "vocabulary" of model.json;
counts: how often each occurs, 0 fills up shorter texts. Numbers are float64; gradients flow to score, value, intercept.
"""

import json

import torch


class TokenModel(torch.nn.Module):
    def __init__(self, told):
        super().__init__()
        for name in ("score", "value", "intercept"):
            setattr(self, name, torch.nn.Parameter(torch.tensor(told[name], dtype=torch.float64)))
        self.register_buffer("base_rate", torch.tensor(told["base_rate"], dtype=torch.float64))
        self.classes, self.vocabulary = told["classes"], told["vocabulary"]
        self.power, self.root_length = told["power"], told["root_length"]

    def forward(self, tokens, counts):
        there = counts > 0
        logits = self.score[tokens] + self.power * torch.log(torch.where(there, counts, 1).double())
        known = there.any(dim=1, keepdim=True)
        attention = torch.softmax(torch.where(there | ~known, logits, -torch.inf), dim=1) * there
        if self.root_length:
            attention = attention * there.sum(dim=1, keepdim=True).double().sqrt()
        contributions = attention[..., None] * self.value[tokens]
        margins = contributions.sum(dim=1) + self.intercept
        if margins.shape[1] == 1:
            margins = torch.cat([torch.zeros_like(margins), margins], dim=1)
        return torch.where(known, torch.softmax(margins, dim=1), self.base_rate), contributions


def load(path="model.json"):
    with open(path, encoding="utf-8") as file:
        return TokenModel(json.load(file))
'''
