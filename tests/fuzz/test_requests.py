"""No client byte ends a replica, spoils its state, or keeps it from telling it: extremes, and a corpus.

The replica is the product's own node, connections, handlers, Raft, WAL and segments, on virtual time; `Target` says
what it must survive. A failure prints the input; add it to the corpus (one frame a line, in hex, what is needed before
it first) and it is tried for ever.
"""

import struct
from random import Random
from typing import Any

import pytest
from muster_coordinator.wire.schema import schema
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.fuzz import extremes
from tests.fuzz.campaign import CORPUS
from tests.fuzz.sane import MAKERS, plain
from tests.fuzz.target import Target

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(600)]

SHAPES = 12
"""Draws of a maker, of which the one with most fields is taken."""


@pytest.mark.parametrize("api", [int(api) for api in VERSIONS], ids=[Api(api).name for api in VERSIONS])
def test_each_field_of_each_version_at_each_extreme(api: int) -> None:
    """One field at a time, everything else being sane, so that most of it reaches the handler and the log."""
    target = Target(f"extremes of {api}")
    tried = decoded = 0
    for version in range(VERSIONS[api].min, VERSIONS[api].max + 1):
        entity = schema(api, version, "request")

        def sane(seed: int, entity: Any = entity) -> dict[str, Any]:
            target.prepare(api)
            return {**plain(entity), **MAKERS[api](Random(seed), target.known)}

        # Of what the maker draws, the one with most fields; the same again for each value.
        seed = max(range(SHAPES), key=lambda n: len(extremes.places(entity, sane(n))))
        for place, (_, field, flexible) in enumerate(extremes.places(entity, sane(seed))):
            for value in extremes.ends(field, flexible=flexible):
                values = sane(seed)
                holder, same, _ = extremes.places(entity, values)[place]
                assert same is field
                holder[field.name] = value
                try:
                    frame = extremes.frame(api, version, values, 1, "c")
                except (struct.error, AssertionError, TypeError):
                    continue  # a null where this version has none
                decoded += target.give(frame).decoded
                tried += 1
    assert decoded >= 0.65 * tried, "beyond a string's or a frame's limit, which its reader refuses"
    target.check()
    target.restart()
    target.check()


def test_what_was_found_once() -> None:
    target = Target("corpus")
    files = sorted(CORPUS.glob("*.hex"))
    assert files
    for file in files:
        for line in file.read_text().splitlines():
            if line and not line.startswith("#"):
                target.give(bytes.fromhex(line))
        target.check()
    target.restart()
