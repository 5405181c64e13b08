"""The public entries of sources, text, probe, parallel and verify, with arguments that are right; and all of them."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np
from safetensors.numpy import save_file

import tokenmargin as tm
from tests.probe import small_models
from tests.torture._entries import (
    NAMES,
    TEXTS,
    Entries,
    attention_entries,
    data_entries,
    folder,
)
from tests.torture._entries_of_margins import margin_entries, run_entries, training_entries
from tests.torture._entries_of_theory import explain_entries, theory_entries
from tests.torture._entries_of_words import word_entries
from tokenmargin import (
    parallel,
    probe,
    sources,
    text,
    verify,
)
from tokenmargin.papers.maxmargin.vit.attention_probe import (
    AttentionProbe,
    head_directions,
    key_query_norms,
    vit_attention,
)
from tokenmargin.papers.maxmargin.vit.cifar10 import cifar10
from tokenmargin.papers.maxmargin.vit.vit import Vit
from tokenmargin.parallel import shards


def _table(name: str, head: str, labels: tuple[str, str]) -> Path:
    """A table of the texts, in columns and with labels as a known corpus has them."""
    named = dict(zip(("yes", "no"), labels, strict=True))
    place = folder() / f"{name}.csv"
    place.write_text(f"{head}\n" + "".join(f"{t},{named[n]}\n" for t, n in zip(TEXTS, NAMES, strict=True)))
    return place


def text_entries() -> Entries:
    recipe = text.plain_recipe(minimum_count=1)
    counted = text.count_tokens(TEXTS, recipe)
    counter = text.TokenCounter(recipe, counted.vocabulary)
    counted.word_map.save(folder() / "words.npz")
    table = folder() / "table.csv"
    columns = {"path": table, "text": "text", "label": "label"}
    texts = sources.table(**columns)
    selection, stars = sources.YelpSelection(), _table("yelp", "text,stars", ("5", "1"))
    (pictures := folder() / "pictures").mkdir(exist_ok=True)
    (pictures / "test_batch.bin").write_bytes(bytes(3073 * 2))
    parted = folder() / "parted.csv"
    parted.write_text("text,label,part\n" + "".join(f"{t},{n},a\n" for t, n in zip(TEXTS, NAMES, strict=True)))
    split_texts = sources.table(parted, text="text", label="label", split="part")
    made: Entries = {
        "table": (
            lambda **asked: sources.table(**asked).load(),
            {**columns, "split": None, "id": None, "label_map": None, "format": None},
        ),
        "open_table": (
            lambda **asked: sources.open_table(**asked).source.load(),
            {**columns, "label_map": None, "encoding": None, "delimiter": None, "format": None},
        ),
        "read_texts": (sources.read_texts, {"path": table, "text": "text"}),
        "word_contexts": (text.word_contexts, {"texts": TEXTS, "vocabulary": 4, "window": 3, "recipe": None}),
        "imdb": (
            lambda path, split: sources.imdb(path, split=split, verify=False).load(),
            {"path": _table("imdb", "review,sentiment", ("positive", "negative")), "split": None},
        ),
        "yelp": (lambda path, selection: sources.yelp(path, selection).load(), {"path": stars, "selection": selection}),
        "yelp_counts": (sources.yelp_counts, {"path": stars, "selection": selection}),
        "cifar10": (cifar10, {"path": pictures, "split": "test", "some": 2, "verify": False}),
        "YelpSelection": (
            sources.YelpSelection,
            {"shortest": 1, "longest": 10, "balanced": False, "at_most": None, "seed": 0},
        ),
        "YelpSelection.pick": (selection.pick, {"labels": np.array([1, -1, 1])}),
        "LabelledTexts.chunks": (lambda size: list(texts.chunks(size)), {"size": 2}),
        "LabelledTexts.only_split": (lambda split: split_texts.only_split(split).load(), {"split": "a"}),
        "write_parquet": (
            sources.write_parquet,
            {"path": folder() / "written.parquet", "batches": [{"text": ["a"], "label": ["b"]}]},
        ),
        "Recipe": (
            text.Recipe,
            {field: getattr(recipe, field) for field in recipe.__dataclass_fields__},
        ),
        "Recipe.differences": (recipe.differences, {"other": recipe}),
        "Recipe.from_json": (text.Recipe.from_json, {"value": recipe.to_json(), "vocabulary": None}),
        "plain_recipe": (
            text.plain_recipe,
            {"language": "english", "ngrams": 1, "word_piece": False, "minimum_count": 1},
        ),
        "count_tokens": (
            text.count_tokens,
            {
                "texts": TEXTS,
                "recipe": recipe,
                "labels": NAMES,
                "vocabulary": None,
                "minimum_count": 1,
                "chunk_size": 8,
            },
        ),
        "tokenize": (
            text.tokenize,
            {
                "texts": TEXTS,
                "labels": NAMES,
                "recipe": recipe,
                "vocabulary": None,
                "drop_empty": False,
                "chunk_size": 8,
            },
        ),
        "word_pieces": (text.word_pieces, {"recipe": recipe}),
        "TokenCounter": (text.TokenCounter, {"recipe": recipe, "vocabulary": counted.vocabulary}),
        "TokenCounter.counts": (counter.counts, {"texts": TEXTS[:2]}),
        "TokenCounter.located": (counter.located, {"text": TEXTS[0]}),
        "TokenCounter.places": (counter.places, {"text": TEXTS[0]}),
        "WordMap.tokens_of": (counted.word_map.tokens_of, {"word": "good"}),
        "WordMap.words_of": (counted.word_map.words_of, {"token": 0}),
        "WordMap.mean_over_pieces": (
            counted.word_map.mean_over_pieces,
            {"values": np.ones(len(counted.vocabulary))},
        ),
        "WordMap.save": (counted.word_map.save, {"path": folder() / "words2.npz"}),
        "WordMap.load": (text.WordMap.load, {"path": folder() / "words.npz"}),
    }
    return made


def probe_entries() -> Entries:
    rng = np.random.default_rng(0)
    maps = rng.dirichlet(np.ones(4), size=(1, 2, 1))
    reading = {
        "maps": maps,
        "mask": np.ones((2, 4), bool),
        "queries": np.ones((1, 2, 1, 3)),
        "keys": rng.normal(size=(1, 2, 1, 4, 3)),
    }
    vit = Vit(8, 1, 2, side=8, patch=4, hidden=2, half=False)
    parameters = vit.initial(jax.random.key(0), 2)
    bert = {"weights": small_models.weights(np.random.default_rng(0)), "config": small_models.CONFIG}
    (place := folder() / "bert").mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(small_models.CONFIG))
    save_file(bert["weights"], place / "model.safetensors")
    weights = np.array([[0.25, 0.75], [0.5, 0.5]])
    return {
        "AttentionMaps": (probe.AttentionMaps, reading),
        "attention_measures": (
            lambda readings, norms: probe.attention_measures(readings, norms),
            {"readings": [probe.AttentionMaps(**reading)], "norms": np.ones((1, 1))},
        ),
        "soft_sparsity": (probe.soft_sparsity, {"weights": weights}),
        "entropy": (probe.entropy, {"weights": weights}),
        "top_mass": (probe.top_mass, {"weights": weights, "tokens": 1}),
        "logit_margin": (probe.logit_margin, {"logits": weights}),
        "distribution": (probe.distribution, {"values": [1.0, 2.0]}),
        "key_query_norm": (probe.key_query_norm, {"query_weights": np.eye(2), "key_weights": np.eye(2)}),
        "key_query_norms": (key_query_norms, {"model": vit, "parameters": parameters}),
        "query_direction": (
            probe.query_direction,
            {"query": np.ones(3), "keys": rng.normal(size=(4, 3)), "rng": rng, "baseline": 2},
        ),
        "head_directions": (
            head_directions,
            {"queries": np.ones((1, 2, 3)), "keys": rng.normal(size=(1, 2, 4, 3)), "rng": rng, "baseline": 2},
        ),
        "vit_attention": (
            lambda **asked: list(vit_attention(**asked)),
            {"model": vit, "parameters": parameters, "images": np.zeros((2, 8, 8, 3), np.uint8), "at_once": 2},
        ),
        "AttentionProbe": (
            AttentionProbe,
            {"model": vit, "images": np.zeros((2, 8, 8, 3), np.uint8), "epochs": None, "kept": 0, "layers": ()},
        ),
        "BertModel.load": (probe.BertModel.load, {"folder": place}),
        "BertModel.from_weights": (probe.BertModel.from_weights, bert),
        "bert_attention": (
            lambda model, batches: list(probe.bert_attention(model, batches)),
            {"model": probe.BertModel.from_weights(**bert), "batches": [(np.array([[1, 2, 3]]), np.ones((1, 3), int))]},
        ),
        "torch_attention": (
            # Without torch nothing is tried: its absence is refused whatever the arguments are.
            lambda model, batches: list(probe.torch_attention(model, batches)) if find_spec("torch") else [],
            {"model": lambda *inputs: None, "batches": []},
        ),
    }


def _square(x: float) -> dict[str, float]:
    return {"square": x * x}


def parallel_entries() -> Entries:
    one = tm.OneLayer(4)
    mesh = parallel.width_mesh()
    raw = folder() / "raw"
    raw.mkdir(exist_ok=True)
    sources.write_parquet(raw / "a.parquet", [{"text": TEXTS, "label": [int(name == "yes") for name in NAMES]}])
    counted = shards.count_shards(raw, folder() / "counted", text.plain_recipe(minimum_count=1))
    content = {"format": verify.FORMAT, "version": verify.VERSION}
    return {
        "sweep": (parallel.sweep, {"make": _square, "grid": {"x": [1.0, 2.0]}, "folder": None}),
        "width_mesh": (parallel.width_mesh, {"devices": None}),
        "by_width": (parallel.by_width, {"shape": (4, 4), "mesh": mesh}),
        "placed": (parallel.placed, {"parameters": one.initial(jax.random.key(0), 4), "mesh": mesh}),
        "initial_placed": (
            parallel.initial_placed,
            {"model": one, "key": jax.random.key(0), "vocabulary_size": 4, "mesh": mesh, "dtype": np.float32},
        ),
        "count_shards": (
            shards.count_shards,
            {
                "folder": raw,
                "into": folder() / "into",
                "recipe": text.plain_recipe(minimum_count=1),
                "text": "text",
                "label": "label",
                "drop_empty": False,
                "documents": 16,
            },
        ),
        "CountedShards": (shards.CountedShards, {"folder": folder() / "counted"}),
        "ShardStream": (shards.ShardStream, {"shards": counted, "seed": 0, "together": 2}),
        "verify": (verify.verify, {"content": content}),
        "map_of": (lambda address: parallel.map_of(address).__enter__(), {"address": None}),
        "verify_file": (verify.verify_file, {"path": folder() / "written.json"}),
        "read_certificate": (verify.read_certificate, {"path": folder() / "written.json"}),
        "digest": (verify.digest, {"given": {"keys": [[[1, 0]]]}}),
        "seal": (verify.seal, {"content": content}),
    }


def all_entries() -> Entries:
    """Every public entry by name."""
    groups = (data_entries, attention_entries, margin_entries, training_entries)
    groups += (run_entries, theory_entries, explain_entries, word_entries, text_entries, probe_entries)
    groups += (parallel_entries,)
    made: Entries = {}
    for group in groups:
        made |= group()
    return made
