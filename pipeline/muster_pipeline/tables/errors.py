"""Errors of tables: bad input, damage on disk, and limits reached."""


class TablesError(Exception):
    """Base of all errors of tables, store, stage and what-if."""


class UnknownTable(TablesError):
    """No table of that name."""


class NothingPublished(TablesError):
    """Nothing was ever published there, or nothing of that cluster or run."""


class DamagedStore(TablesError):
    """Data files or tables are not what was published."""


class LimitReached(TablesError):
    """A named limit would be exceeded; the message says which, and what to do."""


class BadInput(TablesError):
    """A given file or setting cannot be used."""


class OldFolder(TablesError):
    """The folder's tables are of release 0.1, which kept a list of files instead of Delta tables."""


class RunExpired(TablesError):
    """The run was published, and its files are kept no more."""


class NotShared(TablesError):
    """What the executors wrote cannot be read by the driver."""


class StoreBusy(TablesError):
    """Another run of the same cluster writes into the same folder, or has just published there."""


class StoreFailed(TablesError):
    """The store did not do what was asked: not reachable, no right, no space."""


class NotExclusive(TablesError):
    """The store would let two writers replace each other's commits unseen."""


class FateUnknown(StoreFailed):
    """The store did not say whether it has committed a run; it may be published."""
