"""Tables that nobody has described: what is guessed, what is said, and what is refused in words."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokenmargin.errors import DataAbsentError, InvalidInputError, TokenMarginError
from tokenmargin.sources import Format, Oddity, open_table, table, write_parquet
from tokenmargin.sources.guess import read_texts

ROWS = [
    ("a good film, really", "pos"),
    ('a "bad" one; or two', "neg"),
    ("so | so, and\ttab", "pos"),
    ("ünï cödé everywhere", "neg"),
] * 3


def separated(rows, delimiter=",", header=("body text", "how"), **options):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n", **options).writerows([header, *rows] if header else rows)
    return out.getvalue()


def as_objects(rows):
    return [{"body text": text, "how": label} for text, label in rows]


def in_columns(rows):
    return {"body text": [text for text, _ in rows], "how": [label for _, label in rows]}


WRITTEN = {
    "commas": separated(ROWS),
    "semicolons": separated(ROWS, ";"),
    "tabs": separated(ROWS, "\t"),
    "bars": separated(ROWS, "|"),
    "all quoted": separated(ROWS, quoting=csv.QUOTE_ALL),
    "lines": "\n".join(map(json.dumps, as_objects(ROWS))),
    "array": json.dumps(as_objects(ROWS)),
    "pretty array": json.dumps(as_objects(ROWS), indent=2),
    "columns": json.dumps(in_columns(ROWS)),
    "pretty columns": json.dumps(in_columns(ROWS), indent=2),
    "pandas columns": json.dumps({k: {str(j): v for j, v in enumerate(c)} for k, c in in_columns(ROWS).items()}),
    "wrapped": json.dumps({"version": 1, "data": as_objects(ROWS)}),
}


def pairs(opened):
    loaded = opened.source.load()
    return list(zip(loaded.texts, loaded.labels, strict=True))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("written", WRITTEN)
def test_every_way_to_write_a_table_gives_the_same_rows(tmp_path, written, encoding, pack):
    path = tmp_path / "table.data"
    path.write_bytes(pack(WRITTEN[written].encode(encoding)))
    opened = open_table(path)
    assert (opened.text, opened.label) == ("body text", "how")
    assert pairs(opened) == ROWS
    assert opened.source.rows == len(ROWS)
    assert any("'body text'" in said for said in opened.said)
    assert any("2 classes: 6 neg, 6 pos" in said for said in opened.said)


@pytest.mark.parametrize("line_end", ["\r\n", "\r", "\n"])
def test_line_ends(tmp_path, line_end):
    path = tmp_path / "a.csv"
    path.write_bytes(separated(ROWS).replace("\n", line_end).encode())
    assert pairs(open_table(path)) == ROWS


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    columns = in_columns(ROWS) | {"vector": [[1.0, 2.0]] * len(ROWS), "id": list(range(len(ROWS)))}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a")
    opened = open_table(tmp_path / "a")
    assert pairs(opened) == ROWS
    assert opened.said[0] == "a is Parquet"


class TestSaid:
    def test_an_encoding_that_is_not_utf8(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(separated(ROWS).encode("cp1252"))
        assert "read as cp1252" in open_table(tmp_path / "a.csv").said[0]
        assert "cp1252, as told" in open_table(tmp_path / "a.csv", encoding="Windows-1252").said[0]

    def test_a_few_bad_bytes_do_not_make_another_encoding(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(separated(ROWS).encode() + b"caf\xe9 au lait,pos\n")
        opened = open_table(tmp_path / "a.csv")
        assert "utf-8, but for 1 lines" in opened.said[0]
        report = opened.source.load().report
        assert report.places[Oddity.INVALID_UTF8] == (14,)

    def test_no_header(self, tmp_path):
        (tmp_path / "a.tsv").write_text(separated([(label, text) for text, label in ROWS], "\t", header=None))
        opened = open_table(tmp_path / "a.tsv")
        assert (opened.text, opened.label) == ("2", "1")
        assert pairs(opened) == ROWS
        assert any("no header: columns are numbered from 1" in said for said in opened.said)
        assert pairs(open_table(tmp_path / "a.tsv", text="2", label="1")) == ROWS

    def test_quotation_marks_that_wrap_nothing(self, tmp_path):
        lines = [
            'good\t"not closed at all',
            "bad\tfine words here",
            'good\tit is "so" good',
            'bad\tnor closed" here',
        ] * 3
        (tmp_path / "a.tsv").write_text("\n".join(["label\ttext", *lines]) + "\n")
        opened = open_table(tmp_path / "a.tsv")
        assert [text for text, _ in pairs(opened)] == [line.split("\t")[1] for line in lines]
        assert any("quotation marks are taken as part" in said for said in opened.said)

    def test_splits(self, tmp_path):
        rows = [(text, label, "train" if j % 2 else "test") for j, (text, label) in enumerate(ROWS)]
        (tmp_path / "a.csv").write_text(separated(rows, header=("t", "l", "part")))
        opened = open_table(tmp_path / "a.csv")
        assert opened.label == "l"
        assert any("'part' tells the split" in said for said in opened.said)
        assert opened.source.load().splits == tuple(split for _, _, split in rows)


class TestHeader:
    @pytest.mark.parametrize(
        ("lines", "has_header"),
        [
            (["Text,Stars", "one two,1", "three four,2"], True),
            (["0,one two three four five", "1,two three four five six", "0,aa bb cc dd ee"], False),
            (
                ["sagt,was", "ja,ein langer Satz mit Worten", "nein,noch ein langer Satz", "ja,und noch einer hier"],
                True,
            ),
            (["ja,ein langer Satz mit Worten", "nein,noch ein langer Satz", "ja,und noch einer hier"], False),
            ([",what was said here,kind", "0,some long words here,a", "1,more of long words,b"], True),
        ],
    )
    def test_is_told_from_rows(self, tmp_path, lines, has_header):
        path = tmp_path / "a.csv"
        path.write_text("\n".join(lines) + "\n")
        opened = open_table(path)
        assert any("no header" in said for said in opened.said) is not has_header
        assert opened.source.load().report.rows_read == len(lines) - has_header


class TestColumns:
    def write(self, tmp_path, header, *rows):
        path = tmp_path / "a.csv"
        path.write_text(separated(rows, header=header))
        return path

    def test_names_of_labels_win_in_their_order(self, tmp_path):
        rows = [("some words here", j % 2, j % 5, j % 3) for j in range(20)]
        path = self.write(tmp_path, ("what", "score", "rating", "Label"), *rows)
        assert open_table(path).label == "Label"
        assert open_table(path, label="score").label == "score"

    def test_several_that_may_be_labels(self, tmp_path):
        rows = [("some words here", j % 2, j % 3) for j in range(20)]
        with pytest.raises(InvalidInputError, match=r"'one', 'two': name one \(--label COL\)"):
            open_table(self.write(tmp_path, ("what", "one", "two"), *rows))

    def test_several_that_may_be_texts(self, tmp_path):
        rows = [(f"some words here {j}", f"other words there {j}", j % 2) for j in range(20)]
        path = self.write(tmp_path, ("one", "two", "kind"), *rows)
        with pytest.raises(InvalidInputError, match=r"'one'.*name one \(--text COL\)"):
            open_table(path)
        assert open_table(path, text="two").text == "two"
        assert open_table(self.write(tmp_path, ("one", "Review", "kind"), *rows)).text == "Review"

    def test_a_long_name_of_a_file_is_no_text(self, tmp_path):
        rows = [("short words", "https://example.org/" + "x" * 80 + str(j), j % 2) for j in range(20)]
        assert open_table(self.write(tmp_path, ("one", "two", "kind"), *rows)).text == "one"

    def test_chinese_has_no_spaces(self, tmp_path):
        rows = [("這部電影很好看", 1), ("這部電影不好看", 0)] * 5
        assert open_table(self.write(tmp_path, ("a", "b"), *rows)).text == "a"

    @pytest.mark.parametrize(("option", "name"), [("text", "none"), ("label", "none")])
    def test_a_column_that_is_not_there(self, tmp_path, option, name):
        path = self.write(tmp_path, ("body", "kind"), *ROWS)
        with pytest.raises(InvalidInputError, match="no column 'none': it has 'body', 'kind'"):
            open_table(path, **{option: name})

    def test_one_column_for_both(self, tmp_path):
        with pytest.raises(InvalidInputError, match="both text and label"):
            open_table(self.write(tmp_path, ("body", "kind"), *ROWS), text="body", label="body")

    def test_no_text_and_no_label(self, tmp_path):
        with pytest.raises(InvalidInputError, match="--text COL"):
            open_table(self.write(tmp_path, ("a", "b"), *[(j, j % 2) for j in range(9)]))
        with pytest.raises(InvalidInputError, match="--label COL"):
            open_table(self.write(tmp_path, ("a", "b"), *[(f"some words {j}", j) for j in range(9)]))

    @pytest.mark.parametrize("count", [9, 101, 500])
    def test_too_many_classes(self, tmp_path, count):
        path = self.write(tmp_path, ("text", "label"), *[(f"some words {j}", j) for j in range(count)])
        with pytest.raises(InvalidInputError, match="too many for classes"):
            open_table(path)
        with pytest.raises(InvalidInputError, match="too many for classes"):
            open_table(path, label="label")
        assert open_table(path, label="label", label_map="few=1,2;more=3,4").source.load().labels == (
            *("few", "few"),
            *("more", "more"),
        )

    def test_a_hundred_classes_are_classes(self, tmp_path):
        path = self.write(tmp_path, ("text", "label"), *[(f"some words {j}", j % 100) for j in range(300)])
        assert len(open_table(path).source.load().report.classes) == 100

    def test_one_class(self, tmp_path):
        with pytest.raises(InvalidInputError, match=r"one class only, 'a' \(it holds 'a'\)"):
            open_table(self.write(tmp_path, ("text", "label"), ("x y", "a"), ("y z", "a")))
        with pytest.raises(InvalidInputError, match="no label at all"):
            open_table(self.write(tmp_path, ("text", "label"), ("x y", ""), ("y z", " ")))

    def test_classes_that_come_late_are_seen(self, tmp_path):
        rows = [(f"some words {j}", "a" if j < 2900 else "b") for j in range(3000)]
        assert pairs(open_table(self.write(tmp_path, ("t", "l"), *rows))) == rows


class TestLabelMap:
    ROWS = (*[(f"so many stars {j}", j % 5 + 1) for j in range(20)], ("none given", ""))

    @pytest.mark.parametrize(
        "label_map",
        [
            "positive=4,5; negative=1, 2",
            {"positive": [4, 5], "negative": ("1", "2.0")},
            {4: "positive", "5": "positive", 1: "negative", 2.0: "negative"},
        ],
    )
    def test_every_way_to_write_it(self, tmp_path, label_map):
        (tmp_path / "a.csv").write_text(separated(self.ROWS, header=("t", "stars")))
        expected = [(t, "positive" if y > 3 else "negative") for t, y in self.ROWS[:-1] if y != 3]
        opened = open_table(tmp_path / "a.csv", label_map=label_map)
        assert pairs(opened) == expected
        assert any("2 classes: 8 negative, 8 positive" in said for said in opened.said)
        report = opened.source.load().report
        assert report.problems == {Oddity.UNNAMED_LABEL: 4, Oddity.NO_LABEL: 1}
        assert report.places[Oddity.UNNAMED_LABEL] == (4, 9, 14, 19)
        assert report.rows_left_out == report.rows_read - report.rows_kept == 5
        assert table(tmp_path / "a.csv", "t", "stars", label_map=label_map).load().labels == tuple(
            y for _, y in expected
        )

    @pytest.mark.parametrize(
        ("label_map", "message"),
        [
            ("positive", "not class=label"),
            ("a=;b=1", "not class=label"),
            ("a=1;b=1.0", "of class 'a' and of 'b'"),
            ("a=1,2", "fewer than two"),
            ({}, "fewer than two"),
            ("a=8;b=9", "no label at all"),
            ("a=4;b=9", "one class only"),
        ],
    )
    def test_what_maps_nothing(self, tmp_path, label_map, message):
        (tmp_path / "a.csv").write_text(separated(self.ROWS, header=("t", "stars")))
        with pytest.raises(InvalidInputError, match=message):
            open_table(tmp_path / "a.csv", label_map=label_map)


def test_rows_that_cannot_be_used_are_named_by_line(tmp_path):
    lines = [
        "text,label",
        "good words,a",
        "bad words,b,c",
        "more words",
        "nul\0 words,b",
        "no label,",
        '"two\nlines",a',
    ]
    (tmp_path / "a.csv").write_text("\n".join([*lines, "last words,b"]) + "\n")
    report = open_table(tmp_path / "a.csv").source.load().report
    assert report.places == {Oddity.BAD_ROW: (3, 4), Oddity.NUL: (5,), Oddity.NO_LABEL: (6,)}
    assert (report.rows_read, report.rows_kept) == (7, 4)


@pytest.mark.parametrize("written", ["commas", "lines", "array"])
def test_a_field_may_be_long(tmp_path, written):
    rows = [("word " * 60_000, "a"), ("short one", "b")] * 2
    text = {"commas": separated(rows), "lines": "\n".join(map(json.dumps, as_objects(rows)))}
    (tmp_path / "a").write_text(text.get(written, json.dumps(as_objects(rows))))
    before = csv.field_size_limit()
    assert [len(text) for text in open_table(tmp_path / "a").source.load().texts] == [300_000, 9] * 2
    assert csv.field_size_limit() == before


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is empty"),
            (b" \n\r\n", "is empty"),
            (b"text,label\n", "holds no rows|no column of"),
            (b"just one column\nand no other\n", "has no columns"),
            (b"PK\x03\x04rest", "zip archive or a spreadsheet"),
            (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20, "is no text"),
            (b"\x28\xb5\x2f\xfdrest", "zstd"),
            (b"%PDF-1.7\n", "PDF"),
            (b"PAR1 and nothing else", "not a whole Parquet"),
            # mtime: without it the bytes, and so the name of this test, hold the time of collection.
            (gzip.compress(b"text,label\n" * 500, mtime=0)[:-20], "truncated or damaged"),
            (lzma.compress(b"text,label\n" * 500)[:-20], "truncated or damaged"),
            (b'text,label\n"fine, words",a\n"never, closed,b\nz z,a\n', "from line 3 on"),
            (b'[{"text": "cut sho', "not whole JSON"),
            (b"[" * 100_000, "not whole JSON"),
            (b'{"a": [1, 2], "b": [1]}', "no column of"),
            (b"[]", "holds no rows"),
            (b'["a", "b"]', "holds no rows"),
        ],
    )
    def test_in_words(self, tmp_path, content, message):
        (tmp_path / "a.csv").write_bytes(content)
        with pytest.raises(InvalidInputError, match=message):
            open_table(tmp_path / "a.csv")

    def test_places(self, tmp_path):
        with pytest.raises(InvalidInputError, match="is a folder"):
            open_table(tmp_path)
        with pytest.raises(DataAbsentError, match="not there"):
            open_table(tmp_path / "none.csv")

    def test_options(self, tmp_path):
        (tmp_path / "a.csv").write_text(separated(ROWS))
        for option, message in (
            ({"encoding": "klingon"}, "is not known"),
            ({"encoding": "hex"}, "is not known"),
            ({"delimiter": ";;"}, "one character"),
            ({"delimiter": '"'}, "one character"),
            ({"format": "excel"}, "give one of csv, tsv, json_lines, parquet"),
            ({"format": "parquet"}, "not a whole Parquet"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                open_table(tmp_path / "a.csv", **option)
        assert pairs(open_table(tmp_path / "a.csv", delimiter=",", format="CSV", encoding="UTF8")) == ROWS
        (tmp_path / "b").write_text(separated(ROWS, ":"))
        assert pairs(open_table(tmp_path / "b", delimiter=":")) == ROWS


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.text('a,b"\n\r\t;|{}[]:0\0é ', max_size=120).map(lambda text: text.encode("utf-8")),
        st.text('ab,"\n \t', max_size=80).map(lambda text: ("text,label\n" + text).encode("utf-16")),
        st.tuples(
            st.sampled_from([b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh9", b"PAR1", b"\xff\xfe", b"[", b'{"a":']), st.binary()
        ).map(b"".join),
    ),
    name=st.sampled_from(["a.csv", "a.tsv", "a.json", "a"]),
)
def test_no_file_raises_what_is_not_ours(tmp_path, content, name):
    path = tmp_path / name
    path.write_bytes(content)
    try:
        opened = open_table(path)
        loaded = opened.source.load()
    except TokenMarginError:
        pass  # in words
    else:
        assert loaded.report.rows_kept + loaded.report.rows_left_out == loaded.report.rows_read


@pytest.mark.parametrize("given_format", ["csv", "CSV", " Csv", Format.CSV])
def test_a_format_by_its_name(tmp_path, given_format):
    (tmp_path / "a.dat").write_text("text,label\nx\ty,a\n")
    assert table(tmp_path / "a.dat", format=given_format).load().texts == ("x\ty",)
    with pytest.raises(InvalidInputError, match=r"format='xlsx' is not known: give one of csv, tsv"):
        table(tmp_path / "a.dat", format="xlsx")
    with pytest.raises(TypeError, match="sep"):
        table(tmp_path / "a.dat", sep=";")


def labelled_file(folder, form, labels):
    """Forty texts with these labels in turn."""
    rows = [{"text": f"text number {j}", "stars": labels[j % len(labels)]} for j in range(40)]
    path = folder / f"a.{form}"
    if form == "csv":
        shown = ((row["text"], "" if row["stars"] is None else row["stars"]) for row in rows)
        path.write_text("text,stars\n" + "".join(f"{text},{label}\n" for text, label in shown))
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        write_parquet(path, [{name: [row[name] for row in rows] for name in rows[0]}])
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_true_and_false_have_their_names_in_every_format(tmp_path, form):
    path = labelled_file(tmp_path, form, (True, False))
    assert open_table(path).source.load().report.classes == {"False": 20, "True": 20}
    chosen = open_table(path, label_map={True: "good", False: "bad"}).source.load().report
    assert chosen.classes == {"bad": 20, "good": 20}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_half_stars_are_labels_in_every_format(tmp_path, form):
    path = labelled_file(tmp_path, form, (0.5, 1.0, 4.5, None))
    report = open_table(path).source.load().report
    assert (report.rows_kept, report.count(Oddity.NO_LABEL)) == (30, 10)
    assert {float(name): size for name, size in report.classes.items()} == {0.5: 10, 1.0: 10, 4.5: 10}
    chosen = open_table(path, label_map="good=4.5;bad=0.5,1").source.load().report
    assert chosen.classes == {"bad": 20, "good": 10}


class TestTextsAlone:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
    def test_a_text_a_line(self, tmp_path, encoding):
        (tmp_path / "a.txt").write_bytes("ünï\x0b, one\r\n\r\nlast\n".encode(encoding))
        assert read_texts(tmp_path / "a.txt") == ["ünï\x0b, one", "", "last"]

    def test_a_column_without_labels(self, tmp_path):
        (tmp_path / "a.csv").write_text(separated([(text, str(j)) for j, (text, _) in enumerate(ROWS)]))
        assert read_texts(tmp_path / "a.csv") == [text for text, _ in ROWS]
        assert read_texts(tmp_path / "a.csv", text="how") == [str(j) for j in range(len(ROWS))]

    def test_rows_without_a_text_keep_their_place(self, tmp_path):
        (tmp_path / "a.jsonl").write_text('{"text": "one two"}\n{"text": null}\n[]\n{"text": "three four"}\n')
        assert read_texts(tmp_path / "a.jsonl") == ["one two", "", "", "three four"]

    @pytest.mark.parametrize(
        ("written", "texts"),
        [
            ("text\nGood fun film\nBad boring mess\n", ["Good fun film", "Bad boring mess"]),
            ('text\n"Good, fun film"\n"Bad, boring\nmess"\n', ["Good, fun film", "Bad, boring\nmess"]),
            ("text\nGood, fun film\nBad, boring\nDull\n", ["Good, fun film", "Bad, boring", "Dull"]),
            ('text\n"Good" is not the word\nBad, boring\n', ['"Good" is not the word', "Bad, boring"]),
            ("Good fun film\nBad boring mess\n", ["Good fun film", "Bad boring mess"]),
            ("text\ndull\nsuperb\n", ["dull", "superb"]),
        ],
        ids=["bare", "quoted", "commas", "marks", "no header", "words"],
    )
    def test_a_table_of_one_column(self, tmp_path, written, texts):
        (tmp_path / "a.csv").write_text(written)
        assert read_texts(tmp_path / "a.csv") == texts
        with pytest.raises(InvalidInputError):
            open_table(tmp_path / "a.csv")

    def test_what_was_guessed_and_which_rows_are_empty_is_said(self, tmp_path):
        said: list[str] = []
        (tmp_path / "a.csv").write_text("id,text\n1,good fun\n2,bad, boring mess\n3,dull stuff\n4,\n")
        assert read_texts(tmp_path / "a.csv", say=said.append) == ["good fun", "", "dull stuff", ""]
        assert "the texts are taken from the column 'text'" in said
        assert said[-1] == "2 of 4 rows have no text, or not the fields of the header; taken as empty texts: rows 2, 4"
        said.clear()
        (tmp_path / "a.txt").write_text("good\n\nbad\n")
        read_texts(tmp_path / "a.txt", say=said.append)
        assert said == ["1 of 3 rows have no text, or not the fields of the header; taken as empty texts: rows 2"]

    def test_places(self, tmp_path):
        with pytest.raises(DataAbsentError, match="not there"):
            read_texts(tmp_path / "none.txt")
        (tmp_path / "folder.txt").mkdir()
        with pytest.raises(InvalidInputError, match="is a folder"):
            read_texts(tmp_path / "folder.txt")


def test_texts_of_one_word_are_told_by_the_name_of_their_column(tmp_path):
    """Queries and codes have no blanks; without such a name they are no texts."""
    for name, is_found in (("Text", True), ("code", False)):
        path = tmp_path / f"{name}.csv"
        path.write_text(separated([("hello", "a"), ("world", "b")] * 3, header=(name, "label")))
        if is_found:
            assert open_table(path).text == name
        else:
            with pytest.raises(InvalidInputError, match="no column of texts"):
                open_table(path)
