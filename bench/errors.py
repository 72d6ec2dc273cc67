"""Errors that prevent a measurement. Each is caused by the machine or a server; none is a result."""


class BenchError(Exception):
    """One sentence for the person who started the benchmark."""


class SideMissing(BenchError):
    """This machine cannot run one of the sides: the row says so, and its other sides are measured."""


class RunFailed(BenchError):
    """A run gave no figure: the generator failed, requests failed, or a server was not in the expected state."""
