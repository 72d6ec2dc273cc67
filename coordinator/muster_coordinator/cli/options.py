"""Options shared by many commands."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster_coordinator.cli.output import Format

DEFAULT_BOOTSTRAP = "localhost:9092"

Bootstrap = Annotated[
    str,
    typer.Option("--bootstrap-server", "-b", envvar="MUSTER_BOOTSTRAP", help="host:port of brokers, comma-separated."),
]
ClientConfig = Annotated[
    Path | None,
    typer.Option("--config", help="Properties file with client settings, by Kafka's names.", dir_okay=False),
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the cluster's answer.")]
Output = Annotated[Format, typer.Option("--output", "-o", help="Output format.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it. Without this nothing changes.")]


class Isolation(StrEnum):
    """`isolation.level` of Kafka's consumers."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


DEFAULT_ADMIN = "127.0.0.1:8081"
DEFAULT_ADMIN_TIMEOUT_S = 5.0

Admin = Annotated[
    str, typer.Option("--admin", envvar="MUSTER_ADMIN", help="host:port of replicas' admin APIs, comma-separated.")
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", envvar="MUSTER_ADMIN_TOKEN_FILE", help="File with the bearer token.")
]
DevFolder = Annotated[
    Path | None, typer.Option("--dev", help="Folder of muster dev, from which addresses and token are read.")
]
AdminConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Properties file with what the admin API asks for: TLS, token, certificate.", dir_okay=False
    ),
]
AdminTimeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for a replica.")]

StoppedConfig = Annotated[Path, typer.Option("--config", "-c", help="The stopped replica's properties file.")]
LeavingBroker = Annotated[int, typer.Argument(metavar="ID", min=0, help="Broker id of the one that is to leave.")]
