"""`muster pipeline …`: the command line of the pipeline, one file a sub-command.

`register` is what the entry-point group `muster.commands` loads. Nothing here imports Spark, Arrow or numpy before a
sub-command runs, so `muster --help` stays fast and works where the extra is not installed.
"""

from muster_pipeline.cli.commands import register

__all__ = ["register"]
