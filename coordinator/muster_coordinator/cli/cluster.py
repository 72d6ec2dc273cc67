"""`muster cluster status`: the replicas, and for each partition its leader, term, progress and followers.

A replica reports only its own view, so all of them are asked; the table shows `unknown` for those that do not answer.
Of several answers about a leader the one with the highest term counts, as everywhere in Raft.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from muster_coordinator.cli.admin_client import Json, ask_admin
from muster_coordinator.cli.admin_login import AdminLogin, dev_access, login_of, read_token
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.options import (
    DEFAULT_ADMIN,
    DEFAULT_ADMIN_TIMEOUT_S,
    Admin,
    AdminConfig,
    AdminTimeout,
    DevFolder,
    Output,
    TokenFile,
)
from muster_coordinator.cli.output import UNKNOWN, Column, Format, Unknown, emit_value, note, table

app = typer.Typer(help="Show the state of the cluster, and repair it.", no_args_is_help=True)

_STILL_MS = 900_000
"""No transaction is open for longer, by Kafka's default of `transaction.max.timeout.ms`."""
_REPLICAS = (
    Column("broker", "BROKER", numeric=True),
    Column("state", "STATE"),
    Column("leaderships", "LEADS", numeric=True),
    Column("version", "VERSION"),
    Column("admin", "ADMIN"),
    Column("remarks", "REMARKS"),
)
_PARTITIONS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", numeric=True),
    Column("leader", "LEADER", numeric=True),
    Column("term", "TERM", numeric=True),
    Column("commit", "COMMIT", numeric=True),
    Column("applied", "APPLIED", numeric=True),
    Column("follower_lag", "FOLLOWER-LAG"),
)


@app.command("status")
def status(
    admin: Admin = DEFAULT_ADMIN,
    token_file: TokenFile = None,
    dev: DevFolder = None,
    config: AdminConfig = None,
    problems: Annotated[
        bool, typer.Option("--problems", help="Only partitions without a leader or with a lag.")
    ] = False,
    output: Output = Format.TABLE,
    timeout: AdminTimeout = DEFAULT_ADMIN_TIMEOUT_S,
) -> None:
    """Show the replicas and partitions, as the replicas report them."""
    addresses, login = access(admin, token_file, dev, config)
    first = first_status(addresses, login, timeout)
    views = _ask_all(first, login, timeout)
    partitions = partition_rows({broker: view["partitions"] for broker, view in views.items() if view is not None})
    if problems:
        partitions = [row for row in partitions if _is_problem(row)]
    document = {
        "cluster_id": first["cluster_id"],
        "controller": first["controller"],
        "feature_level": first["feature_level"],
        "replicas": [_replica_row(broker, views[broker["broker"]]) for broker in first["brokers"]],
        "partitions": partitions,
    }
    if output is Format.TABLE:
        _print_tables(document)
    else:
        emit_value(document, output)
    if any(view is None for view in views.values()):
        raise typer.Exit(int(Exit.INCOMPLETE))


def access(
    admin: str, token_file: Path | None, dev: Path | None, config: Path | None = None
) -> tuple[list[str], AdminLogin]:
    """(admin addresses, how to call them) from the options that every command of this group has. Raises CliError."""
    addresses, login = dev_access(dev) if dev is not None else (admin.split(","), AdminLogin())
    if config is not None:
        login = login_of(config, login)
    if token_file is not None:
        login = login._replace(token=read_token(token_file))
    if not login.complete:
        raise CliError(
            Exit.USAGE,
            "give the token's file with --token-file (muster dev writes DIR/admin-token), or a --config with "
            "muster.admin.token.file or a client certificate",
        )
    return addresses, login


def first_status(addresses: Sequence[str], login: AdminLogin, timeout_s: float) -> Json:
    """The status of the first replica that answers and belongs to a formed cluster."""
    failures: list[CliError] = []
    for address in addresses:
        try:
            document = ask_admin(address.strip(), "/v1/status", login, timeout_s)
        except CliError as error:
            failures.append(error)
            continue
        if document["cluster_id"] is not None:
            return document
        failures.append(CliError(Exit.UNREACHABLE, f"{address} does not belong to a cluster yet"))
    raise failures[0]


def _ask_all(first: Json, login: AdminLogin, timeout_s: float) -> dict[int, Json | None]:
    """Status and partitions of every broker; None for one that does not answer."""
    views: dict[int, Json | None] = {}
    for broker in first["brokers"]:
        number, address = broker["broker"], broker["admin"]
        try:
            if not address:
                raise CliError(Exit.UNREACHABLE, "it has not registered an admin address")
            own = ask_admin(address, "/v1/status", login, timeout_s)
            views[number] = {**own, "partitions": ask_admin(address, "/v1/partitions", login, timeout_s)["partitions"]}
        except CliError as error:
            note(f"the state of replica {number} is unknown: {error}")
            views[number] = None
    return views


def partition_rows(views: Mapping[int, Sequence[Json]]) -> list[Json]:
    """One row per partition, from the partition lists of all brokers that answered."""
    by_group: dict[int, dict[int, Json]] = {}
    for broker, partitions in views.items():
        for one in partitions:
            by_group.setdefault(one["group"], {})[broker] = one
    return [_partition_row(seen) for _group, seen in sorted(by_group.items())]


