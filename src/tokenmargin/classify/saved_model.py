"""A fitted model on disk: numbers in safetensors, everything else in JSON; nothing in either can run.

model/weights.safetensors    score, value, intercept, base_rate, and where in the vocabulary every 64th line ends
model/vocabulary.txt         the tokens, a line each, and after them the words behind each, a line each
model/model.json             format and version, classes, recipe, the digests of the other two, and a checksum of that

A large vocabulary is most of a model: sorted lines are read as they stand, and no string is made of any but those that
a text asks for.
"""

from __future__ import annotations

import hashlib
import json
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._atomic import complete_file, complete_folder, read_whole, write_text
from tokenmargin._checks import checked, usable_path
from tokenmargin._safetensors import tensors_of, tensors_to_bytes
from tokenmargin.classify.text_model import TextModel
from tokenmargin.classify.token_model import TokenModel
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.text.counter import TokenCounter
from tokenmargin.text.name_table import SPACING, NameTable, line_ends
from tokenmargin.text.recipe import Recipe

FORMAT = "tokenmargin text model"
VERSION = 4

WEIGHTS, VOCABULARY, DESCRIPTION = "weights.safetensors", "vocabulary.txt", "model.json"

FIELDS: dict[str, tuple[type, ...]] = {
    "classes": (list,),
    "power": (int, float),
    "root_length": (bool,),
    "recipe": (dict,),
    "tokens": (int,),
    "is_sorted": (bool,),
    "digests": (dict,),
}

#: A description larger than this is none of ours.
LARGEST_DESCRIPTION = 16 * 2**20


@checked
def save(model: TextModel, folder: str | Path) -> None:
    """Write a model into a folder of its own, which `load` reads; a model that is there is replaced in one step."""
    target = Path(folder)
    names, words = model.counter.vocabulary, model.words
    if any("\n" in line for line in chain(names, words)):
        raise InvalidInputError("a token or the words behind it hold a line end: such a model cannot be written.")
    arrays = {"score": model.tokens.score, "value": model.tokens.value, "intercept": model.tokens.intercept}
    content = {
        WEIGHTS: tensors_to_bytes(arrays | {"base_rate": model.base_rate, "line_ends": line_ends(names)}),
        VOCABULARY: "".join(f"{line}\n" for line in chain(names, words)).encode("utf-8"),
    }
    description = {
        "format": FORMAT,
        "version": VERSION,
        "classes": list(model.classes),
        "power": model.tokens.power,
        "root_length": model.tokens.root_length,
        "recipe": model.counter.recipe.to_json(),
        "tokens": len(names),
        "is_sorted": all(one < two for one, two in pairwise(names)),
        "digests": {name: hashlib.sha256(own).hexdigest() for name, own in content.items()},
    }
    description["checksum"] = checksum(description)
    files = (WEIGHTS, VOCABULARY, DESCRIPTION)
    with complete_folder(target if target.name else target.resolve(), only=files) as staged:
        for name, own in content.items():
            with complete_file(staged / name) as file:
                file.write_bytes(own)
        write_text(staged / DESCRIPTION, json.dumps(description, ensure_ascii=False, indent=1) + "\n")


def load(folder: Any) -> TextModel:
    """Read a model that `tokenmargin fit` wrote: the folder of the fit, or `model` in it."""
    if not isinstance(folder, str | Path):
        raise InvalidInputError(f"a model is loaded from a folder, not from a {type(folder).__name__}.")
    given = usable_path(folder, "folder")
    return read_whole(given, lambda: _load(_model_folder(given)))


def _load(folder: Path) -> TextModel:
    description = _description(folder / DESCRIPTION)
    content = {name: _content(folder / name, description["digests"].get(name)) for name in (WEIGHTS, VOCABULARY)}
    try:
        arrays = tensors_of(content[WEIGHTS])
        names = _names(content[VOCABULARY], arrays.get("line_ends"), description["tokens"], description["is_sorted"])
        # Behind most tokens there is no other word.
        behind = content[VOCABULARY][names[1] :]
        words = ("",) * len(behind) if not behind.strip(b"\n") else tuple(behind.decode().split("\n")[:-1])
    except ValueError as problem:
        raise InvalidInputError(f"{folder} cannot be read ({problem}): fit again.") from None
    return _built(folder, description, arrays, names[0], words)


