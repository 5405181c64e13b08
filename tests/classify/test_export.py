"""A model for programs without Python: ONNX and JavaScript say what ours says, JSON is enough to compute it."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections import Counter

import numpy as np
import pytest

from tests.classify.corpora import FILLER, fitted
from tokenmargin import cli
from tokenmargin.classify import Form, export, load, save, write_fit
from tokenmargin.classify.export import HEAD
from tokenmargin.classify.onnx_model import onnx_bytes
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import plain_recipe
from tokenmargin.text.counter import Occurrences

TEXTS = [
    "A superb film, superb music.",
    "Dull, awful, dull: the worst plot.",
    "",
    "qqq zzz",
    "weird and lovely 😀",
    "end",
]
#: Differences of exp and log between two libraries, in float64.
CLOSE = 1e-12
NODE = shutil.which("node")


@pytest.fixture(scope="module", params=[2, 3])
def model(request):
    recipe = plain_recipe(minimum_count=1, ngrams=2)
    return fitted(("bad", "good", "odd")[: request.param], recipe, n=150).model


def padded(model, texts):
    """Columns and counts of the tokens of each text, filled up with zeros."""
    rows = model.counter.rows(texts)
    longest = max(1, int(np.diff(rows.indptr).max()))
    tokens, counts = np.zeros((len(texts), longest), np.int64), np.zeros((len(texts), longest))
    for row, (low, high) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
        tokens[row, : high - low], counts[row, : high - low] = rows.indices[low:high], rows.data[low:high]
    return rows, tokens, counts


def test_onnx_says_what_ours_says(model):
    pytest.importorskip("onnx", reason="onnx is not installed (extra test)")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra test)")
    rng = np.random.default_rng(0)
    words = [*FILLER, "superb", "dull", "weird", "nobody"]
    texts = TEXTS + [" ".join(rng.choice(words, rng.integers(1, 30))) for _ in range(200)]
    session = runtime.InferenceSession(onnx_bytes(model), providers=["CPUExecutionProvider"])
    rows, tokens, counts = padded(model, texts)
    probabilities, contributions = session.run(None, {"tokens": tokens, "counts": counts})
    assert [output.name for output in session.get_outputs()] == ["probabilities", "contributions"]
    assert np.abs(probabilities - model.predict_proba(texts)).max() < CLOSE
    ours = model.tokens.contributions_of(*rows).data
    assert np.abs(contributions[counts > 0] - ours).max() < CLOSE
    assert (contributions[counts == 0] == 0).all()
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == list(model.classes)
    one = session.run(None, {"tokens": tokens[:1], "counts": counts[:1]})[0]
    assert np.abs(one - probabilities[:1]).max() < CLOSE


def test_json_is_enough_to_score_a_text(model, tmp_path):
    export(model, tmp_path / "out", [Form.JSON])
    told = json.loads((tmp_path / "out" / "model.json").read_text(encoding="utf-8"))
    number = {name: column for column, name in enumerate(told["vocabulary"])}
    for text in TEXTS:
        counts = Counter(model.counter.vocabulary[j] for j in Occurrences.of([model.counter.places(text)]).columns)
        logits = {name: told["score"][number[name]] + told["power"] * math.log(n) for name, n in counts.items()}
        total = sum(map(math.exp, logits.values()))
        margins = [
            bias + sum(
                math.sqrt(len(counts)) * math.exp(logit) / total * told["value"][number[name]][k]
                for name, logit in logits.items()
            )
            for k, bias in enumerate(told["intercept"])
        ]  # fmt: skip
        powers = [math.exp(margin) for margin in ([0.0, *margins] if len(margins) == 1 else margins)]
        expected = [power / sum(powers) for power in powers] if counts else told["base_rate"]
        assert np.abs(model.predict_proba([text])[0] - expected).max() < CLOSE


def test_the_module_of_torch_gives_the_same_probabilities_and_gradients(model, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra peers)")
    out = tmp_path / "out"
    export(model, out, [Form.TORCH])
    assert (out / "model.json").exists()
    names: dict = {}
    exec(compile((out / "torch_model.py").read_text(), "torch_model.py", "exec"), names)
    module = names["load"](out / "model.json")
    rows = model.counter.counts(TEXTS)
    counted = [dict(zip(rows[[k]].indices, rows[[k]].data, strict=True)) for k in range(len(TEXTS))]
    length = max(map(len, counted))
    tokens, counts = (torch.zeros(len(TEXTS), length, dtype=torch.int64) for _ in range(2))
    for row, one in enumerate(counted):
        tokens[row, : len(one)] = torch.tensor([int(column) for column in one], dtype=torch.int64)
        counts[row, : len(one)] = torch.tensor(list(one.values()), dtype=torch.int64)
    probabilities, contributions = module(tokens, counts)
    assert np.abs(probabilities.detach().numpy() - model.predict_proba(TEXTS)).max() < CLOSE
    assert (contributions[counts == 0] == 0).all()
    probabilities[:, 0].sum().backward()
    assert all(torch.isfinite(each.grad).all() and each.grad.abs().sum() > 0 for each in module.parameters())


@pytest.mark.skipif(NODE is None, reason="there is no Node.js on this machine")
def test_the_scorer_runs_in_node_and_its_example_too(model, tmp_path):
    out = tmp_path / "out"
    export(model, out, [Form.JS])
    example = "\n".join(line.removeprefix("//").removeprefix("   ") for line in HEAD.splitlines()[2:])
    assert len(example.splitlines()) == 10
    (out / "example.js").write_text(example, encoding="utf-8")
    shown = subprocess.run([NODE, "example.js"], cwd=out, capture_output=True, text=True, check=True).stdout
    assert re.match(r"(bad|good|odd) with \d+\.\d%, \d+ tokens known", shown)
    asked = f"""const texts = {json.dumps(TEXTS)};
    require("./scorer.js").load().then((model) => console.log(JSON.stringify(texts.map((text) => {{
        const told = model.explain(text, "good");
        return [told.probabilities, told.against, model.predict(text).known_words];
    }}))));"""
    (out / "ask.js").write_text(asked, encoding="utf-8")
    said = json.loads(subprocess.run([NODE, "ask.js"], cwd=out, capture_output=True, text=True, check=True).stdout)
    chances, known = model.predict_all(TEXTS)
    for (found, against, count), own, n, text in zip(said, chances, known, TEXTS, strict=True):
        assert np.abs(np.subtract(found, own)).max() < CLOSE
        assert (against, count) == (model.explain(text, "good").against, n)


def test_a_card_has_data_metrics_and_limits(tmp_path, capsys):
    found = fitted(n=150)
    write_fit(found, tmp_path / "fit")
    assert cli.main(["export", str(tmp_path / "fit"), "--json", "--out", str(tmp_path / "out")]) == 0
    assert "model.json" in capsys.readouterr().out
    card = (tmp_path / "out" / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert f"Accuracy {100 * found.metrics['accuracy']:.1f}%" in card
    assert f"{len(found.model.words):,} tokens" in card
    for head in ("## Data", "## Metrics", "## Limits", "## How it was made"):
        assert head in card
    # The folder of the model alone has its metrics beside it; a copy elsewhere has none, and says so.
    save(found.model, tmp_path / "alone" / "model")
    assert cli.main(["export", str(tmp_path / "alone" / "model"), "--json", "--out", str(tmp_path / "out")]) == 0
    assert "Not measured here" in (tmp_path / "out" / "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("metrics", {"train_documents": "x"}),
        ("metrics", {"accuracy": 0.5, "per_class": [1]}),
        ("metrics", {"accuracy": "high"}),
        ("manifest", {"files": [1]}),
        ("manifest", {"versions": "x"}),
    ],
)
def test_metrics_and_manifests_that_no_fit_wrote_are_refused(name, lie, tmp_path, capsys):
    found = fitted(n=150)
    with pytest.raises(InvalidInputError, match="not what a fit wrote"):
        export(found.model, tmp_path / "out", [Form.JSON], **{name: lie})
    save(found.model, tmp_path / "fit" / "model")
    (tmp_path / "fit" / f"{name}.json").write_text(json.dumps(lie))
    assert cli.main(["export", str(tmp_path / "fit"), "--json", "--out", str(tmp_path / "out")]) == 2
    assert "give theirs as they are, or none" in capsys.readouterr().err
    (tmp_path / "fit" / f"{name}.json").write_text("[" * 100_000)  # none that can be read is none
    assert cli.main(["export", str(tmp_path / "fit"), "--json", "--out", str(tmp_path / "out")]) == 0


def test_what_cannot_be_exported_is_said(tmp_path, capsys):
    pytest.importorskip("Stemmer", reason="PyStemmer is not installed")
    found = fitted(recipe=plain_recipe("english", minimum_count=1), n=100)
    save(found.model, tmp_path / "model")
    assert cli.main(["export", str(tmp_path / "model"), "--js", "--out", str(tmp_path / "out")]) == 2
    assert "english stemmer" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert cli.main(["export", str(tmp_path / "model"), "--out", str(tmp_path / "out")]) == 2
    assert "--js, --onnx, --json" in capsys.readouterr().err
    with pytest.raises(InvalidInputError, match="at least one form"):
        export(load(tmp_path / "model"), tmp_path / "out", [])


def test_without_onnx_the_extra_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(Exception, match=r"tokenmargin\[onnx\]"):
        export(model, tmp_path / "out", [Form.ONNX])
