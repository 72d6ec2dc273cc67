"""`muster demo` as a command. The demo itself is in `run`, imported only here: importing rich takes longer than most
other commands run."""

import shutil
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster_coordinator.cli.demo.redis_program import program
from muster_coordinator.cli.exits import Exit
from muster_coordinator.cli.extras import require
from muster_coordinator.cli.interruption import Interruption

if TYPE_CHECKING:
    from muster_coordinator.cli.demo.view import View

RATE_PER_S, REDIS_RATE_PER_S = 12_000, 8_000
REDIS_ADMIN_TIMEOUT_S = 5.0
"""A replica that reads streams for many at once takes longer to answer, on a machine that is busy besides."""


def demo(
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder for the cluster's files, which are kept then.")
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate", min=1_000, help=f"Flights to load per second; {RATE_PER_S}, with --redis {REDIS_RATE_PER_S}."
        ),
    ] = None,
    offsets_partitions: Annotated[
        int, typer.Option("--partitions", min=1, help="Partitions of the offsets topic.")
    ] = 50,
    *,
    redis: Annotated[
        bool,
        typer.Option("--redis", help="The flights in Redis Streams, in a redis-server of the demo's own; it dies too."),
    ] = False,
) -> None:
    """Show a fail-over with real data and real clients; exits 0 only if nothing was lost."""
    if redis:
        require("`muster demo --redis`", "coordinator", "cli", "demo", "redis")
        program()
    from muster_coordinator.cli.demo.view import View

    kept = folder is not None
    home = folder or Path(tempfile.mkdtemp(prefix="muster-demo-"))
    passed = False
    rate_per_s = rate or (REDIS_RATE_PER_S if redis else RATE_PER_S)
    try:
        with Interruption() as interruption, View() as view:
            passed = _run(home, offsets_partitions, rate_per_s, view, interruption, redis=redis)
    finally:
        if passed and not kept:
            shutil.rmtree(home, ignore_errors=True)
    if not passed:
        raise typer.Exit(int(Exit.REFUSED))


def _run(
    home: Path, offsets_partitions: int, rate_per_s: int, view: "View", interruption: Interruption, *, redis: bool
) -> bool:
    """The demo in this folder; what it starts has ended when this returns or raises, Redis after its replicas."""
    from muster_coordinator.cli.demo.cluster import REPLICAS, DemoCluster
    from muster_coordinator.cli.demo.run import GROUP, TOPIC, Demo

    with ExitStack() as started:
        if not redis:
            view.note(f"starting {REPLICAS} replicas in {home}")
            cluster = started.enter_context(DemoCluster(home, offsets_partitions))
            return Demo(cluster, view, rate_per_s, interruption.check).run()
        from muster_coordinator.cli.demo.redis_process import RedisProcess
        from muster_coordinator.cli.demo.redis_store import RedisStreams, lags_of

        view.note(f"starting Redis and {REPLICAS} replicas in {home}")
        server = started.enter_context(RedisProcess(home / "redis"))
        cluster = started.enter_context(DemoCluster(home, offsets_partitions, server.settings, REDIS_ADMIN_TIMEOUT_S))
        view.note(f"topics are streams of Redis at port {server.port} (appendonly yes, appendfsync always)")
        store = RedisStreams(server, partial(lags_of, cluster.bootstrap, GROUP), TOPIC, GROUP, view)
        return Demo(cluster, view, rate_per_s, interruption.check, store).run()
