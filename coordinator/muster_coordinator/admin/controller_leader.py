"""What the controller's leader alone decides: by all that it sees, and an image that is shown to be current.

Another replica's answer (421) names the leader. What this does not do: judge or propose. A handler does both in the
turn in which `led_here` returns None, so that whom it sees is whom it proposes with.
"""

from muster_coordinator.admin.calls import answer_of
from muster_coordinator.admin.refusals import NOT_FORMED, Refusal
from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.ids import CONTROLLER_GROUP

NOT_CURRENT = Refusal(503, "not_known", "the controller's leader cannot show now that its image is current; ask again")


def elsewhere(replica: AdminReplica) -> Refusal | None:
    """None: this replica leads the controller's group, as far as it knows."""
    image, leader = replica.image(), replica.leadership(CONTROLLER_GROUP).leader
    if image is None:
        return NOT_FORMED
    if leader == replica.broker:
        return None
    known = None if leader is None else image.brokers.get(leader)
    if known is None:
        return Refusal(503, "no_leader", "no controller leader is known")
    more = {"coordinator": known.broker, "admin": known.admin}
    return Refusal(421, "misdirected", "another replica leads the controller's group", more)


async def led_here(replica: AdminReplica) -> Refusal | None:
    """None: this replica leads the controller's group now, and a round has shown that its image is current."""
    refusal = elsewhere(replica)
    if refusal is None and not await answer_of(replica.when_topics_current):
        return elsewhere(replica) or NOT_CURRENT
    return refusal or elsewhere(replica)
