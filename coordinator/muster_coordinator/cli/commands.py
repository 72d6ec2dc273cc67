"""The coordinator's sub-commands, registered through the entry-point group `muster.commands`."""

import typer

from muster_coordinator.cli import (
    acls,
    balance,
    cluster,
    controller_voters,
    dev_brokers,
    features,
    groups,
    quotas,
    replace_replica,
    replication_factor,
    stopped_entries,
    topics,
    transactions,
    users,
)
from muster_coordinator.cli.accept_losses import accept_losses
from muster_coordinator.cli.consume import consume
from muster_coordinator.cli.demo.command import demo
from muster_coordinator.cli.dev import dev
from muster_coordinator.cli.extras import needing
from muster_coordinator.cli.format import format_folder
from muster_coordinator.cli.produce import produce
from muster_coordinator.cli.recover import recover
from muster_coordinator.cli.server import server


def register(app: typer.Typer) -> None:
    """Add the sub-commands to `app`."""
    app.add_typer(topics.app, name="topic")
    app.add_typer(groups.app, name="group")
    app.add_typer(users.app, name="user")
    app.add_typer(acls.app, name="acl")
    app.add_typer(quotas.app, name="quota")
    app.add_typer(transactions.app, name="transactions")
    stopped_entries.register(cluster.app)
    replace_replica.register(cluster.app)
    balance.register(cluster.app)
    controller_voters.register(cluster.app)
    replication_factor.register(cluster.app)
    features.register(cluster.app)
    app.add_typer(cluster.app, name="cluster")
    app.command("produce")(needing("cli")(produce))
    app.command("consume")(needing("cli")(consume))
    app.command("demo")(needing("coordinator", "demo")(demo))
    dev_app = typer.Typer(invoke_without_command=True)
    dev_app.callback()(needing("coordinator")(dev))
    dev_brokers.register(dev_app)
    app.add_typer(dev_app, name="dev")
    app.command("accept-losses")(needing("coordinator")(accept_losses))
    app.command("recover")(needing("coordinator")(recover))
    app.command("format")(needing("coordinator")(format_folder))
    app.command("server")(server)  # asks for its packages in `serve`
