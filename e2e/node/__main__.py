"""`python -m e2e.node …`: build, images, up, in, down, run. See e2e/README.md.

Exit status 3 says that this machine cannot run the rung; MUSTER_REQUIRE decides whether `run` then fails or lets the
command run without a node (its tests skip, each with the reason).
"""

import argparse
import os
import signal
import subprocess
import sys
from types import FrameType
from typing import NoReturn

from e2e.node import build, images, promtool, session
from e2e.node.errors import NodeError, Unavailable
from e2e.node.sandbox import Sandbox

CANNOT = 3
MISSING_VARIABLE = "MUSTER_E2E_MISSING"
DEFAULT_TIMEOUT_S = 3_000.0


def main(maker: session.Maker = session.one_node, rung: str = "node", what: str = "A real Kubernetes node") -> int:
    """The command line for clusters that `maker` makes, which the tests of `rung` need."""
    parser = argparse.ArgumentParser(prog=f"python -m e2e.{rung}", description=f"{what} in a sandbox.")
    parser.add_argument("--name", default=rung, help=f"which sandbox (default: {rung})")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT_S, help="seconds a command inside may take")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("build", help="build the cluster's programs; prints their folder")
    verbs.add_parser("promtool", help="find or download Prometheus' promtool; prints its path")
    verbs.add_parser("images", help="build our images; prints their names")
    verbs.add_parser("up", help="a node that stays up until `down`")
    verbs.add_parser("down", help="remove it; nothing but its logs is left")
    for verb, text in (("in", "run a command inside the node that is up"), ("run", "up, the command inside, down")):
        verbs.add_parser(verb, help=text).add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    interruptible()
    try:
        return act(chosen, maker)
    except Unavailable as reason:
        return cannot(chosen, reason, rung)
    except NodeError as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("e2e: interrupted", file=sys.stderr)
        return 130


def act(chosen: argparse.Namespace, maker: session.Maker) -> int:
    sandbox = Sandbox(chosen.name)
    match chosen.verb:
        case "build":
            print(build.build().folder)
        case "promtool":
            print(promtool.promtool())
        case "images":
            for image in images.build(build.build()).all():
                print(f"{image.name}  {image.archive}")
        case "up":
            session.up(sandbox, maker, tied=False)
            print("up; run something in it with: make e2e-in CMD='kubectl get nodes'")
        case "down":
            sandbox.down()
        case "in":
            return session.inside(sandbox, _words(chosen.command), chosen.timeout)
        case "run":
            return session.run(sandbox, maker, _words(chosen.command), chosen.timeout)
    return 0


def cannot(chosen: argparse.Namespace, reason: Unavailable, rung: str) -> int:
    """Say so; let `run`'s command run without a cluster unless one is required."""
    print(f"e2e: NOT RUN ({rung}): {reason}", file=sys.stderr)
    required = os.environ.get("MUSTER_REQUIRE", "").split(",")
    if chosen.verb != "run" or "all" in required or rung in required:
        return CANNOT
    environment = {**os.environ, MISSING_VARIABLE: str(reason)}
    return subprocess.run(_words(chosen.command), env=environment, timeout=chosen.timeout, check=False).returncode


def _words(command: list[str]) -> list[str]:
    words = command[1:] if command[:1] == ["--"] else command
    if not words:
        raise NodeError("no command given")
    return words


def interruptible() -> None:
    """TERM and HUP end this process as Ctrl-C does: by an exception that lets `finally` clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
