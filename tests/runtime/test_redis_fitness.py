"""What a Redis is good for, by what INFO says; the proofs that are asked for, and what their answers mean."""

import pytest
from muster_coordinator.runtime.redis_fitness import Fitness, judged


def info(**said: str) -> bytes:
    """INFO of a server as it is without a configuration file, with some lines changed."""
    lines = {
        "redis_version": "7.0.15", "used_memory": "1000000", "maxmemory": "0", "maxmemory_policy": "noeviction",
        "rdb_last_save_time": "1700000000", "aof_enabled": "0", "role": "master", "connected_slaves": "0",
    }  # fmt: skip
    return ("# Server\r\n" + "".join(f"{key}:{value}\r\n" for key, value in (lines | said).items())).encode()


WITH_FILE = {"aof_enabled": "1"}


@pytest.mark.parametrize(
    ("durability", "said", "fsync", "why"),
    [
        ("", {}, "everysec", "it keeps nothing"),
        ("memory", {}, "everysec", ""),
        ("", WITH_FILE, "everysec", ""),
        ("", {"connected_slaves": "1"}, "everysec", ""),
        ("wait", {}, "everysec", ""),
        ("aof", {}, "always", "it has no append-only file"),
        ("aof", WITH_FILE, "everysec", "needs appendfsync always"),
        ("aof", WITH_FILE, "always", ""),
        ("aof", WITH_FILE, "", "needs appendfsync always"),
        ("aof", WITH_FILE | {"redis_version": "7.2.0"}, "everysec", ""),
        ("memory", {"redis_version": "6.2.14"}, "", "7.0 is needed"),
        ("memory", {"redis_version": "unstable"}, "", "7.0 is needed"),
        ("memory", {"role": "slave"}, "", "a replica"),
        ("memory", {"maxmemory_policy": "allkeys-lru"}, "", "removes records"),
        ("memory", {"maxmemory_policy": "volatile-lru"}, "", ""),
    ],
)
def test_a_server_is_fit_or_the_reason_is_told(durability: str, said: dict[str, str], fsync: str, why: str) -> None:
    found = judged(info(**said), fsync, Fitness(durability, 1))
    assert why in found.unfit
    assert bool(found.unfit) == bool(why)


def test_what_is_no_reason_to_refuse_is_a_warning() -> None:
    assert judged(info(**WITH_FILE), "always", Fitness("memory", 1)).warnings == ()
    full = judged(info(maxmemory="1000", used_memory="801", aof_enabled="1"), "", Fitness("memory", 1))
    assert full.warnings == ("801 of 1000 bytes of memory are used",)
    assert judged(info(maxmemory="1000", used_memory="800", aof_enabled="1"), "", Fitness("memory", 1)).warnings == ()
    other = judged(info(maxmemory_policy="volatile-ttl", rdb_last_save_time="0"), "", Fitness("memory", 1))
    assert other.warnings == ("maxmemory-policy is volatile-ttl", "nothing is persistent")


def test_the_proof_is_what_the_server_has_and_its_answer_must_say_so() -> None:
    old, new = (
        judged(info(redis_version=text, aof_enabled="1"), "always", Fitness("aof", 1)) for text in ("7.0.0", "7.2.4")
    )
    assert Fitness("memory", 2).proof(new, 50) is None
    assert Fitness("aof", 1).proof(old, 50) is None, "appendfsync always: the answer itself says it"
    aof, wait = Fitness("aof", 1), Fitness("wait", 2)
    assert (aof.proof(new, 50), wait.proof(old, 50)) == (("WAITAOF", 1, 0, 50), ("WAIT", 2, 50))
    assert (aof.unproven([1, 0]), wait.unproven(2), wait.unproven(3)) == ("", "", "")
    assert "not in time in its append-only file" in aof.unproven([0, 0])
    assert "not in time in 2 of its replicas" in wait.unproven(1)
    assert "NOPERM" in wait.unproven(ValueError("NOPERM"))
