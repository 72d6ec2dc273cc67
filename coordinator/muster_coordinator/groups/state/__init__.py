"""The durable state of a shard's groups and offsets, and the records that change it; equal on every replica."""
