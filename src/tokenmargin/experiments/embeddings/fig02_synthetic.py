"""[E, Fig. 2]: one layer trained on the K-level model; overlaps with p and v show the level of every token.

The paper does not say how many texts it drew. The default is stated in `Settings`; `other_n` trains on other numbers of
texts for the same number of steps, and the summary says how far the mean overlaps of the levels move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tokenmargin._fingerprint import fingerprint
from tokenmargin._progress import Progress
from tokenmargin.data import KLevel, TokenDataset, k_level, token_statistics
from tokenmargin.data.statistics import pearson
from tokenmargin.experiments import store
from tokenmargin.experiments._expectations import expect_training
from tokenmargin.experiments.experiment import Arrays, Config, Experiment, Number, Result
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.training.checkpoint import Checkpoint
from tokenmargin.training.optimisers import AdamW
from tokenmargin.training.schedule import StepSchedule
from tokenmargin.training.train import train
from tokenmargin.training.training_run import TrainingRun

#: Two pictures are the same when 1 - correlation of the means of their levels is below this.
SAME_PICTURE = 0.01


@dataclass(frozen=True)
class Settings(Config):
    """Hyper-parameters; those the paper states are the paper preset's, n is ours."""

    n: int = 6400
    """Texts drawn; the paper does not say how many."""
    other_n: tuple[int, ...] = (12800, 25600)
    """Further numbers of texts, trained for the same number of steps."""
    d: int = 2048
    """Width of the embeddings."""
    T: int = 256
    """Tokens of a text."""
    irrelevant: int = 964
    """Irrelevant tokens of the vocabulary."""
    level_sizes: tuple[int, ...] = KLevel().sizes
    """Tokens of each level, for either sign."""
    levels: tuple[float, ...] = KLevel().levels
    """delta of each level; smaller is more informative."""
    relevant_share: float = 0.05
    """Chance that a token of a text is relevant."""
    epochs: int = 196
    """Passes over the n texts."""
    batch_size: int = 128
    """Texts of a step."""
    lr: float = 1e-4
    """Learning rate of AdamW, times 0.1 at epochs 100 and 200."""
    weight_decay: float = 1e-4
    """Of AdamW."""
    drop_epochs: tuple[int, ...] = (100, 200)
    """Epochs after which the learning rate falls by ten."""
    resume: str = ""
    """Folder that keeps the trainings, so that an interrupted figure goes on where it was."""

    @property
    def law(self) -> KLevel:
        """The law of the texts."""
        return KLevel(self.irrelevant, self.level_sizes, self.relevant_share, self.levels, self.T)

    @classmethod
    def smoke(cls) -> Settings:
        """The same shape with a tenth of the tokens, wider steps and fewer of them."""
        return cls(
            n=1280,
            other_n=(2560,),
            d=256,
            T=128,
            irrelevant=96,
            level_sizes=(4, 4, 4, 6, 8, 10, 14, 20),
            epochs=40,
            lr=1e-3,
            drop_epochs=(20, 40),
        )

    @classmethod
    def paper(cls) -> Settings:
        """As printed, with the sizes 4 + 2^k of the levels."""
        return cls()


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Train for every n, compare the levels."""
    runs: dict[int, dict[str, Any]] = {}
    sample = k_level(np.random.default_rng(0), config.n, config.law)
    together = config.epochs * (1 + len(config.other_n))  # as many steps for every n
    expect_training(progress, sample, OneLayer(width=config.d), epochs=together, batch_size=config.batch_size)
    for n in (config.n, *config.other_n):
        runs[n] = _run_arrays(config, n, key, progress)
    means = {n: _level_means(arrays["tokens"]) for n, arrays in runs.items()}
    numbers, sentences = _judge(config, runs[config.n], means)
    tables = {"level means": {str(n): {k: v.tolist() for k, v in table.items()} for n, table in means.items()}}
    return Result({str(n): arrays for n, arrays in runs.items()}, tuple(numbers), tuple(sentences), tables)


def _run_arrays(config: Settings, n: int, key: jax.Array, progress: Progress) -> dict[str, Any]:
    """Tokens and records of a training on n texts, from the folder of finished ones if it is there."""
    settings = n, repr(replace(config, resume="", other_n=())), np.asarray(jax.random.key_data(key)).tolist()
    folder = Path(config.resume) / f"{n}-texts-{fingerprint(repr(settings))}"
    checkpoint = Checkpoint(folder) if config.resume else None

    def compute() -> Arrays:
        dataset, run = _trained(config, n, key, progress, checkpoint)
        return {"tokens": _token_arrays(config, dataset, run), "records": run.records.columns()}

    found = store.part(config.resume, f"{n}-texts", settings, compute)
    if checkpoint is not None:
        checkpoint.discard()
    return dict(found)


def _trained(
    config: Settings, n: int, key: jax.Array, progress: Progress, checkpoint: Checkpoint | None
) -> tuple[TokenDataset, TrainingRun]:
    """Draw n texts and train for as many steps as config.n texts take, with the rate falling at the same steps."""
    stream, training = jax.random.split(jax.random.fold_in(key, n))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(stream)))
    dataset = k_level(rng, n, config.law)
    times = config.n / n
    run = train(
        dataset,
        OneLayer(width=config.d),
        AdamW(lr=config.lr, weight_decay=config.weight_decay),
        epochs=round(config.epochs * times),
        key=training,
        batch_size=config.batch_size,
        schedule=StepSchedule(tuple(max(1, round(epoch * times)) for epoch in config.drop_epochs)),
        progress=lambda done, total, _: progress(done, total, f"{n} texts"),
        checkpoint=checkpoint,
    )
    return dataset, run


def _token_arrays(config: Settings, dataset: TokenDataset, run: TrainingRun) -> dict[str, np.ndarray]:
    found = token_statistics(dataset)
    trained = run.parameters
    E, p, v = (np.asarray(x, dtype=np.float64) for x in (trained.embeddings, trained.query, trained.head))
    return {
        "posterior_difference": found.posterior_difference,
        "signed_frequency": found.signed_frequency,
        "count": found.count,
        "level": config.law.level_of,
        "with_query": E @ p,
        "with_head": E @ v,
    }


def _level_means(tokens: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mean overlap with p by |level| (0 is irrelevant), and with v by level from -K to K."""
    level = tokens["level"]
    top = int(np.abs(level).max())
    there = np.isfinite(tokens["posterior_difference"])
    query = [tokens["with_query"][there & (np.abs(level) == k)].mean() for k in range(top + 1)]
    head = [tokens["with_head"][there & (level == k)].mean() for k in range(-top, top + 1)]
    return {"with_query": np.array(query), "with_head": np.array(head)}


