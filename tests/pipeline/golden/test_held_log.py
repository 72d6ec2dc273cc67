"""The log that three real Kafka brokers wrote once (`make_held_log`) is read as Kafka's own tools told it then.

`make held-log`, in the nightly, has three brokers write another one, which is judged by the same tests.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from muster_pipeline import store
from muster_pipeline.decode.segment import Account
from muster_pipeline.job import stage
from muster_pipeline.job.build import begin, complete
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.store.place import place
from muster_pipeline.store.publish import writing
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.golden import kafka_view, make_held_log
from tests.pipeline.golden.life import ODD_NAMES
from tests.pipeline.golden.log_view import LogView, check_states, read
from tests.releases.packed import unpack

pytestmark = [pytest.mark.timeout(600)]

BYTES_MAX = 5_000_000
SETTINGS = FoldSettings(cluster="golden")
KINDS = {"by-pattern": "consumer", "next-gen": "consumer", "up": "consumer", "mixed": "consumer", "classic": "classic"}
KINDS |= {"static": "classic", "left": "classic", "down": "classic", "streams": "streams"}


@dataclass(frozen=True, kw_only=True)
class Held:
    """The log as decoded, its tables, and what the tools said."""

    view: LogView
    accounts: list[Account]
    damages: list[object]
    tables: Path
    said: dict[str, str]

    def rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """Of a table."""
        found: list[dict[str, Any]] = store.read(table, self.tables).select(list(columns)).to_pylist()
        return found


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    folder = tmp_path_factory.mktemp("held")
    source = make_held_log.HELD
    if os.environ.get("MUSTER_HELD") == "made":
        source = folder / "made.tar.xz"
        make_held_log.make(tmp_path_factory.mktemp("kafka"), source)
    assert source.stat().st_size <= BYTES_MAX
    unpack(source, folder)
    view, accounts, damages = read(folder / "log", json.loads((folder / "names.json").read_text()))
    where = place(folder / "tables")
    with writing(where, SETTINGS.cluster):
        begun = begin(SegmentInput.listed(str(folder / "log"), SETTINGS.cluster), where, SETTINGS)
        complete(begun, [stage.run(begun.task, number, stage.attempt_name(0)) for number in begun.task.input.sizes()])
    said = {path.stem: path.read_text() for path in (folder / "said").iterdir()}
    return Held(view=view, accounts=accounts, damages=list(damages), tables=folder / "tables", said=said)


def test_every_byte_is_decoded_and_every_type_of_record_is_there(held: Held) -> None:
    assert held.damages == held.view.damages == []
    assert all(account.bytes_decoded == account.bytes_in for account in held.accounts)
    assert held.view.key_types >= {1, 2, 3, 5, 6, 7, 8, 16}, "classic, KIP-848, a regular expression"
    assert held.view.key_types & {9, 10, 11, 12, 13, 14}, "a share group"
    assert held.view.key_types & {17, 18, 19, 20, 21, 22, 23}, "Kafka Streams"
    assert store.read("quarantine", held.tables).num_rows == 0


def test_committed_offsets_of_every_group_and_partition_are_kafkas(held: Held) -> None:
    expected = kafka_view.offsets(held.said["consumer-offsets"])
    assert len(expected) > 50
    ours = {
        (row["group_id"], row["topic"], row["partition"]): row["committed_offset"]
        for row in held.rows("expiry", "group_id", "topic", "partition", "committed_offset")
    }
    assert {key: offset for key, offset in ours.items() if key[0] != "streams"} == expected
    assert {key: offset for key, offset in held.view.offsets.items() if key[0] != "streams"} == expected
    streams = kafka_view.offsets(held.said["streams-offsets"])
    assert streams
    assert {key: offset for key, offset in ours.items() if key[0] == "streams"} == streams


def test_groups_have_the_kind_state_and_members_that_kafka_said(held: Held) -> None:
    states = kafka_view.states(held.said["consumer-state"])
    members = kafka_view.members(held.said["consumer-members"])
    assert held.view.all_members() == members
    rows = held.rows("expiry", "group_id", "group_kind", "group_state")
    kinds = {row["group_id"]: (row["group_kind"], row["group_state"]) for row in rows}
    for group, kind in KINDS.items():
        assert kinds[group][0] == kind, group
    check_states(held.view, states)
    for group in states.keys() - held.view.epochs.keys() - held.view.generations.keys():
        assert kinds[group] == ("simple", "simple")
    assert set(states) >= {*KINDS, *ODD_NAMES} - {"streams"}


@pytest.mark.parametrize(("kind", "group", "target"), [
    ("share", "shares", "ASSIGNMENT-EPOCH"), ("streams", "streams", "TARGET-ASSIGNMENT-EPOCH"),
])  # fmt: skip
def test_groups_of_shares_and_of_streams_are_those_that_kafka_said(
    held: Held, kind: str, group: str, target: str
) -> None:
    (state,) = kafka_view.rows(held.said[f"{kind}-state"])
    told = {
        row["stage"]: row["generation"]
        for row in held.rows("generations", "group_id", "group_kind", "stage", "generation")
        if (row["group_id"], row["group_kind"]) == (group, kind)
    }
    assert (state["GROUP"], state["STATE"]) == (group, "Stable")
    assert (told["epoch"], told["target"]) == (int(state["GROUP-EPOCH"]), int(state[target]))
    joined = {
        (row["member_id"], row["client_id"], row["client_host"])
        for row in held.rows("memberships", "group_id", "member_id", "client_id", "client_host")
        if row["group_id"] == group
    }
    (member,) = kafka_view.rows(held.said[f"{kind}-members"])
    (ours,) = joined
    assert ours[:2] == (member.get("CONSUMER-ID") or member["MEMBER"], member["CLIENT-ID"])


def test_protocols_changed_while_members_read(held: Held) -> None:
    """Up: generations, then epochs. Down: epochs, then generations. Mixed: a classic member in a KIP-848 group."""
    seen: dict[str, list[str]] = {}
    for row in sorted(
        held.rows("generations", "group_id", "log_offset", "group_kind"), key=lambda one: one["log_offset"]
    ):
        kinds = seen.setdefault(row["group_id"], [])
        if not kinds or kinds[-1] != row["group_kind"]:
            kinds.append(row["group_kind"])
    assert seen["up"] == ["classic", "consumer"]
    assert seen["down"] == ["consumer", "classic"]
    assert seen["mixed"] == ["classic", "consumer"]
    assert Counter(of for of, _ in held.view.all_members())["mixed"] == 2
    assert (seen["shares"], seen["streams"]) == (["share"], ["streams"])


def test_transactions_that_committed_aborted_and_are_open(held: Held) -> None:
    outcomes = Counter(row["outcome"] for row in held.rows("commits", "outcome"))
    assert {"txn_committed", "txn_aborted", "txn_open", "tombstone"} <= set(outcomes)
    assert 1_000 in held.view.offsets.values()
    assert not {1_001, 1_002} & set(held.view.offsets.values())


def test_what_one_broker_alone_had_acknowledged_is_gone(held: Held) -> None:
    """It was the only commit of its key: had it stayed, neither cleaning nor a later commit would have removed it."""
    commits = store.read("commits", held.tables)
    of_group = commits.filter(pc.equal(commits["group_id"], "unclean")).select(["partition", "committed_offset"])
    found = {(row["partition"], row["committed_offset"]) for row in of_group.to_pylist()}
    assert {(0, make_held_log.KEPT), (1, make_held_log.KEPT)} <= found
    assert make_held_log.LOST_PARTITION not in {partition for partition, _ in found}
    said = kafka_view.offsets(held.said["consumer-offsets"])
    assert {key[2] for key in said if key[0] == "unclean"} == {0, 1}
    records = store.read("records", held.tables)
    epochs = records.filter(pc.equal(records["group_id"], "unclean"))["leader_epoch"].to_pylist()
    assert epochs == sorted(epochs)
    assert epochs[-1] > 0


def test_the_log_was_compacted(held: Held) -> None:
    """Of the records before the last segment of each log partition only the last of each key is left."""
    offsets: dict[int, list[int]] = {}
    for row in held.rows("records", "log_partition", "log_offset"):
        offsets.setdefault(row["log_partition"], []).append(row["log_offset"])
    missing = {number: max(found) + 1 - len(found) for number, found in offsets.items()}
    assert len(missing) == int(make_held_log.SETTINGS["offsets.topic.num.partitions"])
    assert all(count > make_held_log.CLEANED_RECORDS // 2 for count in missing.values()), missing
