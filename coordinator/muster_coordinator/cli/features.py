"""`muster cluster features`: which feature levels brokers support, which are in force, and to raise ours (decision 16).

It asks what `kafka-features` asks, by the Kafka protocol. The level rises by itself some time after every broker
supports a higher one; once it is raised, here or by itself, no broker can go back to the release before. It never
falls: `--downgrade` only tells why not. What this does not do: ask each broker. It shows what one of them supports;
whether all do, the controller checks when the level is raised, also with `--dry-run`.
"""

from typing import Annotated

import typer

from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.kafka_client import DEFAULT_TIMEOUT_S, KafkaSide, Untyped
from muster_coordinator.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientConfig, Output, Timeout
from muster_coordinator.cli.output import Column, Format, emit, note

FEATURE = "muster.feature.level"
"""The one that can be raised; others follow from it."""

_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_LISTED = (
    Column("feature", "FEATURE"),
    Column("supported_min", "SUPPORTED-MIN", numeric=True),
    Column("supported_max", "SUPPORTED-MAX", numeric=True),
    Column("finalized", "FINALIZED", numeric=True),
)


def register(app: typer.Typer) -> None:
    """Add the command to `muster cluster`."""
    app.command("features")(features)


def features(
    upgrade: Annotated[
        int | None, typer.Option("--upgrade", metavar="LEVEL", min=1, help=f"Raise {FEATURE} to this level.")
    ] = None,
    downgrade: Annotated[
        int | None, typer.Option("--downgrade", metavar="LEVEL", min=1, help="Lower it. Refused, with the reason.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether it could be done.")] = False,
    output: Output = Format.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    config: ClientConfig = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show feature levels; raise the cluster's."""
    if upgrade is not None and downgrade is not None:
        raise CliError(Exit.USAGE, "--upgrade and --downgrade exclude each other")
    level = downgrade if upgrade is None else upgrade
    if level is None and dry_run:
        raise CliError(Exit.USAGE, "--dry-run needs --upgrade or --downgrade")
    with KafkaSide(bootstrap, read_client_properties(config), timeout) as side:
        if level is None:
            emit(_shown(side.ask(lambda admin: admin.describe_features(), "cannot ask for features")), _LISTED, output)
            return
        kind = _UPGRADE if upgrade is not None else _SAFE_DOWNGRADE
        refused = side.change(
            lambda admin: _asked(side, admin, level, kind, dry_run, int(timeout * 1000)), f"{FEATURE} is not {level}"
        )
    if refused:
        raise CliError(Exit.REFUSED, f"{FEATURE} is not {level}: {refused}")
    note(f"{FEATURE} can be {level}; nothing was changed" if dry_run else f"{FEATURE} is {level}")


def _asked(side: KafkaSide, admin: Untyped, level: int, kind: int, dry_run: bool, timeout_ms: int) -> str:
    """Why not; "" if it is done. kafka-python's own method loses the words of a refusal in the newest version of the
    request, so the one before is sent, by its connection manager, a private name of it."""
    from kafka.protocol.admin import UpdateFeaturesRequest  # loaded by `KafkaSide`

    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=FEATURE, max_version_level=level, allow_downgrade=kind != _UPGRADE, upgrade_type=kind
    )
    request = UpdateFeaturesRequest(
        timeout_ms=timeout_ms, feature_updates=[update], validate_only=dry_run, min_version=1, max_version=1
    )

    async def sent() -> Untyped:
        return await admin._manager.send(request)

    answer = admin._manager.run(sent)
    told = [(answer.error_code, answer.error_message), *((one.error_code, one.error_message) for one in answer.results)]
    for code, message in told:
        kind_of_error = side.kafka.errors.for_code(code)
        if code and kind_of_error.retriable:
            raise kind_of_error(message or "")
        if code:
            return str(message or kind_of_error.__name__)
    return ""


def _shown(told: dict[str, dict[str, Untyped]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, one in sorted(told.items()):
        lowest, highest = one.get("supported", (None, None))
        _, level = one.get("finalized", (None, None))
        rows.append({"feature": name, "supported_min": lowest, "supported_max": highest, "finalized": level})
    return rows
