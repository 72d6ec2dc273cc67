"""What the SQL dashboard asks of the tables, in DuckDB's SQL, with the variables and macros of Grafana's DuckDB source.

Each question gives the numbers of the page: levels are those of `troubles`, owners those of `owners`, the course of lag
that of `lag`, consumers those of `capacity`; a test holds them to these. `${cluster:sqlstring}` and the others become
quoted names, or for all of them a column's own name, so that a long list is not sent. Sums are whole numbers of 64
bits, because the source shows wider ones as text. Rows are bounded, the worst first: a dashboard is read by people.
"""

from typing import Final

from muster_pipeline.report.capacity import DRAIN_MS
from muster_pipeline.report.troubles import ERR, LEVELS, LEVELS_WORST_FIRST, WARN

GROUPS_DRAWN_MAX: Final = 20
"""Groups of one chart over time: those that are highest within its time."""
ROWS_MAX: Final = 500
"""Rows of one table."""
POINTS_MAX: Final = 1_000
"""Of one series: more minutes are merged."""
ALL_CLUSTERS: Final = "cluster"
ALL_GROUPS: Final = "group_id"

_CLUSTERS: Final = "cluster IN (${cluster:sqlstring})"
_WHERE: Final = f"{_CLUSTERS} AND group_id IN (${{group:sqlstring}})"

CLUSTERS: Final = "SELECT cluster FROM runs ORDER BY cluster"
GROUPS: Final = f"""\
SELECT group_id FROM (
  SELECT group_id FROM lag WHERE {_CLUSTERS} UNION SELECT group_id FROM rebalances WHERE {_CLUSTERS}
)
ORDER BY group_id"""

_LEVELS: Final = ", ".join(
    f"('{status}', '{level}', {LEVELS_WORST_FIRST.index(level)})" for status, level in LEVELS.items()
)
_STATUS: Final = f"""\
levels(status, level, place) AS (VALUES {_LEVELS}),
known AS (SELECT * FROM partition_status JOIN levels USING (status) WHERE {_WHERE})"""

_AS_OF: Final = f"""\
seen AS (
  SELECT cluster, max(greatest(committed_ms, coalesce(sampled_ms, committed_ms))) AS at_ms
  FROM partition_status GROUP BY cluster
),
as_of AS (
  SELECT min(CASE WHEN coalesce(input->'$.of', input)->>'$.kind' = 'live' THEN runs.at_ms ELSE seen.at_ms END) AS at_ms
  FROM runs LEFT JOIN seen USING (cluster) WHERE {_CLUSTERS}
)"""
"""A live log is as of its run, files are as of the newest time in them; of several clusters the oldest counts."""

AGE: Final = f"""\
WITH {_AS_OF}
SELECT (epoch_ms(now()) - at_ms) / 1000.0 AS age FROM as_of"""


def counted(level: str) -> str:
    """Groups of a level; no row, and so no green, where the numbers are old."""
    return f"""\
WITH {_AS_OF},
{_STATUS},
worst AS (SELECT cluster, group_id, min(place) AS place FROM known GROUP BY cluster, group_id)
SELECT count(*) FILTER (place = {LEVELS_WORST_FIRST.index(level)}) AS groups FROM worst
HAVING (SELECT epoch_ms(now()) - at_ms FROM as_of) < 1000 * ${{old_after_s:sqlstring}}::BIGINT"""


GROUPS_NOW: Final = f"""\
WITH {_STATUS}
SELECT
  cluster,
  group_id AS "group",
  arg_min(level, place) AS status,
  epoch_ms(min(since_ms) FILTER (level IN ('{ERR}', '{WARN}'))) AS since,
  count(*) AS partitions,
  count(*) FILTER (level IN ('{ERR}', '{WARN}')) AS "in trouble",
  sum(lag)::BIGINT AS "records behind",
  count(*) FILTER (lag IS NULL) AS "lag unknown",
  max(drained_in_ms) AS "gone in",
  min(lost_in_ms) AS "lost in"
FROM known
GROUP BY cluster, group_id
ORDER BY min(place), since DESC, cluster, "group"
LIMIT {ROWS_MAX}"""

