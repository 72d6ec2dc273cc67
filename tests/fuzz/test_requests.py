"""No client byte ends a replica, spoils its state, or keeps it from telling it: extremes, a corpus, and chance.

The replica is the product's own node, connections, handlers, Raft, WAL and segments, on virtual time; `Target` says
what it must survive. A failure prints the input; add it to the corpus (one frame a line, in hex, what is needed before
it first) and it is tried for ever.
"""

import os
import struct
from random import Random
from typing import Any

import pytest
from muster_coordinator.wire.schema import schema
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.fuzz import extremes
from tests.fuzz.campaign import CORPUS, PROPOSING, RARE_SHARE, SERVED, Campaign
from tests.fuzz.sane import MAKERS, plain
from tests.fuzz.target import Target

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]

INPUTS = int(os.environ.get("MUSTER_FUZZ_INPUTS", "300000"))
CAMPAIGNS = 4
LIVES = 3
"""Replicas of a campaign, one after the other; of the first campaign it is one, which then has 8,000 groups."""
SHAPES = 12
"""Draws of a maker, of which the one with most fields is taken."""
ENOUGH = 50
"""Inputs of one (API, version) that its shares are judged by."""


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


@pytest.mark.parametrize("number", range(CAMPAIGNS))
def test_a_campaign(number: int, record_testsuite_property: Any) -> None:
    """Half of the inputs of each (API, version) reach the handler, a tenth of those that can end in the log do."""
    campaign = Campaign(number)
    inputs = INPUTS // CAMPAIGNS
    campaign.run(inputs, inputs if number == 0 else inputs // LIVES)
    record_testsuite_property(f"inputs of campaign {number}", campaign.given.total())
    for api, version in SERVED:
        given = campaign.given[api, version]
        if given < ENOUGH:
            continue
        assert campaign.decoded[api, version] >= given / 2, (Api(api).name, version)
        if api in PROPOSING:
            assert campaign.proposed[api, version] >= given / 10, (Api(api).name, version)


def test_a_campaign_judges_nearly_every_version() -> None:
    """So that `ENOUGH` excuses none: also the versions that make and remove files get as many on average."""
    shares = INPUTS / CAMPAIGNS / len(SERVED)
    assert shares * RARE_SHARE > ENOUGH or INPUTS < 300_000
