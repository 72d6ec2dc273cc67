"""The controller group's state (Raft group 0): brokers, topics, routing, producer id blocks, feature level.

`machine.ControllerMachine` applies the COMMAND entries of `commands` (bytes: `codec`, effect: `transitions`) to one
immutable `image.ClusterImage`, which every room above reads. `topic_names` and `topic_configs` are the rules that the
API checks before it proposes. Why a controller group exists: docs/adr/0002-controller-group.md.
"""
