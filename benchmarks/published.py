"""Every run under docs/results: its command, and the machine that it asks for. `benchmarks.full_scale` makes them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

#: What is published of a figure.
PICTURED = ("summary.json", "manifest.json", "figure.png")

#: Why a run that is asked for is not under docs/results.
NO_GPU = "no GPU time was left"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A folder under docs/results, or a file there, and how it is made.

    Args:
        name: of the folder.
        figure: id of the figure that `tokenmargin reproduce` makes; empty for other runs.
        flags: of the figure.
        sizes: flags that say how large it is; a smoke run does without.
        preset: of the figure.
        on: the machine that it asks for.
        kept: folder of finished parts, which runs of the same trainings share; by default its own.
        data: whether real texts or pictures must be there.
        commands: of what is no figure; {out} is its folder, {kept} that of unfinished parts, {data} that of the texts.
            What it prints goes to said.txt, or to the file behind ">".
        smoke: the same, small enough for seconds.
        files: what is published.
        planned: why it is not under docs/results yet; empty if it is.
    """

    name: str
    figure: str = ""
    flags: str = ""
    sizes: str = ""
    preset: str = "paper"
    on: Literal["cpu", "gpu"] = "cpu"
    kept: str = ""
    data: bool = False
    commands: tuple[str, ...] = ()
    smoke: tuple[str, ...] = ()
    files: tuple[str, ...] = PICTURED
    planned: str = ""

    def words(self, smoke: bool = False) -> list[str]:
        """Flags of the figure."""
        return shlex.split(self.flags if smoke else f"{self.flags} {self.sizes}")

    @property
    def command(self) -> str:
        """The command of a figure, without the paths of a machine."""
        head = ["tokenmargin", "reproduce", self.figure, "--preset", self.preset, "--seed", "0"]
        return shlex.join([*head, *self.words()]) if self.figure else "; ".join(self.commands)


#: Figures at the paper's size, without flags, on a CPU: what is short first.
PLAIN = (
    *(f"maxmargin-{name}" for name in ("fig4", "fig5", "fig8", "fig3", "fig2", "fig1", "fig10", "fig9", "path")),
    *("embeddings-onestep", "mirror_descent-joint"),
    *(f"transformers_as_svms-{name}" for name in ("vis1", "vis2", "local")),
    *(f"optimiser_geometry-{name}" for name in ("multiclass", "counterexamples")),
    *("rates-exponents", "mirror_descent-bregman", "embeddings-theorem5", "transformers_as_svms-several"),
    *("optimiser_geometry-attention", "transformers_as_svms-rank"),
    *(f"next_token-{name}" for name in ("acyclic", "global", "local")),
)


def _reviews(name: str, figure: str, flags: str = "", sizes: str = "", planned: str = "") -> Run:
    """Trainings on reviews; all such runs share those that are finished."""
    own = {"flags": flags, "sizes": sizes, "planned": planned}
    return Run(name=f"embeddings-{name}", figure=f"embeddings-{figure}", on="gpu", kept="reviews", data=True, **own)


#: The study of 150 epochs was made before 0.004 came to the rates.
CROSSED = (
    *("as_printed", "rate_0.003", "rate_0.001", "as_printed_rate_0.003", "as_printed_rate_0.001"),
    *("p_only", "first_only", "torch_start", "as_printed_torch_start"),
)
BOTH = "--names yelp imdb --others --controls"
#: What takes longest and decides most comes first; the reading itself was trained for 500 epochs before.
ALONE = "--names imdb yelp --others --controls --depths two one --seeds 0"
SLOW = "--only as_printed_rate_0.001"
OTHERS, OPEN = "--others --controls --seeds 0", "--only plain_layer_norm normal_start"
READING = (
    _reviews("reading", "reading", f"--products tf32 --only {' '.join(CROSSED)}"),
    _reviews(
        "reading-500",
        "reading",
        f"{BOTH} --only as_printed as_printed_rate_0.004 as_printed_rate_0.003",
        "--epochs 500",
    ),
    _reviews("reading-500-slow", "reading", f"{BOTH} --depths one {SLOW} --seeds 1", "--epochs 500"),
    _reviews(
        "reading-500-slow-two",
        "reading",
        f"--names yelp --others --controls --depths two {SLOW} --seeds 1",
        "--epochs 500",
    ),
    _reviews("reading-500-half", "reading", f"{ALONE} --only half_precision", "--epochs 500"),
    _reviews(
        "reading-500-slow-imdb",
        "reading",
        f"--names imdb --others --controls --depths two --seeds 0 {SLOW}",
        "--epochs 500",
        NO_GPU,
    ),
    _reviews("reading-500-open", "reading", f"{OTHERS} --names yelp --depths two one {OPEN}", "--epochs 500", NO_GPU),
    _reviews("reading-500-open-imdb", "reading", f"{OTHERS} --names imdb --depths two {OPEN}", "--epochs 500", NO_GPU),
)


def _pictures(name: str, flags: str, sizes: str, planned: str = "") -> list[Run]:
    """Figures 7 and 6 of [M] of the same trainings of a vision transformer."""
    own = {"flags": flags, "sizes": sizes, "planned": planned, "kept": f"pictures{name}"}
    ids = ("maxmargin-fig7", "maxmargin-fig6")
    return [Run(name=f"{figure}{name}", figure=figure, on="gpu", data=True, **own) for figure in ids]


