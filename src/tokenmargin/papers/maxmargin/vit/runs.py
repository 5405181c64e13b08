"""Vision transformers trained from scratch on CIFAR-10, with a probe on the attention of [CLS] [M, Sec. 4].

The paper prints the model (ViT-base), the epochs (400) and a fixed learning rate of 3e-3, and not the optimiser. AdamW
with a short warm-up is ours; plain SGD at the same rate is trained beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import jax
import numpy as np

from tokenmargin._progress import Progress, renamed
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Arrays, Config
from tokenmargin.papers.maxmargin.vit.attention_probe import AttentionProbe, layer_key_query_norms
from tokenmargin.papers.maxmargin.vit.cifar10 import cifar10
from tokenmargin.papers.maxmargin.vit.image_batches import as_numbers, image_batches
from tokenmargin.papers.maxmargin.vit.images import ImageDataset
from tokenmargin.papers.maxmargin.vit.vit import SIZES, Vit, VitParameters
from tokenmargin.training import SGD, AdamW, Checkpoint, Evaluator, WarmUp, train
from tokenmargin.training.schedule import CONSTANT
from tokenmargin.training.train import streams

#: A size for seconds on a CPU, beside the usual ones.
MINI = {"mini": (32, 2, 2)}

#: Epochs between two checkpoints: what an interruption can lose.
LEG = 15

#: Pictures that the accuracy is measured on at once.
TESTED_AT_ONCE = 512

#: Pictures whose maps are kept, the first of those that attention is measured on.
KEPT = 10

#: Treatments that are trained, by name: the subject first, then what is shown beside it.
TREATMENTS = {
    "adamw": "AdamW with a warm-up",
    "shuffled": "the same on shuffled labels",
    "frozen": "the same with queries and keys as they were drawn",
    "sgd": "plain SGD",
}


@dataclass(frozen=True)
class VitSettings(Config):
    """ViT-tiny on CIFAR-10 at the printed rate, 3e-3; the paper trained ViT-base for 400 epochs."""

    size: str = "tiny"
    """Of the model: mini, tiny, small or base; the paper's is base."""
    epochs: int = 15
    """Of every seed."""
    long_epochs: int = 120
    """Of the first seed."""
    seeds: int = 3
    """Of the training with AdamW; the others have one."""
    control_epochs: int = 15
    """Of what is shown beside: shuffled labels, frozen attention, SGD; 0 for none."""
    lr: float = 3e-3
    """Learning rate, fixed after the warm-up unless it decays."""
    warm_up: float = 1.0
    """Epochs over which the learning rate rises."""
    batch: int = 512
    """Pictures of a step."""
    images: int = 50_000
    """Pictures to train on, spread over the training set."""
    probed: int = 50
    """Pictures that the attention is measured on, spread over those that the accuracy is."""
    tested: int = 10_000
    """Pictures that the accuracy is measured on, spread over the test set."""
    directions: int = 6
    """Pictures whose queries are compared with max-margin directions."""
    data: str = ""
    """Path of CIFAR-10; looked for where it is empty."""
    resume: str = ""
    """Folder for finished trainings and checkpoints."""
    trained: str = ""
    """Folder of trainings that another machine has finished: judged as they are, and told who made them."""
    decay: bool = False
    """Whether the learning rate falls to 0 after the warm-up, in a cosine that ends with the training."""

    @classmethod
    def smoke(cls) -> VitSettings:
        """Two small layers on few pictures."""
        return cls("mini", 3, 4, 2, 2, batch=32, images=160, probed=10, tested=60, directions=2)

    @property
    def model(self) -> Vit:
        """The model of the size that is asked for."""
        sizes = MINI | SIZES
        if self.size not in sizes:
            raise InvalidInputError(f"--size must be one of {', '.join(sizes)}, got {self.size!r}.")
        return Vit(*sizes[self.size])


@lru_cache(maxsize=1)
def pictures(data: str, images: int, tested: int) -> tuple[ImageDataset, ImageDataset]:
    """Read this many pictures of both splits."""
    parts = []
    for split, count in (("train", images), ("test", tested)):
        read = cifar10(data or None, split=split, some=count)
        parts.append(ImageDataset(read.images, read.labels, read.class_names))
    return parts[0], parts[1]


