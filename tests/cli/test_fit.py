"""`tokenmargin fit`, `explain` and `predict` as a user meets them: a file in, a folder out."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.classify.corpora import texts, topics
from tokenmargin import cli
from tokenmargin.classify import load

ROOT = Path(__file__).parents[2]
FILES = ["manifest.json", "metrics.json", "model", "report.html", "tokens.csv", "tokens.parquet"]


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """A table with two classes, an odd column and rows that cannot be used."""
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    corpus = texts(n=300)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "review", "sentiment"])
        writer.writerows((row, text, label) for row, (text, label) in enumerate(zip(*_columns(corpus), strict=True)))
        writer.writerow(["300", "no label here", ""])
    return path


def _columns(corpus):
    return corpus.texts, corpus.labels


@pytest.fixture(scope="module")
def folder(reviews, tmp_path_factory):
    out = tmp_path_factory.mktemp("fit") / "out"
    assert run("fit", reviews, "--out", out) == 0
    return out


def test_the_folder_holds_everything(folder):
    assert sorted(path.name for path in folder.iterdir()) == FILES
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["accuracy"] > 0.8
    assert {"baseline_accuracy", "majority", "per_class"} <= set(metrics)
    assert set(metrics["per_class"]) == {"bad", "good"}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["command"].startswith("tokenmargin fit")
    assert "reviews.csv" in manifest["files"]


def test_what_was_guessed_and_left_out_is_said(reviews, tmp_path, capsys):
    assert run("fit", reviews, "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "'review'" in said
    assert "'sentiment'" in said
    assert "302" in said  # the line without a label
    assert "superb" in said
    assert "report.html" in said
    page = (tmp_path / "out" / "report.html").read_text()
    assert "302" in page


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """The same kind of texts as a folder of three Parquet files."""
    from tokenmargin.sources import write_parquet

    folder = tmp_path_factory.mktemp("shards")
    corpus = texts(n=300)
    for number in range(3):
        own = slice(100 * number, 100 * number + 100)
        batch = {"text": list(corpus.texts[own]), "label": list(corpus.labels[own])}
        write_parquet(folder / f"{number}.parquet", [batch])
    return folder


def test_a_folder_of_parquet_files_is_learnt_from_part_by_part(shards, tmp_path, capsys):
    assert run("fit", shards, "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "300 texts" in said
    assert "superb" in said
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]  # no counts are left behind
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["accuracy"] > 0.8
    assert sorted(json.loads((tmp_path / "out" / "manifest.json").read_text())["files"]) == [
        "0.parquet",
        "1.parquet",
        "2.parquet",
    ]
    assert run("predict", tmp_path / "out", shards / "0.parquet") == 0


@pytest.mark.parametrize("flags", [("--bootstrap", 2), ("--label-map", "a=b;c=d"), ("--test", "other.csv")])
def test_flags_of_a_table_are_refused_for_a_folder(shards, tmp_path, capsys, flags):
    (tmp_path / "other.csv").write_text("text,label\na,b\n")
    assert run("fit", shards, "--out", tmp_path / "out", *flags) == 2
    assert "folder of Parquet files" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_table_larger_than_memory_is_refused_before_it_is_read(reviews, tmp_path, capsys, monkeypatch):
    from tokenmargin.training import forecast

    monkeypatch.setattr(forecast, "host_bytes", lambda: 1000)
    assert run("fit", reviews, "--out", tmp_path / "out") == 2
    assert "of memory are free: write its rows as Parquet files into a folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_without_parquet_is_one_line(tmp_path, capsys):
    assert run("fit", tmp_path, "--out", tmp_path / "out") == 2
    assert "holds no *.parquet file" in capsys.readouterr().err


def test_the_tables_agree(folder):
    import pyarrow.parquet

    with (folder / "tokens.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pyarrow.parquet.read_table(folder / "tokens.parquet").to_pydict()
    assert [row["token"] for row in rows] == table["token"]
    np.testing.assert_allclose([float(row["pull"]) for row in rows], table["pull"], rtol=1e-5)
    decides = [float(row["decides"]) for row in rows]
    assert decides == sorted(decides, reverse=True)


def test_the_same_seed_gives_the_same_bytes(reviews, folder, tmp_path, monkeypatch):
    (tmp_path / "again").mkdir()
    again = tmp_path / "again" / "out"
    assert run("fit", reviews, "--out", again, "--quiet") == 0
    for path in sorted(folder.rglob("*")):
        other = again / path.relative_to(folder)
        if path.is_file() and path.name not in ("manifest.json", "report.html"):  # which tell the command, with --quiet
            assert path.read_bytes() == other.read_bytes(), path.name
    first = (again / "report.html").read_bytes()
    assert run("fit", reviews, "--out", again, "--quiet") == 0
    assert (again / "report.html").read_bytes() == first


def test_quiet_says_nothing_and_json_says_the_metrics(reviews, tmp_path, capsys):
    assert run("fit", reviews, "--out", tmp_path / "a", "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    assert run("fit", reviews, "--out", tmp_path / "b", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((tmp_path / "b" / "metrics.json").read_text())


def test_no_texts_leave_where_none_may(reviews, tmp_path):
    assert run("fit", reviews, "--out", tmp_path / "out", "--no-texts", "--quiet") == 0
    page = (tmp_path / "out" / "report.html").read_text()
    shown = [text for text in texts(n=300).texts if text in page or text[:40] in page]
    assert shown == []


def test_several_classes_a_label_map_and_a_test_file(tmp_path, capsys):
    def write(name, n, seed):
        corpus = texts(("bad", "good", "odd"), n=n, seed=seed)
        stars = {"bad": (1, 2), "good": (4, 5), "odd": (3, 3)}
        rows = [
            {"body": text, "stars": stars[label][i % 2]}
            for i, (text, label) in enumerate(zip(corpus.texts, corpus.labels, strict=True))
        ]
        path = tmp_path / name
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return path

    train, test = write("train.jsonl.gz", 400, 0), write("test.jsonl.gz", 90, 1)
    mapping = "negative=1,2;positive=4,5;middle=3"
    arguments = ("fit", train, "--test", test, "--label-map", mapping, "--out", tmp_path / "out", "--bootstrap", "2")
    assert run(*arguments, "--features", "pairs", "--quiet") == 0
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert set(metrics["per_class"]) == {"negative", "positive", "middle"}
    assert metrics["test_documents"] == 90
    with (tmp_path / "out" / "tokens.csv").open(newline="") as file:
        header = next(csv.reader(file))
    assert {"pull: positive", "spread: middle", "decides for negative"} <= set(header)


def test_a_column_of_splits_is_what_it_is_judged_by(tmp_path):
    corpus = texts(n=200)
    path = tmp_path / "data.tsv"
    pairs = enumerate(zip(*_columns(corpus), strict=True))
    lines = [f"{'test' if i % 4 == 0 else 'train'}\t{label}\t{text}" for i, (text, label) in pairs]
    path.write_text("split\tlabel\ttext\n" + "\n".join(lines) + "\n")
    assert run("fit", path, "--out", tmp_path / "out", "--quiet") == 0
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["test_documents"] == 50
    assert metrics["per_class"]["good"]["documents"] == 0  # every fourth text is of one class, which has no area
    assert metrics["auc"] is None


def _split_table(path, *splits):
    """A table whose rows go through the splits in turn; the first has no label."""
    rows = list(zip(*_columns(texts(n=120)), strict=True))
    lines = [f'"{text}",{label if j else ""},{splits[j % len(splits)]}' for j, (text, label) in enumerate(rows)]
    path.write_text("\n".join(["text,label,part", *lines]))
    return [text for text, _ in rows]


def test_splits_that_are_not_told_apart_are_said_to_be_and_testing_is_test(tmp_path, capsys):
    _split_table(tmp_path / "val.csv", "train", "train", "validation")
    assert run("fit", tmp_path / "val.csv", "--out", tmp_path / "a") == 0
    assert "the splits (79 train, 40 validation) are not told apart" in capsys.readouterr().out
    _split_table(tmp_path / "three.csv", "Training", "Dev", "Testing")
    assert run("fit", tmp_path / "three.csv", "--out", tmp_path / "b") == 0
    said = capsys.readouterr().out
    assert "judged by the 40 texts of the split 'test'" in said
    assert "the split 'dev' is learnt from as well" in said
    assert "judged by the 40 texts" in (tmp_path / "b" / "report.html").read_text()


def test_rows_on_the_page_are_those_of_the_file(tmp_path):
    from tokenmargin.cli.fit import _parted
    from tokenmargin.sources.guess import open_table

    written = _split_table(tmp_path / "a.csv", "train", "test")
    chunk = open_table(tmp_path / "a.csv").source.load()
    learnt, judged, _ = _parted(chunk, by_split=True)
    for part in (learnt, judged, _parted(chunk, by_split=False)[0]):
        assert [written[row] for row in part.rows] == list(part.texts)
    assert (len(learnt.texts), len(judged.texts)) == (59, 60)


def test_rows_that_are_left_out_of_a_table_to_judge_by_are_said(reviews, tmp_path, capsys):
    _split_table(tmp_path / "judge.csv", "x", "y")
    assert run("fit", reviews, "--test", tmp_path / "judge.csv", "--label", "label", "--out", tmp_path / "a") == 2
    capsys.readouterr()
    table = (tmp_path / "judge.csv").read_text().replace("text,label,part", "review,sentiment,part")
    (tmp_path / "judge.csv").write_text(table)
    assert run("fit", reviews, "--test", tmp_path / "judge.csv", "--out", tmp_path / "a") == 0
    said = capsys.readouterr().out
    assert "120 rows read, 119 kept" in said
    assert said.count("no label") == 2, "one of either table"
    assert "120 rows read, 119 kept" in (tmp_path / "a" / "report.html").read_text()


@pytest.fixture(scope="module")
def of_the_package(tmp_path_factory):
    """What is fitted where no file is named."""
    out = tmp_path_factory.mktemp("of the package") / "out"
    assert run("fit", "--out", out, "--quiet") == 0
    return out


def test_without_a_file_the_corpus_in_the_package(of_the_package):
    metrics = json.loads((of_the_package / "metrics.json").read_text())
    assert metrics["train_documents"] + metrics["test_documents"] == 6000
    assert metrics["accuracy"] > metrics["majority"] + 0.15


def test_the_readme_explains_a_sentence_as_the_command_does_and_rightly(of_the_package, capsys):
    page = (ROOT / "README.md").read_text()
    shown = re.search(r'^\$ tokenmargin explain fit-sentence-polarity "(.*)"\n(.*?)^```', page, flags=re.M | re.S)
    wrong = re.search(r'takes "(.*)" for (\w+)\.', page)
    assert shown
    assert wrong
    for sentence, said in ((shown[1], shown[2]), (wrong[1], f"{wrong[2]} (")):
        capsys.readouterr()
        assert run("explain", of_the_package, sentence) == 0
        begin = " ".join(said.split()).removesuffix("...")  # which says that the command goes on
        assert begin in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("fit", "nowhere.csv"), "nowhere.csv"),
        (("fit", "--text", "review"), "none was named"),
        (("fit", "--test", "2"), "between 0 and 1"),
        (("fit", "--test", "nowhere.csv"), "nowhere.csv"),
        (("fit", "--bootstrap", "-1"), "less than 0"),
        (("fit", "--features", "letters"), "invalid choice"),
        (("fit", "--min-count", "0"), "less than 1"),
        (("fit", "--language", "klingon"), "klingon"),
        (("fit", "--out", __file__), "is a file"),
        (("fit", "--frobnicate"), "does not know"),
        (("explain", "nowhere", "a text"), "holds no model"),
        (("predict", "nowhere", "texts.csv"), "holds no model"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(arguments, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    complaint = capsys.readouterr().err.strip()
    assert says in complaint
    assert len(complaint.splitlines()) == 1


def test_a_folder_with_other_things_in_it_is_left_alone(reviews, tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("all I have")
    assert run("fit", reviews, "--out", tmp_path) == 2
    assert "other things" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").read_text() == "all I have"


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_nothing_that_a_command_did_not_write_is_deleted_with_its_folder(command, reviews, tmp_path, capsys):
    app, own = tmp_path / "app", tmp_path / "own"
    for path, manifest in ((app, "name"), (own, "command")):
        path.mkdir()
        (path / "manifest.json").write_text(json.dumps({manifest: f"tokenmargin {command} reviews.csv"}))
    # A manifest of something else, then one of ours with a file of the user's beside it.
    assert run(command, reviews, "--out", app) == 2
    assert "manifest.json" in capsys.readouterr().err
    assert json.loads((app / "manifest.json").read_text()) == {"name": f"tokenmargin {command} reviews.csv"}
    (own / "predicted.csv").write_text("mine")
    assert run(command, reviews, "--out", own) == 2
    assert "predicted.csv" in capsys.readouterr().err
    assert (own / "predicted.csv").read_text() == "mine"


def test_an_interrupted_fit_leaves_the_old_folder(reviews, folder, monkeypatch, capsys):
    from tokenmargin import classify

    before = (folder / "report.html").read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(classify, "write_fit", interrupt)
    assert run("fit", reviews, "--out", folder, "--quiet") == 130
    assert "To go on: tokenmargin fit" in capsys.readouterr().err
    assert (folder / "report.html").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_a_text_is_explained_in_the_terminal(folder, capsys):
    assert run("explain", folder, "A superb film, superb!") == 0
    said = capsys.readouterr().out
    assert said.startswith("A superb film, superb!")
    assert "good (" in said
    assert "superb +" in said


def test_a_terminal_that_cannot_show_a_character_gets_its_number(folder, monkeypatch):
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    assert run("explain", folder, "A “superb” film.") == 0
    sys.stdout.flush()
    assert b"A \\u201csuperb\\u201d film." in shown.getvalue()


def test_a_reader_that_has_seen_enough_is_no_failure(folder, monkeypatch):
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    assert run("explain", folder, "A superb film.") == 0
    sys.stdout.close()  # what is left to say goes nowhere


def test_a_file_is_explained_as_csv_and_html(folder, tmp_path):
    source = tmp_path / "new.txt"
    source.write_text("A superb film\n<script>alert(1)</script> awful\n\n")
    assert run("explain", folder, source, "--csv", tmp_path / "words.csv", "--html", tmp_path / "words.html") == 0
    with (tmp_path / "words.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["text"] for row in rows} == {"1", "2"}
    assert next(row for row in rows if row["unit"] == "superb")["predicted"] == "good"
    page = (tmp_path / "words.html").read_text()
    assert "<script>alert" not in page
    assert "superb</mark>" in page


def test_a_file_is_predicted(reviews, folder, tmp_path, capsys):
    assert run("predict", folder, reviews, "--text", "review") == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert len(rows) == 301
    with reviews.open(newline="", encoding="utf-8") as file:
        given = list(csv.DictReader(file))
    added = ["label" if "label" not in given[0] else "predicted_label", "probability", "known_words"]
    assert list(rows[0]) == [*given[0], *added]
    assert [{name: row[name] for name in given[0]} for row in rows] == given, "all columns are kept"
    right = [row[added[0]] == label for row, label in zip(rows, texts(n=300).labels, strict=False)]
    assert np.mean(right) > 0.8
    assert rows[0]["review"] == texts(n=300).texts[0]
    assert all(0.5 <= float(row["probability"]) <= 1.0 for row in rows)
    assert int(rows[0]["known_words"]) > 1
    assert run("predict", folder, reviews, "--out", tmp_path / "out.csv") == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 302


def test_a_row_that_cannot_be_read_is_said_beside_the_predictions(folder, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("id,text\n1,superb film\n2,dull, dull\n")
    assert run("predict", folder, tmp_path / "new.csv") == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    assert "1 of 2 rows have no text" in captured.err


@pytest.mark.parametrize("given", [("new.cvs.csv",), ("folder/new.txt",), ("new.jsonl.gz",), ("new", "--text", "text")])
def test_a_file_that_is_not_there_is_not_explained_as_a_text(folder, tmp_path, capsys, given):
    assert run("explain", folder, *given, "--html", tmp_path / "a.html") == 2
    assert f"{given[0]} is not there" in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()
    assert run("explain", folder, "I read it in superb.txt") == 0


def test_progress_is_a_line_a_minute_where_output_is_redirected(capsys, monkeypatch):
    from tokenmargin.cli import _console

    now = [0.0]
    monkeypatch.setattr(_console.time, "monotonic", lambda: now[0])
    with _console.progress("fit") as progress:
        for second in range(0, 200, 5):
            now[0] = float(second)
            progress(second, 200, "counting")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "fit: counting: 30%, about 140 s left",
        "fit: counting: 60%, about 80 s left",
        "fit: counting: 90%, about 20 s left",
    ]


def test_the_time_left_counts_what_came_before_the_first_word_and_not_what_was_kept(capsys, monkeypatch):
    from tokenmargin.cli import _console

    now = [0.0]
    monkeypatch.setattr(_console.time, "monotonic", lambda: now[0])
    for kept in (0, 80):
        now[0] = 0.0
        with _console.progress("check") as progress:
            for done in range(1, kept + 1):  # read from files, at once
                progress(done, 100, "instances")
            for done in range(kept + 1, kept + 11):
                now[0] += 10.0
                progress(done, 100, "instances")
        assert capsys.readouterr().err == f"check: instances: {kept + 6}%, about {940 - 10 * kept} s left\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
def test_ctrl_c_ends_with_130_and_one_line(reviews, tmp_path):
    code = (
        # A shell that starts a job in the background has it ignore Ctrl-C, and its children too.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import sys, tokenmargin.classify.fitting as f\n"
        "def slow(*a, **k):\n    print('ready', flush=True)\n    import time; time.sleep(60)\n"
        "f.fit_tokens = slow\nfrom tokenmargin.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "fit", str(reviews), "--out", str(tmp_path / "out"), "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=50)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert len(said.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_several_labels_a_text_are_a_model_each_on_one_page(tmp_path, capsys):
    first, second = topics(3, 200), topics(2, 200, seed=5)
    rows = [
        f"{a} {b},{x};{y}" if j % 3 else f"{a},{x}"
        for j, (a, b, x, y) in enumerate(zip(first.texts, second.texts, first.labels, second.labels, strict=True))
    ]
    table = tmp_path / "tags.csv"
    table.write_text("\n".join(["text,tags", *rows]))
    with table.open("a") as file:
        file.write(f"\n{rows[0].rsplit(',', 1)[0]},lonely;{first.labels[0]}")
    asked = ("--label", "tags", "--label-separator", ";", "--features", "words", "--min-count", "1")
    assert run("fit", table, *asked, "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert set(metrics) == {*first.labels, *second.labels}
    page = (tmp_path / "out" / "report.html").read_text()
    for number, name in enumerate(metrics, start=1):
        assert name in page
        assert f"labels/{number}/report.html" in page
        model = load(tmp_path / "out" / "labels" / str(number))
        assert set(model.classes) == {name, f"not {name}"}
        assert metrics[name]["per_class"][name]["auc"] > 0.8
    assert "page:" in said
    assert "fewer than 10 texts have them or have them not: lonely" in said
    assert "have them not: lonely" in page
    assert run("fit", table, *asked, "--label-map", "a=b", "--out", tmp_path / "no") == 2
    assert "do not go together" in capsys.readouterr().err


def test_the_terminal_has_forty_lines_at_most_with_seventy_seven_classes(tmp_path, capsys):
    corpus = topics(77, 1200)
    rows = [f"{text},{label}" for text, label in zip(corpus.texts, corpus.labels, strict=True)]
    (tmp_path / "many.csv").write_text("\n".join(["text,label", *rows]))
    assert run("fit", tmp_path / "many.csv", "--features", "words", "--min-count", "2", "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out.splitlines()
    wrapped = sum(max(1, -(-len(line) // 80)) for line in said)
    assert wrapped <= 40
    named = {name for name in corpus.labels if any(name in line for line in said)}
    assert len(named) <= 8 + 8 + 8
    for name in ("report.html", "tokens.csv", "tokens.parquet"):
        assert (tmp_path / "out" / name).stat().st_size < 5_000_000


def test_a_text_called_parquet_is_told_so(tmp_path, capsys):
    (tmp_path / "odd.parquet").write_text("text,label\na b,c\n")
    assert run("fit", tmp_path / "odd.parquet") == 2
    assert "is called .parquet but is not Parquet" in capsys.readouterr().err
