"""300,000 requests by chance, as `test_requests` gives them one by one: each API and version gets its share.

A file of its own, whose time-out is the longest of its suite: so the campaigns are begun first.
"""

import os
from typing import Any

import pytest
from muster_coordinator.security.quota_entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from muster_coordinator.wire.versions import Api

from tests.fuzz.campaign import PROPOSING, RARE_SHARE, SERVED, Campaign
from tests.fuzz.target import Quotas

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]

INPUTS = int(os.environ.get("MUSTER_FUZZ_INPUTS", "300000"))
CAMPAIGNS = 4
LIVES = 3
"""Replicas of a campaign, one after the other; of the first campaign it is one, which then has 8,000 groups."""
GROWTH_BYTES_MAX = 48 * 1024 * 1024
"""Of this process from the end of one replica to the end of the next: what an allocator keeps, not what was sent."""
ENOUGH = 50
"""Inputs of one (API, version) that its shares are judged by."""


@pytest.mark.parametrize("number", range(CAMPAIGNS))
def test_a_campaign(number: int, record_testsuite_property: Any) -> None:
    """Half of the inputs of each (API, version) reach the handler, a tenth of those that can end in the log do."""
    campaign = Campaign(number)
    inputs = INPUTS // CAMPAIGNS
    campaign.run(inputs, inputs if number == 0 else inputs // LIVES)
    if number:
        first, *others = campaign.rss_bytes
        assert max(others) - first < GROWTH_BYTES_MAX
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


TINY: Quotas = {
    (("user", ""),): tuple((key, 1e-3) for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)),
    (("client-id", "c"), ("user", "bob")): ((CONTROLLER_MUTATION_RATE, 0.5),),
}
"""Nearly everything comes above these; partitions do now and then, so that topics come and go all the same."""


def test_a_campaign_while_quotas_hold() -> None:
    """Those of inputs hold beside them, whatever numbers these have; each kind throws its client back."""
    campaign = Campaign("quotas", TINY)
    inputs = INPUTS // 50
    campaign.run(inputs)
    throttled = campaign.target.throttled
    for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE):
        assert throttled[key] > 0, throttled
    assert throttled.total() > inputs / 4
    assert campaign.decoded.total() >= campaign.given.total() / 2
