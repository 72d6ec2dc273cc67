"""A community connector in Kafka Connect: Debezium from Maven Central follows a PostgreSQL, exactly once.

Problem: connectors of others ask for what Connect's own do not: a topic made by the connector's rules and compacted,
tombstones, transactions around polls of any size, a place in the source that must never be behind or ahead of what is
in the topic. Mechanism: rows are there before the connector (a snapshot), then transactions change several at a time,
some rolled back, while a worker with its task and a broker are killed and the other worker is restarted. Each row has a
version that only grows. The oracle is the writer's own book: of each row, every committed change once and in order, a
tombstone after each deletion, and nothing that was rolled back. At last the topic is cleaned, and its last values are
the table as PostgreSQL tells it.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from tests.applications.clusters import cluster_for
from tests.applications.connect import SETTLES_S_MAX, Workers, connect, plugin_path
from tests.applications.postgres import Postgres, postgres
from tests.applications.reading import read_committed
from tests.cluster import wait_until

pytestmark = [pytest.mark.applications, pytest.mark.timeout(3_000)]

DEBEZIUM = "io.debezium:debezium-connector-postgres:3.6.1.Final"
CONNECTOR, TOPIC = "accounts", "bank.public.accounts"
ROWS, BEFORE, PARTITIONS = 40, 20, 3
JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {
    "key.converter": JSON,
    "value.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
Change = tuple[str, int]
"""What Debezium calls the operation (r: it stood in the snapshot, c, u, d), and the version; or a tombstone."""
TOMBSTONE = ("tombstone", 0)
Changes = dict[int, list[Change]]


class Ledger:
    """A table of which every change is known."""

    def __init__(self, database: Postgres, seed: int) -> None:
        self.database = database
        self.changes: Changes = defaultdict(list)
        self.transactions = 0
        self._rand = Random(seed)
        self._present: set[int] = set(range(BEFORE))
        self._version = Counter(self._present)
        database.run("CREATE TABLE accounts (id int PRIMARY KEY, version int NOT NULL, note text)")
        for row in self._present:
            database.run(f"INSERT INTO accounts VALUES ({row}, 1, 'note')")
            self.changes[row].append(("r", 1))

    def transaction(self) -> None:
        """Changes one to six rows; every fifth is rolled back."""
        present, version = set(self._present), self._version.copy()
        sql, changed = ["BEGIN"], []
        for row in self._rand.choices(range(ROWS), k=self._rand.randint(1, 6)):
            if row in present and self._rand.random() < 0.3:
                sql.append(f"DELETE FROM accounts WHERE id = {row}")
                present.discard(row)
                changed += [(row, ("d", 0)), (row, TOMBSTONE)]
                continue
            version[row] += 1
            note = "n" * self._rand.randrange(200)
            if row in present:
                sql.append(f"UPDATE accounts SET version = {version[row]}, note = '{note}' WHERE id = {row}")
            else:
                sql.append(f"INSERT INTO accounts VALUES ({row}, {version[row]}, '{note}')")
            changed.append((row, ("u" if row in present else "c", version[row])))
            present.add(row)
        commits = self._rand.random() < 0.8
        self.database.run(";\n".join([*sql, "COMMIT;" if commits else "ROLLBACK;"]))
        self.transactions += 1
        if commits:
            self._present, self._version = present, version
            for row, change in changed:
                self.changes[row].append(change)

    @contextmanager
    def growing(self) -> Iterator[None]:
        ended = Event()

        def grow() -> None:
            while not ended.wait(0.1):
                self.transaction()

        with ThreadPoolExecutor(1) as pool:
            grown = pool.submit(grow)
            try:
                yield
            finally:
                ended.set()
            grown.result()

    def table(self) -> dict[int, int]:
        """Row to version, as the database tells."""
        return {int(row): int(version) for row, version in self.database.run("SELECT id, version FROM accounts")}


def connector(database: Postgres) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": "postgres",
        "database.password": "trusted",
        "database.dbname": "postgres",
        "topic.prefix": "bank",
        "table.include.list": "public.accounts",
        "plugin.name": "pgoutput",
        "slot.name": "bank",
        "publication.autocreate.mode": "filtered",
        "exactly.once.support": "required",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": str(PARTITIONS),
        "topic.creation.default.cleanup.policy": "compact",
    }


def told(bootstrap: str) -> Changes:
    """Of each row, what the topic tells, in its order."""
    found: Changes = defaultdict(list)
    for _, _, key, value in read_committed(bootstrap, TOPIC):
        found[json.loads(key)["id"]].append(change_of(value))
    return found


def change_of(value: bytes) -> Change:
    if not value:
        return TOMBSTONE
    event = json.loads(value)
    return str(event["op"]), int(event["after"]["version"]) if event["after"] else 0


def last_versions(found: Changes) -> dict[int, int]:
    return {row: changes[-1][1] for row, changes in found.items() if changes[-1] != TOMBSTONE}


def difference(found: Changes, wanted: Changes) -> str:
    """ "" if they are equal, else the first change of each row that is not as it should be."""
    wrong = []
    for row in sorted(found.keys() | wanted.keys()):
        have, want = found.get(row, []), wanted.get(row, [])
        if have != want:
            at = next(
                (i for i, (a, b) in enumerate(zip(have, want, strict=False)) if a != b), min(len(have), len(want))
            )
            wrong.append(f"row {row}, change {at}: {have[at : at + 4]}, not {want[at : at + 4]}")
    return "; ".join(wrong)


def wait_told(bootstrap: str, ledger: Ledger, workers: Workers) -> None:
    def all_told() -> bool:
        found = told(bootstrap)
        return sum(map(len, found.values())) >= sum(map(len, ledger.changes.values()))

    try:
        wait_until("all changes are in the topic", all_told, SETTLES_S_MAX, 1)
    except AssertionError as error:
        wrong = difference(told(bootstrap), ledger.changes)
        raise AssertionError(f"{error}: {wrong}\n{workers.told()}\n{ledger.database.told()}") from None
    wrong = difference(told(bootstrap), ledger.changes)
    assert wrong == "", f"after {ledger.transactions} transactions: {wrong}\n{workers.told()}\n{ledger.database.told()}"


def test_changes_of_a_database_are_told_once_and_in_order(tmp_path: Path) -> None:
    seed = Random().randrange(2**32)
    try:
        with cluster_for(tmp_path / "data", log_cleaner_backoff_ms="1000") as cluster, postgres() as database:
            worker: dict[str, str] = {**WORKER, "plugin.path": plugin_path(tmp_path, "debezium", DEBEZIUM)}
            ledger, bootstrap = Ledger(database, seed), cluster.bootstrap
            with connect(tmp_path, bootstrap, worker, workers=2) as workers:
                workers.ask("PUT", f"/connectors/{CONNECTOR}/config", connector(database))
                workers.wait_running((CONNECTOR,))
                with ledger.growing():
                    wait_until("changes are told", lambda: has(bootstrap, 100), SETTLES_S_MAX, 1)
                    victim = next(one for one in workers.all if one.id == workers.worker_of(CONNECTOR))
                    victim.kill()
                    workers.wait_running((CONNECTOR,))
                    victim.start()
                    cluster.kill(1)
                    victim.wait_ready()
                    cluster.start_replica(1)
                    workers.wait_running((CONNECTOR,))
                    other = next(one for one in workers.all if one.id == workers.worker_of(CONNECTOR))
                    other.stop()
                    other.start()
                    other.wait_ready()
                    workers.wait_running((CONNECTOR,))
                ledger.transaction()
                wait_told(bootstrap, ledger, workers)
                cleaned_topic_is_the_table(bootstrap, ledger, workers)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


def has(bootstrap: str, changes: int) -> bool:
    return sum(map(len, told(bootstrap).values())) >= changes


def cleaned_topic_is_the_table(bootstrap: str, ledger: Ledger, workers: Workers) -> None:
    """Segments of a second, and further changes until older ones of the topic are gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    policy = admin.describe_configs([resource])[resource].result(20)["cleanup.policy"]
    assert (policy.value, policy.source) == ("compact", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    for name, value in {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}.items():
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    admin.incremental_alter_configs([resource])[resource].result(20)
    left: Any = None

    def cleaned() -> bool:
        nonlocal left
        ledger.transaction()
        left = told(bootstrap)
        return sum(map(len, left.values())) < sum(map(len, ledger.changes.values())) * 2 // 3

    wait_until("the topic is cleaned", cleaned, SETTLES_S_MAX, 1)

    def told_all() -> bool:
        return last_versions(told(bootstrap)) == ledger.table()

    try:
        wait_until("the last values are the table", told_all, SETTLES_S_MAX, 1)
    except AssertionError as error:
        found, wanted = last_versions(told(bootstrap)), ledger.table()
        raise AssertionError(f"{error}: {found}, not {wanted}\n{workers.told()}") from None