def probed_places(config: VitSettings) -> np.ndarray:
    """Indices of the test pictures on which attention is measured, spread, as a file may be sorted by class."""
    return np.arange(config.probed) * config.tested // config.probed


def epochs_of(config: VitSettings, treatment: str, number: int) -> int:
    """Number of epochs of a training: the first seed of the subject goes on."""
    if treatment != "adamw":
        return config.control_epochs
    return config.long_epochs if number == 0 else config.epochs


def is_measured(epoch: int) -> bool:
    """True if attention is measured after this epoch: after all of the first fifteen, after every fifth later."""
    return epoch <= 15 or epoch % 5 == 0


def is_kept(epoch: int) -> bool:
    """True if maps, queries and keys of this epoch are kept: closer at the start; the last always are."""
    return epoch in (0, 1, 2, 4, 7, 10, 15) or (epoch > 15 and epoch % 15 == 0)


def vit_run(config: VitSettings, treatment: str, number: int, key: jax.Array, progress: Progress) -> Arrays:
    """One training with its probe, in legs: those that are in the folder of finished ones are not trained again."""
    own = jax.random.fold_in(key, number)
    told = renamed(progress, f"{TREATMENTS[treatment]}, seed {number}")
    folder = Path(config.resume) / f"{treatment}-{number}-checkpoint"
    checkpoint = Checkpoint(folder, every=LEG) if config.resume and not config.trained else None

    def leg(begin: int, end: int) -> Arrays:
        name, settings = f"{treatment}-{number}-to-{end}", (*_fixed(config, treatment, number, own), begin, end)
        if config.trained:
            return store.part_made_elsewhere(config.trained, name, settings)[0]
        seen = range(0 if begin == 0 else begin + 1, end + 1)
        return store.part(
            config.resume, name, settings, lambda: _trained(config, (treatment, number), seen, own, checkpoint, told)
        )

    legs = [leg(begin, end) for begin, end in _legs(config, treatment, number)]
    joined = {name: np.concatenate([each[name] for each in legs]) for name in legs[0]}
    if checkpoint is not None:
        checkpoint.discard()
    return joined


def made_by(config: VitSettings, treatment: str, number: int, key: jax.Array) -> dict[str, str]:
    """Device, versions and code that made the last leg of a training that was made elsewhere."""
    begin, end = _legs(config, treatment, number)[-1]
    settings = (*_fixed(config, treatment, number, jax.random.fold_in(key, number)), begin, end)
    return store.part_made_elsewhere(config.trained, f"{treatment}-{number}-to-{end}", settings)[1]


def _fixed(config: VitSettings, treatment: str, number: int, own: jax.Array) -> tuple[object, ...]:
    """Settings on which every leg of a training depends."""
    sizes = (config.size, config.lr, config.warm_up, config.batch, config.images, config.probed, config.tested)
    # With a decay the length decides every step; without one it does not, and a longer training takes up a shorter.
    falls = ("decay over", epochs_of(config, treatment, number)) if config.decay else ()
    return treatment, number, *sizes, config.directions, *falls, np.asarray(jax.random.key_data(own)).tolist()


def _legs(config: VitSettings, treatment: str, number: int) -> list[tuple[int, int]]:
    """First and last epoch of each leg; one leg where nothing is kept."""
    epochs = epochs_of(config, treatment, number)
    ends = [*range(LEG, epochs, LEG), epochs] if config.resume or config.trained else [epochs]
    return list(zip([0, *ends], ends, strict=False))


