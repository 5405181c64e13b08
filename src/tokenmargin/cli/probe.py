"""`tokenmargin probe`: a model and texts in; what its attention selects, and whether that decides, on one page out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokenmargin._provenance import manifest, sha256
from tokenmargin.cli import _console
from tokenmargin.cli._exit import Misuse
from tokenmargin.cli._page_command import Page, Say, add_output, write_page
from tokenmargin.cli._parse import Arguments, RawText, refuse
from tokenmargin.cli.fit import add_columns, check_at_least, check_extras

if TYPE_CHECKING:
    from tokenmargin._progress import Progress
    from tokenmargin.classify.text_model import TextModel
    from tokenmargin.cli._parse import Commands
    from tokenmargin.probe import TextAttention, TextProbe
    from tokenmargin.sources.labelled import LabelledTexts
    from tokenmargin.sources.rows_read import RowsRead

EPILOG = """\
MODEL is one of
  a folder with config.json, model.safetensors or model.onnx, and tokenizer.json or vocab.txt (BERT, RoBERTa,
  DistilBERT and their relatives; no torch is needed), or the file of weights in it
  an .npz file that TrainingRun.save wrote, of one or two layers
  a folder that tokenmargin fit wrote

examples:
  tokenmargin probe all-MiniLM-L6-v2 reviews.csv             which words decide is learnt from the same texts
  tokenmargin probe all-MiniLM-L6-v2 reviews.csv --fit fit-reviews      ... or was learnt before
  tokenmargin probe run.npz reviews.parquet --limit 5000
  tokenmargin probe encoder/model.onnx lines.txt --unlabelled

writes a folder (--out) with
  probe.html        one page that needs no network: what speaks against selection first, every head, words, texts
  probe.json        the same numbers, a row a head
  manifest.json     how it was made
