"""docs/configuration.md from the settings themselves: `python -m tests.cli.configuration_doc` writes it anew."""

from pathlib import Path

from muster_coordinator import exits
from muster_coordinator.settings import key_docs

FILE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"

_HEAD = """# Configuration of `muster server`

A properties file, like Kafka's: `muster server --config server.properties`. Keys have Kafka's names, defaults and
meaning where Kafka has the setting; `muster.*`, `redis.*`, `topics.mode` and `shutdown.grace.ms` are Muster's own. A key that is
not in this table is an error that names it and ends the start: a setting must not be ignored silently. `muster dev`
writes such a file for each of its replicas (`DIR/replica-N/server.properties`) and takes more settings with
`--set KEY=VALUE`.

`${env:NAME}` in a value stands for the environment variable NAME (Kafka's syntax, KIP-887), anywhere in the value and
more than once, so that one file serves several replicas. A variable that is not set is an error that names it.

This file is written from the settings' source (`python -m tests.cli.configuration_doc`); a test holds the two together.

| key | default | |
|---|---|---|
"""

_EXITS = f"""
## Exit codes

| code | meaning | start again? |
|---|---|---|
| {exits.OK} | drained and stopped, or stopped at once by a second signal | |
| {exits.BUG} | an invariant is broken; traceback on standard error | yes: the replica recovers from its log |
| {exits.CORRUPTION} | stored bytes are damaged or of a later version, or the folder belongs to another cluster | no: an administrator has to look at it |
| {exits.UNAVAILABLE} | an address cannot be bound, or another process uses the data folder | yes, later |
| {exits.STORAGE} | a write or fsync failed | yes, on a disk that works |
| {exits.DEADLINE} | stopped, but draining did not finish within `shutdown.grace.ms` | |
| {exits.CONFIG} | the configuration is not valid; the message names the key | no |

## A new release, and back

Roll the replicas one after the other, in any order. The cluster stays at the *feature level* that all of them supported before
(`muster cluster status -o json`, the metric `muster_feature_level`): the new release writes nothing that the previous one
cannot read, and going back is another roll. When every replica has run the new release for `muster.feature.finalize.ms` without
interruption, the controller's leader raises the level for good. From then on a replica of the previous release is refused with
"the cluster has feature level 2, broker 1 supports up to 1". The wait begins again when a replica is away or goes back, and when the
controller gets a new leader; with `-1` the level is never raised.

## Stopping

On SIGTERM or Ctrl-C the replica becomes unready, hands its leaderships to voters that have caught up, closes client
connections over two seconds and ends, all within `shutdown.grace.ms`. A second signal ends it at once; nothing
acknowledged is lost in either case. The only replica of a cluster stops at once.
"""


def text() -> str:
    rows = [f"| `{row.key}` | {_default(row.default)} | {row.text} |" for row in key_docs()]
    return _HEAD + "\n".join(rows) + "\n" + _EXITS


def _default(value: str | None) -> str:
    if value is None:
        return "must be set"
    return f"`{value}`" if value else ""


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
