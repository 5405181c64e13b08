"""Files and folders appear whole or not at all: whoever is killed, whoever else writes, whatever the system can do."""

from __future__ import annotations

import ast
import errno
import json
import os
import resource
import signal
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import tokenmargin
from tests.torture._entries import NAMES, TEXTS, dataset
from tokenmargin import _atomic, _rename, att_svm, classify, optimal_selection
from tokenmargin._archive import write_archive
from tokenmargin._atomic import complete_file, complete_folder, read_whole, write_text
from tokenmargin._rename import recover_below
from tokenmargin.classify import FitSettings, LabelledCorpus
from tokenmargin.errors import InvalidInputError, NotWrittenError
from tokenmargin.papers.maxmargin import toys
from tokenmargin.parallel import sweep
from tokenmargin.sources import write_parquet
from tokenmargin.text import plain_recipe, tokenize
from tokenmargin.theory import write_certificate

ROOT = Path(tokenmargin.__file__).parent


def write(target: Path, word: str) -> None:
    with complete_folder(target) as folder:
        for name in ("a", "b"):
            write_text(folder / name, word)


def read(target: Path) -> str:
    one, other = read_whole(target, lambda: [(target / name).read_text() for name in ("a", "b")])
    assert one == other
    return one


@pytest.fixture
def two_steps(monkeypatch):
    """As on a system that cannot exchange two names."""
    monkeypatch.setattr(_rename, "_renameat2", lambda: None)


def forked(work) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns of every fork; this child computes nothing with it
        child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(_rename._renameat2() is None, reason="no renameat2 here")
def test_a_folder_is_exchanged_in_one_step(tmp_path, monkeypatch):
    monkeypatch.setattr(_rename, "_in_two_steps", None)
    write(tmp_path / "out", "old")
    stale = os.stat(tmp_path / "out").st_ino
    with complete_folder(tmp_path / "out") as folder:
        write_text(folder / "a", "new")
        fresh = os.stat(folder).st_ino
    assert os.stat(tmp_path / "out").st_ino == fresh != stale
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a"]


@pytest.mark.parametrize("number", sorted(_rename.NONE_OF_IT))
@pytest.mark.parametrize("flag", [_rename.NOREPLACE, _rename.EXCHANGE])
def test_a_file_system_that_refuses_gets_two_renames(tmp_path, monkeypatch, number, flag):
    real = _rename._renameat2()

    def refuses(source, target, flags):
        if flags == flag or real is None:
            raise OSError(number, os.strerror(number))
        real(source, target, flags)

    monkeypatch.setattr(_rename, "_renameat2", lambda: refuses)
    write(tmp_path / "out", "old")
    write(tmp_path / "out", "new")
    assert read(tmp_path / "out") == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_another_error_of_the_exchange_is_told_and_leaves_the_old(tmp_path, monkeypatch):
    write(tmp_path / "out", "old")

    def breaks(source, target, flags):
        raise OSError(errno.EIO, "the disk broke")

    monkeypatch.setattr(_rename, "_renameat2", lambda: breaks)
    with pytest.raises(OSError, match="the disk broke"):
        write(tmp_path / "out", "new")
    assert read(tmp_path / "out") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def killed_between(target: Path) -> None:
    """Replace a folder, and be killed after the first of two renames."""
    rename = os.rename

    def first_only(source, to):
        rename(source, to)
        if str(to).endswith("-previous"):
            os.kill(os.getpid(), signal.SIGKILL)

    os.rename = first_only
    write(target, "new")


@pytest.mark.parametrize("who", ["a reader", "a reader of what is below", "the next writer", "all of a folder"])
def test_a_kill_between_two_renames_is_mended(tmp_path, two_steps, who):
    target = tmp_path / "results" / "out"
    write(target, "old")
    assert forked(lambda: killed_between(target)) == -signal.SIGKILL
    assert not target.exists()
    if who == "a reader":
        assert read(target) == "old"
    elif who == "a reader of what is below":
        assert read_whole(target / "model", lambda: (target / "a").read_text()) == "old"
    elif who == "all of a folder":
        recover_below(tmp_path)
        assert (target / "a").read_text() == "old"
    else:
        with pytest.raises(RuntimeError), complete_folder(target):  # noqa: PT012
            assert (target / "a").read_text() == "old"
            raise RuntimeError
        assert read(target) == "old"
        write(target, "newer")
        assert read(target) == "newer"
        assert [path.name for path in target.parent.iterdir() if not path.name.endswith("-lock")] == ["out"]


