"""`muster quota`: how much clients may use: list, set, remove.

The options are those of `kafka-configs`; what is set here is shown there, and the reverse. kafka-python has the
messages of quotas and no method for them, so they are sent by its connection manager, a private name of it.
"""

from collections.abc import Mapping
from typing import Annotated

import typer

from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.extras import require
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide, Untyped
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Output, Timeout
from muster_coordinator.cli.output import Column, Format, emit, note
from muster_coordinator.cli.quota_plan import Named, assigned, number, removed, shown
from muster_coordinator.security.quota_entities import DEFAULT, QuotaEntity, entity_of

app = typer.Typer(help="Say how much clients may use (quotas).", no_args_is_help=True)

_LISTED = (
    Column("user", "USER"),
    Column("client", "CLIENT"),
    Column("ip", "IP"),
    Column("quota", "QUOTA"),
    Column("value", "VALUE", numeric=True),
)
_EXACT, _DEFAULT = 0, 1
"""Types of matches of a filter."""

User = Annotated[str | None, typer.Option("--user", help="A user's name, without User:.")]
Client = Annotated[str | None, typer.Option("--client", help="A client id.")]
Ip = Annotated[str | None, typer.Option("--ip", help="An IP address.")]
Users = Annotated[bool, typer.Option("--user-defaults", help="Every user without a quota of its own.")]
Clients = Annotated[bool, typer.Option("--client-defaults", help="Every client id without a quota of its own.")]
Ips = Annotated[bool, typer.Option("--ip-defaults", help="Every address without a quota of its own.")]


@app.command("list")
def list_quotas(
    user: User = None,
    client: Client = None,
    ip: Ip = None,
    user_defaults: Users = False,
    client_defaults: Clients = False,
    ip_defaults: Ips = False,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """List quotas; with options, those of entities that have these parts, and maybe others."""
    require("this command", "cli")
    entity = _entity(Named(user, client, ip, user_defaults, client_defaults, ip_defaults))
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        found = _described(side, entity, strict=False)
    rows = [
        {**shown(one), "quota": key, "value": number(value)}
        for one, quotas in sorted(found.items())
        for key, value in sorted(quotas.items())
    ]
    emit(rows, _LISTED, output)


@app.command("set")
def set_quotas(
    quotas: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Such as producer_byte_rate=1048576.")],
    user: User = None,
    client: Client = None,
    ip: Ip = None,
    user_defaults: Users = False,
    client_defaults: Clients = False,
    ip_defaults: Ips = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Set quotas of one entity. Others that it has stay. They hold within a second, on open connections too."""
    require("this command", "cli")
    entity = _entity(Named(user, client, ip, user_defaults, client_defaults, ip_defaults))
    try:
        wanted = assigned(entity, quotas)
    except ValueError as error:
        raise CliError(Exit.USAGE, str(error)) from error
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        _alter(side, entity, wanted)
    note(f"{_called(entity)}: " + ", ".join(f"{key}={number(value)}" for key, value in wanted.items()))


@app.command("remove")
def remove(
    quotas: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="Default: all that it has.")] = None,
    user: User = None,
    client: Client = None,
    ip: Ip = None,
    user_defaults: Users = False,
    client_defaults: Clients = False,
    ip_defaults: Ips = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Remove quotas of one entity. Its clients are held by the next level that has one."""
    require("this command", "cli")
    entity = _entity(Named(user, client, ip, user_defaults, client_defaults, ip_defaults))
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        try:
            removed(entity, quotas or (), ())
            keys = removed(entity, quotas or (), _described(side, entity, strict=True).get(entity, {}))
        except ValueError as error:
            raise CliError(Exit.USAGE, str(error)) from error
        if not keys:
            raise CliError(Exit.NOT_FOUND, f"{_called(entity)} has no quotas")
        _alter(side, entity, dict.fromkeys(keys))
    note(f"{_called(entity)}: no {', '.join(keys)}")


def _entity(named: Named) -> QuotaEntity:
    try:
        return named.entity()
    except ValueError as error:
        raise CliError(Exit.USAGE, str(error)) from error


def _called(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {name}" for kind, name in shown(entity).items() if name)


def _described(side: KafkaSide, entity: QuotaEntity, *, strict: bool) -> dict[QuotaEntity, dict[str, float]]:
    """Quotas of all entities that have these parts; strictly: and no others."""
    from kafka.protocol.admin import DescribeClientQuotasRequest  # loaded by `KafkaSide`

    components = [
        (kind, _DEFAULT if name == DEFAULT else _EXACT, None if name == DEFAULT else name) for kind, name in entity
    ]
    request = DescribeClientQuotasRequest(components=components, strict=strict)

    def described(admin: Untyped) -> Untyped:
        answer = _sent(admin, request)
        _raise(side, answer.error_code, answer.error_message)
        return answer.entries or ()

    return {
        entity_of((part.entity_type, part.entity_name or DEFAULT) for part in one.entity): {
            value.key: value.value for value in one.values
        }
        for one in side.ask(described, "cannot list quotas")
    }


def _alter(side: KafkaSide, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
    """Set or, where the value is None, remove."""
    from kafka.protocol.admin import AlterClientQuotasRequest  # loaded by `KafkaSide`

    parts = [(kind, name or None) for kind, name in entity]
    ops = [(key, value or 0.0, value is None) for key, value in values.items()]
    request = AlterClientQuotasRequest(entries=[(parts, ops)], validate_only=False)

    def altered(admin: Untyped) -> None:
        for entry in _sent(admin, request).entries:
            _raise(side, entry.error_code, entry.error_message)

    side.change(altered, "the quotas were not changed")


def _sent(admin: Untyped, request: Untyped) -> Untyped:
    async def sent() -> Untyped:
        return await admin._manager.send(request)

    return admin._manager.run(sent)


def _raise(side: KafkaSide, code: int, message: str | None) -> None:
    """Raises the error of an answer that has one."""
    kind = side.kafka.errors.for_code(code)
    if kind is not side.kafka.errors.NoError:
        raise kind(message or "")
