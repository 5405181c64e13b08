"""Peak memory of `tokenmargin probe` on 5,000 and on 50,000 short texts: it must not grow with their number.

    python -m benchmarks.probe_memory            an encoder with random weights, small, so that it takes minutes
    python -m benchmarks.probe_memory MODEL      any model that the command takes

Texts are distinct sentences of IMDB, cut after eight words (needs IMDB, see `tokenmargin.sources.imdb`). Every run is a
process of its own. What is kept of a text does not depend on the weights, but on the layers and heads.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tests.text.reference import vocabulary_file

from tokenmargin.sources import imdb

SIZES = (5_000, 50_000)
WORDS = 8
#: As many layers and heads as all-MiniLM-L6-v2 has, of a smaller width.
LAYERS, HEADS, WIDTH = 6, 12, 48


def write_encoder(folder: Path) -> Path:
    """An encoder of the BERT family with random weights and the WordPieces of bert-base-uncased."""
    folder.mkdir()
    shutil.copy(vocabulary_file(), folder / "vocab.txt")
    rng, arrays = np.random.default_rng(0), {}
    tables = {"word": 30_522, "position": 64, "token_type": 2}
    shapes = {f"embeddings.{name}_embeddings.weight": (size, WIDTH) for name, size in tables.items()}
    for layer in range(LAYERS):
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes[f"encoder.layer.{layer}.{name}.weight"] = (WIDTH, WIDTH)
        shapes[f"encoder.layer.{layer}.intermediate.dense.weight"] = (2 * WIDTH, WIDTH)
        shapes[f"encoder.layer.{layer}.output.dense.weight"] = (WIDTH, 2 * WIDTH)
    for name, shape in shapes.items():
        arrays[name] = rng.normal(size=shape).astype(np.float32)
        if "embeddings" not in name:
            arrays[name.replace("weight", "bias")] = np.zeros(shape[0], np.float32)
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        norms += [f"encoder.layer.{layer}.{part}output.LayerNorm" for part in ("attention.", "")]
    for name in norms:
        arrays |= {f"{name}.weight": np.ones(WIDTH, np.float32), f"{name}.bias": np.zeros(WIDTH, np.float32)}
    save_file(arrays, folder / "model.safetensors")
    config = {"model_type": "bert", "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_sentences(path: Path, count: int) -> None:
    """A table of distinct short sentences with the label of their review; reviews in a random order."""
    loaded, seen = imdb().load(), set[str]()
    with path.open("w", encoding="utf-8") as file:
        file.write("label\ttext\n")
        for row in np.random.default_rng(0).permutation(len(loaded.texts)):
            for sentence in re.split(r"[.!?]|<br />", loaded.texts[row]):
                short = " ".join(re.sub(r"[\"\t]", " ", sentence).split()[:WORDS])
                if short.count(" ") >= 3 and short not in seen:
                    seen.add(short)
                    file.write(f"{loaded.labels[row]}\t{short}\n")
                if len(seen) == count:
                    return


def peak(model: str, table: Path, out: Path) -> tuple[float, float]:
    """Peak resident memory in MB, and seconds, of one run."""
    words = [sys.executable, "-m", "tokenmargin", "probe", model, str(table), "--out", str(out), "--quiet"]
    begin = time.perf_counter()
    process = subprocess.Popen(words)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"tokenmargin probe ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return used.ru_maxrss * unit / 1e6, time.perf_counter() - begin


def main() -> None:
    peaks = []
    with tempfile.TemporaryDirectory() as place:
        model = sys.argv[1] if len(sys.argv) > 1 else str(write_encoder(Path(place) / "encoder"))
        for size in SIZES:
            table = Path(place) / f"{size}.tsv"
            write_sentences(table, size)
            most, seconds = peak(model, table, Path(place) / f"out-{size}")
            peaks.append(most)
            print(
                f"{size:>6,} texts: peak {most:.0f} MB, {seconds:.0f} s, {size / seconds:.0f} texts a second",
                flush=True,
            )
    print(f"ten times the texts take {peaks[1] / peaks[0]:.2f} times the memory")


if __name__ == "__main__":
    main()