def _partition_row(seen: Mapping[int, Json]) -> Json:
    """The row of one partition, from its views by broker."""
    newest = max(seen.values(), key=lambda one: (one["term"], one["role"] == "leader"))
    leader = newest["leader"]
    led = seen.get(leader) if leader is not None else None
    known = led is not None and led["role"] == "leader" and led["term"] == newest["term"]
    row: Json = {
        "group": newest["group"],
        "topic": newest["topic"] if newest["topic"] is not None else "(controller)",
        "partition": newest["partition"],
        "leader": leader,
        "term": newest["term"],
        "commit": UNKNOWN,
        "applied": UNKNOWN,
        "followers": [],
        "follower_lag": UNKNOWN,
    }
    if led is not None and known:
        followers = {v: _lag(led["commit"], seen.get(v)) for v in sorted(led["voters"]) if v != leader}
        row["commit"], row["applied"] = led["commit"], led["applied"]
        row["followers"] = [{"broker": voter, "lag": lag} for voter, lag in followers.items()]
        row["follower_lag"] = [f"{v}:{lag.value if isinstance(lag, Unknown) else lag}" for v, lag in followers.items()]
    return row


def _lag(commit: int, follower: Json | None) -> int | Unknown:
    """Committed entries that the follower has not applied yet. If asked after the leader, it may even be ahead."""
    return UNKNOWN if follower is None else max(0, commit - follower["applied"])


def _is_problem(row: Json) -> bool:
    return row["leader"] is None or row["commit"] is UNKNOWN or any(one["lag"] != 0 for one in row["followers"])


def _replica_row(broker: Json, view: Json | None) -> Json:
    row: Json = {"broker": broker["broker"], "admin": broker["admin"], "endpoints": broker["endpoints"]}
    unbound = [*_unbound(broker), *_departing(broker)]
    if view is None:
        # The replica did not answer; whether it is down is what the replica that answered first knows.
        state = "unknown" if broker["alive"] else "down"
        return {**row, "state": state, "leaderships": UNKNOWN, "version": UNKNOWN, "remarks": unbound}
    state = "ready" if view["ready"] else "not ready"
    remarks = [
        *view["not_ready"],
        *_changing(view),
        *_without_room(view),
        *_disk(view.get("disk")),
        *_transactions(view.get("transactions")),
        *_damage(view["partitions"]),
    ]
    return {
        **row,
        "state": "draining" if view["draining"] else state,
        "leaderships": view["leaderships"],
        "version": view["version"],
        "remarks": [*unbound, *remarks],
    }


def _unbound(broker: Json) -> list[str]:
    """A remark when the replica was replaced and its new data folder has not come yet. Replicas of the previous release
    do not report folders."""
    return ["waits for a new data folder"] if broker.get("replica_uuid", "") is None else []


def _departing(broker: Json) -> list[str]:
    """A remark on a broker that was decommissioned and is not empty yet. Replicas of the previous release know none."""
    return ["is to leave (muster cluster balance)"] if broker.get("departing") else []


def _changing(view: Json) -> list[str]:
    """A remark while Raft groups that the replica leads lack a replaced replica's new folder. Replicas of the previous
    release do not report it."""
    groups = view.get("groups_to_change", 0)
    return [f"leads {groups} Raft groups whose members are being changed"] if groups else []


def _without_room(view: Json) -> list[str]:
    """A remark while partitions cannot be copied to the replica. Replicas of the previous release do not report it."""
    lacking = view.get("copies_without_room", [])
    more = f" and of {len(lacking) - 1} more" if len(lacking) > 1 else ""
    return [f"lacks room for a copy of {lacking[0]['partition']}{more}"] if lacking else []


def _disk(disk: Json | None) -> list[str]:
    """A remark when a replica is short of disk. Replicas of the previous release do not report it."""
    if disk is None or not disk["low"]:
        return []
    return [f"the disk is {'full' if disk['full'] else 'low'}: {disk['free_bytes']} bytes are free"]


def _transactions(transactions: Json | None) -> list[str]:
    """Remarks on readers of committed data that stand still. Replicas of the previous release do not report them."""
    if transactions is None:
        return []
    open_ms, late = transactions["oldest_open_ms"], transactions["markers_late"]
    still = open_ms is not None and open_ms >= _STILL_MS
    return [
        *([f"a last stable offset has stood still for {open_ms // 60_000} min"] if still else []),
        *([f"{late} partitions have lacked markers of transactions for long"] if late else []),
    ]


def _damage(partitions: Sequence[Json]) -> list[str]:
    """A remark on damaged segments of a replica. Replicas of the previous release do not report them."""
    files = [
        f"{one['topic']}-{one['partition']}/{file['file']}" for one in partitions for file in one.get("damaged", ())
    ]
    return [f"{len(files)} damaged segments: {', '.join(files[:3])}"] if files else []


def _print_tables(document: Mapping[str, Any]) -> None:
    controller = document["controller"]
    leader = "unknown" if controller["leader"] is None else controller["leader"]
    print(f"cluster {document['cluster_id']}, controller {leader} in term {controller['term']}\n")
    print(table(document["replicas"], _REPLICAS))
    if document["partitions"]:
        print(f"\n{table(document['partitions'], _PARTITIONS)}")
