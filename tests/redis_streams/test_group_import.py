"""`muster group import` from a real Redis: groups that were used by XREADGROUP and XACK go on in Kafka where they were;
the group, the stream and the server that are not as they should be are told in one sentence."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli import import_group as command
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.groups.assignors.membership import TopicPartition
from muster_coordinator.redis_streams.entry_ids import EntryId

from tests.cli.ran import Ran
from tests.cluster import MusterCluster
from tests.redis_streams.redis_server import Connection, RedisServer
from tests.redis_streams.test_topics_in_redis import OFFSETS, Reader, make_topic, send

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def muster(*arguments: str) -> Ran:
    """A process of its own, as a user has it."""
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "group", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert "Traceback" not in ran.stderr, ran.stderr
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def stream_of(topic: str, partition: int) -> str:
    return f"muster:{{{topic}:{partition}}}"


def deliver(cli: Connection, stream: str, group: str, count: int, acknowledged: int) -> list[bytes]:
    """A consumer of Redis reads so many entries, and acknowledges so many of them from the second on."""
    ((_, entries),) = cli.ask("XREADGROUP", "GROUP", group, "c", "COUNT", count, "STREAMS", stream, ">")
    ids = [entry for entry, _ in entries]
    if acknowledged:
        assert cli.ask("XACK", stream, group, *ids[1 : 1 + acknowledged]) == acknowledged
    return ids


def test_a_group_of_redis_goes_on_in_kafka_where_it_was(
    at: MusterCluster, cli: Connection, url: str, redis: RedisServer
) -> None:
    make_topic(at, "moved", 1)
    for number in range(6):
        cli.ask("XADD", stream_of("moved", 0), "*", "v", str(number))
    cli.ask("XGROUP", "CREATE", stream_of("moved", 0), "g", "0")
    ids = deliver(cli, stream_of("moved", 0), "g", 4, 2)
    words = ("import", "g", "--from-redis", url, "--topic", "moved", "-o", "json")

    dry = muster(*words)
    assert dry.code == Exit.OK, dry.err
    assert "nothing was changed" in dry.err
    assert "2 entries are pending" in dry.err
    first = OFFSETS.offset_of(EntryId.parse(ids[0]), "")
    assert json.loads(dry.out) == [
        {
            "topic": "moved", "partition": 0, "stream": stream_of("moved", 0), "pending_entries": 2,
            "lowest_pending_entry": ids[0].decode(), "last_delivered": ids[3].decode(), "current_offset": None,
            "new_offset": first,
        }
    ]  # fmt: skip
    assert muster("describe", "g").code == Exit.NOT_FOUND, "the dry run has committed nothing"

    cli.ask("XACK", stream_of("moved", 0), "g", *ids)
    done = muster(*words, "--execute")
    assert done.code == Exit.OK, done.err
    assert "1 offsets of group g imported" in done.err
    reader = Reader(at, "moved", "g", reset="error")
    assert reader.read(2) == [b"4", b"5"], "nothing is pending any more, so it goes on behind what was delivered"

    live = muster(*words, "--execute", "--overwrite")
    assert (live.code, "stop its consumers first" in live.err) == (Exit.REFUSED, True), live.err
    reader.consumer.close()
    again = muster(*words, "--execute")
    assert (again.code, "--overwrite replaces them" in again.err) == (Exit.REFUSED, True), again.err
    over = muster(*words, "--execute", "--overwrite")
    assert over.code == Exit.OK, over.err
    after = OFFSETS.offset_of(EntryId.parse(ids[3]), "") + 1
    assert [row["new_offset"] for row in json.loads(over.out)] == [after]
    (lag,) = json.loads(muster("lag", "g", "-o", "json").out)
    assert lag["current_offset"] == after, "it is back where Redis is"
    assert len(redis.connect().ask("XINFO", "GROUPS", stream_of("moved", 0))) == 1, "Redis' own is left alone"


def test_streams_of_other_names_other_groups_and_partitions_without_the_group(
    at: MusterCluster, cli: Connection, url: str, tmp_path: Path
) -> None:
    """The properties file of a replica says which Redis, prefix and user."""
    make_topic(at, "copied", 3)
    send(at, "copied", [b"%d" % number for number in range(30)], partitions=3)
    for partition in (0, 1):
        cli.ask("COPY", stream_of("copied", partition), f"old=:{partition}", "REPLACE")
        cli.ask("XGROUP", "CREATE", f"old=:{partition}", "\u00e9t\u00e9", "$")
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=1\nredis.url={url}\nredis.prefix=muster\nredis.durability=aof\n")
    words = ("import", "g2", "--from-redis", str(file), "--redis-group", "\u00e9t\u00e9", "--execute", "-o", "json")
    ran = muster(*words, "--stream", "old=:0=copied:0", "--stream", "old=:1=copied:1", "--topic", "copied:2")
    assert ran.code == Exit.OK, ran.err
    assert "these partitions get no offset" in ran.err
    rows = json.loads(ran.out)
    assert [row["new_offset"] is None for row in rows] == [False, False, True]
    lags = json.loads(muster("lag", "g2", "-o", "json").out)
    assert [(one["partition"], one["lag"]) for one in lags] == [(0, 0), (1, 0)]


@pytest.mark.parametrize("bits", [1, 20])
def test_a_group_of_streams_that_were_there_goes_on_by_the_topics_own_names_and_bits(
    at: MusterCluster, cli: Connection, url: str, bits: int
) -> None:
    """One partition by the topic's own stream, one by another that has its ids, of two topics at once: the other one
    has ten bits, and Muster's names."""
    name, plain, most, ms = f"there{bits}", f"plain{bits}", 2**bits - 1, 1_700_000_000_000
    for partition in range(2):
        for place in (EntryId(ms, 0), EntryId(ms, most), EntryId(ms + 1, 0)):
            cli.ask("XADD", f"korvet:{name}:{partition}", place.text, "data", place.text)
        cli.ask("XGROUP", "CREATE", f"korvet:{name}:{partition}", "workers", "0")
    configs = {
        "redis.stream": "korvet:{topic}:{partition}", "redis.sequence.bits": str(bits), "redis.value.field": "data",
    }  # fmt: skip
    topic: Any = NewTopic(name, 2, 1, config=configs)
    admin = AdminClient({"bootstrap.servers": at.bootstrap})
    admin.create_topics([topic])[name].result(60)
    make_topic(at, plain, 1)
    cli.ask("XADD", stream_of(plain, 0), f"{ms}-1023", "v", "1")
    cli.ask("XGROUP", "CREATE", stream_of(plain, 0), "workers", "$")
    deliver(cli, f"korvet:{name}:0", "workers", 2, 1)
    cli.ask("XACK", f"korvet:{name}:0", "workers", f"{ms}-0")
    cli.ask("RENAME", f"korvet:{name}:1", f"old:{name}")
    cli.ask("COPY", f"old:{name}", f"korvet:{name}:1")
    deliver(cli, f"old:{name}", "workers", 3, 2)
    words = ("import", name, "--from-redis", url, "--redis-group", "workers", "-o", "json")
    both = muster(*words, "--topic", name, "--stream", f"old:{name}={name}:1")
    assert (both.code, "named with two streams" in both.err) == (Exit.USAGE, True), both.err
    streams = ("--stream", f"old:{name}={name}:1", "--topic", plain)
    done = muster(*words, "--topic", f"{name}:0", *streams, "--execute")
    assert done.code == Exit.OK, done.err
    assert [(row["stream"], row["new_offset"]) for row in json.loads(done.out)] == [
        (stream_of(plain, 0), (ms + 1) * 1024),
        (f"korvet:{name}:0", (ms + 1) * 2**bits),
        (f"old:{name}", ms * 2**bits),
    ]
    reader = Reader(at, name, name, reset="error")
    assert sorted(reader.read(4)) == sorted(
        f"{one[0]}-{one[1]}".encode() for one in [(ms + 1, 0), (ms, 0), (ms, most), (ms + 1, 0)]
    ), "where both were: one behind what was acknowledged, one at the pending entry"
    reader.consumer.close()


