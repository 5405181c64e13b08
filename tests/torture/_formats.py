"""Every file format that is read, with files that are right and the reader that meets what becomes of them.

A file that is made of parts is one byte string here: `pack` joins them and `unpack` gives them back, so that an engine
which knows bytes alone changes any of them. Where a digest or seal would end every change at the door, it is mended.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tokenmargin as tm
from tests.probe import small_models
from tests.torture._entries import folder
from tokenmargin import classify, probe, sources, text, theory, verify
from tokenmargin._archive import read_archive, write_archive
from tokenmargin.classify import saved_model
from tokenmargin.experiments import store
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.vit.cifar10 import cifar10
from tokenmargin.parallel.shards import CountedShards, count_shards
from tokenmargin.text._wordpiece import WordPieces, read_vocabulary

#: Stands between the files of one input.
BETWEEN = b"\n\x00--next--\x00\n"


@dataclass(frozen=True)
class Format:
    """Files that are right, packed, and what reads a folder of them."""

    seeds: list[bytes]
    names: tuple[str, ...]
    read: Callable[[Path], Any]
    mend: Callable[[Path], None] = lambda place: None

    def attempt(self, data: bytes, place: Path) -> Callable[[], Any]:
        """Write an input into an empty folder, and what is then to be tried."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, part in zip(self.names, data.split(BETWEEN), strict=False):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(part)
        with suppress(Exception):  # what is too broken to be mended is tried as it is
            self.mend(place)
        return lambda: self.read(place)


def pack(place: Path, names: tuple[str, ...]) -> bytes:
    return BETWEEN.join((place / name).read_bytes() for name in names)


def _table(ending: str) -> Callable[[Path], Any]:
    def read(place: Path) -> None:
        path = place / f"table.{ending}"
        try:
            sources.open_table(path).source.load()
        finally:
            sources.read_texts(path)

    return read


def _arrays(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _resealed(place: Path) -> None:
    """Every second certificate gets the seal of what it now says."""
    path = place / "certificate.json"
    content = json.loads(path.read_bytes())
    if len(path.read_bytes()) % 2:
        content["seal"] = verify.seal(content)
        path.write_text(json.dumps(content))


def _redigested(place: Path) -> None:
    described = json.loads((place / "model.json").read_bytes())
    names = ("weights.safetensors", "vocabulary.txt")
    described["digests"] = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in names}
    described["checksum"] = saved_model.checksum(described)
    (place / "model.json").write_text(json.dumps(described))


def _shards() -> tuple[bytes, tuple[str, ...]]:
    place, into = folder() / "raw", folder() / "counted"
    place.mkdir(exist_ok=True)
    sources.write_parquet(place / "a.parquet", [{"text": ["good film", "bad film", "good"], "label": [1, 0, 1]}])
    count_shards(place, into, text.plain_recipe(minimum_count=1))
    names = ("corpus.json", *(str(file.relative_to(into)) for file in sorted(into.glob("parts-*/*.npz"))))
    return pack(into, names), names


def _cifar(place: Path) -> Any:
    table = place / "cifar10.parquet"
    return cifar10(table if table.exists() else place, split="test", verify=False)


