"""Consumer groups as pure state machines: one shard per offsets partition, state changes only by apply."""
