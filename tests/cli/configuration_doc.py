"""docs/configuration.md from the settings themselves: `python -m tests.cli.configuration_doc` writes it anew."""

from pathlib import Path

from muster_coordinator import exits
from muster_coordinator.settings import key_docs

FILE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"

_HEAD = """# Configuration of `muster server`

A properties file, as Kafka's: `muster server --config server.properties`. Keys carry Kafka's names, defaults and
meaning where Kafka has the setting; `muster.*`, `topics.mode` and `shutdown.grace.ms` are Muster's own. A key that is
not in this table stops the start and is named, because a setting that is silently ignored is worse than none. `muster
dev` writes such a file for each of its replicas (`DIR/replica-N/server.properties`) and takes more settings with
`--set KEY=VALUE`.

`${env:NAME}` in a value stands for the environment variable NAME (Kafka's syntax, KIP-887), anywhere in the value and
more than once, so that one file serves several replicas. A variable that is not set stops the start and is named.

This file is written from the settings' source (`python -m tests.cli.configuration_doc`); a test holds the two together.

| key | default | |
|---|---|---|
"""

_EXITS = f"""
## Exit codes

| code | meaning | start again? |
|---|---|---|
| {exits.OK} | drained and stopped, or stopped at once by a second signal | |
| {exits.BUG} | an invariant is broken; traceback on standard error | yes: the log is what counts |
| {exits.CORRUPTION} | stored bytes are damaged or of a later version, or the folder belongs elsewhere | no: a person has to look |
| {exits.UNAVAILABLE} | an address cannot be bound, or another process has the data folder | yes, later |
| {exits.STORAGE} | a write or fsync failed | yes, on a disk that works |
| {exits.DEADLINE} | stopped, but draining did not finish within `shutdown.grace.ms` | |
| {exits.CONFIG} | the configuration cannot be used; the message names the key | no |

## A new release, and back

Roll the replicas one after the other, in any order. The cluster stays at the *feature level* that all of them could do before
(`muster cluster status -o json`, the metric `muster_feature_level`): the new release writes nothing that the one before
cannot read, and going back is another roll. When every replica has run the new release for `muster.feature.finalize.ms` without a
break, the controller's leader raises the level, for good: a replica of the release before is refused from then on, in the words
"the cluster has feature level 2, broker 1 supports up to 1". A replica that is away or goes back, and a new leader of the
controller, begin the wait anew; with `-1` the level stays where it is.

## Stopping

SIGTERM (and Ctrl-C): the replica becomes unready, hands its leaderships to voters that are caught up, closes client
connections over two seconds and ends, all within `shutdown.grace.ms`. A second signal ends it at once; nothing
acknowledged is lost either way. A replica that is alone stops at once.
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