def _judge(config: Settings, run: Arrays, means: dict[int, dict[str, np.ndarray]]) -> tuple[list[Number], list[str]]:
    tokens, records = run["tokens"], run["records"]
    there = np.isfinite(tokens["posterior_difference"])
    x, level = tokens["posterior_difference"][there], tokens["level"][there]
    query, head = tokens["with_query"][there], tokens["with_head"][there]
    by_query, by_head = means[config.n]["with_query"], means[config.n]["with_head"]
    # Smaller delta is more informative, so -K ... -1, 0, 1 ... K is the order of the posterior difference.
    steps_query, steps_head = np.diff(by_query), np.diff(by_head)
    relevant = level != 0
    wrong_side = float(np.mean(np.sign(head[relevant]) != np.sign(level[relevant])))
    moved = [_shape_error(means[config.n], means[n]) for n in config.other_n]
    most = float(np.max(moved)) if moved else 0.0
    numbers = [
        Number("correlation of <E_s, v> with the posterior difference", float(pearson(x, head))),
        Number("correlation of <E_s, p> with its modulus", float(pearson(np.abs(x), query))),
        Number("relevant tokens on the wrong side of <E_s, v> = 0, share", wrong_side),
        Number("levels out of order in mean <E_s, p>", float((steps_query <= 0).sum()), at_most=0.0),
        Number("levels out of order in mean <E_s, v>", float((steps_head <= 0).sum()), at_most=0.0),
        Number("mean <E_s, p> of the top level over that of irrelevant tokens", float(by_query[-1] - by_query[0])),
        Number("mean <E_s, v> of the top level, positive minus negative", float(by_head[-1] - by_head[0])),
        Number("loss of the last epoch", float(records["loss"][-1])),
        Number("accuracy of the last epoch", float(records["accuracy"][-1])),
        Number("1 - correlation of the levels' means with another n", most, at_most=SAME_PICTURE),
    ]
    ordered = "in" if (steps_query > 0).all() else "not in"
    sentences = [
        f"n = {config.n} texts (ours: the paper gives no n), {len(records['loss'])} epochs of "
        f"{-(-config.n // config.batch_size)} steps. Mean <E_s, p> of the levels is {ordered} order of importance: "
        f"{', '.join(f'{value:.3g}' for value in by_query)} (irrelevant first, then levels 1 to {len(by_query) - 1}).",
        "At the same number of steps the levels' means have correlation "
        + ", ".join(f"{1 - error:.4f} with those of n = {n}" for n, error in zip(config.other_n, moved, strict=True))
        + ".",
    ]
    return numbers, sentences


