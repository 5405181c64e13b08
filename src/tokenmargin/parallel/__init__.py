"""More than one process, machine or device, passed in: `map=` for studies and corpora, sharded arrays for training."""

from tokenmargin.parallel.cluster import ClusterMap, Map, cluster_map, map_of
from tokenmargin.parallel.sweep import sweep

__all__ = ["ClusterMap", "Map", "cluster_map", "map_of", "sweep"]
