"""More than one process, machine or device, passed in: `map=` for studies and corpora, sharded arrays for training."""

from tokenmargin._types import Map
from tokenmargin.parallel.cluster import ClusterMap, cluster_map, map_of
from tokenmargin.parallel.collectives import Collective, collectives, numbers_a_step
from tokenmargin.parallel.mesh import by_width, initial_placed, placed, width_mesh
from tokenmargin.parallel.step_forecast import Machine, StepForecast, forecast_step
from tokenmargin.parallel.sweep import sweep

__all__ = [
    "ClusterMap",
    "Collective",
    "Machine",
    "Map",
    "StepForecast",
    "by_width",
    "cluster_map",
    "collectives",
    "forecast_step",
    "initial_placed",
    "map_of",
    "numbers_a_step",
    "placed",
    "sweep",
    "width_mesh",
]