_OWNERS: Final = f"""\
member AS (
  SELECT
    cluster,
    group_id,
    member_id,
    arg_max(
      {{'kind': group_kind, 'stage': stage, 'instance': instance_id, 'client': client_id, 'host': client_host}},
      log_offset
    ) AS told
  FROM memberships
  WHERE {_WHERE} AND (group_kind <> 'classic' OR stage = 'completed')
  GROUP BY cluster, group_id, member_id
),
steps AS (
  SELECT cluster, group_id, log_offset FROM memberships
  WHERE {_WHERE} AND group_kind = 'classic' AND stage = 'completed'
  UNION ALL
  SELECT cluster, group_id, log_offset FROM generations
  WHERE {_WHERE} AND stage IN ('empty', 'deleted')
),
newest AS (SELECT cluster, group_id, max(log_offset) AS at_offset FROM steps GROUP BY cluster, group_id),
assigned AS (
  SELECT cluster, group_id, topic, partition, arg_max(member_id, log_offset) AS member_id, max(log_offset) AS at_offset
  FROM assignments
  WHERE {_WHERE} AND kind IN ('assigned', 'current') AND topic IS NOT NULL
  GROUP BY cluster, group_id, topic, partition
),
owned AS (
  SELECT
    cluster,
    group_id,
    topic,
    partition,
    coalesce(told.instance, member_id) AS owner,
    member_id,
    told.client AS client,
    told.host AS host
  FROM assigned JOIN member USING (cluster, group_id, member_id) LEFT JOIN newest USING (cluster, group_id)
  WHERE CASE
    WHEN told.kind = 'classic' THEN assigned.at_offset = newest.at_offset
    ELSE told.stage <> 'left' AND assigned.at_offset > coalesce(newest.at_offset, -1)
  END
)"""
"""As `owners` tells them."""

TROUBLES: Final = f"""\
WITH {_STATUS},
{_OWNERS}
SELECT
  cluster,
  group_id AS "group",
  topic,
  partition,
  status,
  epoch_ms(since_ms) AS since,
  lag AS "records behind",
  owner,
  host,
  read_per_s AS "read",
  written_per_s AS "written",
  drained_in_ms AS "gone in",
  lost_in_ms AS "lost in"
FROM known LEFT JOIN owned USING (cluster, group_id, topic, partition)
WHERE level IN ('{ERR}', '{WARN}')
ORDER BY since_ms DESC, place, lag DESC NULLS LAST, cluster, "group", topic, partition
LIMIT {ROWS_MAX}"""

OWNERS: Final = f"""\
WITH {_OWNERS}
SELECT cluster, group_id AS "group", topic, partition, owner, member_id AS member, client, host
FROM owned
ORDER BY cluster, "group", topic, partition
LIMIT {ROWS_MAX}"""

LOST: Final = f"""\
SELECT
  cluster,
  group_id AS "group",
  topic,
  partition,
  lost_in_ms AS "lost in",
  lag AS "records behind",
  read_per_s AS "read",
  status
FROM partition_status
WHERE {_WHERE} AND lost_in_ms IS NOT NULL
ORDER BY lost_in_ms, cluster, "group", topic, partition
LIMIT {ROWS_MAX}"""

_RANGE: Final = f"""\
range AS (
  SELECT
    epoch_ms($__timeFrom()::TIMESTAMP) AS from_ms,
    epoch_ms($__timeTo()::TIMESTAMP) AS to_ms,
    60000 * greatest(1, (to_ms - from_ms) // {60_000 * POINTS_MAX}) AS step_ms
)"""
"""Where a chart begins, and whole minutes so long that it has no more than about POINTS_MAX points."""
_AT: Final = "epoch_ms(from_ms // 60000 * 60000 + (minute_ms - from_ms // 60000 * 60000) // step_ms * step_ms)"

