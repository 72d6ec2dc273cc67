"""What can keep a row from being measured; all of it is the machine's or a server's doing, none of it a figure."""


class BenchError(Exception):
    """One sentence for the person who started the measurement."""


class SideMissing(BenchError):
    """This machine cannot run one of the sides: the row says so, its other sides are measured."""


class RunFailed(BenchError):
    """A run gave no figure: the generator failed, requests failed, or a server was not where it should be."""
