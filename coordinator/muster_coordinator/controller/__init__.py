"""The controller group's state (Raft group 0): brokers, topics, routing, producer id blocks, feature level.

`machine.ControllerMachine` applies the COMMAND entries of `commands` (bytes: `codec`, effect: `transitions`) to one
immutable `image.ClusterImage`, which every room above reads. The API validates by `topic_names` and `topic_configs`
before it proposes. Why there is a controller group: docs/adr/0002-controller-group.md.
"""
