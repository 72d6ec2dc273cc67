"""Entry point of `kubectl-muster`: the plug-in, or one sentence if the packages that it imports are not installed.

The exit code is 2 then, as for every command that cannot be used.
"""

import sys

from muster_operator.extras import missing_packages

EXIT_USAGE = 2


def main() -> None:
    """Run the plug-in; raises SystemExit."""
    lacking = missing_packages()
    if lacking is not None:
        sys.stderr.write(f"kubectl muster: {lacking}\n")
        raise SystemExit(EXIT_USAGE)
    from muster_operator.plugin.main import main as run  # imports yaml and kubernetes

    run()


def complete() -> None:
    """Entry point of `kubectl_complete-muster`, which kubectl's shell completion runs; no candidates if packages are
    missing."""
    if missing_packages() is not None:
        sys.stdout.write(":4\n")
        return
    from muster_operator.plugin.completing import main as run  # imports kubernetes

    run()