def test_what_is_not_as_it_should_be_is_one_sentence(at: MusterCluster, cli: Connection, url: str) -> None:
    make_topic(at, "wrong", 1)
    cli.ask("SET", "plain", "text")
    cli.ask("XADD", "beyond", "5-5000", "v", "1")
    cli.ask("XGROUP", "CREATE", "beyond", "g3", "0")
    cli.ask("XREADGROUP", "GROUP", "g3", "c", "STREAMS", "beyond", ">")
    cli.ask("ACL", "SETUSER", "blind", "on", "nopass", "~*", "+type")
    config = at.folder / "blind.properties"
    config.write_text(f"redis.url={url}\nredis.username=blind\nredis.password=x\n")
    asked: list[tuple[Exit, str, list[str]]] = [
        (Exit.NOT_FOUND, "no group g3 in Redis at muster:{wrong:0}", [url, "--topic", "wrong"]),
        (Exit.NOT_FOUND, "topic nowhere: no such topic or partition", [url, "--topic", "nowhere"]),
        (Exit.NOT_FOUND, "topic wrong has no partition 7", [url, "--stream", "s=wrong:7"]),
        (Exit.REFUSED, "plain is a string, not a stream", [url, "--stream", "plain=wrong:0"]),
        (Exit.REFUSED, "entry 5-5000 of beyond", [url, "--stream", "beyond=wrong:0"]),
        (Exit.REFUSED, "Redis says", [str(config), "--stream", "beyond=wrong:0"]),
        (Exit.UNREACHABLE, "Redis cannot be reached", ["redis://127.0.0.1:1/0", "--topic", "wrong"]),
        (Exit.USAGE, "redis.url", ["redis://user:secret@127.0.0.1:1/0", "--topic", "wrong"]),
        (Exit.USAGE, "cannot use", ["no-such-file", "--topic", "wrong"]),
        (Exit.USAGE, "give the topics", [url]),
        (Exit.USAGE, "named with two streams", [url, "--topic", "wrong", "--stream", "s=wrong:0"]),
    ]
    for code, said, (source, *words) in asked:
        ran = muster("import", "g3", "--from-redis", source, *words, "--execute")
        assert (ran.code, said in ran.err, ran.err.count("\n")) == (code, True, 1), ran
        assert "secret" not in ran.err
    assert muster("describe", "g3").code == Exit.NOT_FOUND, "none of them has committed anything"


