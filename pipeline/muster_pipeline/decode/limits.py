"""Every named limit of the decoder, with unit and reason."""

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20

WINDOW_BYTES: Final = 2 * MIB
"""Bytes read and decoded at once: 30,000 commits, whose arrays are most of what a task needs. Half as much takes a
fifth more time, twice as much 50 MiB more memory, and 16 MiB, which exceeds the processor's caches, a third more time
(measured)."""
BATCH_BYTES_MIN: Final = 61
"""A batch header; no batch is shorter."""
BATCH_BYTES_MAX: Final = 64 * MIB
"""A longer batch length is taken for damage. Kafka's default limit is 1 MiB, Muster's generations reach 9 MiB."""
INFLATED_BYTES_MAX: Final = 64 * MIB
INFLATED_RATIO_MAX: Final = 100
INFLATED_FREE_BYTES: Final = MIB
"""The ratio applies only above this size: a short block of equal records may shrink more than a hundredfold."""
CHUNK_BYTES_MAX: Final = 32 * MIB
"""Inflated records that are decoded at once; a chunk is closed before it would exceed this (one batch always fits)."""
SEARCH_CRC_BYTES_MAX: Final = 256 * MIB
"""Most bytes whose CRC is computed in one search for the next sound batch: bytes may imitate many headers."""
KEPT_BATCHES: Final = 16
"""Sound batches that a window keeps for the next one: a wrong base offset or epoch shows only in later batches."""
CHAIN_LOOK_BACK: Final = 32
"""Longest run of misplaced batches that `decode.chain` can skip."""
RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, two lengths, header count: one byte each. Bounds a batch's record count."""
LOCK_STEP_MIN: Final = 16
"""With fewer batches left in lock step, a plain loop is faster."""
REMEMBERED_MAX: Final = 4_096
"""Subscriptions, and as many assignments, whose decoded fields are kept for members that write the same bytes again."""
REMEMBERED_BYTES_MAX: Final = 2 * KIB
"""Longer ones are decoded anew: so a worker keeps some tens of MiB of them at the most."""
SPARK_ROWS_MAX: Final = 10_000
"""Rows of one Arrow batch handed to Spark (its own default)."""
