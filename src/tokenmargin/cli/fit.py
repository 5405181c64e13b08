"""`tokenmargin fit`: a table of labelled texts in, one page, a model and the table of its tokens out."""

from __future__ import annotations

import shlex
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenmargin._provenance import sha256
from tokenmargin.cli import _console
from tokenmargin.cli._exit import Misuse
from tokenmargin.cli._fit_shards import fitted_shards
from tokenmargin.cli._page_command import Say, add_output, finish, folder_of, telling
from tokenmargin.cli._parse import Arguments, RawText, add_scheduler, refuse, without_scheduler

if TYPE_CHECKING:
    from tokenmargin._progress import Progress
    from tokenmargin.classify.fit_settings import FitSettings, LabelledCorpus, Origin
    from tokenmargin.classify.judging import FittedTexts
    from tokenmargin.cli._parse import Commands, Parser
    from tokenmargin.sources.labelled import TextChunk

EPILOG = """\
examples:
  tokenmargin fit                                     6,000 sentences of film reviews that come with tokenmargin
  tokenmargin fit reviews.csv                         guesses the columns, and says what it guessed
  tokenmargin fit reviews.csv --text body --label stars --label-map 'positive=4,5;negative=1,2'
  tokenmargin fit tickets.parquet --features pairs --language german --bootstrap 20
  tokenmargin fit train.jsonl --test test.jsonl --no-texts
  tokenmargin fit shards                              a folder of Parquet files, of any size, in bounded memory

writes a folder (--out) with
  report.html       one page that needs no network: what was learnt, every token, a box for any text
  model.js          the model for that box, only where the page has no room for it
  tokens.csv        the table of tokens; tokens.parquet is the same
  model/            for tokenmargin explain, tokenmargin predict and tokenmargin.load
  metrics.json      accuracy on held-out texts, beside the strongest of three usual classifiers and the largest class
  manifest.json     how it was made
"""

#: Values of a column of splits that mark rows to judge by, and rows to learn from.
TEST_SPLITS, TRAIN_SPLITS = ("test", "testing"), ("train", "training")
#: Lines that the terminal shows at most, those of reading the table included; rows of tokens for each class.
MOST_LINES, MOST_ROWS = 40, 8
#: Values of `--features`: the names of `tokenmargin.classify.Features`.
FEATURES = ("words", "pairs", "triples", "characters")
#: The share that is held out where no row is there to judge by.
SHARE = 0.2


def add_to(commands: Commands) -> None:
    """Add `fit` to the commands."""
    parser = commands.add_parser(
        "fit",
        help="learn from labelled texts which words decide; one page, a model, a table",
        description="Learn which words decide the label of a text, from CSV, TSV, JSON, JSON lines or Parquet.",
        epilog=EPILOG,
        formatter_class=RawText,
    )
    add = parser.add_argument
    add_table_flags(parser)
    add("--label-separator", metavar="SEP", help="labels hold several, such as 'a;b': a model each, on one page")
    add("--bootstrap", type=int, default=0, metavar="K", help="fit again K times to resampled texts: a spread a token")
    add_output(parser, "metrics.json")
    add_scheduler(parser, "counting and --bootstrap")
    parser.set_defaults(run=_run)


def add_columns(parser: Parser) -> None:
    """The flags that say where in a table texts and labels are, for every command that reads one."""
    add = parser.add_argument
    add("--text", metavar="COL", help="the column of texts (default: guessed)")
    add("--label", metavar="COL", help="the column of labels (default: guessed)")
    add("--label-map", metavar="MAP", help="classes made of labels: 'positive=4,5;negative=1,2'; others are left out")
    add("--encoding", help="of the file (default: guessed)")
    add("--delimiter", metavar="CHAR", help="between columns (default: guessed)")


def add_table_flags(parser: Parser) -> None:
    """The flags that say what is read and how it becomes tokens, for every command that learns from a table."""
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="the table; for fit, or a folder of Parquet (default: reviews)",
    )
    add_columns(parser)
    add("--features", choices=FEATURES, help="what texts are counted in (default: chosen on held-out texts)")
    add("--language", metavar="NAME", help="drop its stop words and cut words to stems (default: neither)")
    add("--wordpiece", action="store_true", help="cut words into the pieces of bert-base-uncased")
    add("--min-count", type=int, metavar="N", help="tokens seen less often are left out (default: chosen, from 2 to 5)")
    add("--test", metavar="FILE|SHARE", help="texts to judge by: a table or a share (default: the split, or 0.2)")


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    check_at_least(known, bootstrap=0, seed=0, min_count=1)
    check_extras("tokenmargin fit")
    from tokenmargin.classify.fit_folder import FILES

    if known.label_separator:
        return _run_labels(known)
    out = folder_of(known, *FILES)
    # Beside its place until it is there: the same command goes on where it was interrupted.
    unfinished = out.parent / f".{out.name}-unfinished"
    with telling(known) as (progress, say):
        fitted = _fitted(known, progress, say, unfinished)
    _write(fitted, out)
    shutil.rmtree(unfinished, ignore_errors=True)
    return finish(known, fitted.metrics, partial(_show, fitted, out))


