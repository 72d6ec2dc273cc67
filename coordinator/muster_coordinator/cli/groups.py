"""`muster group`: list, describe, lag, delete, remove-member; others have files of their own."""

import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.coordinator_lists import of_all_brokers
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.extras import require
from muster_coordinator.cli.group_view import DescribedGroup, PartitionLag, describe_group, group_lags
from muster_coordinator.cli.import_group import import_group
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide, Untyped
from muster_coordinator.cli.migrate_groups import migrate_groups
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Isolation, Output, Timeout
from muster_coordinator.cli.output import UNKNOWN, Column, Format, emit, note, table
from muster_coordinator.cli.redis_groups import RedisAt, redis_at
from muster_coordinator.cli.redis_lag import Counted, counted
from muster_coordinator.cli.reset_offsets import reset_offsets
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.redis_streams.lag import Records

app = typer.Typer(help="Show and change consumer groups.", no_args_is_help=True)
app.command("reset-offsets")(reset_offsets)
app.command("import")(import_group)
app.command("migrate")(migrate_groups)

GroupArgument = Annotated[str, typer.Argument(help="The group's id.")]

_LISTED = (
    Column("group", "GROUP"),
    Column("type", "TYPE"),
    Column("protocol_type", "PROTOCOL"),
    Column("state", "STATE"),
    Column("coordinator", "COORDINATOR"),
)
_LAGS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", numeric=True),
    Column("current_offset", "CURRENT-OFFSET", numeric=True),
    Column("log_end_offset", "LOG-END-OFFSET", numeric=True),
    Column("lag", "LAG", numeric=True),
    Column("owner", "OWNER"),
)
_RECORDS = (Column("records", "RECORDS", numeric=True), Column("records_quality", "QUALITY"))
_OFFSETS = (
    *_LAGS[:-1],
    Column("consumer_id", "CONSUMER-ID"),
    Column("host", "HOST"),
    Column("client_id", "CLIENT-ID"),
    Column("instance_id", "INSTANCE-ID"),
)
_STATE = (
    Column("group", "GROUP"),
    Column("coordinator", "COORDINATOR (ID)"),
    Column("assignor", "ASSIGNOR"),
    Column("state", "STATE"),
    Column("members", "#MEMBERS", numeric=True),
)
_MEMBERS = (
    Column("consumer_id", "CONSUMER-ID"),
    Column("instance_id", "INSTANCE-ID"),
    Column("host", "HOST"),
    Column("client_id", "CLIENT-ID"),
    Column("partitions", "#PARTITIONS", numeric=True),
)
_MEMBERS_VERBOSE = (*_MEMBERS, Column("assignment", "ASSIGNMENT"), Column("topics", "TOPICS"))


