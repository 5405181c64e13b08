"""The page of published runs: what each took, of which commit, and whether its code is that of the release."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.published import RUNS, Run
from benchmarks.run_code import ROOT, changed_since, git

RESULTS, PAGE = ROOT / "docs" / "results", ROOT / "docs" / "published.md"

HEAD = """# Published runs

Every folder under `docs/results`, with what its run took and the commit of its tree. Seconds by the clock are of a
machine that others may have used too; those of the processor are of all cores together. Written by
`python -m benchmarks.full_scale table`; a test holds that it is what that command writes, and that each folder has a
command in `benchmarks/published.py`. `python -m benchmarks.full_scale all --out FOLDER` makes them again.

The code of a run is the modules that its figure or command imports (`benchmarks/run_code.py`), but for comments and
docstrings. Where none of them differs between the run's commit and the release, the run is one of the release. Where
some do, its numbers are those of its commit.
"""

#: Begins the sentence that names the release.
RELEASE = "The release is the tree of commit"


def release_of(page: Path = PAGE) -> str:
    """The commit that the page calls the release."""
    found = re.search(f"{RELEASE} `([0-9a-f]+)`", page.read_text())
    return found[1] if found else git("rev-parse", "--short=12", "HEAD").strip()


def table(release: str, docs: Path = RESULTS) -> str:
    """The page: how many runs are of the release, a row a folder, and what is asked for and not made."""
    manifests = {name: json.loads((docs / name / "manifest.json").read_text()) for name in RUNS if is_published(name)}
    changed = {name: changes(RUNS[name], manifest, release) for name, manifest in manifests.items()}
    whole = sum(not each for each in changed.values())
    trees = Counter(_commit(told) for told in manifests.values())
    lines = [
        HEAD,
        f"{RELEASE} `{release}`. {whole} of {len(manifests)} runs are of its code. All come from {len(trees)} trees.\n",
        "| run | command | seconds | of processor | on | commit | code |\n|---|---|---|---|---|---|---|",
    ]
    for name, manifest in sorted(manifests.items()):
        pieces = manifest.get("seconds of its pieces") or [manifest.get("wall_seconds")]
        seconds = f"{sum(pieces):,.0f}" if pieces[0] is not None else "not noted"
        trained = manifest.get("training")
        where = f"{trained['device']}, judged on a CPU" if trained else manifest.get("device", "cpu")
        seconds = f"{seconds}, judging alone" if trained else seconds
        processor = manifest.get("processor seconds of its pieces")
        code = changed[name] or "the release's"
        cells = (seconds, f"{sum(processor):,.0f}" if processor else "", where, _commit(manifest), code)
        lines.append(f"| {name} | `{RUNS[name].command}` | {' | '.join(cells)} |")
    planned = [run for run in RUNS.values() if run.planned]
    lines += ["\nAsked for, and not made yet:\n", "| run | command | why |\n|---|---|---|"]
    lines += [f"| {run.name} | `{run.command}` | {run.planned} |" for run in planned if not is_published(run.name)]
    return "\n".join(lines) + "\n"


def changes(run: Run, manifest: dict[str, Any], release: str) -> str:
    """What of a run's code is not the release's, in a few words; "" for none."""
    if "folded" in manifest:
        return "of a commit that was folded: not known"
    commits = [_commit(manifest), *([manifest["training"]["commit"]] if "training" in manifest else [])]
    old = sorted({path for commit in commits for path in changed_since(run, commit, release)})
    told = ", ".join(f"`{Path(path).name}`" for path in old[:2])
    return f"{told} changed since" if len(old) <= 2 and old else f"{len(old)} modules changed since" if old else ""


def _commit(manifest: dict[str, Any]) -> str:
    return str(manifest["commit"].split()[0][:12])


def is_published(name: str, docs: Path = RESULTS) -> bool:
    return (docs / name / "manifest.json").exists()
