"""Full-scale runs where the text libraries are absent: count the reviews here, train there.

    python -m benchmarks.full_scale count FOLDER            counts of IMDB, Yelp and controls as .npz (needs the texts)
    python -m benchmarks.full_scale run FOLDER OUT ID ...   paper presets of figures, from those counts; after a single
                                                            ID flags of its own, as `tokenmargin reproduce ID` has them
    python -m benchmarks.full_scale pictures FOLDER [FLAGS] trainings of maxmargin-fig6 and -fig7, kept in FOLDER; what
                                                            is there goes on, and `--trained FOLDER` judges them
    python -m benchmarks.full_scale judge OUT               judge figures on reviews again from what they saved
    python -m benchmarks.full_scale publish OUT DOCS [SIZE] summaries, manifests and small figures for the documents

`run` and `pictures` need the training core and matplotlib only; where the tree was copied without its history, name its
commit in $TOKENMARGIN_COMMIT. `run` writes what `tokenmargin reproduce ID --preset paper` writes.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

import jax

from tokenmargin._provenance import commit
from tokenmargin.cli._config_flags import config_from_flags
from tokenmargin.experiments.experiment import Config
from tokenmargin.experiments.registry import experiments
from tokenmargin.experiments.run import reproduce
from tokenmargin.experiments.store import load, write_json
from tokenmargin.papers.embeddings.figures._in_words import from_words
from tokenmargin.papers.embeddings.figures._review_training import ONE_LAYER, TWO_LAYERS, Effort
from tokenmargin.papers.embeddings.figures._reviews import CONTROLS, NAMES, reviews, save_reviews
from tokenmargin.papers.embeddings.figures.fig01_03_04_reviews import TREATMENTS, joined, judged_study
from tokenmargin.papers.maxmargin.vit.runs import TREATMENTS as VIT_TREATMENTS
from tokenmargin.papers.maxmargin.vit.runs import VitSettings, vit_run
from tokenmargin.plots.canvas import save_figure


def count(folder: Path) -> None:
    for name in (*NAMES, *CONTROLS):
        found = reviews(name)
        save_reviews(found, folder)
        print(found.dataset, flush=True)


def run(folder: str, out: Path, arguments: list[str]) -> None:
    ids = list(takewhile(lambda word: not word.startswith("--"), arguments))
    flags = arguments[len(ids) :]
    for name in ids:
        experiment = experiments()[name]
        own = ["--counts", folder] if hasattr(experiment.preset("paper"), "counts") else []
        config: Config = config_from_flags(experiment, experiment.preset("paper"), [*own, *flags])
        saved = reproduce(experiment, out, "paper", config=config, progress=show)
        print(json.dumps({"id": name, "sentences": saved.summary["sentences"]}, indent=1), flush=True)


def pictures(folder: str, flags: list[str]) -> None:
    """Every training of the vision transformer's figures, short ones first; what needs a QP solver is left out."""
    experiment = experiments()["maxmargin-fig7"]
    config = config_from_flags(experiment, experiment.preset("paper"), ["--resume", folder, *flags])
    assert isinstance(config, VitSettings)
    controls = [(name, 0) for name in VIT_TREATMENTS if name != "adamw"] if config.control_epochs else []
    for treatment, number in [*(("adamw", seed) for seed in range(1, config.seeds)), *controls, ("adamw", 0)]:
        trained = vit_run(config, treatment, number, jax.random.key(0), show)
        print(f"{treatment}, seed {number}: accuracy {trained['test_accuracy'][-1]:.3f}", flush=True)


def judge(out: Path) -> None:
    """Sentences, verdicts and pictures anew from the saved arrays; manifests say that this was done, and with what."""
    for name, layers in {"fig1": TWO_LAYERS, "fig3": ONE_LAYER, "fig4": TWO_LAYERS}.items():
        folder = out / f"embeddings-{name}" / "paper"
        if not folder.is_dir():
            continue
        saved, experiment = load(folder), experiments()[f"embeddings-{name}"]
        studies = {}
        for dataset, rows in saved.summary["tables"].items():
            efforts = {treatment: from_words(Effort, rows[called]) for treatment, called in TREATMENTS.items()}
            studies[dataset] = judged_study(dataset, layers, saved.result.arrays[dataset], efforts)
        result = joined(studies)
        numbers = [{**asdict(number), "verdict": number.verdict("paper").value} for number in result.numbers]
        judged = {"numbers": numbers, "sentences": list(result.sentences), "tables": dict(result.tables)}
        write_json(folder / "summary.json", saved.summary | judged)
        write_json(folder / "manifest.json", saved.manifest | {"judged again": f"from result.npz, by {commit()}"})
        save_figure(experiment.draw(result), folder)
        print(folder)


def publish(out: Path, docs: Path, preset: str = "paper") -> None:
    """Copy what belongs into the documents; the figure with few colours, a fifth of its size."""
    from PIL import Image

    for folder in sorted(out.glob(f"*/{preset}")):
        target = docs / folder.parent.name
        target.mkdir(parents=True, exist_ok=True)
        summary = json.loads((folder / "summary.json").read_text())
        write_json(target / "summary.json", summary)
        write_json(target / "manifest.json", json.loads((folder / "manifest.json").read_text()) | training(summary))
        with Image.open(folder / "figure.png") as figure:
            figure.convert("RGB").quantize(128).save(target / "figure.png", optimize=True)
        print(target)


def training(summary: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The commit, code and device of trainings that another machine made, from the sentence of the summary on them."""
    said = re.search(r"Trained elsewhere: commit (\w+).*?code (\w+).*?device (.*)\.", " ".join(summary["sentences"]))
    return {"training": dict(zip(("commit", "code", "device"), said.groups(), strict=True))} if said else {}


def show(done: int, total: int, what: str) -> None:
    if done % max(1, total // 10) == 0:
        print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)


def main() -> None:
    command, folder, *rest = sys.argv[1:]
    if command == "count":
        count(Path(folder))
    elif command == "pictures":
        pictures(folder, rest)
    elif command == "judge":
        judge(Path(folder))
    elif command == "publish":
        publish(Path(folder), Path(rest[0]), *rest[1:])
    else:
        run(folder, Path(rest[0]), rest[1:])


if __name__ == "__main__":
    main()
