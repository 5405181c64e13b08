"""The contract of a figure, and what computes, judges, saves and draws the figures of every paper."""

from tokenmargin.experiments.experiment import Config, Experiment, Number, Result, Verdict
from tokenmargin.experiments.registry import experiments
from tokenmargin.experiments.run import reproduce

__all__ = ["Config", "Experiment", "Number", "Result", "Verdict", "experiments", "reproduce"]
