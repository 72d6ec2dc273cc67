"""`muster pipeline …`: the command line of the pipeline.

The entry-point group `muster.commands` loads `register`. Nothing here imports Spark, Arrow or numpy before a
sub-command runs, so `muster --help` stays fast and works where the extra is not installed.
"""

from muster_pipeline.cli.commands import register

__all__ = ["register"]
