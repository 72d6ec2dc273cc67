"""`muster acl`: who may do what: add, list, remove.

What it does not do: decide anything, or know users: an ACL may name somebody who does not exist yet.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from muster_coordinator.cli.acl_plan import Granted, Resources, added, filters, operation_of, word
from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.extras import require
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide, Untyped
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Output, Timeout
from muster_coordinator.cli.output import Column, Format, emit, note
from muster_coordinator.security.acl import Acl, AclFilter
from muster_coordinator.security.resources import AclOperation, AclResourceType, PatternType, Permission

app = typer.Typer(help="Say who may do what (ACLs).", no_args_is_help=True)

_LISTED = (
    Column("resource", "RESOURCE"),
    Column("name", "NAME"),
    Column("pattern", "PATTERN"),
    Column("principal", "PRINCIPAL"),
    Column("host", "HOST"),
    Column("operation", "OPERATION"),
    Column("permission", "PERMISSION"),
)


class Pattern(StrEnum):
    """How a name of a new ACL is meant."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Found(StrEnum):
    """Which patterns are looked for."""

    ANY = "any"
    MATCH = "match"
    LITERAL = "literal"
    PREFIXED = "prefixed"


Topics = Annotated[list[str] | None, typer.Option("--topic", help="A topic; * is every one. May be given again.")]
Groups = Annotated[list[str] | None, typer.Option("--group", help="A consumer group; * is every one. Again.")]
TransactionalIds = Annotated[list[str] | None, typer.Option("--transactional-id", help="A transactional id.")]
Hosts = Annotated[list[str] | None, typer.Option(help="Only from this IP address. Default: from any.")]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Operations = Annotated[
    list[str] | None, typer.Option("--operation", help="Read, Write, Create, Describe, … or All, the default.")
]
OfPrincipals = Annotated[list[str] | None, typer.Option("--principal", help="User:NAME, as the ACL has it.")]
Looked = Annotated[
    Found, typer.Option("--pattern", help="match: whatever holds for the resource, also prefixes and *.")
]


