"""Named limits of the folds, so that a worker's memory is bounded for any log."""

from typing import Final

KEYS_MAX: Final = 1 << 22
"""(group, topic, partition) keys in one log partition: about 360 bytes of state each. `AsOf` relies on 22 bits."""

KEYS_AT_ONCE: Final = 8_192
"""Keys whose rows at the end of the log are made at the same time: about 5 KiB each while they are."""

STATUS_SLOTS: Final = 10
"""Slots of commits, and samples of log ends, that a partition's status is judged by: Burrow's `intervals`."""

PENDING_COMMITS_MAX: Final = 1_000_000
"""Commits of open transactions in one log partition: pending until their markers."""

GROUPS_MAX: Final = 1_000_000
"""Groups with group records in one log partition."""

LOG_END_SAMPLES_MAX: Final = 1_000_000
"""Samples of log ends that one worker loads and sorts: about 150 bytes each while it does."""

LOG_END_SAMPLES_KEPT_MS: Final = 7 * 86_400_000
"""How long a stream keeps samples: as long as Kafka keeps offsets of groups that are gone."""

LAG_SAMPLE_BEHIND_MAX_MS: Final = 86_400_000
"""A sample that comes later than this behind a commit says nothing of the log end at the commit: so a row of lag is
final a day later at the latest, and a topic partition that nobody can sample costs its last day and not its life."""

LAG_WITNESS_MS: Final = 600_000
"""So long a commit ahead of its samples is given to be reached by a later one: answers and clocks differ by seconds."""

LATE_SAMPLE_MS: Final = 60_000
"""By so much a broker's clock may be ahead of the sampler's; for a sample that is older a stream folds all again."""

LAG_OPEN_POINTS_MAX: Final = 1_000_000
"""Rows of lag of one log partition, undecided by the samples so far, that a stream stores: 32 bytes each."""

MINUTE_MS: Final = 60_000

CLOCK_JUMP_MAX_MS: Final = 600_000
"""A jump of the clock by more counts only if later records bear it out: longer than clocks of sound hosts differ,
shorter than what spoils an evening."""

CLOCK_WITNESSES: Final = 1_000
"""Records that bear out a jump; so many rows at most wait for the verdict."""

CLOCK_FINDINGS_MAX: Final = 10_000
"""Findings about clocks of one log partition that are published."""

CLOCK_WRONG_SPANS_MAX: Final = 10_000
"""Times of wrong clocks in one log partition that are kept; more of them are one long time."""

CLOCK_SPAN_BITS: Final = 41
"""Times within one chunk are compared as ms since its beginning; later ones than 2^41 ms (69 years) are cut to that."""
