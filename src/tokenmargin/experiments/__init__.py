"""The contract of a figure, and what computes, judges, saves and draws the figures of every paper."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.experiments.experiment import Config as Config
    from tokenmargin.experiments.experiment import Experiment as Experiment
    from tokenmargin.experiments.experiment import Number as Number
    from tokenmargin.experiments.experiment import Result as Result
    from tokenmargin.experiments.experiment import Verdict as Verdict
    from tokenmargin.experiments.registry import experiments as experiments
    from tokenmargin.experiments.run import reproduce as reproduce


found_on_demand(__name__, __file__)
