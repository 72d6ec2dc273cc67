"""Every row, in the order of running and of docs/benchmarks.md: quick ones first."""

from bench.errors import BenchError
from bench.row import Row
from bench.rows import (
    beside_kafka,
    beside_producer,
    checkpoint,
    compaction,
    create_topics,
    event_log,
    growth,
    idle,
    limits,
    load,
    longest_turn,
    million,
    outage,
    rebalance,
    redis,
    replace,
    snapshot_install,
    tls,
    transactions,
    wal_full,
    wal_rotation,
)

ROWS: tuple[Row, ...] = (
    *limits.ROWS,
    *wal_rotation.ROWS,
    *event_log.ROWS,
    *compaction.ROWS,
    *load.ROWS,
    *transactions.ROWS,
    *rebalance.ROWS,
    *longest_turn.ROWS,
    *outage.ROWS,
    *create_topics.ROWS,
    *million.ROWS,
    *idle.ROWS,
    *growth.ROWS,
    *checkpoint.ROWS,
    *wal_full.ROWS,
    *snapshot_install.ROWS,
    *replace.ROWS,
    *beside_producer.ROWS,
    *redis.ROWS,
    *beside_kafka.ROWS,
    *tls.ROWS,
)


def select(words: list[str]) -> list[Row]:
    """Rows by name or common prefix; `all`: every one; no words: the quick ones. Raises BenchError for unknown
    names."""
    if not words:
        return [row for row in ROWS if row.quick]
    chosen = set()
    for word in words:
        found = {row.name for row in ROWS if word in ("all", row.name) or row.name.startswith(word + "_")}
        if not found:
            raise BenchError(f"no such row: {word} (there are: all, {', '.join(row.name for row in ROWS)})")
        chosen |= found
    return [row for row in ROWS if row.name in chosen]
