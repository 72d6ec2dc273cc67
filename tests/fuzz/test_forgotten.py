"""What is answered is forgotten: neither a timer, nor a queue, nor a circle of references keeps a request or its bytes.

The collector looks at everything but rarely (`runtime.gc_policy`), and a producer's requests are megabytes: kept until
their deadline of half a minute they were all that was written in it.
"""

import gc
from collections import Counter
from random import Random

import pytest
from muster_coordinator.context import RequestContext
from muster_coordinator.wire.schema import schema
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.fuzz import extremes
from tests.fuzz.sane import MAKERS, plain
from tests.fuzz.target import Target

pytestmark = pytest.mark.fuzz

REQUESTS = 3
ANSWERED_MS, DEADLINE_MS = 1_500, 30_000


def kept() -> Counter[str]:
    """Requests that something still refers to, by their names."""
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        request = kind.__module__ == "muster_coordinator.wire.reader" and kind.__name__.endswith("Request")
        if request or kind is RequestContext:
            found[kind.__name__] += 1
    return found


@pytest.mark.parametrize("api", [int(api) for api in VERSIONS], ids=[Api(api).name for api in VERSIONS])
def test_what_is_answered_is_forgotten(api: int) -> None:
    target, rand = Target(f"forgotten {api}"), Random(api)
    gc.collect()
    gc.disable()  # a circle of references must not be helped
    try:
        before = kept()
        for version in (VERSIONS[api].min, VERSIONS[api].max):
            for number in range(REQUESTS):
                target.prepare(api)
                values = {**plain(schema(api, version, "request")), **MAKERS[api](rand, target.known)}
                values["timeout_ms"] = DEADLINE_MS
                assert target.give(extremes.frame(api, version, values, number, "c")).decoded
        target.world.run_for(ANSWERED_MS)
        assert kept() - before == Counter()
    finally:
        gc.enable()
