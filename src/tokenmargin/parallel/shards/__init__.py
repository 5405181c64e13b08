"""Corpora that do not fit into memory: counted shard by shard, on one machine or many, and read back part by part."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.parallel.shards.counted import CountedPart, CountedShards, FirstEmbeddings
    from tokenmargin.parallel.shards.counting import count_shards
    from tokenmargin.parallel.shards.stream import ShardStream

__all__ = ["CountedPart", "CountedShards", "FirstEmbeddings", "ShardStream", "count_shards"]

found_on_demand(__name__, __file__)
