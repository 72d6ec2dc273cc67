"""A replica's surface that also measures how long commits take, from the decoded request to its answer."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from muster_coordinator.context import RequestContext
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, OffsetCommit
from muster_coordinator.histogram import Histogram
from muster_coordinator.replica.surface import Surface


def timed_commits(surface: Surface, latency: Histogram, now_ns: Callable[[], int]) -> Surface:
    """The same surface; only OffsetCommit pays for the measurement, the other calls are the replica's own methods."""
    group_request = surface.group_request

    def timed(
        partition: int, request: GroupRequest, context: RequestContext, done: Callable[[GroupAnswer], None]
    ) -> None:
        if type(request) is not OffsetCommit:
            group_request(partition, request, context, done)
            return
        began_ns = now_ns()

        def answered(answer: GroupAnswer) -> None:
            latency.observe((now_ns() - began_ns) / 1e9)
            done(answer)

        group_request(partition, request, context, answered)

    names = {*Surface.__annotations__, *(name for name in vars(Surface) if not name.startswith("_"))}
    members = {name: getattr(surface, name) for name in names}
    return cast(Surface, SimpleNamespace(**(members | {"group_request": timed})))
