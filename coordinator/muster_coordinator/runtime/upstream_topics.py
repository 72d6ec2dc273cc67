"""Questions to the upstream about topics that commits name (`upstream.topic_counts`).

Problem: a commit has to be answered soon, since heartbeats on its connection wait behind it; and a client may name
thousands of topics that are not there. Mechanism: what is in the last list is known at once; the rest is asked for at
one broker and then at another one, in `TOPICS_ASKED_MS_MAX` altogether. What is not answered by then, or is too much to
be asked, is not known, and nobody is refused for it. Who asks is told in the order of the questions, and what is being
asked for is in doubt for everybody: else a later commit would overtake an earlier one, and be replaced by it. What this
does not do: look on its own.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from muster_coordinator.errors import WireError
from muster_coordinator.runtime.upstream_dial import UpstreamDialler
from muster_coordinator.runtime.upstream_frames import Frames
from muster_coordinator.upstream import limits
from muster_coordinator.upstream.looks import ask_versions, metadata_version, read_versions
from muster_coordinator.upstream.topic_counts import Counts, agreed, ask_named, lacking, read_counts

Address = tuple[str, int]


class UpstreamTopics:
    """Of one process. `whom` gives addresses, another one first each time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, dialler: UpstreamDialler, whom: Callable[[], list[Address]]
    ) -> None:
        self._loop = loop
        self._dialler = dialler
        self._whom = whom
        self._counts: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: asyncio.Task[None] | None = None
        """Of the question before."""
        self._asked: Counter[str] = Counter()
        """Topics that are in a question now."""

    def listed(self, counts: Counts) -> None:
        """The latest list of all topics."""
        self._counts = dict(counts)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def doubtful(self, wanted: Mapping[str, int]) -> Mapping[str, int]:
        """Of `wanted` (topic -> its highest partition) what is not known to be there, or is being asked for."""
        found = lacking(wanted, self._counts)
        return found | {name: wanted[name] for name in self._asked.keys() & wanted.keys()} if self._asked else found

    def ask(self, wanted: Mapping[str, int], told: Callable[[Counts], None]) -> None:
        """`told` is called once, unless `close` is called before."""
        many = len(self._tasks) >= limits.TOPIC_QUESTIONS_MAX or len(wanted) > limits.TOPICS_ASKED_MAX
        self._asked.update(wanted.keys())
        task = self._loop.create_task(self._ask({} if many else dict(wanted), wanted.keys(), self._last, told))
        self._last = task
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._last is task:
            self._last = None
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _ask(
        self,
        wanted: dict[str, int],
        names: Iterable[str],
        before: asyncio.Task[None] | None,
        told: Callable[[Counts], None],
    ) -> None:
        found = await self._found(wanted) if wanted else {}
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._counts |= {name: count for name, count in found.items() if count}
        self._asked -= Counter(names)
        told(found)

    async def _found(self, wanted: dict[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        try:
            async with asyncio.timeout(limits.TOPICS_ASKED_MS_MAX / 1_000):
                found = await self._at_one(wanted)
                again = lacking(wanted, found)
                if again:
                    first = {name: found.pop(name) for name in again if name in found}
                    await asyncio.sleep(limits.TOPICS_ASKED_AGAIN_MS / 1_000)
                    found |= agreed(first, await self._at_one(again))
        except (OSError, TimeoutError):
            pass  # What was found until then is known.
        return found

    async def _at_one(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """By the first one that answers. Raises OSError if nobody does."""
        problem: OSError = ConnectionError("nobody is known")
        for address in self._whom():
            frames = Frames(self._loop)
            try:
                await self._dialler.connect(address, lambda made=frames: made)  # type: ignore[misc]
                version = metadata_version(read_versions(await frames.ask(ask_versions(1))))
                frame = await frames.ask(ask_named(version, 2, wanted))
                # Off the loop: a topic that is there is answered with all of its partitions.
                return await self._loop.run_in_executor(None, read_counts, version, frame)
            except OSError as error:
                problem = error
            except WireError as error:
                problem = ConnectionError(str(error))
            finally:
                frames.close()
        raise problem
