"""Three Go libraries that tools are made of: sarama, kafka-go, franz-go's kadm. Each does an administrator's round.

The program in `go_tools` is built by `tests.go_tools`.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import go_tools as program
from tests.clients.server import Server

pytestmark = [pytest.mark.clients, pytest.mark.timeout(420)]

RUN_TIMEOUT_S = 60
DEFAULT_RETENTION_MS = "604800000"


@pytest.fixture(scope="session")
def go_tools() -> Path:
    return program.built()


def told(go_tools: Path, server: Server, library: str) -> dict[str, Any]:
    """What a library's round told of a topic of its own."""
    command = [str(go_tools), library, server.bootstrap.split(",")[0], server.unique(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_sarama(go_tools: Path, server: Server) -> None:
    """AlterConfigs twice leaves the second set alone; ListAcls, DescribeLogDirs and leaders right after creation."""
    got = told(go_tools, server, "sarama")
    assert (got["leaderless"], got["retention"], got["segment"]) == (0, DEFAULT_RETENTION_MS, "2000000")
    assert (got["brokers"], got["replicas"]) == (server.replicas, 12 * server.replicas)


def test_kafka_go(go_tools: Path, server: Server) -> None:
    got = told(go_tools, server, "kafka-go")
    assert (got["leaderless"], got["retention"], got["segment"]) == (0, DEFAULT_RETENTION_MS, "2000000")
    assert "Security Disabled" in got["acls"]
    assert "Election Not Needed" in got["elected"]


def test_kadm_and_its_guess_of_the_release(go_tools: Path, server: Server) -> None:
    """It was a 0.9 to it for want of SaslHandshake, and no 0.11 without the APIs of transactions."""
    got = told(go_tools, server, "kadm")
    assert (got["leaderless"], got["retention"], got["segment"]) == (0, DEFAULT_RETENTION_MS, "2000000")
    assert (got["acls"], got["replicas"]) == (True, 12 * server.replicas)
    assert got["quotas"] == 0
    assert got["transactions"] >= 0, "told, however many others have on this server"
    if server.is_muster:
        assert got["guess"] == "between v0.11.0 and v1.0", "by whole releases; what is between is not one of them"
