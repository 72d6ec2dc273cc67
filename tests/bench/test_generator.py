"""The load generator itself: its own tests, and runs against echo servers whose answers are known."""

import shutil

import pytest

from bench import generator
from bench.compare import ECHO, UVLOOP
from bench.echo_side import Echo
from bench.errors import BenchError, RunFailed
from bench.histogram import percentile_us
from tests.machine_parts import give_up

pytestmark = pytest.mark.slow
"""A cold compiler takes a while."""


@pytest.fixture(autouse=True)
def needs_go() -> None:
    if shutil.which("go") is None:
        give_up("go", "no Go on PATH (it builds the benchmark's load generator)")


@pytest.mark.timeout(300)
def test_its_own_tests_pass() -> None:
    import subprocess

    done = subprocess.run(
        ["go", "test", "./..."], cwd=generator.SOURCE, capture_output=True, text=True, timeout=290, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [ECHO, UVLOOP])
def test_a_closed_loop_against_an_echo_counts_every_answer(name: str) -> None:
    side = Echo(name)
    side.start()
    try:
        cpu = f"echo={','.join(map(str, side.pids()))}"
        options = {"op": "heartbeat", "echo": True, "connections": 4, "depth": 3, "warmup": "100ms", "window": "300ms"}
        result = generator.run("load", bootstrap=side.bootstrap, cpu=cpu, **options)
    finally:
        side.stop()
    buckets = result["latency_us"]["buckets"]
    assert result["good"] == sum(count for _, count in buckets) > 100
    assert result["rate"] == pytest.approx(result["good"] / 0.3)
    assert percentile_us(buckets, 0.5) == pytest.approx(result["latency_us"]["p50"], rel=0.02)
    assert 0 < result["cpu_us"]["echo"] <= 2 * 300_000 * len(side.bootstrap.split(","))


@pytest.mark.timeout(300)
def test_a_server_that_is_not_there_is_a_failed_run() -> None:
    with pytest.raises(RunFailed, match="connection refused"):
        generator.run("load", bootstrap="127.0.0.1:1", op="heartbeat", echo=True)


def test_without_go_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *names, **more: None)
    with pytest.raises(BenchError, match=r"needs Go 1\.21 or newer on PATH: install it"):
        generator.binary()
