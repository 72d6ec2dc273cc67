"""Errors of tables: bad input, damage on disk, and limits reached."""


class TablesError(Exception):
    """Base of all errors of tables, store, stage and what-if."""


class UnknownTable(TablesError):
    """No table of that name."""


class NothingPublished(TablesError):
    """The folder has no manifest: nothing was ever published there."""


class DamagedStore(TablesError):
    """Manifest or data files are not what was published."""


class LimitReached(TablesError):
    """A named limit would be exceeded; the message says which, and what to do."""


class BadInput(TablesError):
    """A given file or setting cannot be used."""
