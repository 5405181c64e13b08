"""Show it: the figures of the papers, each computed, judged and drawn."""

from tokenmargin.experiments.experiment import Config, Experiment, Number, Result, Verdict
from tokenmargin.experiments.registry import experiments
from tokenmargin.experiments.run import reproduce

__all__ = ["Config", "Experiment", "Number", "Result", "Verdict", "experiments", "reproduce"]
