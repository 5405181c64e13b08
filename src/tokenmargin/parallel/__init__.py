"""More than one process, machine or device, passed in: `map=` for studies and corpora, sharded arrays for training."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin._types import Map
    from tokenmargin.parallel.cluster import ClusterMap, cluster_map, map_of
    from tokenmargin.parallel.mesh import by_width, initial_placed, placed, width_mesh
    from tokenmargin.parallel.sweep import sweep

__all__ = [
    "ClusterMap",
    "Map",
    "by_width",
    "cluster_map",
    "initial_placed",
    "map_of",
    "placed",
    "sweep",
    "width_mesh",
]

found_on_demand(__name__, __file__)
