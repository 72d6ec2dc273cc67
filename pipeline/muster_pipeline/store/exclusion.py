"""Does a store of objects let one of two commits of the same version fail?

Everything about two writers rests on that: `If-None-Match` on S3, or a lock table that delta-rs is told of
(`AWS_S3_LOCKING_PROVIDER`). A store that knows neither takes both commits, and the second one silently replaces the
first. So a writer has several commits of one version race before it writes, on a table of its own that it removes
again. They must race: delta-rs looks for a newer version first, so that a commit that comes later fails by that. What
it cannot show is that a store decides rightly every time: a race that nobody loses by chance is no proof.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import PrimitiveType
from pyarrow import fs

from muster_pipeline.store.delta import LOG, reason
from muster_pipeline.store.limits import PROBE_COMMITS, PROBE_RACES
from muster_pipeline.store.place import Place
from muster_pipeline.tables.errors import NotExclusive, StoreFailed

PROBE: Final = "_exclusion-probe-"
_SCHEMA: Final = Schema([Field("nothing", PrimitiveType("integer"))])
_passed: Final[set[Place]] = set()


def check(place: Place, token: str) -> None:
    """Raises NotExclusive, and StoreFailed if the store does not answer. A local folder has locks. A place that has
    passed is not asked again by this process."""
    if place.local is not None or place in _passed:
        return
    for number in range(PROBE_RACES):
        name = f"{PROBE}{token}-{number}"
        try:
            made = _race(place.table(name))
        except (DeltaError, OSError) as error:
            raise StoreFailed(f"{place} cannot be written: {reason(error)}") from error
        finally:
            _removed(place, name)
        if made > 1:
            raise NotExclusive(
                f"{place}: this store lets two writers make the same version of a table, so that one would replace the "
                "other unseen; it must know If-None-Match, or delta-rs needs a lock table "
                "(AWS_S3_LOCKING_PROVIDER=dynamodb)"
            )
    _passed.add(place)


def forget() -> None:
    """Ask every place again."""
    _passed.clear()


def _race(uri: str) -> int:
    """How many commits of the same version were made."""
    DeltaTable.create(uri, _SCHEMA)
    start = Barrier(PROBE_COMMITS)

    def is_made(found: DeltaTable) -> bool:
        start.wait()
        try:
            found.create_write_transaction(
                [], "append", _SCHEMA, commit_properties=CommitProperties(max_commit_retries=0)
            )
        except CommitFailedError:
            return False
        return True

    entered = [DeltaTable(uri) for _ in range(PROBE_COMMITS)]
    with ThreadPoolExecutor(PROBE_COMMITS) as pool:
        return sum(pool.map(is_made, entered))


def _removed(place: Place, name: str) -> None:
    system = place.files(name)
    try:
        for info in system.get_file_info(fs.FileSelector(LOG, allow_not_found=True)):
            system.delete_file(info.path)
    except OSError:
        return  # a few bytes stay