@app.command("add")
def add(
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OfCluster = False,
    allow_principal: Annotated[list[str] | None, typer.Option(help="User:NAME, or User:* for everybody.")] = None,
    deny_principal: Annotated[list[str] | None, typer.Option(help="Likewise. To deny goes before to allow.")] = None,
    allow_host: Hosts = None,
    deny_host: Hosts = None,
    operation: Operations = None,
    producer: Annotated[bool, typer.Option("--producer", help="What a producer needs to --topic.")] = False,
    consumer: Annotated[bool, typer.Option("--consumer", help="What members of --group need to --topic.")] = False,
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="With --producer, for releases of Kafka's clients before 2.8.")
    ] = False,
    pattern: Annotated[Pattern, typer.Option(help="prefixed: names that begin so.")] = Pattern.LITERAL,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Add ACLs: every combination of what the line names. Those that are there already stay."""
    require("this command", "cli")
    resources = Resources(topic or (), group or (), transactional_id or (), cluster)
    granted = Granted(allow_principal or (), deny_principal or (), allow_host or (), deny_host or ())
    try:
        wanted = added(
            resources,
            granted,
            [operation_of(one) for one in operation or ()],
            producer=producer,
            consumer=consumer,
            idempotent=idempotent,
            pattern=PatternType[pattern.name],
        )
    except ValueError as error:
        raise CliError(Exit.USAGE, str(error)) from error
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        acls = [_acl(side.kafka.admin, one) for one in wanted]
        told = side.change(lambda admin: admin.create_acls(acls), "the ACLs were not added")
    failed = [error.__name__ for error in told["failed"]]
    if failed:
        raise CliError(Exit.REFUSED, f"{len(failed)} of {len(wanted)} ACLs were not added: {failed[0]}")
    note(f"{len(wanted)} ACLs hold")


@app.command("list")
def list_acls(
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OfCluster = False,
    principal: OfPrincipals = None,
    pattern: Looked = Found.ANY,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """List ACLs; without options, all of them."""
    resources = Resources(topic or (), group or (), transactional_id or (), cluster)
    wanted = filters(resources, principals=principal or (), pattern=PatternType[pattern.name])
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        emit(_rows(_described(side, wanted)), _LISTED, output)


@app.command("remove")
def remove(
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OfCluster = False,
    principal: OfPrincipals = None,
    operation: Operations = None,
    deny: Annotated[bool, typer.Option("--deny", help="Only what denies.")] = False,
    allow: Annotated[bool, typer.Option("--allow", help="Only what allows.")] = False,
    host: Annotated[str | None, typer.Option(help="Only of this host, as the ACL has it.")] = None,
    pattern: Looked = Found.LITERAL,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Remove the ACLs that the line finds, and show them."""
    require("this command", "cli")
    resources = Resources(topic or (), group or (), transactional_id or (), cluster)
    if not list(resources.named()) and not principal:
        raise CliError(Exit.USAGE, "name a resource or --principal; nothing removes all ACLs at once")
    if allow and deny:
        raise CliError(Exit.USAGE, "--allow and --deny exclude each other; without them both are removed")
    try:
        operations = [operation_of(one) for one in operation or ()]
    except ValueError as error:
        raise CliError(Exit.USAGE, str(error)) from error
    wanted = filters(
        resources,
        principals=principal or (),
        operations=operations,
        permission=Permission.DENY if deny else Permission.ALLOW if allow else Permission.ANY,
        host=host,
        pattern=PatternType[pattern.name],
    )
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        if dry_run:
            emit(_rows(_described(side, wanted)), _LISTED, Format.TABLE)
            note("nothing was removed: this is a dry run")
            return
        asked = [_filter(side.kafka.admin, one) for one in wanted]
        told = side.change(lambda admin: admin.delete_acls(asked), "the ACLs were not removed")
    refused = [problem for _, _, problem in told if problem.errno]
    if refused:
        raise CliError(Exit.REFUSED, f"ACLs were not removed: {refused[0].__name__}")
    gone = list(dict.fromkeys(acl for _, matching, _ in told for acl in matching))
    emit(_rows(gone), _LISTED, Format.TABLE)
    note(f"{len(gone)} ACLs were removed")


def _described(side: KafkaSide, wanted: Sequence[AclFilter]) -> list[Untyped]:
    """Each once, though several filters may find it."""
    found: dict[Untyped, None] = {}
    for one in wanted:
        asked = _filter(side.kafka.admin, one)
        acls, _ = side.ask(partial(_describe, asked), "cannot list ACLs")
        found.update(dict.fromkeys(acls))
    return list(found)


def _describe(wanted: Untyped, admin: Untyped) -> Untyped:
    return admin.describe_acls(wanted)


def _rows(acls: Sequence[Untyped]) -> list[dict[str, str]]:
    rows = [
        {
            "resource": word(acl.resource_pattern.resource_type, AclResourceType),
            "name": acl.resource_pattern.resource_name,
            "pattern": word(acl.resource_pattern.pattern_type, PatternType),
            "principal": acl.principal,
            "host": acl.host,
            "operation": word(acl.operation, AclOperation),
            "permission": word(acl.permission_type, Permission),
        }
        for acl in acls
    ]
    return sorted(rows, key=lambda row: tuple(row.values()))


def _acl(admin: Untyped, acl: Acl) -> Untyped:
    pattern = admin.ResourcePattern(
        admin.ResourceType(acl.resource_type), acl.name, admin.ACLResourcePatternType(acl.pattern)
    )
    operation, permission = admin.ACLOperation(acl.operation), admin.ACLPermissionType(acl.permission)
    return admin.ACL(acl.principal, acl.host, operation, permission, pattern)


def _filter(admin: Untyped, wanted: AclFilter) -> Untyped:
    pattern = admin.ResourcePatternFilter(
        admin.ResourceType(wanted.resource_type), wanted.name, admin.ACLResourcePatternType(wanted.pattern)
    )
    operation, permission = admin.ACLOperation(wanted.operation), admin.ACLPermissionType(wanted.permission)
    return admin.ACLFilter(wanted.principal, wanted.host, operation, permission, pattern)
