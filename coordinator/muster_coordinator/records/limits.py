"""Limits of record batches."""

from muster_coordinator.limits import MIB

INFLATED_BYTES_MAX = 64 * MIB
INFLATE_RATIO_MAX = 100
