"""Training of all parameters of a model on counted texts: batches, optimisers, epochs, held-out evaluation."""

from tokenmargin.training.adamw import AdamW
from tokenmargin.training.count_batches import count_batches
from tokenmargin.training.document_batches import shelf_batches
from tokenmargin.training.evaluate import Evaluation, Evaluator
from tokenmargin.training.records import TrainingRecords
from tokenmargin.training.schedule import StepSchedule
from tokenmargin.training.sgd import SGD, GradientDescent
from tokenmargin.training.train import TrainingRun, train

__all__ = [
    "SGD",
    "AdamW",
    "Evaluation",
    "Evaluator",
    "GradientDescent",
    "StepSchedule",
    "TrainingRecords",
    "TrainingRun",
    "count_batches",
    "shelf_batches",
    "train",
]
