"""What DuckDB makes of bronze `records` (and of silver, where a value is bytes that SQL cannot read), table by table.

`commits`, `commit_rate`, `lag` and `stalls` come from `records` and `log_end_offsets`; `expiry`, `rebalances` and
`balance` of classic groups from silver besides. Each statement stands for the whole table but the columns named in
LEFT_OUT.
`generations`, `memberships`, `assignments` and all of KIP-848 groups have no statement: their values are nested bytes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

STALL_MIN_MS: Final = 300_000
RETENTION_MS: Final = 604_800_000
LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {
    "balance": frozenset({"is_balanced"}),
    "rebalances": frozenset(
        {
            *("trigger", "evidence", "started_at_ms", "started_log_offset", "sync_ms"),
            *("duration_ms", "duration_class", "duration_min_ms", "duration_max_ms"),
        }
    ),
}
KEY: Final = "log_partition, group_id, topic, partition"

VIEWS: Final = f"""
CREATE TABLE clocked AS SELECT records.*, clock_ms FROM records JOIN clock USING (log_partition, log_offset);
CREATE TABLE c AS SELECT * FROM clocked WHERE key_type IN (0, 1);
CREATE TABLE firsts AS SELECT {KEY}, min(log_offset) AS first_at FROM c GROUP BY ALL;
CREATE TABLE held AS
  WITH markers AS (SELECT log_partition, producer_id, log_offset AS marker, control_type AS verdict
                   FROM clocked WHERE is_control AND control_type IN (0, 1)),
       removals AS (SELECT {KEY}, log_offset AS removed FROM c WHERE is_tombstone),
       txn AS (SELECT {KEY}, producer_id, log_offset,
                 lead(log_offset) OVER (PARTITION BY {KEY}, producer_id ORDER BY log_offset) AS replaced
               FROM c WHERE NOT is_tombstone AND producer_id >= 0)
  SELECT txn.*, marker, verdict, removed, least(marker, replaced, removed) AS settled
  FROM txn
  ASOF LEFT JOIN markers ON txn.log_partition = markers.log_partition AND txn.producer_id = markers.producer_id
    AND txn.log_offset < markers.marker
  ASOF LEFT JOIN removals ON txn.log_partition = removals.log_partition AND txn.group_id = removals.group_id
    AND txn.topic = removals.topic AND txn.partition = removals.partition AND txn.log_offset < removals.removed;
CREATE TABLE ended AS SELECT * FROM held WHERE settled = marker AND verdict = 1;
CREATE TABLE stored AS
  SELECT {KEY}, log_offset AS stored_at, log_offset AS since FROM c WHERE NOT is_tombstone AND producer_id < 0
  UNION ALL SELECT {KEY}, log_offset, marker FROM ended;
CREATE TABLE beaten AS
  SELECT DISTINCT ended.log_partition, ended.log_offset FROM ended JOIN stored USING ({KEY})
  WHERE stored_at > ended.log_offset AND since < ended.marker;
CREATE TABLE fates AS
  SELECT c.*, CASE
      WHEN is_tombstone THEN 'tombstone' WHEN c.producer_id < 0 THEN 'committed' WHEN settled IS NULL THEN 'txn_open'
      WHEN settled = replaced THEN 'txn_replaced' WHEN settled = removed THEN 'txn_removed'
      WHEN verdict = 0 THEN 'txn_aborted' WHEN beaten.log_offset IS NOT NULL THEN 'txn_superseded'
      ELSE 'txn_committed' END AS outcome,
    CASE WHEN is_tombstone OR c.producer_id < 0 THEN c.log_offset ELSE settled END AS resolved_at_offset
  FROM c LEFT JOIN held USING (log_partition, log_offset) LEFT JOIN beaten USING (log_partition, log_offset);
CREATE TABLE effects AS
  SELECT f.log_partition, f.group_id, f.topic, f.partition, f.log_offset, f.committed_offset AS new, first_at,
    f.commit_timestamp_ms, f.expire_timestamp_ms, resolved_at_offset AS done_at, w.clock_ms,
    w.clock_ms // 60000 * 60000 AS minute_ms
  FROM fates f JOIN firsts USING ({KEY})
    JOIN clocked w ON w.log_partition = f.log_partition AND w.log_offset = resolved_at_offset
  WHERE outcome IN ('committed', 'txn_committed', 'tombstone');
CREATE TABLE steps AS
  SELECT *, lag(new) OVER k AS before, lag(clock_ms) OVER k AS before_ms
  FROM effects WINDOW k AS (PARTITION BY {KEY} ORDER BY done_at, log_offset);
