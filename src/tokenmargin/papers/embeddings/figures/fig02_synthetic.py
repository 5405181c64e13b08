"""[E, Fig. 2]: one layer trained on the K-level model; overlaps with p and v show the level of every token.

The paper does not say how many texts it drew. Its 196 epochs are what 10^5 steps of 128 texts take when an epoch has
512 of them, so that 65,536 texts are likely. `other_n` trains on other numbers of texts for the same numbers of steps,
and the summary says how the mean overlaps of the levels correlate between any two numbers of texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tokenmargin._fingerprint import fingerprint
from tokenmargin._progress import Progress
from tokenmargin.data import KLevel, TokenDataset, k_level, token_statistics
from tokenmargin.experiments import store
from tokenmargin.experiments.expectations import expect_training
from tokenmargin.experiments.experiment import Arrays, Config, Experiment, Number, Result
from tokenmargin.models.correlation import pearson
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.training.checkpoint import Checkpoint
from tokenmargin.training.optimisers import AdamW
from tokenmargin.training.schedule import StepSchedule
from tokenmargin.training.train import train
from tokenmargin.training.training_run import TrainingRun

#: The picture does not depend on n where the levels' means correlate by .95 between any two n, so that nine tenths of
#: their variance is common, and by .95 in ranks with the order of the levels for every n: two models that learnt the
#: same wrong thing are alike, too. Noise is in such an order in one of ten thousand pictures of nine levels.
SAME_PICTURE = 0.05

#: Statement of the paper about the levels, and its place.
IN_ORDER: dict[str, Any] = {"says": "more important tokens have larger overlaps", "place": "App. E, of Fig. 2"}


@dataclass(frozen=True)
class Settings(Config):
    """Hyper-parameters: those the paper states, with 4 + 2^k tokens a level, and n of ours; two minutes on a GPU."""

    n: int = 65536
    """Texts drawn; the paper does not say how many."""
    other_n: tuple[int, ...] = (6400, 25600)
    """Further numbers of texts, trained for the same numbers of steps."""
    step_shares: tuple[float, ...] = (0.1, 1.0)
    """Numbers of steps, as shares of what the epochs over n texts take; the last is drawn."""
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
            step_shares=(0.5, 1.0),
            d=256,
            T=128,
            irrelevant=96,
            level_sizes=(4, 4, 4, 6, 8, 10, 14, 20),
            epochs=40,
            lr=1e-3,
            drop_epochs=(20, 40),
        )

    @classmethod
    def cpu(cls) -> Settings:
        """A tenth of the texts and so of the steps, one number of steps: minutes on two cores."""
        return cls(n=6400, other_n=(12800,), step_shares=(1.0,))


#: Arrays of every training, by the number of texts and by the share of the steps.
Runs = Mapping[str, Mapping[str, Arrays]]


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Train for every n and every number of steps, compare the levels."""
    runs: dict[str, dict[str, Arrays]] = {}
    sample = k_level(np.random.default_rng(0), config.n, config.law)
    together = round(config.epochs * sum(config.step_shares) * (1 + len(config.other_n)))  # as many steps for every n
    expect_training(progress, sample, OneLayer(width=config.d), epochs=together, batch_size=config.batch_size)
    for n in (config.n, *config.other_n):
        runs[str(n)] = {f"{share:g}": _run_arrays(config, n, share, key, progress) for share in config.step_shares}
    numbers, sentences = judged(config, runs)
    means = {f"{n} texts, {share} of the steps": _level_means(each["tokens"]) for n, share, each in _each(runs)}
    tables = {"level means": {name: {k: v.tolist() for k, v in table.items()} for name, table in means.items()}}
    return Result(runs, tuple(numbers), tuple(sentences), tables)


def _each(runs: Runs) -> list[tuple[str, str, Arrays]]:
    return [(n, share, arrays) for n, of_n in runs.items() for share, arrays in of_n.items()]


def _run_arrays(config: Settings, n: int, share: float, key: jax.Array, progress: Progress) -> Arrays:
    """Tokens and records of a training on n texts, from the folder of finished ones if it is there."""
    alone = replace(config, resume="", other_n=(), step_shares=(share,))
    settings = n, repr(alone), np.asarray(jax.random.key_data(key)).tolist()
    folder = Path(config.resume) / f"{n}-texts-{fingerprint(repr(settings))}"
    checkpoint = Checkpoint(folder) if config.resume else None

    def compute() -> Arrays:
        dataset, run = _trained(config, n, share, key, progress, checkpoint)
        return {"tokens": _token_arrays(config, dataset, run), "records": run.records.columns()}

    found = store.part(config.resume, f"{n}-texts-{share:g}", settings, compute)
    if checkpoint is not None:
        checkpoint.discard()
    return dict(found)


