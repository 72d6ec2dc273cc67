"""`muster operator`: makes settings of options and environment variables, runs the operator, and returns an exit code.

Exit codes: 0 after a signal, 2 for settings that cannot be used or a package that is not installed, 3 when leadership
was lost (start again), 1 for anything else.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer

from muster_operator.errors import LeadershipLost, OperatorError
from muster_operator.extras import missing_packages
from muster_operator.limits import WORKERS_DEFAULT
from muster_operator.naming import LEASE_NAME
from muster_operator.probe import probe
from muster_operator.runtime.logs import set_up
from muster_operator.settings import LOG_LEVELS, Settings, SettingsError, split_labels, split_list

EXIT_USAGE = 2
EXIT_LEADERSHIP_LOST = 3

P = ParamSpec("P")


PlatformSetsUser = Annotated[
    bool,
    typer.Option(
        envvar="MUSTER_OPERATOR_PLATFORM_SETS_USER",
        help="Let the platform (OpenShift) choose the coordinators' user and groups.",
    ),
]
Namespaces = Annotated[
    str,
    typer.Option(envvar="MUSTER_OPERATOR_NAMESPACES", help="Namespaces to watch, separated by commas; all if empty."),
]
MaxRollouts = Annotated[
    int,
    typer.Option(
        envvar="MUSTER_OPERATOR_MAX_CONCURRENT_CLUSTER_ROLLOUTS",
        help="Clusters that roll out a new operator image at the same time.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add `operator` and `probe` to `app` (entry-point group `muster.commands`)."""
    app.command("operator")(_with_packages(operator))
    app.command("probe")(probe)


def _with_packages(command: Callable[P, None]) -> Callable[P, None]:
    """`command`; if a package that it imports is not installed, it prints one sentence and exits with code 2."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        lacking = missing_packages()
        if lacking is not None:
            typer.echo(f"muster operator: {lacking}", err=True)
            raise typer.Exit(EXIT_USAGE)
        command(*args, **kwargs)

    return run


def operator(
    image: Annotated[
        str, typer.Option(envvar="MUSTER_OPERATOR_IMAGE", help="Image of coordinators whose spec sets none.")
    ] = "",
    image_pull_policy: Annotated[
        str, typer.Option(envvar="MUSTER_OPERATOR_IMAGE_PULL_POLICY", help="Always, IfNotPresent or Never.")
    ] = "",
    platform_sets_user: PlatformSetsUser = False,
    namespace: Namespaces = "",
    own_namespace: Annotated[
        str, typer.Option(envvar="POD_NAMESPACE", help="Namespace in which this operator runs and keeps its Lease.")
    ] = "default",
    lease_name: Annotated[
        str,
        typer.Option(envvar="MUSTER_OPERATOR_LEASE_NAME", help="Name of the Lease; each Helm release needs its own."),
    ] = LEASE_NAME,
    identity: Annotated[
        str, typer.Option(envvar="POD_NAME", help="Holder identity in the Lease; made from the host name if empty.")
    ] = "",
    pod_labels: Annotated[
        str, typer.Option(envvar="MUSTER_OPERATOR_POD_LABELS", help="Labels of this pod (key=value,...).")
    ] = "",
    max_concurrent_cluster_rollouts: MaxRollouts = 1,
    cluster_rollout_delay: Annotated[
        int, typer.Option(envvar="MUSTER_OPERATOR_CLUSTER_ROLLOUT_DELAY", help="Seconds between two such rollouts.")
    ] = 30,
    leader_elect: Annotated[
        bool, typer.Option(envvar="MUSTER_OPERATOR_LEADER_ELECT", help="Act only while holding the Lease.")
    ] = True,
    probe_host: Annotated[
        str, typer.Option(envvar="MUSTER_OPERATOR_PROBE_HOST", help="Address for /livez, /readyz and /metrics.")
    ] = "0.0.0.0",
    probe_port: Annotated[
        int, typer.Option(envvar="MUSTER_OPERATOR_PROBE_PORT", help="Port of these endpoints; 0: any free port.")
    ] = 8080,
    workers: Annotated[
        int, typer.Option(envvar="MUSTER_OPERATOR_WORKERS", help="Objects that are reconciled at the same time.")
    ] = WORKERS_DEFAULT,
    log_level: Annotated[str, typer.Option(envvar="MUSTER_OPERATOR_LOG_LEVEL", help=", ".join(LOG_LEVELS))] = "info",
    kubeconfig: Annotated[
        str, typer.Option(help="Kubeconfig file. Default: the pod's service account, else KUBECONFIG.")
    ] = "",
) -> None:
    """Run the Kubernetes operator for CoordinatorCluster and ConsumerGroup."""
    try:
        settings = Settings(
            image=image, image_pull_policy=image_pull_policy or None,
            platform_sets_user=platform_sets_user, namespaces=split_list(namespace),
            own_namespace=own_namespace, lease_name=lease_name, identity=identity, pod_labels=split_labels(pod_labels),
            max_concurrent_cluster_rollouts=max_concurrent_cluster_rollouts,
            cluster_rollout_delay_s=cluster_rollout_delay,
            leader_elect=leader_elect, probe_host=probe_host, probe_port=probe_port, workers=workers,
            log_level=log_level, kubeconfig=kubeconfig or None,
        )  # fmt: skip
    except SettingsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_USAGE) from None
    set_up(settings.log_level)
    try:
        asyncio.run(_run(settings))
    except LeadershipLost as error:
        logging.getLogger("muster.operator").error("leadership lost", extra={"error": error.message})
        raise typer.Exit(EXIT_LEADERSHIP_LOST) from None
    except OperatorError as error:
        logging.getLogger("muster.operator").error("stopped", extra={"error": str(error)})
        raise typer.Exit(1) from None


async def _run(settings: Settings) -> None:
    from muster_operator.app import Operator  # imports kopf and kubernetes, which `muster --help` does not need

    await Operator(settings).run()


if __name__ == "__main__":
    typer.run(operator)
