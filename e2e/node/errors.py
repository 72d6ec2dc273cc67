"""What can go wrong around the test cluster, in two families: the machine lacks something, or something broke.

The difference decides skip or failure: `Unavailable` is a skip with its reason (a failure under MUSTER_REQUIRE=all),
`Broken` is always a failure.
"""


class NodeError(Exception):
    """Base of both; the message is one sentence for a person."""


class Unavailable(NodeError):
    """This machine cannot run the rung: not root, not Debian, no Go, no registry. Says what to install."""


class Broken(NodeError):
    """The machine could, and it failed: a daemon died, a time limit passed, something was left behind."""
