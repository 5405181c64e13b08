"""The contract of a figure, and what computes, judges, saves and draws the figures of every paper."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.experiments.experiment import Config, Experiment, Number, Result, Verdict
    from tokenmargin.experiments.registry import experiments
    from tokenmargin.experiments.run import reproduce

__all__ = ["Config", "Experiment", "Number", "Result", "Verdict", "experiments", "reproduce"]

found_on_demand(__name__, __file__)
