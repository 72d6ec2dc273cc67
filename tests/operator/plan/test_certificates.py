"""The life of the operator's CAs and certificates, by dates that are handed in."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_operator.limits import CERTIFICATE_BACKDATE_MS
from muster_operator.plan.actions import ChangeAuthority, IssueCertificate, PublishTrust
from muster_operator.plan.certificates import plan_certificates
from muster_operator.resources.certificate_names import names_of
from muster_operator.world.certificates import (
    AuthorityView,
    CertificatesView,
    CertificateView,
    Damaged,
    LeafView,
    SecretRef,
    TrustView,
)
from muster_operator.world.cluster import ClusterWorld

from tests.operator.resources.owners import EXTERNAL, INTERNAL, cluster_spec, owner

DAY_MS = 86_400_000
DELAY_MS = 10 * 60_000
NOW_MS = 1_700_000_000_000
CA, TRUST, LEAF = "main-cluster-ca", "main-cluster-ca-cert", "main-server-cert"
SECURED = {"listeners": [{**INTERNAL, "tls": {}}], "certificates": {"trustDelayMinutes": 10}}


class Authority:
    """One cluster's Secrets, changed as the executor would."""

    def __init__(self, now_ms: int = NOW_MS, **spec: Any) -> None:
        self.now_ms, self.spec, self.asked = now_ms, cluster_spec(**(SECURED | spec)), ""
        self.view = CertificatesView()
        self.addresses: dict[str, str] = {}
        self.keys = 0
        self.log: list[str] = []

    def world(self) -> ClusterWorld:
        found = owner()
        object.__setattr__(found, "rotate_ca", self.asked or None)
        return ClusterWorld(
            owner=found, spec=self.spec, statefulset=None, children={}, replicas={}, node_addresses=self.addresses,
            now_ms=self.now_ms, certificates=self.view,
        )  # fmt: skip

    def certificate(self, days: int, issuer: str = "", names: frozenset[str] = frozenset()) -> CertificateView:
        self.keys += 1
        begin = self.now_ms - CERTIFICATE_BACKDATE_MS
        own = f"k{self.keys}"
        return CertificateView(
            key_id=own,
            issuer_key_id=issuer or own,
            not_before_ms=begin,
            not_after_ms=begin + days * DAY_MS,
            names=names,
        )

    def ref(self, name: str) -> SecretRef:
        self.keys += 1
        return SecretRef(name=name, uid=name, version=str(self.keys))

    def ca(self, name: str = CA) -> AuthorityView:
        found = self.view.authorities[name]
        assert isinstance(found, AuthorityView)
        return found

    def leaf(self) -> CertificateView:
        assert isinstance(self.view.leaf, LeafView)
        return self.view.leaf.certificate

    def step(self) -> list[str]:
        """One pass."""
        done = []
        for action in plan_certificates(self.world()).actions:
            match action:
                case ChangeAuthority():
                    done.append(f"{action.step} {action.secret.name}")
                    self._change(action)
                case PublishTrust():
                    done.append(f"publish {action.authority}")
                    self._publish(action)
                case IssueCertificate():
                    done.append("issue")
                    self._issue(action)
        self.log += done
        return done

    def settle(self) -> list[str]:
        found: list[str] = []
        while done := self.step():
            found += done
            assert len(found) < 20, found
        return found

    def _change(self, action: ChangeAuthority) -> None:
        name, made = action.secret.name, self.certificate(action.days)
        if action.step == "create":
            assert name not in self.view.authorities
            new = AuthorityView(secret=self.ref(name), issuing=made, rotated_for=action.rotated_for)
        else:
            old = self.ca(name)
            assert action.version == old.secret.version
            changes: dict[str, Any] = {
                "next": {"next": made, "rotated_for": action.rotated_for or old.rotated_for},
                "promote": {"issuing": old.next, "next": None, "previous": old.issuing},
                "forget": {"previous": None},
            }[action.step]
            new = dataclasses.replace(old, secret=self.ref(name), **changes)
        self.view = dataclasses.replace(self.view, authorities={**self.view.authorities, name: new})

    def _publish(self, action: PublishTrust) -> None:
        name = action.secret.name
        held = self.view.trusts.get(name)
        assert action.version == (held.secret.version if isinstance(held, TrustView) else "")
        made = TrustView(secret=self.ref(name), key_ids=self.ca(action.authority).trusted)
        self.view = dataclasses.replace(self.view, trusts={**self.view.trusts, name: made})

    def _issue(self, action: IssueCertificate) -> None:
        names = frozenset((*action.hosts, *action.addresses))
        made = self.certificate(action.days, self.ca().issuing.key_id, names)
        self.view = dataclasses.replace(self.view, leaf=LeafView(secret=self.ref(LEAF), certificate=made))


