"""The state that a decoded log says its groups are in, folded row by row: to be compared with the broker's answers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from muster_pipeline.decode.consumer_groups import decode_consumer_groups
from muster_pipeline.decode.generations import decode_generations
from muster_pipeline.decode.origin import Damage
from muster_pipeline.decode.segment import Account
from muster_pipeline.schemas.records import RECORDS
from muster_pipeline.sources.folder import list_segments

from tests.pipeline.golden.kafka_view import Member

Key = tuple[str, str, int]
Parts = frozenset[tuple[str, int]]


KIP_848_TYPES = (3, 4, 5, 6, 7, 8, 16)


class LogView:
    """Fold of all partitions of one log. `names`: topic id -> topic, for KIP-848 records."""

    def __init__(self, names: dict[str, str] | None = None) -> None:
        self.names = names or {}
        self.offsets: dict[Key, int] = {}
        self.generations: dict[str, dict[str, Any]] = {}
        """Last completed or empty generation of each classic group."""
        self.own: dict[str, dict[str, Any]] = {}
        self.epochs: dict[str, dict[str, int]] = {}
        self.members: dict[tuple[str, str], dict[str, Any]] = {}
        self.damages: list[Any] = []
        self.key_types: set[int] = set()
        self.transactions: dict[int, int] = {}
        """Markers by kind."""

    def add(self, records: pa.Table) -> None:
        """One log partition, whole and in order."""
        self._commits(records.to_pylist())
        classic, consumer = decode_generations(records), decode_consumer_groups(records)
        self.damages += [*classic.damages, *consumer.damages]
        for row in classic.rows.to_pylist():
            place = self.generations if row["record_type"] == 2 else self.own
            place[row["group_id"]] = row
            if row["stage"] in ("deleted", "settled"):
                del place[row["group_id"]]
        for row in consumer.rows.to_pylist():
            self._consumer(row)

    def _commits(self, rows: Iterable[dict[str, Any]]) -> None:
        """Committed offsets; what a transaction wrote counts from its marker on, and not at all if it aborted.

        Between a plain commit and a transaction's, the later record wins, not the later marker.
        """
        pending: dict[int, list[dict[str, Any]]] = {}
        written: dict[Key, int] = {}
        for row in rows:
            if row["is_control"]:
                kind = row["control_type"]
                self.transactions[kind] = self.transactions.get(kind, 0) + 1
                for one in pending.pop(row["producer_id"], []) if kind in (0, 1) else []:
                    if kind == 1:
                        self._put(one, written)
                continue
            self.key_types.add(row["key_type"])
            if row["key_type"] not in (0, 1):
                continue
            if row["is_transactional"] and not row["is_tombstone"]:
                pending.setdefault(row["producer_id"], []).append(row)
            else:
                self._put(row, written)

    def _put(self, row: dict[str, Any], written: dict[Key, int]) -> None:
        key = (row["group_id"], row["topic"], row["partition"])
        if written.get(key, -1) > row["log_offset"]:
            return
        written[key] = row["log_offset"]
        if row["is_tombstone"]:
            self.offsets.pop(key, None)
        else:
            self.offsets[key] = row["committed_offset"]

    def _consumer(self, row: dict[str, Any]) -> None:
        """Share groups and those of Kafka Streams are left out: the tool for consumer groups does not show them."""
        group, kind = row["group_id"], row["kind"]
        if row["record_type"] not in KIP_848_TYPES:
            return
        if kind in ("member", "target_assignment", "current_assignment"):
            held = self.members.setdefault((group, row["member_id"]), {})
            if row["is_tombstone"]:
                held.pop(kind, None)
            else:
                held[kind] = row
            if not held:
                del self.members[group, row["member_id"]]
        elif kind in ("group_epoch", "target_epoch"):
            held = self.epochs.setdefault(group, {})
            if row["is_tombstone"]:
                held.pop(kind, None)
            else:
                held[kind] = row[kind]
            if not held:
                del self.epochs[group]

    def groups(self) -> set[str]:
        """Groups that exist."""
        return {group for group, _, _ in self.offsets} | set(self.generations) | set(self.epochs) | set(self.own)

    def all_members(self) -> dict[tuple[str, str], Member]:
        """Members of completed generations and of KIP-848 groups, as the tool shows them."""
        found = {}
        for group, row in self.generations.items():
            for one in row["members"]:
                found[group, one["member_id"]] = Member(
                    group=group,
                    member_id=one["member_id"],
                    instance_id=one["instance_id"],
                    client_id=one["client_id"],
                    host=one["client_host"],
                    epoch=None,
                    assigned=frozenset((part["topic"], n) for part in one["assigned"] for n in part["partitions"]),
                    target=None,
                )
        for (group, member_id), held in self.members.items():
            about, current = held["member"], held["current_assignment"]
            found[group, member_id] = Member(
                group=group,
                member_id=member_id,
                instance_id=about["instance_id"],
                client_id=about["client_id"],
                host=about["client_host"],
                epoch=current["member_epoch"],
                assigned=self._parts(current["assigned"]),
                target=self._parts(held["target_assignment"]["target"]),
            )
        return found

    def _parts(self, entries: list[dict[str, Any]]) -> Parts:
        return frozenset((self.names[one["topic_id"]], n) for one in entries for n in one["partitions"])


def check_states(view: LogView, said: Mapping[str, tuple[str, str | None, int | None, int | None, int]]) -> None:
    """State, assignor, epochs and number of members of each group are those that the tool said."""
    members = view.all_members()
    for group, (state, assignor, epoch, target, count) in said.items():
        assert count == sum(of == group for of, _ in members), group
        if group in view.epochs:
            assert view.epochs[group] == {"group_epoch": epoch, "target_epoch": target}, group
        elif group in view.generations:
            row = view.generations[group]
            assert (row["stage"], row["protocol"]) == ("completed" if state == "Stable" else "empty", assignor), group
        else:
            assert (state, count) == ("Empty", 0), group


def read(folder: Path, names: dict[str, str]) -> tuple[LogView, list[Account], list[Damage]]:
    """(fold of all partitions, account of every file, damage) of a folder's log."""
    view = LogView(names)
    accounts: list[Account] = []
    damages: list[Damage] = []
    for segments in list_segments(str(folder)).values():
        batches = []
        for segment in segments:
            pieces = list(segment.pieces("golden"))
            batches += [piece.records for piece in pieces if piece.records is not None]
            damages += [damage for piece in pieces for damage in piece.damages]
            accounts.append(pieces[-1].account)
        view.add(pa.Table.from_batches(batches, RECORDS))
    return view, accounts, damages
