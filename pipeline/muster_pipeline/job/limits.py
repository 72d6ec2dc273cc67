"""Named limits of tasks, and of runs over many clusters."""

from typing import Final

TASK_BYTES: Final = 64 << 20
"""What a task of many log partitions weighs: two seconds of work, beside which starting it is nothing."""

WAVE_CLUSTERS_MAX: Final = 256
"""Clusters that are read before any of them is published: each holds a lock file, and the values of its tasks."""

WAVE_LOG_PARTITIONS_MAX: Final = 20_000
"""Of them, unless one cluster has more: each is some hundred bytes of the closure that Spark hands to executors."""

FLEET_CLUSTERS_MAX: Final = 100_000
FLEET_LOG_PARTITIONS_MAX: Final = 5_000_000
"""What a plan may have: about 200 bytes of the driver for each."""

LISTING_THREADS: Final = 16
"""Folders of logs that are listed at the same time."""

FAILURES_TOLD_MAX: Final = 20
"""Clusters that are named one by one when they cannot be read; the others are counted."""

FLEET_LINE_BYTES_MAX: Final = 1 << 20
"""One line of the file that names clusters."""

CHUNKS_BETWEEN_TRIMS: Final = 32
"""Of a log partition: after so many a task gives back the memory that it has freed (`job.heap`): 1 % of its time."""