def test_without_tls_nothing_is_made_or_looked_for() -> None:
    plan = plan_certificates(Authority(listeners=[INTERNAL]).world())
    assert (plan.actions, plan.due_ms) == ((), None)


def test_first_the_ca_then_what_is_trusted_then_the_certificate() -> None:
    one = Authority()
    assert [one.step(), one.step(), one.step(), one.step()] == [
        [f"create {CA}"], [f"publish {CA}"], ["issue"], []
    ]  # fmt: skip


def test_a_certificate_is_renewed_at_two_thirds_of_its_life_and_not_before() -> None:
    one = Authority()
    one.settle()
    due = plan_certificates(one.world()).due_ms
    assert due == NOW_MS - CERTIFICATE_BACKDATE_MS + 60 * DAY_MS, "of 90 days"
    one.now_ms = due - 1
    assert one.settle() == []
    one.now_ms = due
    assert one.settle() == ["issue"]


def test_a_ca_is_replaced_with_overlap() -> None:
    one = Authority()
    one.settle()
    old = one.ca().issuing.key_id
    one.asked = "monday"
    assert one.settle() == [f"next {CA}", f"publish {CA}"]
    new = one.ca().next
    assert new is not None
    assert one.leaf().issuer_key_id == old, "nobody has been given the time to trust the new one"
    one.now_ms += DELAY_MS - 1
    assert one.settle() == []
    one.now_ms += 1
    assert one.settle() == [f"promote {CA}", "issue"]
    assert one.leaf().issuer_key_id == new.key_id
    assert one.ca().trusted == {old, new.key_id}
    one.now_ms += DELAY_MS - 1
    assert one.settle() == []
    one.now_ms += 1
    assert one.settle() == [f"forget {CA}", f"publish {CA}"]
    assert one.ca().trusted == {new.key_id}
    one.now_ms += DELAY_MS
    assert one.settle() == [], "monday is done"


def test_a_ca_is_replaced_by_itself_at_two_thirds() -> None:
    one = Authority(certificates={"caDays": 30, "certificateDays": 30, "trustDelayMinutes": 10})
    one.settle()
    one.now_ms = NOW_MS - CERTIFICATE_BACKDATE_MS + 20 * DAY_MS
    assert f"next {CA}" in one.settle()


def test_an_expired_ca_is_promoted_away_without_delay() -> None:
    one = Authority(certificates={"caDays": 2, "certificateDays": 1, "trustDelayMinutes": 525_600})
    one.settle()
    one.now_ms += 3 * DAY_MS
    one.settle()
    assert f"promote {CA}" in one.log
    one.settle()
    assert one.leaf().issuer_key_id == one.ca().issuing.key_id
    assert one.ca().issuing.not_after_ms > one.now_ms


def test_clients_certificates_are_trusted_until_they_must_have_expired() -> None:
    clients = "main-clients-ca"
    one = Authority(listeners=[{**INTERNAL, "tls": {}, "authentication": {"type": "tls"}}],
                    certificates={"caDays": 30, "certificateDays": 30, "trustDelayMinutes": 10})  # fmt: skip
    one.settle()
    first = one.ca(clients).issuing
    one.asked = "now"
    one.settle()
    one.now_ms += DELAY_MS
    one.settle()
    assert first.key_id in one.ca(clients).trusted
    one.now_ms = first.not_after_ms - 1
    one.settle()
    assert first.key_id in one.ca(clients).trusted
    one.now_ms += 1
    one.settle()
    assert first.key_id not in one.ca(clients).trusted


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("pass"), st.just(0)),
            st.tuples(st.just("wait"), st.integers(1, 40 * DAY_MS)),
            st.tuples(st.just("ask"), st.integers(0, 3)),
            st.tuples(st.just("node"), st.integers(0, 3)),
        ),
        max_size=60,
    )
)
def test_who_trusts_what_was_published_a_delay_ago_always_trusts_what_serves(steps: list[tuple[str, int]]) -> None:
    """Passes come when due. A client that copied what is trusted, any time since the last change of the CA was a delay
    old, verifies whatever serves: the trust that it has lacks nobody who issues."""
    one = Authority(
        listeners=[{**INTERNAL, "tls": {}}, {**EXTERNAL, "tls": {}}],
        certificates={"caDays": 90, "certificateDays": 30, "trustDelayMinutes": 10},
    )
    one.settle()
    copies: list[tuple[int, frozenset[str]]] = []
    for step, value in steps:
        match step:
            case "wait":
                end = one.now_ms + value
                while (due := plan_certificates(one.world()).due_ms) is not None and due <= end:
                    one.now_ms = due
                    _checked(one, copies)
                one.now_ms = end
            case "ask":
                one.asked = f"t{value}"
            case "node":
                one.addresses = {f"n{n}": f"10.0.0.{n + 1}" for n in range(value)}
        _checked(one, copies)
        assert one.leaf().not_after_ms > one.now_ms, "nothing that serves has expired"
        assert one.addresses.keys() == set() or {*one.addresses.values()} <= one.leaf().names