def test_readers_of_results_and_models_recover(tmp_path, two_steps):
    from tokenmargin.classify import load
    from tokenmargin.cli._exit import Misuse
    from tokenmargin.cli._folder import folder_for
    from tokenmargin.experiments import store

    for name, reader in (("result", store.load), ("model", load), ("model/below", load)):
        target = tmp_path / name.split("/")[0]
        write(target, "old")
        forked(lambda target=target: killed_between(target))
        assert not target.exists()
        with pytest.raises(tokenmargin.errors.TokenMarginError, match=r"holds no (result\.npz|model)"):
            reader(tmp_path / name)
        assert (target / "a").read_text() == "old"
    forked(lambda: killed_between(target))
    with pytest.raises(Misuse, match="other things in it"):
        folder_for(target)


@pytest.mark.parametrize("steps", ["one step", "two steps"])
def test_two_writers_and_a_reader(tmp_path, monkeypatch, steps):
    if steps == "two steps":
        monkeypatch.setattr(_rename, "_renameat2", lambda: None)
    elif _rename._renameat2() is None:
        pytest.skip("no renameat2 here")
    target, problems, absent = tmp_path / "out", [], 0
    write(target, "first")
    stop = threading.Event()

    def writer(word: str) -> None:
        try:
            for _ in range(60):
                write(target, word)
        except BaseException as problem:
            problems.append(problem)
        finally:
            stop.set()

    writers = [threading.Thread(target=writer, args=(word,)) for word in ("one", "two")]
    for each in writers:
        each.start()
    seen = set()
    while not stop.is_set():
        absent += not target.is_dir()
        seen.add(read(target))
    for each in writers:
        each.join()
    assert problems == []
    assert seen <= {"first", "one", "two"}
    assert steps == "two steps" or absent == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_leftovers_of_this_host_are_cleared_and_nothing_else(tmp_path):
    def dies() -> None:
        with complete_folder(tmp_path / "out") as folder:
            (folder / "half").write_text("")
            with complete_file(tmp_path / "file.npz"):
                os.kill(os.getpid(), signal.SIGKILL)

    assert forked(dies) == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    foreign = tmp_path / ".out-0f0f0f-abcdefgh"
    foreign.mkdir()
    (tmp_path / ".mine").write_text("")
    with complete_folder(tmp_path / "live") as live:
        write(tmp_path / "out", "new")
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([".mine", foreign.name, live.name, "out"])
    assert forked(lambda: _die_in_a_file(tmp_path / "x.json")) == -signal.SIGKILL
    _atomic._CLEARED.clear()  # as another process would
    write_text(tmp_path / "y.json", "{}")
    assert not list(tmp_path.glob(".x-*"))


def _die_in_a_file(path: Path) -> None:
    with complete_file(path):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_reader_never_mixes_two_versions(tmp_path):
    target = tmp_path / "out"
    write(target, "old")
    looks = []

    def half_way() -> tuple[str, str]:
        first = (target / "a").read_text()
        if not looks:
            write(target, "new")
        looks.append(first)
        return first, (target / "b").read_text()

    assert read_whole(target, half_way) == ("new", "new")
    assert looks == ["old", "new"]
    with pytest.raises(InvalidInputError, match="again and again"):
        read_whole(target, lambda: write(target, "again"))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert read_whole(tmp_path / "pipe", lambda: "read") == "read"


def test_a_folder_with_other_things_is_refused_and_a_link_stays_a_link(tmp_path):
    write(tmp_path / "far", "old")
    (tmp_path / "link").symlink_to(tmp_path / "far")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "far") == "new"
    with pytest.raises(InvalidInputError, match=r"other things in it \(b\)"), complete_folder(tmp_path / "far", ["a"]):
        pass
    assert read(tmp_path / "far") == "new"


def test_a_long_name_has_room_beside_its_place(tmp_path):
    for name in ("é" * 120, "a" * 250):
        write_text(tmp_path / name, "x")
        write(tmp_path / "folders" / name, "y")
        assert read(tmp_path / "folders" / name) == "y"


