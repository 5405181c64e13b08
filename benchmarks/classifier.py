"""The classifier of `tokenmargin fit` beside the strongest additive models of scikit-learn, each tuned: one table.

Ours chooses everything on held-out texts of its training part: features, cut, prior, ridge, scale, whether attention is
learnt. The peers are those of `benchmarks.classifier_peers`: twelve, each of five C. Shown is the peer that does best
on the *test* part, which nobody could have chosen beforehand: a bound. Beside it stands the best of the three over the
n-grams that ours chose, which leaves the choice of n-grams out of the comparison. Rows in which ours is behind come
first. CPU seconds count reading texts into counts, choosing and the last fit, with one thread for BLAS; those of the
peers are of all twelve, which is what it takes to choose between them.

    TOKENMARGIN_DATA=... python -m benchmarks.classifier [--store FOLDER] [--kept] [NAME ...]

NAME is one of `benchmarks.classifier_peers.CELLS`, such as imdb or yelp-stars@2000; all of them if none is given. What
is finished is kept in FOLDER (results/classifier if none is given) and not computed again: peers for good, ours as long
as the code of the classifier is the same. `--kept` computes nothing and shows what there is, peers that are missing
counted.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.classifier_peers import CELLS, PEERS, SETS, corpus, packed, peer_seconds, tuned_peers, unpacked
from tokenmargin._atomic import write_text
from tokenmargin._plain_json import write_json
from tokenmargin._provenance import commit
from tokenmargin.classify import Candidates, Features, FitSettings, LabelledCorpus
from tokenmargin.classify.evaluation import paired_interval
from tokenmargin.classify.fitting import fitted_model
from tokenmargin.text import plain_recipe
from tokenmargin.training.checkpoint import computed_by

#: Within this of the best peer is what the classifier is held to.
BOUND = 0.005

#: The n-grams of peers that are nearest to ours.
SET_OF = dict(zip(Features, SETS, strict=True))


def fitted(name: str, store: Path, kept: bool) -> dict[str, Any] | None:
    """Ours on one cell: right or wrong on each test text, CPU seconds and what was chosen; None if it is not kept."""
    file, code = store / f"{name}.ours.json", computed_by("data", "text", "classify", device=False)
    known = json.loads(file.read_text()) if file.exists() else None
    if kept or (known is not None and known["code"] == code):
        return known
    train, test = corpus(name)
    begin = process_time()
    model, said = fitted_model(
        LabelledCorpus(tuple(train.texts), tuple(train.labels.tolist())),
        FitSettings(plain_recipe(), candidates=Candidates()),
    )
    seconds = process_time() - begin
    right = model.predict(test.texts) == test.labels
    known = {"code": code, "texts": len(train.texts), "judged": len(test.texts), "seconds": seconds}
    recipe = model.counter.recipe
    own = next(own for own in Features if (own.ngrams, own.characters) == (recipe.ngrams, recipe.characters))
    known |= {"accuracy": float(right.mean()), "right": packed(right), "said": said, "set": SET_OF[own]}
    store.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps(known) + "\n")
    return known


def compared(name: str, ours: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """One row of the table."""
    best = max(known["peers"], key=lambda peer: known["peers"][peer]["accuracy"])
    n = ours["judged"]
    theirs = unpacked(known["peers"][best]["right"], n)
    difference, low, high = paired_interval(unpacked(ours["right"], n), theirs)
    row = {"cell": name, "texts": ours["texts"], "judged": n, "ours": ours["accuracy"], "seconds": ours["seconds"]}
    row |= {"best_peer": best, "peer": float(np.mean(theirs)), "peers": len(known["peers"])}
    same = {name: peer["accuracy"] for name, peer in known["peers"].items() if name.partition(", ")[2] == ours["set"]}
    row |= {"same_set": ours["set"], "of_same_set": max(same.values(), default=float("nan")), "same_peers": len(same)}
    row |= {"difference": difference, "low": low, "high": high, "peer_seconds": peer_seconds(known)}
    return row | {"said": ours["said"]}


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of Markdown, what speaks against ours first."""
    total = len(PEERS) * len(SETS)
    heads = (
        "corpus",
        "texts",
        "ours",
        "best peer on the test part",
        "difference, 95%",
        "best over the n-grams of ours",
    )
    lines = [f"| {' | '.join((*heads, 'CPU s, ours', 'CPU s, peers'))} |", "|---|---|---|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row["difference"]):
        few = "" if row["peers"] == total else f" ({row['peers']} of {total} finished)"
        lines.append(
            f"| {row['cell'].partition('@')[0]} | {row['texts']:,} | {row['ours']:.4f} | {row['peer']:.4f} "
            f"{row['best_peer']}{few} | {row['difference']:+.4f}, {row['low']:+.4f} to {row['high']:+.4f} | "
            f"{row['of_same_set']:.4f} {row['same_set']} | "
            f"{row['seconds']:.1f} | {row['peer_seconds']:.1f}{'+' if few else ''} |"
        )
    return lines


def verdict(rows: list[dict[str, Any]], asked: Sequence[str]) -> str:
    """Sentences with the cells that do not meet the bounds, and those of the ones asked for that are not there."""
    behind = [row["cell"] for row in rows if row["difference"] < -BOUND]
    same = [row["cell"] for row in rows if row["ours"] - row["of_same_set"] < -BOUND]
    slow = [row["cell"] for row in rows if row["seconds"] > row["peer_seconds"]]
    unfinished = [row["cell"] for row in rows if row["peers"] < len(PEERS) * len(SETS)]
    absent = [cell for cell in asked if cell not in {row["cell"] for row in rows}]
    told = [f"More than {BOUND} behind the best of twelve: {', '.join(behind) or 'none'}."]
    told.append(f"Behind the best of the three over the n-grams that ours chose: {', '.join(same) or 'none'}.")
    told.append(f"More CPU time than the twelve: {', '.join(slow) or 'none'}.")
    if unfinished:
        told.append(f"Peers not finished, so that the best may be better: {', '.join(unfinished)}.")
    if absent:
        told.append(f"Not run: {', '.join(absent)}.")
    return " ".join(told)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classifier", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=CELLS)
    parser.add_argument("--store", type=Path, default=Path("results/classifier"), metavar="FOLDER")
    parser.add_argument("--kept", action="store_true", help="compute nothing")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the rows as JSON")
    known = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    with threadpool_limits(1, "blas"):
        for name in known.names:
            ours = fitted(name, known.store, known.kept)
            file = known.store / f"{name}.json"
            if known.kept and (ours is None or not file.exists()):
                continue
            peers = json.loads(file.read_text()) if known.kept else tuned_peers(name, known.store)
            assert ours is not None, "what is not kept is computed"
            rows.append(compared(name, ours, peers))
    print(verdict(rows, known.names), "", *table(rows), sep="\n")
    for row in rows:
        print(f"\n{row['cell']}: {'; '.join(row['said'])}")
    if known.out is not None:
        write_text(known.out, json.dumps(rows, indent=2) + "\n")
        # Fits that were kept are of this commit or of an earlier one.
        told = {"command": f"python -m benchmarks.classifier {'--kept ' if known.kept else ''}--out {known.out}"}
        told |= {"commit": commit(), "fits": "kept ones, of this commit or earlier" if known.kept else "of this commit"}
        write_json(known.out.with_name("manifest.json"), told)


if __name__ == "__main__":
    main()
