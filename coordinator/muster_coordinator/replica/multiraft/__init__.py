"""Many Raft groups on one host: turns, heartbeats, deadlines, the WAL's writer, who leads what."""