def _shape_error(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """1 - correlation of the levels' means of two runs, the larger of <E_s, p> and the odd part of <E_s, v>.

    The law is the same with both signs exchanged, so only the odd part of <E_s, v> is determined by it. The even part
    is an intercept, which the loss of separated texts leaves free.
    """
    with_query = pearson(one["with_query"], other["with_query"])
    with_head = pearson(_odd_part(one["with_head"]), _odd_part(other["with_head"]))
    return float(np.max([1 - with_query, 1 - with_head]))  # NaN where a side is constant, which is not the same


def _odd_part(by_level: np.ndarray) -> np.ndarray:
    """(mean of level k - mean of level -k)/2 for k = 1 ... K, of means ordered -K ... K."""
    middle = len(by_level) // 2
    return (by_level[middle + 1 :] - by_level[:middle][::-1]) / 2


def draw(result: Result) -> Any:
    """Two scatter plots by level, the levels' means for every n, and the loss."""
    from tokenmargin.plots.canvas import GREY, panels, shades, style
    from tokenmargin.plots.overlaps import draw_levels

    drawn = next(iter(result.arrays.values()))  # of the stated n, which comes first
    a, losses = drawn["tokens"], drawn["records"]["loss"]
    top = int(np.abs(a["level"]).max())
    with style():
        figure, (left, right, levels, loss) = panels(1, 4, 13, 3.4)
        colours = shades(top)
        for ax, name, title in (
            (left, "with_query", r"overlap with the $\langle$cls$\rangle$ embedding, $\langle E_s, p\rangle$"),
            (right, "with_head", r"overlap with the head, $\langle E_s, v\rangle$"),
        ):
            draw_levels(ax, a["posterior_difference"], a[name], a["level"], colours)
            ax.set_title(title)
        left.legend(ncols=3, fontsize=6, markerscale=1.5, loc="upper center", handletextpad=0.1, columnspacing=0.6)
        for n, run in result.arrays.items():
            means = _level_means(run["tokens"])["with_query"]
            levels.plot(range(top + 1), means, marker="o", ms=3, lw=1, label=f"n = {n}")
        levels.set(xlabel="level (0: irrelevant)", title=r"mean $\langle E_s, p\rangle$ by level, same number of steps")
        levels.legend()
        loss.plot(np.arange(1, len(losses) + 1), losses, color=GREY)
        loss.set(xlabel="epoch", title="mean logistic loss", yscale="log")
        return figure


EXPERIMENTS = (
    Experiment(
        id="embeddings-fig2",
        title="One layer on the K-level model: overlaps with p and v show the level of every token",
        in_plain_words=(
            "The same question where the answer is known: artificial texts, in which tokens of eight levels tell more "
            "and more about the label. Does training put the levels in their order?"
        ),
        paper="E",
        figure="Fig. 2",
        config=Settings,
        compute=compute,
        draw=draw,
        precision="float32",
    ),
)
