"""A model on disk: the same after reading it back, and nothing else is taken for one."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from tests.classify.corpora import fitted, texts
from tokenmargin.classify.saved_model import checksum, load, save
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.text import Recipe, plain_recipe


@pytest.mark.parametrize("classes", [("bad", "good"), ("bad", "good", "odd")])
@pytest.mark.parametrize(
    "recipe", [plain_recipe(minimum_count=1, ngrams=2), Recipe(minimum_count=1), plain_recipe(language="english")]
)
def test_a_model_is_the_same_after_reading_it_back(tmp_path, classes, recipe):
    model = fitted(classes, recipe).model
    save(model, tmp_path / "model")
    for place in (tmp_path, tmp_path / "model", str(tmp_path)):
        again = load(place)
        np.testing.assert_array_equal(
            again.predict_proba(texts(classes).texts), model.predict_proba(texts(classes).texts)
        )
    one, other = (own.explain("a superb film") for own in (again, model))
    assert (one.units, one.parts, one.probabilities) == (other.units, other.parts, other.probabilities)
    assert again.words == model.words
    first = {file.name: file.read_bytes() for file in (tmp_path / "model").iterdir()}
    save(again, tmp_path / "again")
    assert first == {file.name: file.read_bytes() for file in (tmp_path / "again").iterdir()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    save(fitted().model, folder)
    return folder


def damaged(saved, tmp_path, **changes):
    """A copy of the saved model with some fields changed, or removed by None."""
    description = json.loads((saved / "model.json").read_text())
    for name, value in changes.items():
        if value is None:
            del description[name]
        else:
            description[name] = value
    description["checksum"] = checksum(description)
    (tmp_path / "model.json").write_text(json.dumps(description))
    for name in ("weights.safetensors", "vocabulary.txt"):
        (tmp_path / name).write_bytes((saved / name).read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "another"},
        {"version": 99},
        {"version": None},
        {"classes": ["one"]},
        {"classes": "bad"},
        {"tokens": 1},
        {"tokens": -1},
        {"tokens": "many"},
        {"is_sorted": 1},
        {"is_sorted": None},
        {"tokens": True},
        {"power": "1"},
        {"power": True},
        {"root_length": 1},
        {"recipe": {"no": "recipe"}},
        {"recipe": []},
        {"digests": {"weights.safetensors": "0" * 64}},
        {"digests": None},
    ],
)
def test_a_changed_description_is_refused(saved, tmp_path, changes):
    with pytest.raises(InvalidInputError):
        load(damaged(saved, tmp_path, **changes))


def test_a_flip_anywhere_in_the_description_is_refused_or_changes_nothing(saved, tmp_path):
    """Of an accident nothing is loaded with another class, another token or another recipe."""
    whole, rng = (damaged(saved, tmp_path) / "model.json").read_bytes(), np.random.default_rng(0)
    right = load(tmp_path)
    refused = 0
    for _ in range(400):
        place, bit = int(rng.integers(len(whole))), 1 << int(rng.integers(8))
        (tmp_path / "model.json").write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        try:
            found = load(tmp_path)
        except InvalidInputError:
            refused += 1
        else:
            assert (found.classes, found.words, found.counter.vocabulary) == (
                right.classes,
                right.words,
                right.counter.vocabulary,
            )
    assert refused > 350
    description = json.loads(whole)
    description["classes"] = ["good", "bad"]
    (tmp_path / "model.json").write_text(json.dumps(description))
    with pytest.raises(InvalidInputError, match="checksum differs"):
        load(tmp_path)


def test_damaged_files_are_refused_in_words(saved, tmp_path):
    damaged(saved, tmp_path)
    weights = tmp_path / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-3])
    with pytest.raises(InvalidInputError, match="digest"):
        load(tmp_path)
    weights.write_bytes(whole)
    words = tmp_path / "vocabulary.txt"
    words.write_bytes(words.read_bytes()[:-1])
    with pytest.raises(InvalidInputError, match="digest"):
        load(tmp_path)
    weights.unlink()
    with pytest.raises(DataAbsentError, match="holds no"):
        load(tmp_path)
    (tmp_path / "model.json").write_text("{" * 100_000)
    with pytest.raises(InvalidInputError, match="JSON"):
        load(tmp_path)
    (tmp_path / "model.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match="JSON"):
        load(tmp_path)
    for nothing in (tmp_path / "nowhere", "", 3, None):
        with pytest.raises((DataAbsentError, InvalidInputError)):
            load(nothing)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"awful\n", b"\xff\n", b"\nawful\n", b"same\nsame\n"])
def test_a_vocabulary_that_contradicts_the_rest_is_refused(saved, tmp_path, content):
    """Whoever writes digests of their own gets no other table of names either."""
    tokens = json.loads((saved / "model.json").read_text())["tokens"]
    lines = (saved / "vocabulary.txt").read_bytes().split(b"\n")[tokens:]
    whole = content + b"\n".join(lines)
    digests = json.loads((saved / "model.json").read_text())["digests"]
    digest = hashlib.sha256(whole).hexdigest()
    damaged(saved, tmp_path, digests=digests | {"vocabulary.txt": digest}, is_sorted=False)
    (tmp_path / "vocabulary.txt").write_bytes(whole)
    with pytest.raises(InvalidInputError, match="fit again"):
        load(tmp_path)


def test_weights_that_are_not_finite_are_refused(saved, tmp_path):
    from safetensors.numpy import load as read
    from safetensors.numpy import save as write

    arrays = read((saved / "weights.safetensors").read_bytes())
    arrays["value"][0] = np.nan
    changed = write(arrays)
    digests = json.loads((saved / "model.json").read_text())["digests"]
    damaged(saved, tmp_path, digests=digests | {"weights.safetensors": hashlib.sha256(changed).hexdigest()})
    (tmp_path / "weights.safetensors").write_bytes(changed)
    with pytest.raises(InvalidInputError, match="finite value"):
        load(tmp_path)