CREATE TABLE points AS SELECT *, lag(end_offset) OVER p AS end_before, lag(at_ms) OVER p AS at_before,
    lead(at_ms) OVER p AS at_after, lead(end_offset) OVER p AS end_after,
    max(end_offset) OVER (p ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest_before
  FROM (SELECT topic, partition, sample_timestamp_ms AS at_ms, end_offset, start_offset FROM log_end_offsets)
  WINDOW p AS (PARTITION BY topic, partition ORDER BY at_ms);
"""

COMMITS: Final = """
SELECT *, CASE WHEN outcome IN ('committed', 'txn_committed') THEN resolved_at_offset END AS visible_at_offset
FROM fates ORDER BY log_partition, resolved_at_offset NULLS LAST, log_offset
"""

COMMIT_RATE: Final = f"""
WITH missing AS (
  SELECT log_partition, clock_ms // 60000 * 60000 AS minute_ms, sum(gap)::BIGINT AS log_offsets_missing
  FROM (SELECT *, log_offset - coalesce(lag(log_offset) OVER (PARTITION BY log_partition ORDER BY log_offset) + 1,
                                        log_offset) AS gap FROM clocked)
  GROUP BY ALL)
SELECT '{{cluster}}' AS cluster, {KEY}, minute_ms, count(new) AS commits,
  count(*) FILTER (new > before) AS advancing_commits, count(*) FILTER (new = before) AS idle_commits,
  count(*) FILTER (new < before) AS rewinds, count(*) FILTER (new IS NULL) AS removals,
  coalesce(sum(new - before) FILTER (new > before), 0)::BIGINT AS messages,
  coalesce(sum(before - new) FILTER (new < before), 0)::BIGINT AS messages_rewound,
  max(clock_ms - before_ms) FILTER (new IS NOT NULL AND before IS NOT NULL) AS interval_max_ms,
  last(new ORDER BY done_at, log_offset) AS last_committed_offset, max(done_at) AS last_log_offset,
  any_value(log_offsets_missing) AS log_offsets_missing
FROM steps JOIN missing USING (log_partition, minute_ms)
GROUP BY {KEY}, minute_ms, first_at ORDER BY log_partition, minute_ms, first_at
"""

STALLS: Final = f"""
WITH ends AS (SELECT log_partition, max(clock_ms) AS end_ms FROM clocked GROUP BY ALL),
marked AS (SELECT *, new IS NULL OR before IS NULL OR new <> before AS is_move FROM steps),
runs AS (SELECT *, count(*) FILTER (is_move) OVER (PARTITION BY {KEY} ORDER BY done_at, log_offset) AS run FROM marked),
islands AS (
  SELECT {KEY}, first_at, run, count(*) - 1 AS idle_commits, min_by(new, done_at) AS committed_offset,
    min(clock_ms) AS started_at_ms, min(done_at) AS started_log_offset,
    last(log_offset ORDER BY done_at) FILTER (is_move) AS move_at, last(new ORDER BY done_at) AS moved_to
  FROM runs GROUP BY ALL),
pairs AS (
  SELECT *, lead(started_at_ms) OVER k AS ended_at_ms, lead(started_log_offset) OVER k AS ended_log_offset,
    lead(move_at) OVER k AS ended_by_record, lead(moved_to) OVER k AS next_offset, lead(run) OVER k AS next_run
  FROM islands WINDOW k AS (PARTITION BY {KEY} ORDER BY run)),
told AS (
  SELECT pairs.*, coalesce(ended_at_ms, end_ms) AS until_ms FROM pairs JOIN ends USING (log_partition)
  WHERE committed_offset IS NOT NULL AND coalesce(ended_at_ms, end_ms) - started_at_ms >= {STALL_MIN_MS})
SELECT '{{cluster}}' AS cluster, told.log_partition, group_id, told.topic, told.partition, started_at_ms, ended_at_ms,
  until_ms - started_at_ms AS duration_ms,
  CASE WHEN next_run IS NULL THEN 'log_end' WHEN next_offset IS NULL THEN 'removal'
       WHEN next_offset > committed_offset THEN 'advance' ELSE 'rewind' END AS ended_by,
  committed_offset, idle_commits,
  CASE WHEN end_offset > committed_offset THEN 'behind' WHEN at_ms >= started_at_ms THEN 'nothing_to_read'
       ELSE 'unknown' END AS evidence,
  started_log_offset, ended_log_offset
FROM told ASOF LEFT JOIN points ON told.topic = points.topic AND told.partition = points.partition
  AND told.until_ms >= points.at_ms
ORDER BY log_partition, ended_log_offset NULLS LAST, ended_by_record, first_at
"""

LAG: Final = f"""
WITH sampled AS (SELECT topic, partition, max(at_ms) AS at_ms FROM points GROUP BY topic, partition, at_ms // 60000),
states AS (SELECT {KEY}, first_at, clock_ms, last(new ORDER BY done_at, log_offset) AS new FROM effects GROUP BY ALL),
asked AS (SELECT firsts.*, at_ms FROM firsts JOIN sampled USING (topic, partition)),
told AS (
  SELECT asked.*, states.new FROM asked ASOF JOIN states
    ON asked.log_partition = states.log_partition AND asked.group_id = states.group_id
    AND asked.topic = states.topic AND asked.partition = states.partition AND asked.at_ms >= states.clock_ms
  WHERE states.new IS NOT NULL),
lasts AS (SELECT {KEY}, first_at, max(clock_ms) AS at_ms, last(new ORDER BY done_at, log_offset) AS new
          FROM effects GROUP BY {KEY}, first_at, minute_ms),
chosen AS (
  SELECT {KEY}, first_at, at_ms, new FROM told
  UNION ALL SELECT {KEY}, first_at, at_ms, new FROM lasts WHERE new IS NOT NULL AND NOT EXISTS (
    FROM told WHERE told.log_partition = lasts.log_partition AND told.group_id = lasts.group_id
      AND told.topic = lasts.topic AND told.partition = lasts.partition
      AND told.at_ms // 60000 = lasts.at_ms // 60000)),
near AS (
  SELECT chosen.*, p.at_ms AS t0, end_offset AS e0, start_offset, at_after AS t1, end_after AS e1,
    exists(FROM points q WHERE q.topic = chosen.topic AND q.partition = chosen.partition
      AND q.at_ms <= chosen.at_ms + 86400000) AS is_sampled
  FROM chosen ASOF LEFT JOIN points p ON chosen.topic = p.topic AND chosen.partition = p.partition
    AND chosen.at_ms >= p.at_ms),
visible AS (SELECT * REPLACE (CASE WHEN t1 <= at_ms + 86400000 THEN t1 END AS t1) FROM near),
drawn AS (SELECT *, e0 + floor((e1 - e0) * ((at_ms - t0) / (t1 - t0)))::BIGINT AS line FROM visible),
reached AS (
  SELECT DISTINCT log_partition, group_id, topic, partition, d.at_ms FROM drawn d JOIN points q USING (topic, partition)
  WHERE e0 < new AND end_offset >= new AND q.at_ms > d.at_ms AND q.at_ms <= d.at_ms + 600000),
judged AS (
  SELECT *, CASE
    WHEN NOT is_sampled THEN 'no_samples' WHEN t0 IS NULL THEN 'before_first_sample'
    WHEN t0 = at_ms AND e0 >= new THEN 'sampled'
    WHEN t0 < at_ms AND t1 IS NULL THEN 'after_last_sample' WHEN t0 < at_ms AND e1 < e0 THEN 'head_went_back'
    WHEN t0 < at_ms AND (line >= new OR e1 >= new) THEN 'between_samples'
    WHEN reached.at_ms IS NOT NULL THEN 'answer_older_than_commit' ELSE 'committed_past_end' END AS detail
  FROM drawn LEFT JOIN reached USING (log_partition, group_id, topic, partition, at_ms)),
valued AS (
  SELECT *, CASE detail WHEN 'sampled' THEN e0 WHEN 'after_last_sample' THEN greatest(e0, new)
      WHEN 'between_samples' THEN greatest(line, new) WHEN 'answer_older_than_commit' THEN new END AS log_end_offset,
    CASE WHEN detail = 'sampled' THEN 'exact' WHEN detail = 'between_samples' AND line >= new THEN 'interpolated'
      WHEN detail IN ('after_last_sample', 'between_samples', 'answer_older_than_commit') THEN 'lower_bound'
      ELSE 'unknown' END AS quality
  FROM judged),
records_of_end AS (SELECT * FROM points WHERE highest_before IS NULL OR end_offset > highest_before),
timed AS (
  SELECT valued.*, h.at_ms AS high_ms, h.at_before AS low_ms, h.highest_before AS low_end, h.end_offset AS high_end
  FROM valued ASOF LEFT JOIN records_of_end h ON valued.topic = h.topic AND valued.partition = h.partition
    AND valued.new < h.end_offset)
SELECT '{{cluster}}' AS cluster, {KEY}, at_ms // 60000 * 60000 AS minute_ms, at_ms, new AS committed_offset,
  log_end_offset, log_end_offset - new AS lag, quality, detail,
  CASE WHEN log_end_offset = new THEN 0
       WHEN log_end_offset IS NOT NULL AND low_ms IS NULL AND high_ms <= at_ms THEN at_ms - high_ms
       WHEN log_end_offset IS NOT NULL AND low_ms IS NOT NULL THEN greatest(0, at_ms - (low_ms +
         floor((high_ms - low_ms) * ((new - low_end) / (high_end - low_end)))::BIGINT)) END AS time_lag_ms,
  CASE WHEN log_end_offset = new THEN quality
       WHEN log_end_offset IS NOT NULL AND low_ms IS NULL AND high_ms <= at_ms THEN 'lower_bound'
       WHEN log_end_offset IS NOT NULL AND low_ms IS NOT NULL THEN 'interpolated' ELSE 'unknown' END
    AS time_lag_quality,
  start_offset AS log_start_offset, new < start_offset AS is_below_start
FROM timed ORDER BY log_partition, minute_ms, first_at
"""

EXPIRY: Final = f"""
WITH ends AS (
  SELECT {KEY}, first_at, last(new ORDER BY done_at, log_offset) AS committed_offset,
    last(commit_timestamp_ms ORDER BY done_at, log_offset) AS commit_timestamp_ms,
    last(expire_timestamp_ms ORDER BY done_at, log_offset) AS expire_ms
  FROM effects GROUP BY ALL),
pending AS (SELECT DISTINCT {KEY}, true AS is_pending FROM fates WHERE outcome = 'txn_open'),
deaths AS (SELECT log_partition, group_id, group_kind, max(log_offset) AS died FROM generations
           WHERE stage = 'deleted' GROUP BY ALL),
living AS (SELECT g.* FROM generations g LEFT JOIN deaths USING (log_partition, group_id, group_kind)
           WHERE (died IS NULL OR g.log_offset > died) AND stage <> 'settled'),
latest AS (
  SELECT log_partition, group_id, last(stage ORDER BY log_offset) AS stage,
    last(protocol_type ORDER BY log_offset) AS protocol_type, last(state_timestamp_ms ORDER BY log_offset) AS since_ms,
    max(log_offset) FILTER (stage IN ('completed', 'empty')) AS view_at
  FROM living WHERE group_kind = 'classic' GROUP BY ALL),
classic AS (
  SELECT latest.*, coalesce(list(DISTINCT topic) FILTER (topic IS NOT NULL), []) AS topics
  FROM latest LEFT JOIN (SELECT log_partition, log_offset, unnest(subscribed_topics) AS topic FROM memberships) m
    ON m.log_partition = latest.log_partition AND m.log_offset = view_at
  GROUP BY ALL),
signs AS (
  SELECT log_partition, group_id, log_offset FROM generations WHERE group_kind = 'consumer' AND stage <> 'deleted'
  UNION ALL SELECT log_partition, group_id, log_offset FROM memberships WHERE group_kind = 'consumer'
  UNION ALL SELECT log_partition, group_id, log_offset FROM assignments WHERE group_kind = 'consumer'),
consumers AS (
  SELECT DISTINCT log_partition, group_id FROM signs
    LEFT JOIN (FROM deaths WHERE group_kind = 'consumer') USING (log_partition, group_id)
  WHERE died IS NULL OR log_offset > died),
present AS (
  SELECT log_partition, group_id, member_id, last(stage ORDER BY log_offset) AS stage,
    last(subscribed_topics ORDER BY log_offset) AS topics
  FROM memberships m WHERE group_kind = 'consumer' GROUP BY ALL HAVING last(stage ORDER BY log_offset) = 'joined'),
consumer AS (
  SELECT consumers.*, count(member_id) AS members,
    coalesce(flatten(list(topics) FILTER (topics IS NOT NULL)), []) AS topics
  FROM consumers LEFT JOIN present USING (log_partition, group_id) GROUP BY ALL),
now AS (
  SELECT ends.*, coalesce(is_pending, false) AS is_pending,
    CASE WHEN a.group_id IS NOT NULL THEN 'classic' WHEN b.group_id IS NOT NULL THEN 'consumer' ELSE 'simple' END
      AS group_kind,
    CASE WHEN a.group_id IS NULL AND b.group_id IS NULL THEN 'simple'
         WHEN a.group_id IS NULL THEN if(members > 0, 'stable', 'empty')
         ELSE CASE a.stage WHEN 'rebalance' THEN 'preparing' WHEN 'candidate' THEN 'completing'
                WHEN 'completed' THEN 'stable' ELSE 'empty' END END AS group_state,
    if(a.group_id IS NULL, 'consumer', a.protocol_type) AS protocol_type, a.since_ms,
    list_contains(if(a.group_id IS NULL, b.topics, a.topics), topic) AS is_subscribed
  FROM ends LEFT JOIN pending USING ({KEY}) LEFT JOIN classic a USING (log_partition, group_id)
    LEFT JOIN consumer b USING (log_partition, group_id)
  WHERE committed_offset IS NOT NULL),
ruled AS (
  SELECT *, CASE WHEN is_pending THEN 'pending_transaction'
      WHEN group_kind = 'simple' OR protocol_type IS NULL THEN 'simple_group'
      WHEN group_kind = 'classic' AND group_state = 'empty' THEN 'empty_group'
      WHEN group_kind = 'classic' AND group_state <> 'stable' THEN 'rebalancing'
      WHEN is_subscribed THEN 'subscribed' ELSE 'not_subscribed' END AS plain
  FROM now),
named AS (
  SELECT *, CASE WHEN plain IN ('simple_group', 'empty_group', 'not_subscribed') AND expire_ms IS NOT NULL
    THEN 'explicit' ELSE plain END AS rule FROM ruled),
based AS (
  SELECT *, CASE WHEN rule = 'empty_group' THEN coalesce(since_ms, commit_timestamp_ms)
                 WHEN rule IN ('simple_group', 'not_subscribed') THEN commit_timestamp_ms END AS base_timestamp_ms
  FROM named)
SELECT '{{cluster}}' AS cluster, {KEY}, committed_offset, commit_timestamp_ms, group_kind, group_state, rule,
  base_timestamp_ms, if(base_timestamp_ms IS NULL, NULL, {RETENTION_MS}) AS retention_ms,
  if(rule = 'explicit', expire_ms, base_timestamp_ms + {RETENTION_MS}) AS expires_at_ms
FROM based ORDER BY log_partition, first_at
"""

_TOLD: Final = """
WITH lives AS (
  SELECT *, count(*) FILTER (stage = 'deleted') OVER
    (PARTITION BY log_partition, group_id ORDER BY log_offset) AS life
  FROM generations WHERE group_kind = 'classic'),
views AS (
  SELECT l.log_partition, l.group_id, life, l.log_offset, l.append_timestamp_ms AS at_ms, l.generation, l.protocol,
    l.member_count, list_sort(list(m.member_id) FILTER (m.member_id IS NOT NULL)) AS ids,
    list_sort(list(coalesce(m.instance_id, m.member_id)) FILTER (m.member_id IS NOT NULL)) AS who
  FROM lives l LEFT JOIN memberships m USING (log_partition, log_offset)
  WHERE l.stage IN ('completed', 'empty') GROUP BY ALL),
pairs AS (
  SELECT *, lag(log_offset) OVER k AS old_at, lag(generation) OVER k AS old_generation, lag(protocol) OVER k AS old,
    lag(ids) OVER k AS old_ids, coalesce(lag(who) OVER k, []) AS old_who, lag(member_count) OVER k AS old_count
  FROM views WINDOW k AS (PARTITION BY log_partition, group_id, life ORDER BY log_offset)),
told AS (
  SELECT *, coalesce(old_generation = generation, false) AS is_avoided,
    coalesce(old_generation IN (generation, generation - 1), generation <= 1) AS follows,
    old_at IS NOT NULL OR generation <= 1 AS is_known
  FROM pairs WHERE NOT (old_at IS NULL AND member_count = 0 AND generation = 0)
    AND NOT coalesce(old_generation = generation AND old_ids IS NOT DISTINCT FROM ids, false)),
owned AS (SELECT log_partition, log_offset, topic, partition, coalesce(instance_id, member_id) AS owner
          FROM assignments WHERE group_kind = 'classic'),
"""

REBALANCES: Final = f"""{_TOLD}
after AS (SELECT t.log_partition, t.log_offset, topic, partition, owner FROM told t
          JOIN owned o USING (log_partition, log_offset)),
before AS (SELECT t.log_partition, t.log_offset, topic, partition, owner FROM told t
           JOIN owned o ON o.log_partition = t.log_partition AND o.log_offset = t.old_at),
moves AS (
  SELECT log_partition, log_offset, count(*) FILTER (a.owner = b.owner) AS kept,
    count(*) FILTER (a.owner <> b.owner) AS moved, count(*) FILTER (b.owner IS NULL) AS gained,
    count(*) FILTER (a.owner IS NULL) AS lost
  FROM after a FULL JOIN before b USING (log_partition, log_offset, topic, partition) GROUP BY ALL)
SELECT '{{cluster}}' AS cluster, log_partition, group_id, 'classic' AS group_kind, at_ms AS ended_at_ms,
  log_offset AS ended_log_offset, old_generation AS generation_from, generation AS generation_to,
  true AS is_completed, is_avoided, follows AS history_complete, old AS protocol_from, protocol AS protocol_to,
  if(is_known, coalesce(old_count, 0), NULL) AS members_before, member_count AS members_after,
  if(is_known, list_sort(list_filter(coalesce(who, []), x -> NOT list_contains(old_who, x))), []) AS members_in,
  list_sort(list_filter(old_who, x -> NOT list_contains(coalesce(who, []), x))) AS members_out,
  if(is_known, coalesce(kept, 0), NULL) AS partitions_kept, if(is_known, coalesce(moved, 0), NULL) AS partitions_moved,
  if(is_known, coalesce(gained, 0), NULL) AS partitions_gained, if(is_known, coalesce(lost, 0), NULL) AS partitions_lost
FROM told LEFT JOIN moves USING (log_partition, log_offset) ORDER BY log_partition, log_offset
"""

BALANCE: Final = f"""{_TOLD}
counts AS (
  SELECT t.log_partition, t.group_id, t.log_offset, t.generation, t.at_ms, m.member_id, count(a.partition) AS n
  FROM told t JOIN memberships m USING (log_partition, log_offset)
    LEFT JOIN assignments a USING (log_partition, log_offset, member_id)
  GROUP BY ALL),
scores AS (SELECT a.log_partition, a.log_offset, sum(abs(a.n - b.n))::BIGINT AS score FROM counts a JOIN counts b
           ON a.log_partition = b.log_partition AND a.log_offset = b.log_offset AND a.member_id < b.member_id
           GROUP BY ALL)
SELECT '{{cluster}}' AS cluster, log_partition, group_id, 'classic' AS group_kind, generation, at_ms, log_offset,
  count(*) AS members, count(*) FILTER (n = 0) AS members_idle, sum(n)::BIGINT AS partitions,
  min(n) AS partitions_min, max(n) AS partitions_max, coalesce(any_value(score), 0) AS balance_score,
  if(sum(n) > 0, max(n) * count(*) / sum(n), NULL) AS max_over_mean,
  if(sum(n) > 0, coalesce(any_value(score), 0) / (count(*) * sum(n)), NULL) AS gini
FROM counts LEFT JOIN scores USING (log_partition, log_offset)
GROUP BY log_partition, group_id, generation, at_ms, log_offset ORDER BY log_partition, log_offset
"""

STATEMENTS: Final[Mapping[str, str]] = {
    "commits": COMMITS,
    "commit_rate": COMMIT_RATE,
    "stalls": STALLS,
    "lag": LAG,
    "expiry": EXPIRY,
    "rebalances": REBALANCES,
    "balance": BALANCE,
}


class Warehouse:
    """A DuckDB that has read the product's files. `files`: table name to Parquet files; `clock`: (log_partition,
    log_offset, clock_ms) of every record, because a vote among records is no SQL."""

    def __init__(self, files: Mapping[str, Sequence[Path]], cluster: str, clock: pa.Table) -> None:
        self._connection = duckdb.connect(config={"threads": 2})
        self._cluster = cluster
        for name, paths in files.items():
            listed = ", ".join(f"'{path}'" for path in paths)
            self._connection.execute(f"CREATE VIEW {name} AS FROM read_parquet([{listed}], hive_partitioning = false)")
        self._connection.register("clock", clock)
        self._connection.execute(VIEWS)

    def table(self, name: str, schema: pa.Schema) -> pa.Table:
        """The statement's rows, with the columns and types of `schema`."""
        found = self._connection.sql(STATEMENTS[name].format(cluster=self._cluster)).to_arrow_table()
        return found.select(schema.names).cast(schema)

    def close(self) -> None:
        self._connection.close()