def test_offsets_of_a_topic_that_is_not_in_redis_are_refused(at: MusterCluster, cli: Connection, url: str) -> None:
    topic: Any = NewTopic("inside", 1, 1, config={"topic.store": "embedded"})
    admin = AdminClient({"bootstrap.servers": at.bootstrap})
    admin.create_topics([topic])["inside"].result(60)
    ran = muster("import", "g4", "--from-redis", url, "--topic", "inside")
    assert (ran.code, "topic inside is not in Redis" in ran.err) == (Exit.REFUSED, True), ran.err


def test_a_group_whose_consumers_run_on_in_redis_is_told(
    cli: Connection, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between the commit and the end Redis delivers one more: what was committed is there, and it is said."""
    stream = stream_of("alive", 0)
    for number in range(3):
        cli.ask("XADD", stream, "*", "v", str(number))
    cli.ask("XGROUP", "CREATE", stream, "g5", "0")
    deliver(cli, stream, "g5", 1, 0)
    place = TopicPartition("alive", 0)
    committed: list[dict[TopicPartition, int]] = []

    def commit(side: Any, group: str, offsets: dict[TopicPartition, int], *, done: str) -> None:
        committed.append(offsets)
        deliver(cli, stream, "g5", 1, 0)

    monkeypatch.setattr(command, "known_partitions", lambda side, texts: [place])
    monkeypatch.setattr(command, "_configs", lambda side, topic: {})
    monkeypatch.setattr(command, "_refuse_live", lambda side, group: None)
    monkeypatch.setattr(command, "committed_offsets", lambda side, group: {})
    monkeypatch.setattr(command, "start_offsets", lambda side, some: dict.fromkeys(some, 0))
    monkeypatch.setattr(command, "end_offsets", lambda side, some: dict.fromkeys(some, 2**62))
    monkeypatch.setattr(command, "commit_offsets", commit)
    app = typer.Typer()
    app.command()(command.import_group)
    run: Any = typer.main.get_command(app)
    with pytest.raises(CliError, match="has moved in Redis meanwhile") as told:
        run(["g5", "--from-redis", url, "--topic", "alive", "--execute"], standalone_mode=False)
    assert told.value.code is Exit.REFUSED
    assert len(committed) == 1
    assert "LOWEST-UNACKED" in capsys.readouterr().out
