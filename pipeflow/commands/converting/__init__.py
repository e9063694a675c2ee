"""``pipeflow convert``: the samples of one format, shard by shard, in another format."""