def _run_labels(known: Arguments) -> int:
    """Fit a model to each of several labels of a text."""
    from tokenmargin.classify.label_fits import FILES, fit_labels, write_labels
    from tokenmargin.report.fit_files import fit_files
    from tokenmargin.report.labels_page import label_lines, labels_page, reading_of_all

    if known.label_map is not None:
        raise Misuse("--label-separator and --label-map do not go together: leave one out")
    out = folder_of(known, *FILES)
    with telling(known) as (progress, say):
        ready = prepared(known, progress, say)
        own = ready.corpus, known.label_separator, ready.settings, ready.test, ready.origin
        found = fit_labels(*own, progress)
    reports = {name: each.report for name, each in found.items()}
    write_labels(found, out, fit_files, labels_page(ready.origin.title, reports))

    def show() -> None:
        for sentence in reading_of_all(reports)[len(ready.origin.reading) :]:
            _console.paragraph(sentence)
        _console.table(*label_lines(reports, MOST_LINES // 2), fold=False)
        _console.line(f"page: {out / 'report.html'}")

    return finish(known, {name: each.metrics for name, each in found.items()}, show)


def check_at_least(known: Arguments, **least_of: float) -> None:
    """Raise if a number is too small."""
    for name, least in least_of.items():
        value = getattr(known, name)
        if value is not None and value < least:
            raise Misuse(f"argument --{name.replace('_', '-')}: {value} is less than {least}")


def check_extras(command: str) -> None:
    """Raise if a package is missing, before an hour is spent on reading."""
    from importlib.util import find_spec

    from tokenmargin.errors import MissingExtraError

    for package in ("sklearn", "safetensors", "pyarrow", "Stemmer"):
        if find_spec(package) is None:
            raise MissingExtraError(command, "fit")


def _fitted(known: Arguments, progress: Progress, say: Say, unfinished: Path) -> FittedTexts:
    from tokenmargin.classify.fit_folder import fit_checkpoint
    from tokenmargin.classify.fitting import fit_texts
    from tokenmargin.parallel import map_of

    if known.file is not None and known.file.is_dir():
        if known.test is not None and not _is_number(known.test):
            raise Misuse(f"argument --test: give a share, as {known.file} is a folder of Parquet files")
        share, _ = _test_part(known, progress)
        return fitted_shards(known, share, unfinished, progress, say)
    ready = prepared(known, progress, say, bootstrap=known.bootstrap)
    told: dict[str, Any] = {"origin": ready.origin, "checkpoint": fit_checkpoint(unfinished, ready.origin)}
    with map_of(known.scheduler) as over:
        return fit_texts(ready.corpus, ready.settings, ready.test, **told, map=over, progress=progress)


class Prepared(NamedTuple):
    """Texts and settings of a command that learns from a table."""

    corpus: LabelledCorpus
    test: LabelledCorpus | None
    settings: FitSettings
    origin: Origin


def prepared(known: Arguments, progress: Progress, say: Say, bootstrap: int = 0) -> Prepared:
    """Read what the flags name, and say what was guessed."""
    from tokenmargin.classify import Candidates, Features, FitSettings, Origin
    from tokenmargin.text import plain_recipe

    read = _read(known.file, known, progress)
    for sentence in read.said:
        say(sentence)
    share, test = _test_part(known, progress)
    for sentence in test.said if test else ():
        say(sentence)
    recipe = plain_recipe(language=known.language, word_piece=known.wordpiece)
    for note in recipe.notes:
        say(note)
    free = Candidates()
    candidates = Candidates(
        free.features if known.features is None else (Features[known.features.upper()],),
        free.minimums if known.min_count is None else (known.min_count,),
    )
    settings = FitSettings(recipe, share, known.seed, bootstrap, not known.no_texts, candidates)
    origin = Origin(
        read.title,
        command=shlex.join(["tokenmargin", *without_scheduler(known.words)]),
        reading=read.said + (test.said if test else ()),
        rows_left_out=read.left_out + (test.left_out if test else ()),
        files=read.digests | (test.digests if test else {}),
    )
    return Prepared(read.corpus, test.corpus if test else read.test, settings, origin)


class _Read(NamedTuple):
    """A table in memory, and what is to be said about it."""

    title: str
    corpus: LabelledCorpus  #: without the split to judge by, where there is one
    test: LabelledCorpus | None  #: that split
    said: tuple[str, ...]
    left_out: tuple[tuple[str, int, str], ...]
    digests: dict[str, str]


def _read(file: Path | None, known: Arguments, progress: Progress) -> _Read:
    """All texts of a table, or those that come with tokenmargin."""
    from tokenmargin.sources.embedded import sentence_polarity
    from tokenmargin.sources.guess import open_table
    from tokenmargin.sources.rows_read import Oddity
    from tokenmargin.text import Markup

    if file is None:
        for flag in ("text", "label", "label_map", "encoding", "delimiter"):
            if getattr(known, flag) is not None:
                raise Misuse(f"--{flag.replace('_', '-')} speaks of a file, and none was named")
        source, title = sentence_polarity(), "sentence polarity (Pang and Lee, 2005)"
        said: tuple[str, ...] = ("no file was named: reading the sentences of film reviews that come with tokenmargin",)
        digests = {}
    else:
        _check_fits(file)
        opened = open_table(
            file,
            text=known.text,
            label=known.label,
            label_map=known.label_map,
            encoding=known.encoding,
            delimiter=known.delimiter,
            label_separator=getattr(known, "label_separator", None),
        )
        source, title, said = opened.source, file.name, opened.said
        digests = {file.name: sha256(file)}
    chunk = source.load(progress)
    report = chunk.report
    left_out = tuple(
        (kind.value, count, _places(report.places[kind], count))
        for kind, count in report.problems.items()
        if not kind.is_kept
    )
    corpus, test, of_splits = _parted(chunk, known.test is None)
    rows = report.lines(said, several_labels=getattr(known, "label_separator", None) is not None)
    if report.count(Oddity.MARKUP):
        rows.append(f"  {Markup.TAGS.value} when words are read")
    return _Read(title, corpus, test, (*said, *rows, *of_splits), left_out, digests)


def _parted(chunk: TextChunk, by_split: bool) -> tuple[LabelledCorpus, LabelledCorpus | None, tuple[str, ...]]:
    """The texts to learn from, those to judge by where the table tells them and it is asked for, and what is said."""
    from tokenmargin.classify import LabelledCorpus

    splits = [split.lower() for split in chunk.splits or ()]
    is_test = [by_split and split in TEST_SPLITS for split in splits] or [False] * len(chunk.texts)
    rows = chunk.rows or range(len(chunk.texts))

    def part(which: bool) -> LabelledCorpus:
        own = [j for j, out in enumerate(is_test) if out is which]
        labels = (str(chunk.labels[j]) for j in own)
        return LabelledCorpus(tuple(chunk.texts[j] for j in own), tuple(labels), tuple(rows[j] for j in own))

    if len(set(is_test)) < 2:
        there = ", ".join(f"{count:,} {name}" for name, count in sorted(Counter(splits).items()))
        said = f"the splits ({there}) are not told apart: rows called {TEST_SPLITS[0]!r} would be judged by"
        is_test = [False] * len(chunk.texts)
        return part(False), None, (said,) if splits and by_split else ()
    learnt, judged = part(False), part(True)
    said = f"judged by the {len(judged.texts):,} texts of the split {TEST_SPLITS[0]!r}"
    also = sorted({*splits} - {*TEST_SPLITS, *TRAIN_SPLITS})
    return learnt, judged, (said, *(f"the split {name!r} is learnt from as well" for name in also))


def _places(places: tuple[object, ...], count: int) -> str:
    return ", ".join(map(str, places)) + (", ..." if count > len(places) else "")


def _test_part(known: Arguments, progress: Progress) -> tuple[float, _Read | None]:
    """A share of the texts, or the texts of another table."""
    if known.test is None:
        return SHARE, None
    if not _is_number(known.test):
        return 0.0, _read(Path(known.test), known, progress)
    share = float(known.test)
    if not 0.0 < share < 1.0:
        raise Misuse(f"argument --test: {known.test} is no share between 0 and 1, and no table either")
    return share, None


def _check_fits(file: Path) -> None:
    """Refuse a table that is larger than memory before it is read: its texts are all held."""
    from tokenmargin.training.forecast import host_bytes

    size, free = file.stat().st_size if file.is_file() else 0, host_bytes()
    if free is not None and size > free:
        raise Misuse(
            f"{file} has {size / 1e9:.3g} GB and {free / 1e9:.3g} GB of memory are free: write its rows as Parquet "
            "files into a folder and name that, which is read part by part"
        )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _write(fitted: FittedTexts, out: Path) -> None:
    from tokenmargin.classify import write_fit
    from tokenmargin.report.fit_files import fit_files

    write_fit(fitted, out, fit_files(fitted))


def _show(fitted: FittedTexts, out: Path) -> None:
    """Print how well it does, what was learnt, the tokens that decide, and the path of the page."""
    told = (*fitted.chosen, *fitted.report.sentences, *fitted.report.trust)
    before = sum(map(_console.lines_of, (*fitted.report.reading, *told))) - sum(map(_console.lines_of, fitted.chosen))
    for sentence in told:
        _console.paragraph(sentence)
    # A head, a rule, the page's path; of many classes those that decide most; none where sentences fill the lines.
    room = max(MOST_LINES - before - 3, 0 if fitted.report.deciding else 4)
    n_classes = len(fitted.tokens.classes)
    rows = (
        fitted.tokens.shown(min(MOST_ROWS, room // n_classes)) if room >= 2 * n_classes else fitted.tokens.leading(room)
    )
    if rows[1]:
        _console.table(*rows, fold=False)
    _console.line(f"page: {out / 'report.html'}")
