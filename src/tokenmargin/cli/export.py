"""`tokenmargin export`: a fitted model for programs without Python."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmargin.cli import _console
from tokenmargin.cli._exit import HOLDS, Misuse
from tokenmargin.cli._folder import folder_for
from tokenmargin.cli._parse import Arguments, RawText, refuse

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands

EPILOG = """\
examples:
  tokenmargin export fit-reviews --js            scorer.js for Node.js and browsers; its head has an example
  tokenmargin export fit-reviews --onnx --json   model.onnx and model.json

writes a folder (--out) with
  scorer.js         --js: splits, scores and explains texts as tokenmargin does; the model is inside
  model.onnx        --onnx: from counted tokens to probabilities, and what each token contributed
  vocabulary.txt    --onnx: the tokens, a line each, in the order of their numbers
  model.json        --json: everything, for a reader of your own
  MODEL_CARD.md     data, metrics and limits
"""


def add_to(commands: Commands) -> None:
    """Add `export` to the commands."""
    parser = commands.add_parser(
        "export",
        help="a fitted model as JavaScript, ONNX or JSON, with a model card",
        description="Write a fitted model for programs without Python, and a card that says what it is and is not.",
        epilog=EPILOG,
        formatter_class=RawText,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="the folder that tokenmargin fit wrote")
    parser.add_argument("--js", action="store_true", help="write scorer.js")
    parser.add_argument("--onnx", action="store_true", help="write model.onnx (needs the extra onnx)")
    parser.add_argument("--json", action="store_true", help="write model.json")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write (default: export-<name of MODEL>)")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    from tokenmargin.classify import load
    from tokenmargin.classify.export import FILES, Form, export
    from tokenmargin.classify.onnx_model import demand_onnx

    forms = [form for form in Form if getattr(known, form.name.lower())]
    if not forms:
        raise Misuse("say what to write: --js, --onnx, --json, or several of them")
    if Form.ONNX in forms:
        demand_onnx()  # before a large model is read
    model = load(known.model)
    out = folder_for(known.out or Path(f"export-{known.model.resolve().name}"), *FILES)
    told: dict[str, Any] = {name: _beside(known.model, f"{name}.json") for name in ("metrics", "manifest")}
    export(model, out, forms, **told, command=shlex.join(["tokenmargin", *known.words]))
    for path in sorted(out.iterdir()):
        _console.line(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return HOLDS


def _beside(model: Path, name: str) -> Any:
    """A file of the fit: in the folder that was named, or beside the folder `model`; None where there is none."""
    for folder in (model, model.parent):
        try:
            found = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        return found if isinstance(found, dict) else None
    return None
