"""What the applied log says of a shard's groups and offsets, and the records that say it; equal on every replica."""