def _weights() -> bytes:
    """A one-layer BERT of width 4 in one file of safetensors, with its config."""
    from safetensors.numpy import save

    shapes = {"embeddings.word_embeddings.weight": (6, 4), "embeddings.position_embeddings.weight": (8, 4)}
    shapes |= {"embeddings.token_type_embeddings.weight": (2, 4)}
    layer = "encoder.layer.0."
    for name, shape in (("intermediate.dense", (8, 4)), ("output.dense", (4, 8))):
        shapes |= {f"{layer}{name}.weight": shape, f"{layer}{name}.bias": shape[:1]}
    for name in ("query", "key", "value"):
        shapes |= {f"{layer}attention.self.{name}.weight": (4, 4), f"{layer}attention.self.{name}.bias": (4,)}
    shapes |= {f"{layer}attention.output.dense.weight": (4, 4), f"{layer}attention.output.dense.bias": (4,)}
    for name in ("embeddings.LayerNorm", f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"):
        shapes |= {f"{name}.weight": (4,), f"{name}.bias": (4,)}
    config = {"model_type": "bert", "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_act": "gelu"}
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    return json.dumps(config).encode() + BETWEEN + save(arrays)


def _exported() -> bytes:
    """A small BERT as an exporter writes it, with its config."""
    arrays = small_models.weights(np.random.default_rng(0))
    return json.dumps(small_models.CONFIG).encode() + BETWEEN + small_models.exported(arrays)


def _read_bert(place: Path) -> None:
    model = probe.BertModel.load(place)
    model.key_query_norms()
    list(probe.bert_attention(model, [(np.array([[1, 2, 3]]), np.ones((1, 3), int))]))


def _read_vocabulary(place: Path) -> None:
    pieces = read_vocabulary(place / "vocab.txt", any_vocabulary=True)
    WordPieces(pieces).split("unbelievable")


TREE = {"embeddings": np.ones((2, 2)), "steps": np.array(3)}


def _checkpoint(place: Path) -> bytes:
    write_archive(place / "run.npz", TREE, {"epoch": 3}, {"optimiser.lr": "0.1"})
    return (place / "run.npz").read_bytes()


def _read_checkpoint(place: Path) -> Any:
    return read_archive(place / "run.npz")


def _result() -> bytes:
    number = {"name": "error", "value": 0.5, "depends_on_size": True, "verdict": "shown"}
    summary = {"numbers": [number], "sentences": ["a"], "tables": {}}
    parts = (_arrays(**{"group/a": np.ones(2)}), json.dumps(summary).encode(), b'{"seed": 0}')
    return BETWEEN.join(parts)


def formats() -> dict[str, Format]:
    """By name."""
    place = folder()
    csv = (place / "table.csv").read_bytes()
    lines = b"".join(b'{"text": "%s", "label": %d}\n' % (b"good film " * k, k % 2) for k in range(1, 9))
    sources.write_parquet(place / "table.parquet", [{"text": ["good", "bad"] * 4, "label": ["a", "b"] * 4}])
    seq = toys.fig8()
    solution = tm.att_svm(seq, tm.optimal_selection(seq))
    certificates = []
    crossed = tm.EmbeddedSequences.from_scores([[[0.0], [1.0], [-1.0]]], [[1.0, 0.0, 0.0]])
    limit = tm.follow(tm.AttentionRisk(seq), [1.0, 0.5], tm.Flow()).limit
    for answer in (solution, tm.att_svm(crossed, tm.optimal_selection(crossed)), limit):
        with suppress(tm.errors.TokenMarginError):
            theory.write_certificate(answer, place / "made.json")
            certificates.append((place / "made.json").read_bytes())
    fitted = classify.fit_texts(
        classify.LabelledCorpus(("good film", "bad film") * 9, ("yes", "no") * 9),
        classify.FitSettings(text.plain_recipe(minimum_count=1)),
    )
    classify.save(fitted.model, place / "model")
    counted = text.count_tokens(["good film", "bad"], text.plain_recipe(minimum_count=1))
    counted.word_map.save(place / "words.npz")
    shards, parts = _shards()
    picture = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}
    model = ("model.json", "weights.safetensors", "vocabulary.txt")
    yelp = b'{"stars": 5, "text": "%s"}\n{"stars": 1, "text": "%s"}\n' % (b"good " * 250, b"bad " * 300)
    return {
        "csv": Format([csv, b"text;label\na;b\nc;d\n"], ("table.csv",), _table("csv")),
        "tsv": Format([csv.replace(b",", b"\t")], ("table.tsv",), _table("tsv")),
        "jsonl": Format([lines, b"[%s]" % lines.strip().replace(b"\n", b",")], ("table.jsonl",), _table("jsonl")),
        "parquet": Format([(place / "table.parquet").read_bytes()], ("table.parquet",), _table("parquet")),
        "yelp": Format([yelp], ("reviews.json",), lambda at: sources.yelp(at / "reviews.json").load()),
        "problem": Format(
            [_arrays(tokens=seq.tokens, labels=seq.labels, head=seq.head, selection=[0, 1], speeds=[1.0, 2.0])],
            ("problem.npz",),
            lambda at: theory.load_problem(at / "problem.npz"),
        ),
        "certificate": Format(
            certificates, ("certificate.json",), lambda at: verify.verify_file(at / "certificate.json"), _resealed
        ),
        "model": Format([pack(place / "model", model)], model, lambda at: tm.load(at).predict(["good"]), _redigested),
        "checkpoint": Format([_checkpoint(place)], ("run.npz",), _read_checkpoint),
        "shards": Format([shards], parts, lambda at: CountedShards(at).load()),
        "bert": Format([_weights()], ("config.json", "model.safetensors"), _read_bert),
        "bert onnx": Format([_exported()], ("config.json", "model.onnx"), _read_bert),
        "cifar pickle": Format([pickle.dumps(picture, 2)], ("test_batch",), _cifar),
        "cifar binary": Format([bytes(3073 * 2)], ("test_batch.bin",), _cifar),
        "vocabulary": Format([b"[PAD]\n[UNK]\nun\n##believ\n##able\n"], ("vocab.txt",), _read_vocabulary),
        "data set": Format(
            [(place / "dataset.npz").read_bytes()], ("d.npz",), lambda at: tm.TokenDataset.load(at / "d.npz")
        ),
        "word map": Format(
            [(place / "words.npz").read_bytes()],
            ("words.npz",),
            lambda at: text.WordMap.load(at / "words.npz").words_of(0),
        ),
        "result": Format([_result()], ("result.npz", "summary.json", "manifest.json"), store.load),
        "picture table": Format([_picture_table(place)], ("cifar10.parquet",), _cifar),
    }


def _picture_table(place: Path) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(file, "JPEG")
    rows = {"split": ["test"] * 2, "label": ["cat", "dog"], "jpeg": [file.getvalue()] * 2}
    sources.write_parquet(place / "pictures.parquet", [rows])
    return (place / "pictures.parquet").read_bytes()
