"""Training of all parameters of a model on counted texts or other examples: batches, optimisers, evaluation."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.training.batches import batch_factory as batch_factory
    from tokenmargin.training.checkpoint import Checkpoint as Checkpoint
    from tokenmargin.training.checkpoint import CheckpointWarning as CheckpointWarning
    from tokenmargin.training.count_batches import CountBatches as CountBatches
    from tokenmargin.training.count_batches import count_batches as count_batches
    from tokenmargin.training.document_batches import DocumentBatches as DocumentBatches
    from tokenmargin.training.document_batches import document_batches as document_batches
    from tokenmargin.training.document_stream import DocumentStream as DocumentStream
    from tokenmargin.training.evaluate import Evaluation as Evaluation
    from tokenmargin.training.evaluate import Evaluator as Evaluator
    from tokenmargin.training.evaluate import Trained as Trained
    from tokenmargin.training.examples import Batches as Batches
    from tokenmargin.training.examples import Examples as Examples
    from tokenmargin.training.forecast import TrainingForecast as TrainingForecast
    from tokenmargin.training.forecast import forecast_training as forecast_training
    from tokenmargin.training.optimisers import SGD as SGD
    from tokenmargin.training.optimisers import AdamW as AdamW
    from tokenmargin.training.optimisers import GradientDescent as GradientDescent
    from tokenmargin.training.optimisers import Optimiser as Optimiser
    from tokenmargin.training.records import TrainingRecords as TrainingRecords
    from tokenmargin.training.records import ValidationRecords as ValidationRecords
    from tokenmargin.training.schedule import Schedule as Schedule
    from tokenmargin.training.schedule import StepSchedule as StepSchedule
    from tokenmargin.training.schedule import WarmUp as WarmUp
    from tokenmargin.training.train import train as train
    from tokenmargin.training.training_run import TrainingRun as TrainingRun


found_on_demand(__name__, __file__)
