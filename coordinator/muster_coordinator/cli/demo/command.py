"""`muster demo` as a command. The demo itself is in `run`, imported only here: importing rich takes longer than most
other commands run."""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from muster_coordinator.cli.exits import Exit
from muster_coordinator.cli.interruption import Interruption

RATE_PER_S = 12_000


def demo(
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder for the cluster's files, which are kept then.")
    ] = None,
    rate: Annotated[int, typer.Option("--rate", min=1_000, help="Flights to load per second.")] = RATE_PER_S,
    offsets_partitions: Annotated[
        int, typer.Option("--partitions", min=1, help="Partitions of the offsets topic.")
    ] = 50,
) -> None:
    """Show a fail-over with real data and real clients; exits 0 only if nothing was lost."""
    from muster_coordinator.cli.demo.cluster import REPLICAS, DemoCluster
    from muster_coordinator.cli.demo.run import Demo
    from muster_coordinator.cli.demo.view import View

    kept = folder is not None
    home = folder or Path(tempfile.mkdtemp(prefix="muster-demo-"))
    passed = False
    try:
        with Interruption() as interruption, View() as view:
            view.note(f"starting {REPLICAS} replicas in {home}")
            with DemoCluster(home, offsets_partitions) as cluster:
                passed = Demo(cluster, view, rate, interruption.check).run()
    finally:
        if passed and not kept:
            shutil.rmtree(home, ignore_errors=True)
    if not passed:
        raise typer.Exit(int(Exit.REFUSED))