BASE, LARGE = "--seeds 1 --control-epochs 0", "--size base"
#: Rate of DeiT at a batch of 512, where the printed one, six times it, does not train ViT-base.
GENTLE = "--decay --lr 0.0005"
PICTURES = (
    *_pictures("-base-gentle", f"{BASE} {GENTLE}", f"{LARGE} --warm-up 5.0 --epochs 50 --long-epochs 50"),
    *_pictures("-base-decay", f"{BASE} --decay", f"{LARGE} --warm-up 5.0 --epochs 20 --long-epochs 20", NO_GPU),
    *_pictures("-decay", "--decay", "--warm-up 5.0 --epochs 120 --control-epochs 8", NO_GPU),
    *_pictures("-long", "", "--epochs 120 --control-epochs 8", NO_GPU),
    *_pictures("", "", "--control-epochs 8"),
    *_pictures("-base", BASE, f"{LARGE} --epochs 20 --long-epochs 20"),
)

ON_A_GPU = (
    Run(
        name="embeddings-margin-wide",
        figure="embeddings-margin",
        flags="--random-queries 1",
        on="gpu",
        data=True,
    ),
    Run(name="embeddings-margin", figure="embeddings-margin", preset="cpu", on="gpu", data=True),
    Run(name="embeddings-fig2", figure="embeddings-fig2", on="gpu"),
    *(_reviews(figure, figure) for figure in ("fig3", "fig4", "fig1")),
    *PICTURES,
    *READING,
)

#: Two layers on the sentences inside the package, as docs/probe.md trains them.
TWO_LAYERS = (
    "import jax, tokenmargin as tm; from tokenmargin.sources import sentence_polarity; "
    "from tokenmargin.text import Recipe, tokenize; "
    "corpus = tokenize(sentence_polarity(), recipe=Recipe(minimum_count=5), drop_empty=True); "
    "run = tm.train(corpus.dataset, tm.TwoLayer(64), tm.AdamW(lr=0.01), epochs=3, key=jax.random.key(0)); "
    "run.save('{out}/run.npz')"
)

NO_FIGURES = (
    Run(
        name="compare",
        commands=("tokenmargin compare --out {out}/page",),
        smoke=("tokenmargin compare --explained 3 --resamples 1 --methods occlusion,random --out {out}/page",),
        files=("said.txt", "page/manifest.json"),
    ),
    Run(
        name="planted",
        commands=("python -m benchmarks.planted_verdicts --repeats 20 --seed 1 --out {out}/study",),
        smoke=("python -m benchmarks.planted_verdicts --repeats 2 --seed 1 --out {out}/study",),
        files=("study/said.txt", "study/planted.json", "study/manifest.json"),
    ),
    *(
        Run(
            name=f"planted-{law}",
            commands=(f"python -m benchmarks.planted_verdicts --law {law} --repeats 20 --seed 1 --out {{out}}/study",),
            smoke=(f"python -m benchmarks.planted_verdicts --law {law} --repeats 2 --seed 1 --out {{out}}/study",),
            files=("study/said.txt", "study/planted.json", "study/manifest.json"),
        )
        for law in ("long", "uneven")
    ),
    Run(
        name="fit-imdb",
        data=True,
        commands=("tokenmargin fit {data}/imdb.parquet --label-map 'negative=0;positive=1' --out {out}/page",),
        smoke=("tokenmargin fit --out {out}/page",),
        files=("said.txt", "page/manifest.json", "page/metrics.json"),
    ),
    Run(
        name="probe",
        commands=(
            "tokenmargin probe {minilm} --limit 400 --out {out}/encoder > encoder.txt",
            f'python -c "{TWO_LAYERS}"',
            "tokenmargin probe {out}/run.npz --limit 2000 --out {out}/two-layer > two-layer.txt",
        ),
        smoke=(
            f'python -c "{TWO_LAYERS.replace("epochs=3", "epochs=1")}"',
            "tokenmargin probe {out}/run.npz --limit 20 --learn 400 --out {out}/two-layer > two-layer.txt",
        ),
        files=("encoder.txt", "two-layer.txt", "manifest.json"),
    ),
    Run(
        name="phase-diagram",
        commands=(
            "python -m benchmarks.phase_diagram diagram --problems 5000 --processes 2 --kept {kept} --out {out}",
        ),
        smoke=("python -m benchmarks.phase_diagram diagram --problems 4 --judged 1 --kept {kept} --out {out}",),
        files=("said.txt", "diagram.json", "figure.png", "manifest.json"),
    ),
    Run(
        name="evidence.json",
        commands=("tokenmargin check --instances 50 --out {out}/evidence.json",),
        smoke=("tokenmargin check maxmargin-thm1 --instances 1 --out {out}/evidence.json",),
        files=("evidence.json",),
    ),
    Run(
        name="classifier",
        data=True,
        commands=("python -m benchmarks.classifier --store {kept} --out {out}/rows.json",),
        smoke=("python -m benchmarks.classifier sentences@2000 --store {kept} --out {out}/rows.json",),
        files=("rows.json", "manifest.json"),
    ),
    Run(
        name="mutation",
        commands=(
            "python -m tests.mutation reach --folder {kept}",
            "python -m tests.mutation run --count 300 --seed 1 --folder {kept}",
            "python -m tests.mutation again --folder {kept} > again.txt",
            "cp {kept}/mutants-1.json {out}/run.json",
        ),
        smoke=(
            "python -m tests.mutation reach --folder {kept} tests/test_verify_lengths.py",
            "python -m tests.mutation run --count 1 --seed 1 --only ^verify/lengths --folder {kept}",
            "cp {kept}/mutants-some-1.json {out}/run.json",
        ),
        files=("again.txt", "run.json", "manifest.json"),
    ),
)

#: In the order in which they are made: on a GPU first what decides something.
RUNS = {
    run.name: run
    for run in (
        *ON_A_GPU,
        *(Run(name=name, figure=name) for name in PLAIN),
        *NO_FIGURES,
    )
}