LAG_RECORDS: Final = f"""\
WITH {_RANGE},
drawn AS (
  SELECT cluster, group_id FROM lag
  WHERE {_WHERE} AND lag > 0 AND $__timeFilter(epoch_ms(minute_ms))
  GROUP BY cluster, group_id ORDER BY max(lag) DESC, cluster, group_id LIMIT {GROUPS_DRAWN_MAX}
),
changes AS (
  SELECT
    cluster,
    group_id,
    minute_ms,
    lag - coalesce(lag(lag) OVER (PARTITION BY cluster, group_id, topic, partition ORDER BY minute_ms), 0) AS change
  FROM lag SEMI JOIN drawn USING (cluster, group_id)
  WHERE lag IS NOT NULL
),
minutes AS (
  SELECT cluster, group_id, minute_ms, sum(change) AS change FROM changes GROUP BY cluster, group_id, minute_ms
),
sums AS (
  SELECT cluster, group_id, minute_ms, sum(change) OVER (PARTITION BY cluster, group_id ORDER BY minute_ms) AS behind
  FROM minutes
)
SELECT {_AT} AS time, cluster, group_id AS "group", max(behind)::BIGINT AS records
FROM sums, range
WHERE $__timeFilter(epoch_ms(minute_ms))
GROUP BY ALL ORDER BY time, cluster, "group\""""
"""Each partition's last lag is carried forward, as differences that are summed up."""

LAG_TIME: Final = f"""\
WITH {_RANGE},
drawn AS (
  SELECT cluster, group_id FROM lag
  WHERE {_WHERE} AND time_lag_ms > 0 AND $__timeFilter(epoch_ms(minute_ms))
  GROUP BY cluster, group_id ORDER BY max(time_lag_ms) DESC, cluster, group_id LIMIT {GROUPS_DRAWN_MAX}
)
SELECT {_AT} AS time, cluster, group_id AS "group", max(time_lag_ms) / 1000.0 AS seconds
FROM lag SEMI JOIN drawn USING (cluster, group_id), range
WHERE time_lag_ms IS NOT NULL AND $__timeFilter(epoch_ms(minute_ms))
GROUP BY ALL ORDER BY time, cluster, "group\""""

_GAPPED: Final = "gapped AS (SELECT DISTINCT cluster, topic, partition FROM partition_status WHERE has_gaps)"
"""Differences of their offsets are no numbers of records."""


def _rate(moved: str) -> str:
    """Records a second, of the groups with the most; `moved` has (cluster, group_id, minute_ms, records)."""
    return f"""\
WITH {_RANGE},
{_GAPPED},
moved AS (
{moved}
),
drawn AS (
  SELECT cluster, group_id FROM moved
  GROUP BY cluster, group_id HAVING sum(records) > 0
  ORDER BY sum(records) DESC, cluster, group_id LIMIT {GROUPS_DRAWN_MAX}
)
SELECT {_AT} AS time, cluster, group_id AS "group", sum(records) * 1000.0 / any_value(step_ms) AS per_s
FROM moved SEMI JOIN drawn USING (cluster, group_id), range
GROUP BY ALL ORDER BY time, cluster, "group\""""


RATE_IN: Final = _rate(
    f"""\
  SELECT
    cluster,
    group_id,
    minute_ms,
    greatest(0, log_end_offset
      - lag(log_end_offset) OVER (PARTITION BY cluster, group_id, topic, partition ORDER BY minute_ms)) AS records
  FROM lag ANTI JOIN gapped USING (cluster, topic, partition)
  WHERE {_WHERE} AND log_end_offset IS NOT NULL AND $__timeFilter(epoch_ms(minute_ms))"""
)
"""What the log ends grew by, from row to row within the chart's time; a log that was made again grew by nothing."""
RATE_OUT: Final = _rate(
    f"""\
  SELECT cluster, group_id, minute_ms, messages AS records
  FROM commit_rate ANTI JOIN gapped USING (cluster, topic, partition)
  WHERE {_WHERE} AND $__timeFilter(epoch_ms(minute_ms))"""
)

_CAUSE: Final = "CASE WHEN is_avoided THEN 'avoided' ELSE \"trigger\" END"

