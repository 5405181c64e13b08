"""Training of all parameters of a model on counted texts: batches, optimisers, epochs, held-out evaluation."""

from tokenmargin.training.batches import batch_factory
from tokenmargin.training.count_batches import CountBatches, count_batches
from tokenmargin.training.document_batches import DocumentBatches, document_batches
from tokenmargin.training.evaluate import Evaluation, Evaluator, Trained
from tokenmargin.training.optimisers import SGD, AdamW, GradientDescent, Optimiser
from tokenmargin.training.records import TrainingRecords, ValidationRecords
from tokenmargin.training.schedule import StepSchedule
from tokenmargin.training.train import train
from tokenmargin.training.trainable import Batches, Trainable
from tokenmargin.training.training_run import TrainingRun

__all__ = [
    "SGD",
    "AdamW",
    "Batches",
    "CountBatches",
    "DocumentBatches",
    "Evaluation",
    "Evaluator",
    "GradientDescent",
    "Optimiser",
    "StepSchedule",
    "Trainable",
    "Trained",
    "TrainingRecords",
    "TrainingRun",
    "ValidationRecords",
    "batch_factory",
    "count_batches",
    "document_batches",
    "train",
]
