"""Training of all parameters of a model on counted texts or other examples: batches, optimisers, evaluation."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.training.batches import batch_factory
    from tokenmargin.training.checkpoint import Checkpoint, CheckpointWarning
    from tokenmargin.training.count_batches import CountBatches, count_batches
    from tokenmargin.training.document_batches import DocumentBatches, document_batches
    from tokenmargin.training.document_stream import DocumentStream
    from tokenmargin.training.evaluate import Evaluation, Evaluator, Trained
    from tokenmargin.training.examples import Batches, Examples
    from tokenmargin.training.forecast import TrainingForecast, forecast_training
    from tokenmargin.training.optimisers import SGD, AdamW, GradientDescent, Optimiser
    from tokenmargin.training.records import TrainingRecords, ValidationRecords
    from tokenmargin.training.schedule import Schedule, StepSchedule, WarmUp
    from tokenmargin.training.train import train
    from tokenmargin.training.training_run import TrainingRun

__all__ = [
    "SGD",
    "AdamW",
    "Batches",
    "Checkpoint",
    "CheckpointWarning",
    "CountBatches",
    "DocumentBatches",
    "DocumentStream",
    "Evaluation",
    "Evaluator",
    "Examples",
    "GradientDescent",
    "Optimiser",
    "Schedule",
    "StepSchedule",
    "Trained",
    "TrainingForecast",
    "TrainingRecords",
    "TrainingRun",
    "ValidationRecords",
    "WarmUp",
    "batch_factory",
    "count_batches",
    "document_batches",
    "forecast_training",
    "train",
]

found_on_demand(__name__, __file__)
