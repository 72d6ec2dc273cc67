"""Limits of draining and of the metrics of groups."""

# Slices of the loop (decision 21).
SLICE_MS_MAX = 1
SLICE_WAIT_MS_MAX = 20

# Metrics.
METRIC_GROUPS_MAX = 1_000