def _checked(one: Authority, copies: list[tuple[int, frozenset[str]]]) -> None:
    while one.step():
        trust = one.view.trusts[TRUST]
        assert isinstance(trust, TrustView)
        _verify(one, copies)
        if not copies or copies[-1][1] != trust.key_ids:
            copies.append((one.now_ms, trust.key_ids))
    trust = one.view.trusts[TRUST]
    assert isinstance(trust, TrustView)
    if not copies or copies[-1][1] != trust.key_ids:
        copies.append((one.now_ms, trust.key_ids))
    _verify(one, copies)


def _verify(one: Authority, copies: list[tuple[int, frozenset[str]]]) -> None:
    settled = [ids for at, ids in copies if at <= one.now_ms - DELAY_MS]
    for ids in (settled[-1:] or []) + [ids for at, ids in copies if at > one.now_ms - DELAY_MS]:
        assert one.leaf().issuer_key_id in ids, (one.log, copies)


@pytest.mark.parametrize("name", [CA, TRUST, LEAF])
def test_a_secret_of_somebody_elses_is_not_touched(name: str) -> None:
    one = Authority()
    one.view = dataclasses.replace(one.view, foreign=(name,))
    for _ in range(4):
        one.step()
    assert not any(name in entry.split() for entry in one.log if name == CA)
    if name == TRUST:
        assert f"publish {CA}" not in one.log
    if name == LEAF:
        assert "issue" not in one.log


def test_a_damaged_ca_is_never_replaced_by_itself() -> None:
    one = Authority()
    one.settle()
    one.view = dataclasses.replace(one.view, authorities={CA: Damaged(name=CA, problem="flipped")})
    one.now_ms += 100 * DAY_MS
    assert one.settle() == []


def test_a_name_that_is_told_to_clients_and_lacks_is_added_and_none_is_taken_away() -> None:
    one = Authority(
        listeners=[{**INTERNAL, "tls": {}}, {**EXTERNAL, "tls": {"alternativeNames": ["kafka.example.com"]}}]
    )
    one.addresses = {"n1": "10.0.0.1"}
    one.settle()
    assert {"10.0.0.1", "kafka.example.com"} <= one.leaf().names
    one.addresses = {"n1": "10.0.0.1", "n2": "fd00::2"}
    assert one.settle() == ["issue"]
    one.addresses = {"n2": "fd00::2"}
    assert one.settle() == [], "no new certificate because a pod has moved away"


def test_names_cover_bootstrap_every_pod_and_external_hosts() -> None:
    outside = {**EXTERNAL, "advertisedHost": "kafka-$(ORDINAL).Example.com", "tls": {}}
    spec = cluster_spec(listeners=[{**INTERNAL, "tls": {}}, outside], clusterDomain="k8s.example")
    names = names_of(owner(), spec, spec.listeners, ["10.0.0.1"])
    assert {
        "main-bootstrap", "main-bootstrap.shop", "main-bootstrap.shop.svc", "main-bootstrap.shop.svc.k8s.example",
        "*.main-peers.shop.svc", "*.main-peers.shop.svc.k8s.example",
    } | {f"kafka-{n}.example.com" for n in range(10)} == set(names.hosts)  # fmt: skip
    assert names.addresses == ()
    by_node = cluster_spec(listeners=[INTERNAL, {**EXTERNAL, "tls": {}}])
    assert names_of(owner(), by_node, by_node.listeners, ["10.0.0.1", "FD00:0::1"]).addresses == ("10.0.0.1", "fd00::1")
