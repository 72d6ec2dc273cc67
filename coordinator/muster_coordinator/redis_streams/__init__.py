"""Topic partitions as Redis Streams: offsets and entry ids, records and entries, the append script; pure."""
