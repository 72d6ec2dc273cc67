"""The three stores over the `Disk` port: WAL for recovery, segments for reading, checkpoints for starting."""
