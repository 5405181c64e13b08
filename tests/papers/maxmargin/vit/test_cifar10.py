"""CIFAR-10 from each of its forms; the tiny copies are made here."""

from __future__ import annotations

import pickle
from io import BytesIO

import numpy as np
import pytest

from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.papers.maxmargin.vit.cifar10 import CLASS_NAMES, WHERE, cifar10

SPLITS = {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}


def pictures(name: str) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(sum(map(ord, name)))
    return rng.integers(0, 256, (2, 32, 32, 3), np.uint8), rng.integers(0, 10, 2).tolist()


def rows_of(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), 3072)


@pytest.fixture
def binary(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for names in SPLITS.values():
        for name in names:
            images, labels = pictures(name)
            content = np.concatenate([np.array(labels, np.uint8)[:, None], rows_of(images)], axis=1)
            (folder / f"{name}.bin").write_bytes(content.tobytes())
    return folder


@pytest.fixture
def pickled(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for names in SPLITS.values():
        for name in names:
            images, labels = pictures(name)
            content = {b"batch_label": name.encode(), b"labels": labels, b"data": rows_of(images)}
            (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    return folder


def png(pixels: np.ndarray) -> bytes:
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    stream = BytesIO()
    image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()


def write_table(path, split, label, raw):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"split": split, "label": label, "jpeg": raw}), path)
    return path


@pytest.fixture
def table(tmp_path):
    split, label, raw = [], [], []
    for own, names in SPLITS.items():
        for name in names:
            images, labels = pictures(name)
            split += [own] * len(labels)
            label += [CLASS_NAMES[k] for k in labels]
            raw += [png(image) for image in images]
    return write_table(tmp_path / "cifar10.parquet", split, label, raw)


@pytest.mark.parametrize("form", ["binary", "pickled", "table"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_form_gives_the_same_pictures(form, split, request):
    read = cifar10(request.getfixturevalue(form), split=split, verify=False)
    expected = [pictures(name) for name in SPLITS[split]]
    np.testing.assert_array_equal(read.images, np.concatenate([images for images, _ in expected]))
    assert read.labels.tolist() == [label for _, labels in expected for label in labels]
    assert len(read) == 2 * len(SPLITS[split])
    few = cifar10(request.getfixturevalue(form), split=split, some=2)
    np.testing.assert_array_equal(few.images, read.images[[0, len(read) // 2]])


def test_a_part_is_refused_unless_asked_for(binary):
    with pytest.raises(InvalidInputError, match="not the whole split 'test'"):
        cifar10(binary, split="test")


def test_the_copy_of_the_tests_is_whole():
    pytest.importorskip("PIL", reason="pictures need Pillow")
    try:
        read = cifar10(split="test")
    except DataAbsentError:
        pytest.skip("CIFAR-10 is absent")
    assert read.images.shape == (10_000, 32, 32, 3)
    few = cifar10(split="test", some=100)
    np.testing.assert_array_equal(few.images, read.images[::100])
    assert set(few.labels.tolist()) == set(range(10))  # though the file is sorted by class
    with pytest.raises(InvalidInputError, match="between 1 and 10,000"):
        cifar10(split="test", some=20_000)


class Malicious:
    def __reduce__(self):
        import os

        return os.system, ("exit 1",)


@pytest.mark.parametrize("evil", [Malicious(), eval, np.load], ids=["os.system", "eval", "numpy.load"])
def test_a_pickle_that_could_run_a_program_is_not_loaded(pickled, evil):
    (pickled / "test_batch").write_bytes(pickle.dumps({b"data": evil, b"labels": [1]}, protocol=2))
    with pytest.raises(InvalidInputError, match="could run a program"):
        cifar10(pickled, split="test", verify=False)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"\x80\x02}q", "no whole pickle"),
        (pickle.dumps([1, 2]), "a dictionary with data"),
        (pickle.dumps({b"data": np.zeros((2, 9), np.uint8), b"labels": [1, 2]}), "bytes of shape"),
        (pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [11]}), "label 11"),
    ],
)
def test_pickles_that_hold_something_else(pickled, content, word):
    (pickled / "test_batch").write_bytes(content)
    with pytest.raises(InvalidInputError, match=word):
        cifar10(pickled, split="test", verify=False)


def test_a_truncated_binary_file(binary):
    file = binary / "test_batch.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InvalidInputError, match="no multiple of 3073"):
        cifar10(binary, split="test", verify=False)


def test_a_missing_file_is_named(binary, tmp_path):
    (binary / "data_batch_3.bin").unlink()
    with pytest.raises(InvalidInputError, match="no data_batch_3"):
        cifar10(binary, verify=False)
    with pytest.raises(InvalidInputError, match=r"neither test_batch\.bin nor test_batch"):
        cifar10(tmp_path, split="test")


def test_pictures_of_another_kind_are_named_by_their_row(tmp_path, rng):
    colour = rng.integers(0, 256, (32, 32, 3), np.uint8)
    jpeg = BytesIO()
    pytest.importorskip("PIL.Image", reason="pictures need Pillow").fromarray(colour).save(jpeg, format="JPEG")
    cases = {
        "truncated or damaged": jpeg.getvalue()[:-40],
        "no whole picture": b"nothing",
        "the picture is grey": png(colour[:, :, 0]),
        "40 x 32": png(np.zeros((32, 40, 3), np.uint8)),
        "4 channels": png(np.zeros((32, 32, 4), np.uint8)),
    }
    for k, (word, raw) in enumerate(cases.items()):
        path = write_table(tmp_path / f"{k}.parquet", ["test"] * 2, ["cat"] * 2, [png(colour), raw])
        with pytest.raises(InvalidInputError, match=f"row 2.*{word}"):
            cifar10(path, split="test", verify=False)


def test_a_table_of_something_else(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["a"], "label": ["cat"]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidInputError, match="the columns text, label"):
        cifar10(tmp_path / "a.parquet")
    with pytest.raises(InvalidInputError, match="split must be train or test"):
        cifar10(tmp_path / "a.parquet", split="dev")
    table = write_table(tmp_path / "b.parquet", ["test"], ["lion"], [png(np.zeros((32, 32, 3), np.uint8))])
    with pytest.raises(InvalidInputError, match="label 'lion'"):
        cifar10(table, split="test", verify=False)


def test_what_the_hub_gives_is_kept_without_loss(rng):
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
    kept = WHERE.convert("test", {"img": [image.fromarray(pixels)], "label": [3]})
    assert (kept["split"], kept["label"]) == (["test"], ["cat"])
    np.testing.assert_array_equal(np.asarray(image.open(BytesIO(kept["image"][0]))), pixels)
