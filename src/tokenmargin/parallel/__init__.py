"""More than one process, machine or device, passed in: `map=` for studies and corpora, sharded arrays for training."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin._types import Map
    from tokenmargin.parallel.cluster import ClusterMap, cluster_map, map_of
    from tokenmargin.parallel.mesh import by_width, initial_placed, placed, width_mesh
    from tokenmargin.parallel.phase_diagram import PhaseDiagram, phase_diagram, selects_best
    from tokenmargin.parallel.sweep import sweep

__all__ = [
    "ClusterMap",
    "Map",
    "PhaseDiagram",
    "by_width",
    "cluster_map",
    "initial_placed",
    "map_of",
    "phase_diagram",
    "placed",
    "selects_best",
    "sweep",
    "width_mesh",
]

found_on_demand(__name__, __file__)