def _trained(
    config: Settings, n: int, share: float, key: jax.Array, progress: Progress, checkpoint: Checkpoint | None
) -> tuple[TokenDataset, TrainingRun]:
    """Draw n texts and train for a share of the steps that config.n texts take, the rate falling at the same share."""
    stream, training = jax.random.split(jax.random.fold_in(key, n))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(stream)))
    dataset = k_level(rng, n, config.law)
    times = share * config.n / n
    run = train(
        dataset,
        OneLayer(width=config.d),
        AdamW(lr=config.lr, weight_decay=config.weight_decay),
        epochs=max(1, round(config.epochs * times)),
        key=training,
        batch_size=config.batch_size,
        schedule=StepSchedule(tuple(max(1, round(epoch * times)) for epoch in config.drop_epochs)),
        progress=lambda done, total, _: progress(done, total, f"{n} texts, {share:g} of the steps"),
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


def _level_means(tokens: Arrays) -> dict[str, np.ndarray]:
    """Mean overlap with p by |level| (0 is irrelevant), and with v by level from -K to K."""
    level = tokens["level"]
    top = int(np.abs(level).max())
    there = np.isfinite(tokens["posterior_difference"])
    query = [tokens["with_query"][there & (np.abs(level) == k)].mean() for k in range(top + 1)]
    head = [tokens["with_head"][there & (level == k)].mean() for k in range(-top, top + 1)]
    return {"with_query": np.array(query), "with_head": np.array(head)}


def judged(config: Settings, runs: Runs) -> tuple[list[Number], list[str]]:
    """Judge the trainings from their arrays alone, so that any other can be fed.

    Args:
        config: says which n is drawn, and the shares of the steps.
        runs: runs of every n and share.
    """
    run = runs[str(config.n)][f"{config.step_shares[-1]:g}"]
    tokens, records = run["tokens"], run["records"]
    there = np.isfinite(tokens["posterior_difference"])
    x, level = tokens["posterior_difference"][there], tokens["level"][there]
    query, head = tokens["with_query"][there], tokens["with_head"][there]
    means = _level_means(tokens)
    by_query, by_head = means["with_query"], means["with_head"]
    # Smaller delta is more informative, so -K ... -1, 0, 1 ... K is the order of the posterior difference.
    steps_query, steps_head = np.diff(by_query), np.diff(by_head)
    relevant = level != 0
    wrong_side = float(np.mean(np.sign(head[relevant]) != np.sign(level[relevant])))
    numbers = [
        Number("correlation of <E_s, v> with the posterior difference", float(pearson(x, head))),
        Number("correlation of <E_s, p> with its modulus", float(pearson(np.abs(x), query))),
        Number("relevant tokens on the wrong side of <E_s, v> = 0, share", wrong_side),
        Number("levels out of order in mean <E_s, p>", float((steps_query <= 0).sum()), at_most=0.0, **IN_ORDER),
        Number("levels out of order in mean <E_s, v>", float((steps_head <= 0).sum()), at_most=0.0, **IN_ORDER),
        Number("mean <E_s, p> of the top level over that of irrelevant tokens", float(by_query[-1] - by_query[0])),
        Number("mean <E_s, v> of the top level, positive minus negative", float(by_head[-1] - by_head[0])),
        Number("loss of the last epoch", float(records["loss"][-1])),
        Number("accuracy of the last epoch", float(records["accuracy"][-1])),
    ]
    ordered = "in" if (steps_query > 0).all() else "not in"
    sentences = [
        f"n = {config.n} texts (ours: the paper gives no n), {len(records['loss'])} epochs of "
        f"{-(-config.n // config.batch_size)} steps. Mean <E_s, p> of the levels is {ordered} order of importance: "
        f"{', '.join(f'{value:.3g}' for value in by_query)} (irrelevant first, then levels 1 to {len(by_query) - 1})."
    ]
    for share in config.step_shares:
        found, sentence = _compared(config, runs, share)
        numbers += found
        sentences += sentence
    return numbers, sentences


def _compared(config: Settings, runs: Runs, share: float) -> tuple[list[Number], list[str]]:
    """Correlations of the levels' means at one number of steps, between any two n and with the order of the levels."""
    if not config.other_n:
        return [], []
    steps = round(config.epochs * share) * -(-config.n // config.batch_size)
    means = {n: _level_means(runs[str(n)][f"{share:g}"]["tokens"]) for n in (config.n, *config.other_n)}
    # The law is the same with both signs exchanged, so only the odd part of <E_s, v> is determined by it. The even part
    # is an intercept, which the loss of separated texts leaves free.
    pictures = {
        "<E_s, p>": {n: each["with_query"] for n, each in means.items()},
        "<E_s, v>": {n: _odd_part(each["with_head"]) for n, each in means.items()},
    }
    numbers, sentences = [], []
    for overlap, of_n in pictures.items():
        between = {pair: float(pearson(of_n[pair[0]], of_n[pair[1]])) for pair in combinations(of_n, 2)}
        order = [_rank_correlation(picture) for picture in of_n.values()]
        away = float(np.max(1.0 - np.array([*between.values(), *order])))  # NaN if a picture is constant
        what = f"{steps:,} steps, {overlap}"
        numbers += [
            Number(
                f"{what}: 1 - least correlation of the levels' means, between two n and with the levels' order",
                away,
                at_most=SAME_PICTURE,
            ),
            Number(f"{what}: least correlation of the levels' means between two n", float(np.min([*between.values()]))),
            # Reported: pictures of two n are no nearer to each other than to a straight line over the levels.
            Number(f"{what}: 1 - that, over the same with a straight line, largest of two n", _moved(of_n)),
        ]
        told = ", ".join(f"{value:.4f} (n = {one:,} and {other:,})" for (one, other), value in between.items())
        sentences.append(
            f"{what}: correlation of the levels' means {told}; of their ranks with the levels' order "
            f"at least {min(order):.3f}."
        )
    return numbers, sentences


def _moved(of_n: Mapping[int, np.ndarray]) -> float:
    """The largest (1 - correlation of two pictures)/(1 - that of the first and a straight line)."""
    line = np.arange(len(next(iter(of_n.values()))), dtype=float)
    pairs = combinations(of_n.values(), 2)
    return float(np.max([(1 - pearson(one, other)) / (1 - pearson(one, line)) for one, other in pairs]))


def _rank_correlation(by_level: np.ndarray) -> float:
    """Spearman's correlation of the means with the order of the levels; NaN where they are constant."""
    ranks = np.argsort(np.argsort(by_level)).astype(float)
    return float(pearson(ranks, np.arange(len(ranks), dtype=float))) if np.ptp(by_level) > 0 else float("nan")


def _odd_part(by_level: np.ndarray) -> np.ndarray:
    """(mean of level k - mean of level -k)/2 for k = 1 ... K, of means ordered -K ... K."""
    middle = len(by_level) // 2
    return (by_level[middle + 1 :] - by_level[:middle][::-1]) / 2


def draw(result: Result) -> Any:
    """Two scatter plots by level, the levels' means for every n and number of steps, and the loss."""
    from tokenmargin.papers.embeddings.plots.overlaps import draw_levels
    from tokenmargin.plots.canvas import GREY, decimals, panels, shades, style

    of_first = next(iter(result.arrays.values()))  # of the stated n, which comes first
    shares = list(of_first)
    a, losses = of_first[shares[-1]]["tokens"], of_first[shares[-1]]["records"]["loss"]
    top = int(np.abs(a["level"]).max())
    with style():
        figure, (left, right, levels, loss) = panels(1, 4, 13.5, 3.6)
        for ax, name, title in (
            (left, "with_query", r"$\langle E_s, p\rangle$"),
            (right, "with_head", r"$\langle E_s, v\rangle$"),
        ):
            draw_levels(ax, a["posterior_difference"], a[name], a["level"], shades(top))
            ax.set_title(title)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, ncols=top + 1, loc="outside lower left", markerscale=2, frameon=False)
        for k, (n, share, run) in enumerate(_each(result.arrays)):
            means = _level_means(run["tokens"])["with_query"]
            look = {"ls": ("-", "--", ":")[shares.index(share) % 3], "color": f"C{k // len(shares)}"}
            levels.plot(
                range(top + 1), means, marker="o", ms=3, lw=1, label=f"n = {int(n):,}, {share} of steps", **look
            )
        levels.set(xlabel="level (0: irrelevant)", title=r"mean $\langle E_s, p\rangle$, same numbers of steps")
        levels.set_xticks(range(top + 1))
        levels.legend(loc="upper left", frameon=False, fontsize=6.5)
        levels.set_ylim(top=levels.get_ylim()[0] + 1.45 * float(np.ptp(levels.get_ylim())))
        loss.plot(np.arange(1, len(losses) + 1), losses, color=GREY)
        loss.set(xlabel="epoch", title="mean logistic loss", yscale="log")
        if np.ptp(np.log10(losses)) < 2:
            decimals(loss.yaxis)
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
