"""Studies that are interrupted half-way and reproduced again: the same bytes, and nothing computed twice."""

from dataclasses import replace

import pytest

from tokenmargin.experiments import run
from tokenmargin.experiments.run import reproduce
from tokenmargin.papers.embeddings import selection_study
from tokenmargin.papers.embeddings.figures import theorem5_map
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.figures import thm1_4_path

MAP = theorem5_map.Settings(
    sets=3, sizes=((2, 2),), explicit_sets=1, explicit_log10_d=2.0, n=2, T=2, draws=1, log10_eta0=(1.0,),
    log10_d=(2.0, 6.0), norms=(1e6,),
)  # fmt: skip
PATH = thm1_4_path.Settings(radii=4, steps=200, problems=2, n=2, T=2, d=2, each=1)


class Interrupted(Exception):
    """As if the process had been ended there."""


def interrupts_at(what, blocks):
    """Progress that ends a study when it hears so often of something."""
    heard = []

    def hear(done, total, told):
        heard.append(told)
        if heard.count(what) == blocks:
            raise Interrupted

    return hear


@pytest.mark.parametrize("study", ["theorem5", "path"])
def test_an_interrupted_study_ends_in_the_same_bytes(study, tmp_path, monkeypatch):
    module, config, block = (
        (theorem5_map, MAP, "decided_block") if study == "theorem5" else (thm1_4_path, PATH, "block_ends")
    )
    place = selection_study if study == "theorem5" else thm1_4_path
    monkeypatch.setattr(place, "BLOCK", 2)
    monkeypatch.setattr(run, "_drawer", lambda _: lambda result, folder: None)
    compute, computed = getattr(place, block), []
    if study == "path":  # one comparison stands for three, which are seconds each
        one = thm1_4_path._comparison(toys.fig1b(), PATH)
        monkeypatch.setattr(thm1_4_path, "_comparison", lambda *_: computed.append("Fig. 1") or one)

    def counted(given, **options):
        computed.append(len(given))
        return compute(given, **options)

    monkeypatch.setattr(place, block, counted)
    experiment = replace(module.EXPERIMENTS[0], claims=())
    whole = reproduce(experiment, tmp_path / "whole", config=config)
    in_one_go = list(computed)
    computed.clear()

    what = "problems" if study == "theorem5" else "local paths"
    with pytest.raises(Interrupted):
        reproduce(experiment, tmp_path / "parts", config=config, progress=interrupts_at(what, 2))
    assert list((tmp_path / "parts" / ".unfinished").rglob("*.npz"))
    again = reproduce(experiment, tmp_path / "parts", config=config)
    assert len(in_one_go) > 2
    assert computed == in_one_go
    assert (again.folder / "result.npz").read_bytes() == (whole.folder / "result.npz").read_bytes()
    assert (again.folder / "summary.json").read_bytes() == (whole.folder / "summary.json").read_bytes()
    assert not (tmp_path / "parts" / ".unfinished").exists()
