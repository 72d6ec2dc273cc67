"""Limits of the WAL, segments and checkpoints (decisions 2, 3)."""

from muster_coordinator.limits import GROUP_UNCOMMITTED_BYTES_MAX, KIB, MIB, WAL_BYTES_MAX, WAL_FILE_BYTES

LOG_CACHE_BYTES_MAX = 8 * MIB
"""Memory of the entries that one WAL keeps of all its groups together; behind it is the page cache. A replica has two
WALs, and each cache stays full once it is."""

WAL_FILES_MIN = 4
"""The bound is at least so many files."""
WAL_OPENING_SHARE = 8
"""What a file begins with, the state of every group, is at most this part of it: with many groups files are larger."""
WAL_STATES_PER_BATCH = 128
"""Groups whose state one batch repeats, some 6 us each, until a file has the states of all. Twice as many are asked by
one batch whether they need the oldest file, or let go of what lies in it."""
WAL_TRAILING_FILES = 1
"""Full WAL files kept although checkpoints cover them, while there is room: a slow follower needs no install."""
WAL_SPARE_STEP_BYTES = 512 * KIB
"""The next file is zeroed and synced so much at a time, between two batches: a millisecond of a common disk."""
WAL_CARRY_BYTES_MAX = MIB
"""Live entries of one group that are written again rather than checkpointed (`storage.wal_carry`)."""
WAL_CARRY_SHARE = 16
"""At most this part of a file is one such tail."""
WAL_CARRY_MUST_BYTES_MAX = 2 * GROUP_UNCOMMITTED_BYTES_MAX
"""The same of a group that no checkpoint can free, because nothing of it commits."""
WAL_CARRY_ENTRIES_MAX = 1_000
"""Each costs the loop some 10 us."""
WAL_CARRY_BATCH_BYTES = 128 * KIB
"""Taken along by one batch, or one tail: under load there are a hundred batches a second."""
WAL_CARRY_LOOKS_MAX = 256
"""Groups looked at for one batch, a few microseconds each."""
WAL_CARRY_GAIN_SHARE = 2
"""At most this part of what the end of a file frees is written again for it; so much is set aside below the bound."""
WAL_READ_AHEAD_BYTES = 256 * KIB
"""One read of older entries: the loop waits for it, and the page cache usually has it."""
WAL_READ_GAP_BYTES = 16 * KIB
"""What lies between two entries of a group, and is read with them, or else is skipped: of 50 groups that are written to
in turn, one read of 192 KiB had six entries of the one that was asked for."""
SEGMENT_INDEX_INTERVAL_BYTES = 4_096
SEGMENT_WRITE_BYTES = 64 * KIB
"""Appended batches gather in memory up to here before one write to the page cache."""
SEGMENTS_LOADED_MAX = 4
"""Sealed segments of one partition whose index and file stay open after a read; an index takes up to 400 KB."""
SIDECARS_LEFT_OUT_MAX = 4
"""Of one partition, for which the disk had no space: held to be written with a later flush, up to 400 KB each."""
CHECKPOINT_WRITE_BYTES = MIB
"""One write of a checkpoint, synced at once: a sync at the end would have all of it before the WAL's next."""
CHECKPOINT_STEP_BYTES = 16 * KIB
"""Encoded in one go, about half a millisecond; then the loop can have the interpreter for
`runtime.limits.PACED_PAUSE_MS`."""
CHECKPOINTS_KEPT = 2

SEGMENT_CHECK_STEP_BYTES = 64 * KIB
"""Checked in one go, 1.6 ms with batches of 90 bytes; then the loop can have the interpreter."""
UNCHECKED_READ_BYTES = 256 * KIB
"""What one read checks at most on the loop, but for a single larger batch: 2,600 batches of 100 bytes take 3 ms."""

CLEAN_READ_BYTES = 64 * KIB
"""Read and cleaned in one go, some 650 records of 100 bytes, 2 ms; then the loop can have the interpreter."""
CLEAN_WRITE_BYTES = MIB
"""One write of a cleaned segment, synced at once: see `CHECKPOINT_WRITE_BYTES`."""

assert WAL_FILE_BYTES * WAL_FILES_MIN <= WAL_BYTES_MAX
assert WAL_CARRY_BATCH_BYTES < WAL_CARRY_BYTES_MAX <= WAL_FILE_BYTES // WAL_CARRY_SHARE