def test_parquet_appears_whole_or_not_at_all(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")

    def breaks():
        yield {"a": [1, 2]}
        raise RuntimeError("the source ended")

    with pytest.raises(RuntimeError, match="the source ended"):
        write_parquet(tmp_path / "t.parquet", breaks())
    with pytest.raises(InvalidInputError, match="no batch to write"):
        write_parquet(tmp_path / "t.parquet", [])
    assert list(tmp_path.iterdir()) == []
    write_parquet(tmp_path / "t.parquet", [{"a": [1, 2]}])
    before = (tmp_path / "t.parquet").read_bytes()
    with pytest.raises(RuntimeError, match="the source ended"):
        write_parquet(tmp_path / "t.parquet", breaks())
    assert (tmp_path / "t.parquet").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_nothing(tmp_path):
    noise = np.random.default_rng(0).integers(0, 2**60, 100_000)
    writers = [
        lambda: write_parquet(tmp_path / "t.parquet", [{"a": noise.tolist()}]),
        lambda: write_archive(tmp_path / "t.npz", {"a": noise}, {}, {}),
        lambda: write_text(tmp_path / "t.json", json.dumps(noise.tolist())),
        lambda: dataset().save(tmp_path / "d.npz"),
        lambda: write_certificate(answer, tmp_path / "c.json"),
        lambda: sweep(lambda x: {"y": noise}, {"x": [1]}, folder=tmp_path),
        lambda: tokenized.word_map.save(tmp_path / "w.npz"),
        lambda: classify.save(model, tmp_path / "model"),
    ]
    answer = att_svm(toys.fig8(), optimal_selection(toys.fig8()))
    tokenized = tokenize(TEXTS, NAMES, plain_recipe(minimum_count=1))
    model = classify.fit_texts(LabelledCorpus(tuple(TEXTS), tuple(NAMES)), FitSettings(plain_recipe())).model

    def full(writer) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            writer()
        except NotWrittenError:
            os._exit(7)

    for writer in writers:
        assert forked(lambda writer=writer: full(writer)) == 7
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []  # the folders of a sweep are there


#: Calls that write to a path; `open`, and `.open`, where they are given a mode that writes.
WRITERS = {
    *("write_text", "write_bytes", "save", "savez", "savez_compressed", "savetxt", "tofile", "dump", "to_csv"),
    *("to_parquet", "to_pickle", "savefig", "write_table", "ParquetWriter", "save_file", "ZipFile", "symlink_to"),
    *("copy", "copyfile", "copytree", "move", "rename", "renames", "replace", "touch", "mkstemp", "mkdtemp", "fdopen"),
    *("NamedTemporaryFile", "make_archive", "unpack_archive", "open_memmap", "to_hdf", "imsave", "write_image"),
}

#: (file, called) that may: the two files that do it, a file that is handed an unfinished path, what goes nowhere, and
#: methods of the same names that write nothing.
MAY = {
    ("sources/parquet.py", "ParquetWriter"),  # parquet_into, whose path is written beside its place
    ("sources/parquet.py", "write_table"),
    ("plots/canvas.py", "savefig"),  # a figure's own method, which hands on the path that it is given
    ("cli/__init__.py", "open"),  # os.devnull, for a reader that has seen enough
}


def modes(call: ast.Call) -> str:
    """The mode that a call of `open` is given."""
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    return "".join(one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str))


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_a_write(call: ast.Call) -> bool:
    name = called(call)
    if name == "open":
        return any(letter in modes(call) for letter in "wax+") and len(modes(call)) <= 3
    if name == "ZipFile":
        return "w" in modes(call)
    if name in ("replace", "copy", "move", "rename", "dump", "save"):  # of strings, dataclasses, arrays: not those
        return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in ("os", "shutil", "json", "np")
    return name in WRITERS and isinstance(call.func, ast.Attribute)


def unstaged(source: str) -> list[str]:
    """The writing calls of a file that do not name what an enclosing `with complete_file(...) as name` gave."""
    found: list[str] = []

    def walk(node: ast.AST, staged: frozenset[str]) -> None:
        if isinstance(node, ast.With):
            for item in node.items:
                made = item.context_expr
                walk(made, staged)
                from_staged = any(isinstance(n, ast.Name) and n.id in staged for n in ast.walk(made))
                is_staged = from_staged or (isinstance(made, ast.Call) and called(made) == "complete_file")
                if is_staged and isinstance(item.optional_vars, ast.Name):
                    staged |= {item.optional_vars.id}
            for inner in node.body:
                walk(inner, staged)
            return
        if isinstance(node, ast.Call) and is_a_write(node):
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            if not names & staged:
                found.append(called(node))
        for inner in ast.iter_child_nodes(node):
            walk(inner, staged)

    walk(ast.parse(source), frozenset())
    return found


def test_every_writer_of_the_library_goes_through_the_one():
    others = {
        (str(file.relative_to(ROOT)), name)
        for file in ROOT.rglob("*.py")
        if file.name not in ("_atomic.py", "_rename.py")
        for name in unstaged(file.read_text())
    }
    assert others == MAY


@pytest.mark.parametrize(
    "line",
    [
        "path.write_text(words)",
        "open(path, 'w')",
        "path.open(mode='wb')",
        "np.save(path, array)",
        "np.savez(path, a=array)",
        "table.to_csv(path)",
        "figure.savefig(path)",
        "pq.write_table(table, path)",
        "os.replace(a, path)",
        "zipfile.ZipFile(path, 'w')",
        "with complete_file(path) as staging:\n    path.write_text(words)",
    ],
)
def test_the_walk_sees_writers(line):
    assert unstaged(line) != []
    assert unstaged("with complete_file(path) as staging:\n    staging.write_text(words)") == []
    assert unstaged("with complete_file(p) as s, s.open('w') as file:\n    np.savez(file, a=b)") == []
