"""Named limits of the folds, so that a worker's memory is bounded for any log."""

from typing import Final

KEYS_MAX: Final = 1 << 22
"""(group, topic, partition) keys in one log partition: about 120 bytes of state each. `AsOf` relies on 22 bits."""

PENDING_COMMITS_MAX: Final = 1_000_000
"""Commits of open transactions in one log partition: pending until their markers."""

GROUPS_MAX: Final = 1_000_000
"""Groups with group records in one log partition."""

LOG_END_SAMPLES_MAX: Final = 1_000_000
"""Samples of log ends that one worker loads and sorts: about 150 bytes each while it does."""

MINUTE_MS: Final = 60_000

CLOCK_SPAN_BITS: Final = 41
"""Times within one chunk are compared as ms since its beginning; later ones than 2^41 ms (69 years) are cut to that."""
