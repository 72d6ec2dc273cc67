"""UpdateFeatures, and what ApiVersions tells of features: the cluster's feature level, as Kafka's tools see such things
(KIP-584).

Kafka has a feature "metadata.version", whose levels its tools translate to releases of Kafka; ours are not those, so
the feature has a name of its own. The level rises by itself some time after all brokers support a higher one (decision
16). This request raises it at once, and from then on no broker can go back to an earlier release. It never falls: what
is written at a level, earlier releases cannot read.
"""

from collections import Counter
from functools import partial
from typing import NamedTuple

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.changes import DONE, NO_TIME, NOT_FORMED, Outcome, propose, refused, until_ms
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import FinalizeFeatures
from muster_coordinator.controller.image import MEMBERS_LEVEL, ClusterImage
from muster_coordinator.controller.transitions import transition
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

FEATURE = "muster.feature.level"
LOWEST = 1
TRANSACTIONS = "transaction.version"
"""Kafka's own feature: a Java producer uses transactions of the newer kind (KIP-890 part 2) only where it is told this
level. It is no one's to change: it follows from ours. Level 0 is left out: older clients stop at a range from 0."""
TRANSACTION_VERSION = 2
_RESULTS_UNTIL, _ALLOW_DOWNGRADE_UNTIL = 1, 0
"""Last versions with a result for each feature, and with a flag in the place of the kind of update."""
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_OF_THE_IMAGE = frozenset((Code.INVALID_UPDATE_VERSION,))
_PASSING = (Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT)


def told_features(image: ClusterImage | None, broker: BrokerId) -> dict[str, Value]:
    """The fields of an ApiVersions answer about features: what this broker supports, and what is in force. None of them
    as long as that is not known here."""
    own = None if image is None else image.brokers.get(broker)
    if image is None or own is None:
        return {}
    level = image.feature_level
    supported = [{"name": FEATURE, "min_version": LOWEST, "max_version": own.feature_max}]
    finalized = [{"name": FEATURE, "max_version_level": level, "min_version_level": level}]
    if own.feature_max >= MEMBERS_LEVEL:
        supported.append({"name": TRANSACTIONS, "min_version": LOWEST, "max_version": TRANSACTION_VERSION})
    if level >= MEMBERS_LEVEL:
        version = TRANSACTION_VERSION
        finalized.append({"name": TRANSACTIONS, "max_version_level": version, "min_version_level": version})
    return {
        "supported_features": supported,
        "finalized_features_epoch": image.applied,
        "finalized_features": finalized,
    }


class _Asked(NamedTuple):
    version: int
    request: Value
    until_ms: int
    doubt: Doubt
    reply: Exchange


class Features:
    """Handler of UpdateFeatures v0-2."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """All features of the request or none: one of the two follows from the other."""
        code = self._services.cluster_code(context, Operation.ALTER)
        if code is not Code.NONE:
            reply({"error_code": code, "error_message": f"refused: {code.name}", "results": ()})
            return
        surface = self._services.surface
        doubt = Doubt(surface, Code.NOT_CONTROLLER, _OF_THE_IMAGE)
        self._begin(_Asked(version, request, until_ms(surface, request), doubt, reply))

    def _begin(self, asked: _Asked) -> None:
        request, surface = asked.request, self._services.surface

        def judged(command: FinalizeFeatures | None) -> None:
            if command is None or request.validate_only:
                _answer(asked, DONE)
            elif request.timeout_ms <= 0:
                _answer(asked, NO_TIME)
            else:
                propose(surface, command, asked.until_ms, partial(_decided, asked))

        asked.doubt.judge(
            lambda: _command(asked.version, request, surface.image()),
            judged,
            lambda error: _answer(asked, refused(error)),
        )


def _command(version: int, request: Value, image: ClusterImage | None) -> FinalizeFeatures | None:
    """The command, valid by this image; None for a request without features. Raises ApiError for the first fault."""
    if image is None:
        raise ApiError(Code.NOT_CONTROLLER, NOT_FORMED)
    twice = [name for name, times in Counter(one.feature for one in request.feature_updates).items() if times > 1]
    if twice:
        raise ApiError(Code.INVALID_REQUEST, f"feature {twice[0]} is named twice")
    wanted = {one.feature: one for one in request.feature_updates}
    for name in wanted:
        if name not in (FEATURE, TRANSACTIONS):
            raise ApiError(Code.INVALID_UPDATE_VERSION, f"there is no feature {name}; there is {FEATURE}")
    level, command = image.feature_level, None
    if FEATURE in wanted:
        one = wanted[FEATURE]
        _judge(level, one.max_version_level, _kind(version, one))
        command = FinalizeFeatures(feature_level=one.max_version_level)
        result = transition(image, command)[1]
        if result.error:
            raise ApiError(Code.INVALID_UPDATE_VERSION, result.message)
        level = max(level, one.max_version_level)
    if TRANSACTIONS in wanted:
        _judge_transactions(level, wanted[TRANSACTIONS].max_version_level)
    return command


def _judge_transactions(level: int, wanted: int) -> None:
    """As it is in force at our `level`, it may be asked for; nothing is done then."""
    if level < MEMBERS_LEVEL:
        why = f"{TRANSACTIONS} follows {FEATURE}, which is {level}: raise that to {MEMBERS_LEVEL}"
        raise ApiError(Code.INVALID_UPDATE_VERSION, why)
    if wanted != TRANSACTION_VERSION:
        why = f"{TRANSACTIONS} is {TRANSACTION_VERSION} and cannot be {wanted}: it follows {FEATURE}, which never falls"
        raise ApiError(Code.INVALID_UPDATE_VERSION, why)


def _kind(version: int, update: Value) -> int:
    if version > _ALLOW_DOWNGRADE_UNTIL:
        kind: int = update.upgrade_type
        return kind
    return _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE


def _judge(now: int, wanted: int, kind: int) -> None:
    code = Code.INVALID_UPDATE_VERSION
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        raise ApiError(code, f"an update of kind {kind} is unknown")
    if wanted < LOWEST:
        raise ApiError(code, f"the lowest feature level is {LOWEST}, and the feature cannot be removed")
    if wanted < now:
        raise ApiError(
            code, f"the feature level is {now} and never falls: earlier releases cannot read what is written at it"
        )
    if wanted > now and kind != _UPGRADE:
        raise ApiError(code, f"the feature level is {now}: {wanted} is an upgrade, and was asked for as a downgrade")


def _decided(asked: _Asked, outcome: Outcome) -> None:
    known = outcome.code in (Code.NONE, *_PASSING)
    _answer(asked, outcome if known else outcome._replace(code=Code.INVALID_UPDATE_VERSION))


def _answer(asked: _Asked, outcome: Outcome) -> None:
    """Up to version 1 each feature is told its own error; what is wrong with all of the request, or passes, stands at
    its top."""
    code, message = outcome
    results = asked.version <= _RESULTS_UNTIL and code in (Code.NONE, Code.INVALID_UPDATE_VERSION)
    entries = [
        {"feature": one.feature, "error_code": code, "error_message": message} for one in asked.request.feature_updates
    ]
    if results:
        asked.reply({"error_code": Code.NONE, "error_message": None, "results": entries})
    else:
        asked.reply({"error_code": code, "error_message": message, "results": ()})
