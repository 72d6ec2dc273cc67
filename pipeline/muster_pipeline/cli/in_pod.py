"""`muster driver` and `muster executor`: what Spark's Kubernetes scheduler calls in the pods that it makes.

They stand beside `muster pipeline`, as the scheduler gives no other words to an image, and are hidden: no person calls
them.
"""

import os
from typing import Final

import typer

from muster_pipeline.cli.failures import failures_told

AS_THEY_ARE: Final = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}
"""Every word is spark-submit's."""


def add_pod_commands(app: typer.Typer) -> None:
    for command in (driver, executor):
        app.command(command.__name__, hidden=True, add_help_option=False, context_settings=AS_THEY_ARE)(command)


def driver(context: typer.Context) -> None:
    """Become spark-submit, with the words that follow."""
    with failures_told():
        from muster_pipeline.session import pod

        pod.driver(context.args, os.environ).begin()


def executor() -> None:
    """Become the JVM of an executor."""
    with failures_told():
        from muster_pipeline.session import pod

        pod.executor(os.environ).begin()
