"""More than one process, machine or device, passed in: `map=` for studies and corpora, sharded arrays for training."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin._types import Map as Map
    from tokenmargin.parallel.cluster import ClusterMap as ClusterMap
    from tokenmargin.parallel.cluster import cluster_map as cluster_map
    from tokenmargin.parallel.cluster import map_of as map_of
    from tokenmargin.parallel.mesh import by_width as by_width
    from tokenmargin.parallel.mesh import initial_placed as initial_placed
    from tokenmargin.parallel.mesh import placed as placed
    from tokenmargin.parallel.mesh import width_mesh as width_mesh
    from tokenmargin.parallel.phase_diagram import PhaseDiagram as PhaseDiagram
    from tokenmargin.parallel.phase_diagram import phase_diagram as phase_diagram
    from tokenmargin.parallel.phase_diagram import selects_best as selects_best
    from tokenmargin.parallel.sweep import sweep as sweep


found_on_demand(__name__, __file__)
