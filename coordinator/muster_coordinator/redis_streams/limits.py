"""Limits of topics in Redis Streams."""

from muster_coordinator.limits import MIB

MILLISECONDS_MAX = 10**15 - 1
"""Of an id that is appended, beside what an offset holds: a number of Lua is exact up to 2^53. The year 33,658."""
HEADERS_MAX = 3_000
"""Of one record. Redis' Lua passes at most some 8,000 arguments to one command (LUAI_MAXCSTACK), two of them a
header."""
ENTRY_BYTES_MAX = 16 * MIB
"""Names and values of one entry; what a batch of `BATCH_BYTES_MAX` can inflate to is more."""
BULK_BYTES_MAX = 512 * MIB
"""Redis' `proto-max-bulk-len`, if nobody says otherwise: of one argument."""
BATCH_ARGUMENTS_MAX = 1_000_000
"""Arguments of one call of the script; Redis takes 1,048,576 (`PROTO_MAX_MULTIBULK`), and less only where told so."""
BATCH_OUT_BYTES_MAX = MIB
"""Size at which a batch of a Fetch is cut: the limits of a Fetch are kept between batches."""

_LUA_ARGUMENTS_MAX = 8_000
assert 2 * HEADERS_MAX + 16 < _LUA_ARGUMENTS_MAX
assert ENTRY_BYTES_MAX <= BULK_BYTES_MAX
READ_ENTRIES_MAX = 1_000
READ_BYTES_MAX = 4 * MIB
"""Of one read: the server does nothing else meanwhile, and then the loop makes batches of it, some 20 ms of a thousand
entries. A partition of a Fetch has a MiB, if the client says nothing."""
APPENDS_QUEUED_MAX = 1_000
APPENDS_QUEUED_BYTES_MAX = 64 * MIB
"""Of one partition, behind the one append that is under way."""
STREAM_RETRY_MS = 50
STREAM_RETRY_MS_MAX = 1_000
"""Between two tries of an append whose fate is not known, or whose server is away."""
PROOF_RETRY_MS = 50
PROOF_RETRY_MS_MAX = 1_000
"""Before an owner asks whether what it hides from readers is proved by now, if somebody reads; doubled each time."""
FORGETS_MAX = 20
"""Tries to remove the stream of a deleted topic, `STREAM_RETRY_MS_MAX` times the number of the try apart."""
FORGOTTEN_AT_ONCE = 1_000
"""Fields of the hash beside a stream that stays, which one call looks through for groups that were shown there."""
PRODUCERS_LOOKED_AT_MAX = 2_000
"""Of one partition at each `log.retention.check.interval.ms`: with the default half a million a day."""
MIRROR_ENTRIES_COUNTED_MAX = 200
MIRROR_BYTES_COUNTED_MAX = 256 * 1024
"""Behind a committed offset, to tell Redis how many entries a group has read; of a group that is further behind Redis
tells no lag, unless it is before the first entry. The server does nothing else meanwhile, some 0.1 ms."""
MIRROR_LISTED_MAX = 1_000
"""Fields of a partition's hash, those of producers too, that one look for groups without an offset passes."""
MIRROR_QUEUED_MAX = 10_000
"""Offsets of one replica that are to be shown; of more, a walk over all groups finds what was left out."""
MIRROR_DELAY_MS = 200
"""Between a commit and the first call: what a group commits meanwhile is one call."""
MIRROR_AT_ONCE = 8
MIRROR_PACE_MS = 10
"""So many calls in such a time: 800 a second, of which Redis has less than a tenth."""
MIRROR_RETRY_MS = 1_000
MIRROR_RETRY_MS_MAX = 60_000
"""Between two tries while Redis is away; doubled each time."""
MIRROR_WALK_MS = 600_000
"""Between two walks over what should be shown and what is."""
MIRROR_UNKNOWN_MAX = 1_000
"""Topics that have offsets and are not known here (yet); of more, the next walk finds what was left out."""
MIRROR_WALK_ROWS = 500
"""Offsets that one step of a walk looks at, some 0.5 ms, `MIRROR_PACE_MS` apart."""
assert MIRROR_WALK_ROWS < MIRROR_QUEUED_MAX
LAG_ENTRIES_COUNTED_MAX = 2_000
LAG_BYTES_COUNTED_MAX = 512 * 1024
"""Behind a committed offset, to tell a lag in records; what is further is estimated. The server does nothing else for
1.5 to 5 ms (docs/adr/0097: 2 microseconds an entry of two fields, 4 of eight)."""
LAG_PACE_MS = 10
LAG_ENTRIES_PER_MS = 20
"""Between two calls of one replica: 100 a second that look at few entries, 10 that look at the most, of which Redis has
a twentieth."""
LAG_ROWS_MAX = 5_000
"""Offsets (of a group in a partition) whose lag one replica has asked for, or knows; that of more is unknown."""
LAG_KEPT_MS = 600_000
"""So old a lag is unknown again."""
LAG_RETRY_MS = 1_000
LAG_RETRY_MS_MAX = 30_000
"""Between two tries while Redis is away; doubled each time."""
assert LAG_ROWS_MAX * max(LAG_PACE_MS, LAG_ENTRIES_COUNTED_MAX // LAG_ENTRIES_PER_MS) < LAG_KEPT_MS
