"""Every named limit of the decoder, with unit and reason."""

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20

WINDOW_BYTES: Final = 4 * MIB
"""Read and decoded at once: larger windows fall out of the processor's caches (measured: 16 MiB a third slower)."""
BATCH_BYTES_MIN: Final = 61
"""A batch header; no batch is shorter."""
BATCH_BYTES_MAX: Final = 64 * MIB
"""A batch said to be longer is damage. Kafka's default is 1 MiB, Muster's generations reach 9 MiB."""
INFLATED_BYTES_MAX: Final = 64 * MIB
INFLATED_RATIO_MAX: Final = 100
INFLATED_FREE_BYTES: Final = MIB
"""The ratio counts only above this: a short block of equal records may well shrink more than a hundredfold."""
CHUNK_BYTES_MAX: Final = 32 * MIB
"""Inflated records that are decoded at once; a chunk is closed before it would exceed this (one batch always fits)."""
SEARCH_CRC_BYTES_MAX: Final = 256 * MIB
"""Bytes whose CRC is tried in one search for the next sound batch, against bytes that imitate headers."""
HELD_BACK_BATCHES: Final = 16
"""Sound batches behind those that are emitted: a wrong base offset or epoch shows only in what follows it."""
CHAIN_LOOK_BACK: Final = 32
"""Batches in a row that may be out of order and still be told from the right ones."""
RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, two lengths, header count: one byte each. Bounds a batch's record count."""
LOCK_STEP_MIN: Final = 16
"""With fewer batches left in lock step, a plain loop is faster."""
SPARK_ROWS_MAX: Final = 10_000
"""Rows of one Arrow batch handed to Spark (its own default)."""
