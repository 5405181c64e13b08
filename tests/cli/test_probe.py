"""`tokenmargin probe` as a user meets it: a folder with one page and its numbers, and one line for every misuse."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from tests.classify.corpora import fitted, texts
from tests.probe import small_models
from tokenmargin import cli
from tokenmargin.classify import save
from tokenmargin.sources import write_parquet

QUICK = ("--directions", "2", "--quiet")


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, a folder of Parquet, lines without labels, an encoder in both forms, and a fit."""
    made, corpus = tmp_path_factory.mktemp("probe"), texts(n=80)
    with (made / "reviews.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "sentiment"])
        writer.writerows(zip(corpus.texts, corpus.labels, strict=True))
    (made / "lines.txt").write_text("\n".join(corpus.texts) + "\n")
    (made / "shards").mkdir()
    for part in range(2):
        own = slice(40 * part, 40 * part + 40)
        columns = {"text": list(corpus.texts[own]), "label": list(corpus.labels[own])}
        write_parquet(made / "shards" / f"{part}.parquet", [columns])
    arrays = small_models.weights(np.random.default_rng(3))
    small_models.encoder_folder(made / "encoder", arrays)
    small_models.encoder_folder(made / "exported", arrays, as_onnx=True)
    save(fitted(n=240).model, made / "fit" / "model")
    return made


def told(out) -> dict:
    return json.loads((out / "probe.json").read_text())


def test_a_probe_is_a_page_its_numbers_and_the_same_bytes_again(place, tmp_path, capsys):
    out = tmp_path / "out"
    words = ("probe", place / "encoder", place / "reviews.csv", "--out", out, "--directions", "2")
    assert run(*words) == 0
    said = capsys.readouterr().out
    assert said.index("Against the idea") < said.index("For it") < said.index("How far to trust it")
    assert "probe.html" in said
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "probe.html", "probe.json"]
    found = told(out)
    assert found["texts"] == found["agreement"]["texts"] == 80
    assert [(row["layer"], row["head"]) for row in found["heads"]] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert {
        "sparsity_q50",
        "margin",
        "top_mass",
        "entropy",
        "key_query_norm",
        "direction_cosine",
        "over_chance_low",
    } <= set(found["heads"][0])
    assert "fit of tokenmargin to 64 of the texts" in found["decides"]
    page = (out / "probe.html").read_text()
    assert page.index("Against the idea") < page.index("For it")
    assert "<script" not in page
    assert "https://" not in page
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert run(*words) == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_safetensors_onnx_a_folder_of_parquet_and_no_labels_say_the_same_of_attention(place, tmp_path):
    ways = {
        "table": (place / "encoder", place / "reviews.csv", "--fit", place / "fit"),
        "onnx": (place / "exported" / "model.onnx", place / "shards", "--fit", place / "fit"),
        "lines": (place / "exported", place / "lines.txt", "--unlabelled"),
    }
    found = {}
    for name, words in ways.items():
        assert run("probe", *words, "--out", tmp_path / name, *QUICK) == 0
        found[name] = told(tmp_path / name)
    assert found["table"]["agreement"] == found["onnx"]["agreement"]
    assert found["lines"]["agreement"] is None
    for name in ("sparsity", "margin", "entropy"):
        own = [[row[name] for row in each["heads"]] for each in found.values()]
        np.testing.assert_allclose(own, [own[0]] * 3, rtol=1e-6)


def test_rows_that_are_left_out_are_said_as_by_a_fit(place, tmp_path, capsys):
    table = (place / "reviews.csv").read_text() + "no label here,\n"
    (tmp_path / "more.csv").write_text(table)
    assert run("probe", place / "fit", tmp_path / "more.csv", "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "81 rows read, 80 kept (40 bad, 40 good)" in said
    assert "1 with no label, or one that is not known; left out: 82" in said
    assert "81 rows read, 80 kept" in (tmp_path / "out" / "probe.html").read_text()
    lines = tmp_path / "lines.csv"
    lines.write_text('text\na superb film\n""\na dull film\n')
    assert run("probe", place / "fit", lines, "--unlabelled", "--out", tmp_path / "b") == 0
    assert "1 of 3 rows have no text" in capsys.readouterr().out


def test_a_limit_draws_texts_and_no_text_leaves_where_none_may(place, tmp_path, capsys):
    out = tmp_path / "out"
    words = ("--out", out, "--limit", "30", "--no-texts", "--json", "--directions", "0")
    assert run("probe", place / "fit", place / "reviews.csv", *words) == 0
    assert json.loads(capsys.readouterr().out) == told(out)
    assert told(out)["texts"] == 30
    assert "same fit" in told(out)["decides"]
    for name in ("probe.html", "probe.json", "manifest.json"):
        assert [text for text in texts(n=80).texts if text in (out / name).read_text()] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nowhere",), "nowhere is not there: MODEL is a folder or a file"),
        (("shards",), "shards is no model: it holds neither config.json"),
        (("reviews.csv",), "ends neither in .safetensors nor in .onnx"),
        (("encoder", "nowhere.csv"), "nowhere.csv"),
        (("encoder", "empty.csv"), "empty.csv"),
        (("encoder", "header.csv"), "header.csv"),
        (("encoder", "numbers.csv"), "no column of texts"),
        (("encoder", "reviews.csv", "--text", "body"), "body"),
        (("encoder", "empty"), "a folder without Parquet files"),
        (("encoder", "lines.txt", "--unlabelled", "--label", "x"), "leave one of the two out"),
        (("encoder", "--text", "x"), "speaks of a file"),
        (("encoder", "reviews.csv", "--limit", "1"), "less than 2"),
        (("encoder", "reviews.csv", "--fit", "shards"), "holds no model"),
        (("damaged", "reviews.csv"), "no encoder.layer.1.attention.self.key.weight"),
        (("encoder", "--frobnicate"), "does not know"),
    ],
)
def test_misuse_is_one_line_that_says_what_to_do(words, says, place, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(place)
    (place / "empty.csv").write_text("")
    (place / "header.csv").write_text("text,label\n")
    (place / "numbers.csv").write_text("a,b\n1,2\n3,4\n")
    (place / "empty").mkdir(exist_ok=True)
    arrays = small_models.weights(np.random.default_rng(3))
    del arrays["encoder.layer.1.attention.self.key.weight"]
    small_models.encoder_folder(place / "damaged", arrays)
    assert run("probe", *words, "--out", tmp_path / "out") == 2
    complaint = capsys.readouterr().err
    assert says in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "out").exists()