class _Watch:
    """Records that are taken while a model is trained."""

    def __init__(self, model: Vit, images: np.ndarray, test: ImageDataset, seen: range, directions: int) -> None:
        # What is trained changes nothing of what is computed: one compilation serves all.
        own = replace(model, trains_attention=True)
        self._evaluator = Evaluator(test, own, batches=image_batches, batch_size=TESTED_AT_ONCE)
        self._pictures = len(test)
        look = tuple(epoch for epoch in seen if is_measured(epoch) or epoch == seen[-1])
        kept, last = min(KEPT, len(images)), (model.depth - 1,)
        self.probe = AttentionProbe(own, images, epochs=look, kept=kept, layers=last)
        self.directions, self._last = directions, seen[-1]
        self.norms: dict[int, np.ndarray] = {}
        self.accuracy: dict[int, float] = {}

    def __call__(self, epoch: int, parameters: VitParameters) -> None:
        self.probe(epoch, parameters)
        if epoch in self.probe.reports:
            self.norms[epoch] = layer_key_query_norms(parameters)
            # A count over the number of pictures: the evaluator's own quotient is rounded to float32.
            correct = round(self._evaluator(parameters).accuracy * self._pictures)
            self.accuracy[epoch] = correct / self._pictures

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays by epoch, the epochs in order."""
        reports = [self.probe.reports[epoch] for epoch in sorted(self.probe.reports)]
        kept = [epoch for epoch in sorted(self.probe.readings) if is_kept(epoch) or epoch == self._last]
        means = {
            name: np.stack([getattr(report, name).mean(axis=0) for report in reports])
            for name in ("sparsity", "entropy", "top_mass", "margin")
        }
        return means | {
            "epochs": np.array(sorted(self.probe.reports)),
            "share": np.stack([report.by_layer() for report in reports]),
            "sparsities": np.stack([report.sparsity[:, -1] for report in reports]),
            "head_norms": np.stack([np.asarray(report.key_query_norms) for report in reports]),
            "norms": np.stack([self.norms[epoch] for epoch in sorted(self.norms)]),
            "test_accuracy": np.array([self.accuracy[epoch] for epoch in sorted(self.accuracy)]),
            "kept_epochs": np.array(kept),
            "maps": np.stack([self.probe.maps[epoch][-1].mean(axis=1)[:, 1:] for epoch in kept]).astype(np.float32),
            "queries": np.stack([self.probe.readings[epoch][0][0, : self.directions] for epoch in kept]),
            "keys": np.stack([self.probe.readings[epoch][1][0, : self.directions] for epoch in kept]).astype(
                np.float32
            ),
        }


def _trained(
    config: VitSettings,
    which: tuple[str, int],
    seen: range,
    key: jax.Array,
    checkpoint: Checkpoint | None,
    progress: Progress,
) -> Arrays:
    """Train one of the trainings, a treatment and its number, for these epochs, and return the records of them."""
    treatment, number = which
    pictures_to_learn, test = pictures(config.data, config.images, config.tested)
    sizes = config.model
    model = Vit(sizes.width, sizes.depth, sizes.heads, trains_attention=treatment != "frozen")
    if treatment == "shuffled":
        order = np.random.default_rng(np.asarray(jax.random.key_data(key))).permutation(len(pictures_to_learn))
        pictures_to_learn = pictures_to_learn.with_labels(pictures_to_learn.labels[order])
    if checkpoint is not None:
        # What is ahead of what was seen: an interruption fell between the two.
        checkpoint.discard(beyond=max(seen[0] - 1, 0))
    watch = _Watch(model, as_numbers(test.images[probed_places(config)]), test, seen, config.directions)
    if seen[0] == 0:
        watch(0, model.initial(streams(key)[0], len(pictures_to_learn.class_names), "float32"))
    falls = float(epochs_of(config, treatment, number)) if config.decay else None
    run = train(
        pictures_to_learn,
        model,
        SGD(config.lr) if treatment == "sgd" else AdamW(config.lr),
        epochs=seen[-1],
        key=key,
        batch_size=config.batch,
        schedule=CONSTANT if treatment == "sgd" else WarmUp(config.warm_up, falls),
        checkpoint=checkpoint,
        progress=progress,
        on_epoch=watch,
    )
    first = max(seen[0] - 1, 0)
    return watch.arrays() | {"loss": run.records.loss[first:], "accuracy": run.records.accuracy[first:]}
