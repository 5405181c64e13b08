"""[M, Fig. 6 and 7]: a vision transformer's [CLS] comes to attend to fewer patches as its attention weights grow.

Fig. 6 is the map of one test picture over epochs; Fig. 7 the sparsity nnz/T of the mean map over heads of the last
layer and |W|_F of its combined key-query matrix. Beside them: every layer, a model on shuffled labels, one whose
queries and keys are frozen, plain SGD at the printed rate, and what [M] conjectures and does not measure: whether the
query goes to the max-margin direction of what it selects.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.experiments.experiment import Arrays, Experiment, Number, Result
from tokenmargin.papers.maxmargin.vit.attention_probe import head_directions
from tokenmargin.papers.maxmargin.vit.runs import (
    TREATMENTS,
    VitSettings,
    made_by,
    pictures,
    probed_places,
    vit_run,
)

#: The effect that is asked for: sparsity falls, and the weights grow, at least so many fold. Both at once: on shuffled
#: labels the weights grow, too.
FOLD = 2.0

#: Random queries that each query is compared with.
BASELINE = 10


def directions_of(run: Arrays, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Cosines and margins of the last layer's queries to the max-margin directions of what they select, by kept epoch.

    Each of shape (epochs, pictures, heads); those of random queries have them along a last axis.
    """
    names = ("cosine", "margin_ratio", "baseline_cosines", "baseline_margin_ratios")
    columns: dict[str, list[np.ndarray]] = {name: [] for name in (*names, "residual")}
    for queries, keys in zip(run["queries"], run["keys"], strict=True):
        found = head_directions(queries, keys, rng, BASELINE)
        for name in names:
            columns[name].append(np.array([[getattr(each, name) for each in row] for row in found]))
        columns["residual"].append(np.array([[each.solution.residuals.worst for each in row] for row in found]))
    return {name: np.stack(values) for name, values in columns.items()}