@app.command("list")
def list_groups(
    states: Annotated[
        list[str] | None, typer.Option("--state", help="Only groups in this state; may be repeated.")
    ] = None,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """List the groups of all brokers."""
    wanted = {state.lower() for state in states or ()}
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        listed = of_all_brokers(side, OFFSETS_TOPIC, "groups", _groups_of)
    rows = [
        {
            "group": one["group_id"],
            "type": one.get("group_type"),
            "protocol_type": one["protocol_type"],
            "state": one.get("group_state"),
            "coordinator": broker,
        }
        for broker, found in listed.of_brokers.items()
        for one in found
        if not wanted or str(one.get("group_state")).lower() in wanted
    ]
    emit(sorted(rows, key=lambda row: str(row["group"])), _LISTED, output)
    for sentence in listed.lacks:
        note(sentence)
    if listed.lacks:
        raise typer.Exit(int(Exit.INCOMPLETE))


def _groups_of(admin: Untyped, broker_id: int) -> list[Untyped]:
    return list(admin.list_groups(broker_ids=[broker_id]))


@app.command("describe")
def describe(
    groups: Annotated[list[str], typer.Argument(help="Group ids.")],
    offsets: Annotated[bool, typer.Option("--offsets", help="Show offsets, lag and owners (the default).")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show the members.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show state, coordinator and assignor.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="With --members: show topics and assignments too.")
    ] = False,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show groups: their offsets, members or state."""
    if offsets + members + state > 1:
        raise CliError(Exit.USAGE, "choose one of --offsets, --members and --state")
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        views = [describe_group(side, group) for group in groups]
        if state:
            emit([_state_row(view) for view in views], _STATE, output)
        elif members:
            rows = [row for view in views for row in _member_rows(view)]
            emit(rows, _MEMBERS_VERBOSE if verbose else _MEMBERS, output)
            _say_empty(views)
        else:
            lags = [(view, group_lags(side, view)) for view in views]
            named = (Column("group", "GROUP"), *_OFFSETS)
            emit([_lag_row(view, one) for view, some in lags for one in some], named, output)
            _say_empty(views)
            _exit_incomplete([one for _view, some in lags for one in some])


@app.command("lag")
def lag(
    group: GroupArgument,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until interrupted.")] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.2, help="Seconds between two refreshes.")] = 2.0,
    isolation: Annotated[
        Isolation,
        typer.Option(
            "--isolation-level",
            help="read_committed: the lag to the last stable offset, where readers of committed data end. "
            "Default: to the log end offset.",
        ),
    ] = Isolation.READ_UNCOMMITTED,
    redis: Annotated[
        str | None,
        typer.Option(
            help="Count the records of topics in Redis there, whose offsets have gaps: redis://HOST:PORT/DB, rediss:// "
            "with TLS, unix:///PATH; or a replica's properties file, whose keys redis.* say the rest, too."
        ),
    ] = None,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show the lag of a group by partition."""
    to_stable = isolation is Isolation.READ_COMMITTED
    at = None
    if redis is not None:
        require("--redis", "cli", "redis")
        at = redis_at(redis, timeout, "--redis")
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        if watch:
            _watch(side, group, interval, output, at, to_stable=to_stable)
        lags = _lags(side, group, at, to_stable=to_stable)
        emit(lags.rows(), lags.columns(), output)
        if at is not None and lags.counted.lacks():
            raise typer.Exit(int(Exit.INCOMPLETE))
        _exit_incomplete(lags.lags)


class _Lags(NamedTuple):
    view: DescribedGroup
    lags: list[PartitionLag]
    counted: Counted
    to_stable: bool

    def rows(self) -> list[dict[str, Any]]:
        return [_lag_row(self.view, one, self.counted.records[one.partition]) for one in self.lags]

    def columns(self) -> list[Column]:
        """Where topics in Redis are among them, with the records beside the offsets."""
        columns = [
            Column("last_stable_offset", "LAST-STABLE-OFFSET", numeric=True)
            if self.to_stable and one.key == "log_end_offset"
            else one
            for one in _LAGS
        ]
        return [*columns[:-1], *_RECORDS, columns[-1]] if self.counted.in_redis else columns


def _lags(side: KafkaSide, group: str, at: RedisAt | None, *, to_stable: bool) -> _Lags:
    view = describe_group(side, group)
    lags = group_lags(side, view, to_stable=to_stable)
    found = counted(side, lags, at)
    if found.in_redis and at is None:
        note("offsets of topics in Redis have gaps, so LAG is no number of records there: --redis has them counted")
    return _Lags(view, lags, found, to_stable)


def _watch(
    side: KafkaSide, group: str, interval_s: float, output: Format, at: RedisAt | None, *, to_stable: bool
) -> None:
    """Refresh until Ctrl-C. A failed refresh is reported and the next one tried, e.g. while the coordinator moves."""
    clear = "\x1b[H\x1b[2J" if sys.stdout.isatty() and output is Format.TABLE else ""
    while True:
        try:
            lags = _lags(side, group, at, to_stable=to_stable)
        except CliError as error:
            note(str(error))
        else:
            view, rows, columns = lags.view, lags.rows(), lags.columns()
            if output is Format.TABLE:
                known = [row["lag"] for row in rows if isinstance(row["lag"], int)]
                whole = "" if len(known) == len(rows) else " (of the known ones)"
                head = f"{group}: {view.state}, coordinator {view.coordinator.address}, lag {sum(known)}{whole}"
                print(f"{clear}{time.strftime('%H:%M:%S')} {head}\n{table(rows, columns)}", flush=True)
            else:
                emit(rows, columns, output)
        time.sleep(interval_s)


@app.command("delete")
def delete(
    groups: Annotated[list[str], typer.Argument(help="Group ids. A group with members is not deleted.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Delete groups with all their committed offsets."""
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        for group in groups:
            result = side.change(partial(_delete, group), f"group {group} was not deleted")
            if result != "OK":
                error = getattr(side.kafka.errors, result)()
                raise side.sentence(error, f"group {group} was not deleted")
            note(f"group {group} deleted")


def _delete(group: str, admin: Untyped) -> str:
    return str(admin.delete_groups([group])[group])


@app.command("remove-member")
def remove_member(
    group: GroupArgument,
    instance_id: Annotated[str, typer.Option("--instance-id", help="Instance id of the static member to remove.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Remove a static member now, instead of after its session timeout, which frees its partitions."""
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        from kafka.admin import MemberToRemove

        member = MemberToRemove(group_instance_id=instance_id, reason="removed by muster group remove-member")
        what = f"member {instance_id} of group {group} was not removed"
        results = side.change(lambda admin: admin.remove_group_members(group, [member]), what)
        for error in results.values():
            if error is not side.kafka.errors.NoError:
                raise side.sentence(error(), what)
    note(f"member {instance_id} removed from group {group}")


def _state_row(view: DescribedGroup) -> dict[str, Any]:
    return {
        "group": view.group,
        "coordinator": view.coordinator.address,
        "coordinator_id": view.coordinator.broker_id,
        "assignor": view.assignor or None,
        "protocol_type": view.protocol_type or None,
        "state": view.state,
        "members": len(view.members),
    }


def _member_rows(view: DescribedGroup) -> list[dict[str, Any]]:
    return [
        {
            "group": view.group,
            "consumer_id": member.member_id,
            "instance_id": member.instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partitions": UNKNOWN if member.assigned is None else len(member.assigned),
            "assignment": UNKNOWN if member.assigned is None else [f"{t}-{p}" for t, p in member.assigned],
            "topics": list(member.topics),
        }
        for member in view.members
    ]


def _lag_row(view: DescribedGroup, one: PartitionLag, records: Records | None = None) -> dict[str, Any]:
    """`records`: None in what shows offsets only."""
    owner = one.owner
    row = {
        "group": view.group,
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "current_offset": one.committed,
        "log_end_offset": one.end,
        "last_stable_offset": one.stable,
        "lag": one.lag,
        "lag_to": "last_stable_offset" if one.to_stable else "log_end_offset",
        "owner": (owner.instance_id or owner.member_id) if owner else None,
        "consumer_id": owner.member_id if owner else None,
        "host": owner.host if owner else None,
        "client_id": owner.client_id if owner else None,
        "instance_id": owner.instance_id if owner else None,
    }
    if records is not None:
        row["records"] = UNKNOWN if records.number is None else records.number
        row["records_quality"] = str(records.quality)
    return row


def _say_empty(views: Sequence[DescribedGroup]) -> None:
    for view in views:
        if not view.members:
            note(f"group {view.group} has no members ({view.state})")


def _exit_incomplete(lags: Sequence[PartitionLag]) -> None:
    if any(one.lag is UNKNOWN for one in lags):
        raise typer.Exit(int(Exit.INCOMPLETE))
