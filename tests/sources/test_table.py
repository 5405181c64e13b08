"""Tables of any format: the same rows from each, and every odd row counted and named."""

from __future__ import annotations

import csv
import gzip
import json

import pytest

from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.sources import Format, Oddity, TextChunk, table
from tokenmargin.sources.rows_read import MAX_PLACES

pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")

ROWS = [("good film,\nreally", "pos"), ('a "bad" one', "neg"), ("tab\there", "pos"), ("ünï", "neg")]


def write(path, rows=ROWS):
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        from pyarrow import parquet

        columns = {"text": [text for text, _ in rows], "label": [label for _, label in rows]}
        parquet.write_table(pyarrow.table(columns), path)
    elif name.endswith(".jsonl"):
        content = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="," if name.endswith(".csv") else "\t")
            writer.writerows([("text", "label"), *rows])
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.jsonl.gz", "a.parquet"])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_every_format_gives_the_same_rows(tmp_path, name, size):
    source = table(write(tmp_path / name))
    for _ in range(2):
        chunks = list(source.chunks(size))
        assert [pair for c in chunks for pair in zip(c.texts, c.labels, strict=True)] == ROWS
        assert max(len(c.texts) for c in chunks) <= size
    report = source.load().report
    assert (report.rows_read, report.rows_kept, report.classes, report.problems) == (4, 4, {"neg": 2, "pos": 2}, {})


def test_progress_is_told(tmp_path):
    calls = []
    list(table(write(tmp_path / "a.parquet")).chunks(3, lambda *told: calls.append(told)))
    assert calls == [(3, 4, "reading a.parquet"), (4, 4, "reading a.parquet")]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_missing_columns_are_named_with_what_there_is(tmp_path, name):
    with pytest.raises(InvalidInputError, match=r"no column 'review'.*'text', 'label'"):
        table(write(tmp_path / name), text="review").load()


def test_invalid_utf8_is_kept_and_named_by_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbftext,label\nfine,a\n"two\nlines",b\ncaf\xe9,a\n')
    loaded = table(path).load()
    assert loaded.texts == ("fine", "two\nlines", "caf\ufffd")
    assert loaded.report.places == {Oddity.INVALID_UTF8: (5,)}


def test_invalid_utf8_in_parquet(tmp_path):
    from pyarrow import parquet

    raw = pyarrow.array([b"fine", b"caf\xe9", None], pyarrow.binary())
    rows = pyarrow.table({"text": raw.view(pyarrow.string()), "label": [0, 1, 1]})
    parquet.write_table(rows, tmp_path / "a.parquet")
    loaded = table(tmp_path / "a.parquet").load()
    assert loaded.texts == ("fine", "caf\ufffd")
    assert loaded.labels == (0, 1)
    assert loaded.report.places == {Oddity.INVALID_UTF8: (2,), Oddity.NO_TEXT: (3,)}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_tells_the_encoding(tmp_path, encoding):
    for name, content in (("a.csv", "text,label\nünï,a\n"), ("a.jsonl", '{"text": "ünï", "label": "a"}\n')):
        (tmp_path / name).write_text(content, encoding=encoding)
        assert table(tmp_path / name).load().texts == ("ünï",)


def test_every_odd_row_is_counted_and_named(tmp_path):
    lines = [
        '{"text": "one", "label": 1, "id": "x"}',
        '{"text": "<i>two</i><br />", "label": 0, "id": "y"}',
        '{"text": "  ", "label": 0, "id": "z"}',
        '{"text": "three", "label": 1, "id": "x"}',
        '{"text": "one", "label": 1, "id": "w"}',
        '{"text": null, "label": 1, "id": "v"}',
        '{"text": "four", "label": null, "id": "u"}',
        '{"text": "fi',
        "[1, 2]",
        "",
        '{"text": "six<br />", "label": 1, "id": "t"}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    loaded = table(tmp_path / "a.jsonl", id="id").load()
    assert loaded.texts == ("one", "<i>two</i><br />", "  ", "three", "one", "six<br />")
    report = loaded.report
    assert report.places == {
        Oddity.MARKUP: (2,),
        Oddity.EMPTY_TEXT: (3,),
        Oddity.DUPLICATE_ID: (4,),
        Oddity.DUPLICATE_TEXT: (5,),
        Oddity.NO_TEXT: (6,),
        Oddity.NO_LABEL: (7,),
        Oddity.BAD_ROW: (8, 9),
    }
    assert report.rows_read == 10
    assert report.rows_read - report.rows_kept == report.rows_left_out == 4
    assert "2 with not the fields" in str(report)
    in_small_chunks = [chunk.report for chunk in table(tmp_path / "a.jsonl", id="id").chunks(2)]
    assert sum(in_small_chunks[1:], in_small_chunks[0]) == report


def test_rows_of_the_wrong_width_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nx,a\ny,b,c\nz\n\nw,b\n")
    loaded = table(tmp_path / "a.csv").load()
    assert loaded.texts == ("x", "w")
    assert loaded.report.places == {Oddity.BAD_ROW: (3, 4)}


def test_an_open_quotation_mark_is_an_error_with_its_line(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\nx,a\n"never closed,b\nz,a\n')
    with pytest.raises(InvalidInputError, match="from line 3 on"):
        table(tmp_path / "a.csv").load()


def test_many_problems_keep_their_count_and_the_first_places(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "x\n" * (MAX_PLACES + 50))
    report = table(tmp_path / "a.tsv").load().report
    assert report.count(Oddity.BAD_ROW) == MAX_PLACES + 50
    assert len(report.places[Oddity.BAD_ROW]) == MAX_PLACES


def test_a_truncated_parquet_says_so(tmp_path):
    path = write(tmp_path / "a.parquet", ROWS * 1000)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidInputError, match="truncated or damaged"):
        table(path).load()


def test_a_truncated_gzip_says_so(tmp_path):
    path = write(tmp_path / "a.jsonl.gz", [(f"text {j}", "pos") for j in range(5000)])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidInputError, match="truncated or damaged"):
        table(path).load()


def test_damage_inside_a_parquet_says_so(tmp_path):
    path = write(tmp_path / "a.parquet", [(f"text {j}", "pos") for j in range(5000)])
    content = bytearray(path.read_bytes())
    content[4:3000] = bytes(2996)
    path.write_bytes(bytes(content))
    with pytest.raises(InvalidInputError, match="truncated or damaged"):
        table(path).load()


def test_absent_empty_and_unknown_files(tmp_path):
    with pytest.raises(DataAbsentError, match="not there"):
        table(tmp_path / "none.csv")
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(InvalidInputError, match="is empty"):
        table(tmp_path / "a.csv").load()
    (tmp_path / "a.dat").write_text("text,label\nx,a\n")
    with pytest.raises(InvalidInputError, match="does not tell its format"):
        table(tmp_path / "a.dat")
    assert table(tmp_path / "a.dat", format=Format.CSV).load().texts == ("x",)


def test_a_chunk_has_a_label_for_each_text():
    with pytest.raises(InvalidInputError, match="one label a text"):
        TextChunk(("a", "b"), (1,))