def change(run: Arrays, epoch: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """nnz/T at the end over the start, and |W|_F at the start over the end, each of shape (layers,).

    With `epoch` the end is the last look up to it.
    """
    last = -1 if epoch is None else int(np.searchsorted(run["epochs"], epoch, side="right")) - 1
    return run["share"][last] / run["share"][0], run["norms"][0] / run["norms"][last]


def by_layer(runs: dict[str, Arrays]) -> dict[str, dict[str, float | str]]:
    """Changes of the least favourable seed by layer, and whether both reach `FOLD` in every seed."""
    falls, rises = (np.stack(each) for each in zip(*map(change, runs.values()), strict=True))
    both = np.all((falls <= 1 / FOLD) & (rises <= 1 / FOLD), axis=0)
    first = next(iter(runs.values()))
    return {
        f"layer {layer + 1}": {
            "nnz/T at the start, first seed": float(first["share"][0, layer]),
            "nnz/T at the end, first seed": float(first["share"][-1, layer]),
            "|W|_F at the start, first seed": float(first["norms"][0, layer]),
            "|W|_F at the end, first seed": float(first["norms"][-1, layer]),
            "nnz/T end over start, largest of the seeds": float(falls[:, layer].max()),
            "|W|_F start over end, largest of the seeds": float(rises[:, layer].max()),
            "twofold in every seed": "both" if both[layer] else "not both",
        }
        for layer in range(len(both))
    }


def compute_maps(config: VitSettings, key: jax.Array, progress: Progress) -> Result:
    """Fig. 6: the first seed alone."""
    run = vit_run(config, "adamw", 0, key, progress)
    test = pictures(config.data, config.images, config.tested)[1]
    maps = run["maps"]
    tops = maps.max(axis=-1)
    images = test.images[probed_places(config)[: maps.shape[1]]]
    arrays = {"images": images, "maps": maps, "epochs": run["kept_epochs"]}
    nnz = 1.0 / (maps.astype(np.float64) ** 2 * (1.0 / maps.sum(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    share = nnz / maps.shape[-1]
    return Result(
        arrays,
        (
            Number("nnz/T of the map of the first picture at the start", float(share[0, 0])),
            Number("nnz/T of the map of the first picture at the end", float(share[-1, 0])),
            Number(
                "nnz/T at the end over the start, median over the pictures shown",
                float(np.median(share[-1] / share[0])),
                at_most=1 / FOLD,
            ),
            Number("largest weight of a patch at the end, median over the pictures", float(np.median(tops[-1]))),
            Number("accuracy on the test split at the end", float(run["test_accuracy"][-1])),
        ),
        (_model_in_words(config),),
        _trained_by(config, key),
    )


def compute_curves(config: VitSettings, key: jax.Array, progress: Progress) -> Result:
    """Fig. 7: all seeds, and what is shown beside them."""
    runs = {f"seed {number}": vit_run(config, "adamw", number, key, progress) for number in range(config.seeds)}
    names = [name for name in TREATMENTS if name != "adamw"] if config.control_epochs else []
    controls = {name: vit_run(config, name, 0, key, progress) for name in names}
    rng = np.random.default_rng(0)
    directions = {name: directions_of(run, rng) for name, run in [("seed 0", runs["seed 0"]), *controls.items()]}
    falls, rises = (np.stack(each) for each in zip(*map(change, runs.values()), strict=True))
    layers = by_layer(runs)
    numbers = [
        Number(
            "last layer: the larger of the two ratios below, which are sparsity and growth, largest of the seeds",
            float(np.maximum(falls, rises)[:, -1].max()),
            at_most=1 / FOLD,
        ),
        Number("last layer: nnz/T at the end over the start, largest of the seeds", float(falls[:, -1].max())),
        Number("last layer: |W|_F at the start over the end, largest of the seeds", float(rises[:, -1].max())),
        Number("share of layers with both in every seed", _share_with_both(layers)),
        Number("last layer, seed 0: smallest nnz/T", float(_last_share(runs).min())),
        Number("last layer, seed 0: epoch of the smallest nnz/T", float(runs["seed 0"]["epochs"][_sparsest(runs)])),
        Number("last layer, seed 0: nnz/T at the end", float(_last_share(runs)[-1])),
        *(_direction_numbers("seed 0", directions["seed 0"])),
        Number.exact("largest KKT residual of the max-margin problems", _worst(directions), at_most=1e-9),
    ]
    for name, run in {"seed 0, as long as those below": runs["seed 0"], **controls}.items() if controls else ():
        fall, rise = change(run, config.control_epochs)
        numbers.append(Number(f"{name}, last layer: nnz/T at the end over the start", float(fall[-1])))
        numbers.append(Number(f"{name}, last layer: |W|_F at the start over the end", float(rise[-1])))
    numbers += [
        Number(f"{name}: accuracy on the test split at the end", float(run["test_accuracy"][-1]))
        for name, run in (runs | controls).items()
    ]
    arrays = {
        "runs": {name: _without_keys(run) for name, run in runs.items()},
        "controls": {name: _without_keys(run) for name, run in controls.items()},
        "directions": directions,
    }
    words = [
        _model_in_words(config),
        _accuracy_in_words(runs["seed 0"]),
        _after_in_words(runs),
        _layers_in_words(layers),
        _direction_in_words(directions["seed 0"]),
    ]
    return Result(arrays, tuple(numbers), tuple(words), {"by layer": layers} | _trained_by(config, key))


def _trained_by(config: VitSettings, key: jax.Array) -> dict[str, dict[str, str]]:
    """Table with the maker of the first seed's training, where it was not made here."""
    return {"trained elsewhere by": made_by(config, "adamw", 0, key)} if config.trained else {}


def _last_share(runs: dict[str, Arrays]) -> np.ndarray:
    return runs["seed 0"]["share"][:, -1]


def _sparsest(runs: dict[str, Arrays]) -> int:
    return int(np.argmin(_last_share(runs)))


def _after_in_words(runs: dict[str, Arrays]) -> str:
    """Sentence on sparsity over the epochs; evidence against "sparser as the weights grow" comes first."""
    first, k = runs["seed 0"], _sparsest(runs)
    share, norm, epochs = first["share"][:, -1], first["norms"][:, -1], first["epochs"]
    return (
        f"In the last layer of the first seed nnz/T is smallest, {share[k]:.3f}, after epoch {epochs[k]}, and "
        f"{share[-1]:.3f} after epoch {epochs[-1]}, {share[-1] / share[k]:.1f} times that, while |W|_F goes from "
        f"{norm[k]:.0f} to {norm[-1]:.0f}."
    )


def _accuracy_in_words(first: Arrays) -> str:
    """Sentence that says whether the model learnt: maps become sparse in one that does not, too."""
    accuracy, epochs = first["test_accuracy"], first["epochs"]
    best = int(np.argmax(accuracy))
    return (
        f"Accuracy of the first seed on the test split: best {accuracy[best]:.3f}, after epoch {epochs[best]}, and "
        f"{accuracy[-1]:.3f} after epoch {epochs[-1]}."
    )


def _share_with_both(layers: dict[str, dict[str, float | str]]) -> float:
    return float(np.mean([row["twofold in every seed"] == "both" for row in layers.values()]))


def _layers_in_words(layers: dict[str, dict[str, float | str]]) -> str:
    without = [name for name, row in layers.items() if row["twofold in every seed"] != "both"]
    reached = f"In {len(layers) - len(without)} of {len(layers)} layers nnz/T falls and |W|_F grows at least twofold"
    return f"{reached} in every seed" + (f"; not in {', '.join(without)}." if without else ".")


def _without_keys(run: Arrays) -> dict[str, np.ndarray]:
    return {name: value for name, value in run.items() if name not in ("queries", "keys", "maps")}


def _worst(directions: dict[str, dict[str, np.ndarray]]) -> float:
    return float(max(np.max(each["residual"]) for each in directions.values()))


def _direction_numbers(name: str, found: dict[str, np.ndarray]) -> list[Number]:
    numbers = []
    for place, when in ((0, "start"), (-1, "end")):
        cosine, baseline = found["cosine"][place], found["baseline_cosines"][place]
        numbers += [
            Number(
                f"{name}: cosine of the query to its max-margin direction, mean at the {when}", float(cosine.mean())
            ),
            Number(f"{name}: the same of random queries at the {when}", float(baseline.mean())),
            Number(
                f"{name}: margin of the query over the largest, mean at the {when}",
                float(found["margin_ratio"][place].mean()),
            ),
        ]
    return numbers


def _direction_in_words(found: dict[str, np.ndarray]) -> str:
    first, last = found["cosine"][0].mean(), found["cosine"][-1].mean()
    random = found["baseline_cosines"][-1].mean()
    beats = (found["cosine"][-1][..., None] > found["baseline_cosines"][-1]).mean()
    return (
        "The cosine of the [CLS] query of the last layer to the max-margin direction of the patch that it selects goes "
        f"from {first:.3f} to {last:.3f}; random queries have {random:.3f} at the end, and the model's is above "
        f"{beats:.0%} of them. (ATT-SVM) is solved for one picture and head at a time, and each solution is certified."
    )


def _model_in_words(config: VitSettings) -> str:
    return (
        f"ViT-{config.size} on {config.images:,} pictures; the paper's is ViT-base, 400 epochs. The optimiser is not "
        f"printed: AdamW with a warm-up of {config.warm_up:g} epochs"
        f"{' and a decay to 0 at the end' if config.decay else ''}"
        f"{', plain SGD beside it, both' if config.control_epochs else ','} at the rate {config.lr:g}, where 0.003 is "
        "printed."
    )


def draw_maps(result: Result) -> Any:
    """A row a picture: itself, and its map at the kept epochs."""
    from tokenmargin.papers.maxmargin.plots.attention_maps import draw_map, draw_picture
    from tokenmargin.plots.canvas import panels, style

    maps, epochs = result.arrays["maps"], result.arrays["epochs"]
    images = result.arrays["images"]
    with style():
        figure, axes = panels(len(images), 1 + len(epochs), 0.9 * (1 + len(epochs)), 0.98 * len(images))
        for row, image in enumerate(images):
            own = axes[row * (1 + len(epochs)) : (row + 1) * (1 + len(epochs))]
            draw_picture(own[0], image, "test picture" if row == 0 else "")
            for ax, weights, epoch in zip(own[1:], maps[:, row], epochs, strict=True):
                draw_map(ax, weights, f"epoch {epoch}" if row == 0 else "")
    return figure


def draw_curves(result: Result) -> Any:
    """The paper's panel for every seed, every layer of the first seed, the controls, and the query's direction."""
    from tokenmargin.papers.maxmargin.plots.attention_maps import draw_beside, draw_layers, draw_sparsity_and_norm
    from tokenmargin.plots.canvas import BLUE, GREY, panels, style

    runs, controls, found = (result.arrays[name] for name in ("runs", "controls", "directions"))
    first = runs["seed 0"]
    with style():
        figure, (top, long, layers, norms, beside, query) = panels(2, 3, 13, 7)
        shortest = min(len(run["epochs"]) for run in runs.values())
        for ax, group, title in (
            (
                top,
                [(run["share"][:shortest, -1], run["norms"][:shortest, -1]) for run in runs.values()],
                "every seed",
            ),
            (long, [(first["share"][:, -1], first["norms"][:, -1])], "the first seed"),
        ):
            share, norm = (np.stack(each) for each in zip(*group, strict=True))
            draw_sparsity_and_norm(ax, first["epochs"][: share.shape[1]], share, norm)
            ax.set_title(f"last layer, {title}")
        draw_layers(layers, first["epochs"], first["share"], "nnz/T")
        layers.set_title("mean map of every layer, the first darkest")
        draw_layers(norms, first["epochs"], first["norms"], r"$\|W\|_F$")
        norms.set(title="key-query matrix of every layer", yscale="log")
        if controls:
            shown = {"seed 0": first} | dict(controls)
            ends = np.array([[run["share"][0, -1], run["share"][-1, -1]] for run in shown.values()])
            draw_beside(beside, list(shown), ends[:, 0], ends[:, 1], "nnz/T of the last layer")
            beside.set_title("beside shuffled labels, frozen queries and keys, SGD")
            beside.legend(loc="center left")
        else:
            beside.plot(first["epochs"], first["test_accuracy"], "o-", color=BLUE, label="test split")
            beside.plot(1 + np.arange(len(first["accuracy"])), first["accuracy"], color=GREY, label="training")
            beside.set(title="accuracy, the first seed", xlabel="epoch", ylim=(0, None))
            beside.legend()
        epochs, seed = first["kept_epochs"], found["seed 0"]
        query.plot(epochs, seed["cosine"].mean(axis=(1, 2)), "o-", color=BLUE, label="the model's query")
        query.plot(epochs, seed["baseline_cosines"].mean(axis=(1, 2, 3)), "o-", color=GREY, label="random queries")
        query.set(title="query: cosine to its max-margin direction", xlabel="epoch", ylim=(0, 1))
        query.legend()
    return figure


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig6",
        title="A vision transformer on CIFAR-10: attention of [CLS] over epochs",
        in_plain_words=(
            "Does a transformer that looks at pictures come to look at fewer places of each as it is trained? The maps "
            "show where it looks after some epochs."
        ),
        paper="M",
        figure="Fig. 6",
        config=VitSettings,
        compute=compute_maps,
        draw=draw_maps,
        data=("cifar10",),
        precision="float32",
    ),
    Experiment(
        id="maxmargin-fig7",
        title="A vision transformer on CIFAR-10: sparsity of attention and growth of its weights",
        in_plain_words=(
            "In the same transformer: do its attention maps become sparser while its attention weights grow, and would "
            "an untrained model, or one trained on shuffled labels, do so too?"
        ),
        paper="M",
        figure="Fig. 7",
        config=VitSettings,
        compute=compute_curves,
        draw=draw_curves,
        data=("cifar10",),
        precision="float32",
    ),
)