"""

#: Texts by which a run finds out how texts became its tokens.
SAMPLE = 200

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "numpy", "scipy", "scikit-learn", "tokenizers", "daqp")


def add_to(commands: Commands) -> None:
    """Add `probe` to the commands."""
    parser = commands.add_parser(
        "probe",
        help="what the attention of a model selects in texts, and whether that decides; one page",
        description="Probe the attention of a trained model on texts: which tokens [CLS] selects, how sparsely, by "
        "what margin, and whether they are the tokens that decide.",
        epilog=EPILOG,
        formatter_class=RawText,
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a pretrained encoder, a run of training, or a fit")
    add("file", nargs="?", type=Path, metavar="FILE", help="a table, or a folder of Parquet (default: reviews)")
    add_columns(parser)
    add("--fit", type=Path, metavar="FOLDER", help="of tokenmargin fit: it says which words decide")
    add("--unlabelled", action="store_true", help="there are no labels: without --fit, do not ask what decides")
    add("--learn", type=int, default=5000, metavar="N", help="texts to learn from what decides (default: 5000)")
    add("--limit", type=int, metavar="N", help="probe N texts, drawn at random (default: all)")
    add("--directions", type=int, default=20, metavar="N", help="texts to solve (ATT-SVM) in (default: 20)")
    add_output(parser, "probe.json")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    check_at_least(known, learn=10, limit=2, directions=0, seed=0)
    check_extras("tokenmargin probe")
    if not known.model.exists():
        raise Misuse(f"{known.model} is not there: MODEL is a folder or a file; see tokenmargin probe --help")
    return write_page(known, "probe", partial(_probed, known))


class _Source(NamedTuple):
    """Texts that can be read as often as needed, some at a time."""

    title: str
    read: Callable[[], Iterator[tuple[str, str]]]  #: texts and labels, "" where there are none
    rows: int  #: at most so many
    said: tuple[str, ...]
    files: dict[str, str]  #: names with digests

    def picked(self, most: int | None, seed: int) -> Iterator[tuple[str, str]]:
        """All texts, or at most so many drawn at random, in the order of the file."""
        wanted = None
        if most is not None and most < self.rows:
            wanted = frozenset(np.random.default_rng(seed).choice(self.rows, most, replace=False).tolist())
        return (pair for number, pair in enumerate(self.read()) if wanted is None or number in wanted)


def _probed(known: Arguments, progress: Progress, say: Say) -> Page:
    from tokenmargin.probe import DecidingWords, ProbeSettings, probe_texts, text_model, text_verdicts
    from tokenmargin.report.probe_page import ProbeOrigin, probe_page

    source = _source(known)
    learnt = list(source.picked(known.learn, known.seed))
    reading = source.said + (tuple(str(source.read.report).splitlines()) if isinstance(source.read, _Reader) else ())
    for sentence in reading:
        say(sentence)
    if not learnt:
        raise Misuse(f"{source.title} holds no texts: give a table with a column of texts")
    sample = [text for text, _ in learnt]
    model = text_model(known.model, sample[:SAMPLE])
    total = source.rows if known.limit is None else min(known.limit, source.rows)
    decides, told = _decides(known, learnt, model, progress)
    settings = ProbeSettings(known.directions, shown=0 if known.no_texts else 8, seed=known.seed)
    deciding = None if decides is None else DecidingWords(decides, sample)
    texts = (text for text, _ in source.picked(known.limit, known.seed))
    probe = probe_texts(model, texts, deciding, settings, total=total, progress=progress)
    command = shlex.join(["tokenmargin", *known.words])
    origin = ProbeOrigin(source.title, command, reading, told, _manifest(known, source, command))
    data = probe.to_json() | {"decides": told} | text_verdicts(probe)._asdict()
    return Page(probe_page(probe, origin), data, origin.manifest, partial(_show, probe))


def _source(known: Arguments) -> _Source:
    from tokenmargin.sources.embedded import sentence_polarity

    if known.file is None:
        for flag in ("text", "label", "label_map", "encoding", "delimiter"):
            if getattr(known, flag) is not None:
                raise Misuse(f"--{flag.replace('_', '-')} speaks of a file, and none was named")
        own = sentence_polarity()
        said = ("no file was named: reading the sentences of film reviews that come with tokenmargin",)
        return _Source("sentence polarity (Pang and Lee, 2005)", _Reader([own]), own.rows or 0, said, {})
    if known.unlabelled:
        return _unlabelled(known)
    files = [known.file]
    if known.file.is_dir():
        files = sorted(known.file.glob("*.parquet"))
        if not files:
            raise Misuse(f"{known.file} is a folder without Parquet files: name a table, or write some there")
    return _tables(known, files)


def _tables(known: Arguments, files: list[Path]) -> _Source:
    from tokenmargin.sources.guess import open_table

    told = {name: getattr(known, name) for name in ("text", "label", "label_map", "encoding", "delimiter")}
    opened = [open_table(file, **told) for file in files]
    said = opened[0].said if len(files) == 1 else (f"{len(files)} files of {known.file.name}", *opened[0].said[:2])
    rows = sum(each.source.rows or 0 for each in opened)
    digests = {file.name: sha256(file) for file in files}
    return _Source(known.file.name, _Reader([each.source for each in opened]), rows, said, digests)


class _Reader:
    """Reads tables one after the other; after a reading, `report` says what was left out."""

    def __init__(self, sources: list[LabelledTexts]) -> None:
        self.sources = sources
        self.report: RowsRead | None = None

    def __call__(self) -> Iterator[tuple[str, str]]:
        from tokenmargin.sources.rows_read import RowsRead

        found = RowsRead()
        for source in self.sources:
            for chunk in source.chunks():
                found += chunk.report
                yield from zip(chunk.texts, map(str, chunk.labels), strict=True)
        self.report = found


def _unlabelled(known: Arguments) -> _Source:
    """The texts of a file without labels; they are all held."""
    from tokenmargin.sources.guess import read_texts

    if known.label is not None or known.label_map is not None:
        raise Misuse("--unlabelled says that there are no labels, and --label names some: leave one of the two out")
    said: list[str] = []
    texts = [text for text in read_texts(known.file, text=known.text, say=said.append) if text.strip()]
    said.append(f"{len(texts):,} texts without labels")
    return _Source(
        known.file.name,
        lambda: ((text, "") for text in texts),
        len(texts),
        tuple(said),
        {known.file.name: sha256(known.file)},
    )


def _decides(
    known: Arguments, learnt: list[tuple[str, str]], model: TextAttention, progress: Progress
) -> tuple[TextModel | None, str]:
    """Model that says which words decide, and a sentence that says where it comes from."""
    from tokenmargin.classify.saved_model import load
    from tokenmargin.probe import FitTexts

    if known.fit is not None:
        return load(known.fit), f"Which words decide is said by the fit in {known.fit.name}."
    if isinstance(model, FitTexts):
        return model.model, "Which words decide is said by the same fit: attention beside what it leads to."
    if known.unlabelled:
        return None, ""
    return _learnt(known, learnt, progress)


def _learnt(known: Arguments, pairs: list[tuple[str, str]], progress: Progress) -> tuple[TextModel, str]:
    """A fit to some of the texts: their number is bounded, whatever the size of the file."""
    from tokenmargin.classify import FitSettings, LabelledCorpus, fit_texts
    from tokenmargin.text import plain_recipe

    corpus = LabelledCorpus(tuple(text for text, _ in pairs), tuple(label for _, label in pairs))
    recipe = plain_recipe(minimum_count=2)
    fitted = fit_texts(corpus, FitSettings(recipe, seed=known.seed, show_texts=False), progress=progress)
    metrics = fitted.metrics
    return fitted.model, (
        f"Which words decide is said by a fit of tokenmargin to {metrics['train_documents']:,} of the texts, right in "
        f"{metrics['accuracy']:.1%} of {metrics['test_documents']:,} others ({metrics['baseline']}: "
        f"{metrics['baseline_accuracy']:.1%})."
    )


def _manifest(known: Arguments, source: _Source, command: str) -> dict[str, Any]:
    """Everything that is needed to make the page again, the model by its files."""
    recorded = {name: getattr(known, name) for name in ("learn", "limit", "directions", "seed", "unlabelled")}
    return manifest(command, source.files, recorded, RECORDED) | {"model": _digests(known.model)}


def _digests(model: Path) -> dict[str, str]:
    """SHA-256 digests of the files that say what a model computes."""
    endings = (".safetensors", ".onnx", ".npz", ".json", ".txt")
    files = [model] if model.is_file() else sorted(path for path in model.rglob("*") if path.suffix in endings)
    return {str(path.relative_to(model.parent)): sha256(path) for path in files if path.is_file()}


def _show(probe: TextProbe) -> None:
    """Print the findings against and for the idea, how far to trust them, and the words selected most."""
    from tokenmargin.probe import text_verdicts

    told = text_verdicts(probe)
    for title, sentences in (
        ("Against the idea that attention selects what decides", told.against),
        ("For it", told.in_favour),
        ("How far to trust it", told.limits),
    ):
        _console.heading(title)
        for sentence in sentences or ["No number of this page."]:
            _console.paragraph(sentence)
    rows = [(row.word, f"{row.selected:.2%}", f"{row.present:.2%}", f"{row.decides:.2%}") for row in probe.words[:10]]
    _console.table(("word", "of what the last layer selects", "of what there is", "of the texts it decides"), rows)