CAUSES: Final = f"""\
WITH {_RANGE},
ended AS (
  SELECT ended_at_ms // 60000 * 60000 AS minute_ms, {_CAUSE} AS cause
  FROM rebalances WHERE {_WHERE} AND $__timeFilter(epoch_ms(ended_at_ms))
)
SELECT {_AT} AS time, cause, count(*) AS rebalances FROM ended, range
GROUP BY ALL ORDER BY time, cause"""

REBALANCES: Final = f"""\
SELECT
  epoch_ms(ended_at_ms) AS ended,
  cluster,
  group_id AS "group",
  {_CAUSE} AS cause,
  evidence,
  generation_from AS "from",
  generation_to AS "to",
  coalesce(array_to_string(members_in, ', '), '') AS "came",
  coalesce(array_to_string(members_out, ', '), '') AS "left",
  members_after AS members,
  partitions_moved AS moved,
  duration_ms AS "lasted",
  duration_min_ms AS "at least",
  duration_max_ms AS "at most"
FROM rebalances
WHERE {_WHERE} AND $__timeFilter(epoch_ms(ended_at_ms))
ORDER BY ended_at_ms DESC, cluster, "group", ended_log_offset DESC
LIMIT {ROWS_MAX}"""

STALLS: Final = f"""\
SELECT
  epoch_ms(started_at_ms) AS started,
  epoch_ms(ended_at_ms) AS ended,
  duration_ms AS lasted,
  cluster,
  group_id AS "group",
  topic,
  partition,
  committed_offset AS "offset",
  idle_commits AS "idle commits",
  ended_by AS "ended by",
  evidence
FROM stalls
WHERE {_WHERE}
  AND epoch_ms(started_at_ms) <= $__timeTo() AND (ended_at_ms IS NULL OR epoch_ms(ended_at_ms) >= $__timeFrom())
ORDER BY ended_at_ms IS NULL DESC, started_at_ms DESC, cluster, "group", topic, partition
LIMIT {ROWS_MAX}"""

CONSUMERS: Final = f"""\
WITH sums AS (
  SELECT
    cluster,
    group_id,
    count(*) AS partitions,
    count(*) FILTER (lag IS NOT NULL AND read_per_s IS NOT NULL AND written_per_s IS NOT NULL) AS known,
    sum(lag)::BIGINT AS behind,
    sum(read_per_s) AS read,
    sum(written_per_s) AS written
  FROM partition_status WHERE {_WHERE} AND status <> 'ABANDONED' GROUP BY cluster, group_id
),
share AS (
  SELECT cluster, group_id, arg_max({{'members': members, 'idle': members_idle}}, log_offset) AS told
  FROM balance WHERE {_WHERE} GROUP BY cluster, group_id
),
known AS (
  SELECT
    *,
    told.members - told.idle AS active,
    read / nullif(told.members - told.idle, 0) AS each,
    written + behind * 1000 / {DRAIN_MS} AS to_drain
  FROM sums JOIN share USING (cluster, group_id) WHERE known = partitions AND told.members > 0
),
wanted AS (
  SELECT
    *,
    CASE WHEN written = 0 THEN 0 WHEN each > 0 THEN ceil(written / each) END::BIGINT AS needed,
    CASE WHEN to_drain = 0 THEN 0 WHEN each > 0 THEN ceil(to_drain / each) END::BIGINT AS needed_to_drain
  FROM known
),
most AS (SELECT *, greatest(coalesce(needed, 0), coalesce(needed_to_drain, 0)) AS most FROM wanted)
SELECT
  cluster,
  group_id AS "group",
  active AS reading,
  told.idle AS idle,
  partitions,
  needed,
  needed_to_drain AS "needed for an hour",
  greatest(0, least(most, partitions) - active) AS "to add",
  CASE WHEN most > partitions THEN 'more than partitions' WHEN behind = 0 THEN 'not behind: at most' END AS note,
  behind AS "records behind",
  read,
  written
FROM most
ORDER BY "to add" DESC, most > partitions DESC, behind DESC, idle DESC, cluster, "group"
LIMIT {ROWS_MAX}"""