def _names(content: bytes, ends: np.ndarray | None, size: int, is_sorted: bool) -> tuple[NameTable, int]:
    """The names of a vocabulary, and where the words behind them begin.

    Raises:
        ValueError: if the content contradicts itself.
    """
    if ends is None or ends.dtype != np.int64 or ends.shape != (-(-size // SPACING),) or size < 1:
        raise ValueError("the ends of its lines are not known")
    lines = content[: max(int(ends[-1]), 0)]
    is_end = np.frombuffer(lines, np.uint8) == ord("\n")
    if not lines or (np.diff(ends, prepend=0) <= 0).any() or np.count_nonzero(is_end) != size or not is_end[-1]:
        raise ValueError(f"its vocabulary has no {size} lines")
    if is_end[0] or (is_end[1:] & is_end[:-1]).any():
        raise ValueError("a token of its vocabulary has no letter")
    text = lines.decode()  # refused here where it is no UTF-8
    if is_sorted:
        return NameTable.of_lines(lines, ends, size), len(lines)
    names = tuple(text.split("\n")[:-1])
    if len(set(names)) < size:
        raise ValueError("its vocabulary holds a token twice")
    return NameTable(names), len(lines)


def _content(path: Path, digest: object) -> bytes:
    """A file as it was saved."""
    if not path.is_file():
        raise DataAbsentError(f"{path.parent} holds no {path.name}: copy the whole folder that tokenmargin fit wrote.")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise InvalidInputError(f"{path} is not the file that was saved (its digest differs): fit again.")
    return content


def _model_folder(given: Path) -> Path:
    for folder in (given, given / "model"):
        if (folder / DESCRIPTION).is_file():
            return folder
    raise DataAbsentError(f"{given} holds no model ({DESCRIPTION} is not there): give what tokenmargin fit wrote.")


def _description(path: Path) -> dict[str, Any]:
    """The JSON file, of this format and version and with every field of its type."""
    if path.stat().st_size > LARGEST_DESCRIPTION:
        raise InvalidInputError(f"{path} is too large to be a model's description.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise InvalidInputError(f"{path} is no JSON ({problem}): fit again.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InvalidInputError(f"{path} does not describe a {FORMAT}.")
    if found.get("version") != VERSION:
        raise InvalidInputError(
            f"{path} has version {found.get('version')!r} of the format and this tokenmargin reads {VERSION}: fit "
            "again, or install the tokenmargin that wrote it."
        )
    if found.get("checksum") != checksum(found):
        raise InvalidInputError(f"{path} is not the file that was saved (its checksum differs): copy it again, or fit.")
    for name, kinds in FIELDS.items():
        # By type and not by isinstance, for which True is a number.
        if type(found.get(name)) not in kinds or (isinstance(found[name], list) and not _all_text(found[name])):
            raise InvalidInputError(f"{path} has no usable field {name!r}: fit again.")
    return found


def checksum(description: dict[str, Any]) -> str:
    """The SHA-256 of a description: of all that it says but the checksum itself, however it is laid out."""
    said = {name: value for name, value in description.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _all_text(items: list[Any]) -> bool:
    return all(isinstance(item, str) for item in items)


def _built(
    folder: Path,
    description: dict[str, Any],
    arrays: dict[str, np.ndarray],
    names: NameTable,
    words: tuple[str, ...],
) -> TextModel:
    classes, V = tuple(description["classes"]), description["tokens"]
    columns = 1 if len(classes) == 2 else len(classes)
    shapes = {"score": (V,), "value": (V, columns), "intercept": (columns,), "base_rate": (len(classes),)}
    for name, shape in shapes.items():
        array = arrays.get(name)
        if array is None or array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InvalidInputError(f"{folder} has no finite {name} of shape {shape}: fit again.")
    if len(words) != V or len(classes) < 2:
        raise InvalidInputError(f"{folder} contradicts itself (classes, words): fit again.")
    tokens = TokenModel(
        arrays["score"], arrays["value"], arrays["intercept"], float(description["power"]), description["root_length"]
    )
    counter = TokenCounter.trusted(Recipe.from_json(description["recipe"]), names)
    return TextModel(counter, tokens, classes, words, arrays["base_rate"])
