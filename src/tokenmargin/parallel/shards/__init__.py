"""Corpora that do not fit into memory: counted shard by shard, on one machine or many, and read back part by part."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.parallel.shards.counted import CountedPart as CountedPart
    from tokenmargin.parallel.shards.counted import CountedShards as CountedShards
    from tokenmargin.parallel.shards.counted import FirstEmbeddings as FirstEmbeddings
    from tokenmargin.parallel.shards.counting import count_shards as count_shards
    from tokenmargin.parallel.shards.stream import ShardStream as ShardStream


found_on_demand(__name__, __file__)
