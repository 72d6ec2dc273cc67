"""How a CoordinatorCluster of ours is reached by what names it in `clusterRef`: listener, trust, login. Pure.

The operator made these clusters, so it knows where their certificates' authority and its own password are. What an
object names itself comes first; what it leaves out is filled in:

* the operator's own look and changes go to a listener that it can use, by its own user (Secret NAME-operator-user), or
  where logins are passed on to an existing Kafka by the coordinators' user there;
* a client gets the first internal listener that asks for the login that it has;
* a client that has a login, or `tls`, gets the authority of that listener (Secret NAME-cluster-ca-cert).

What it deliberately does not do: give a client the operator's own user, which may do everything.
"""

from muster_operator import naming
from muster_operator.api.client_access import Access, Authentication, AuthenticationSecret, CaSecret, Tls
from muster_operator.api.cluster import ClusterSpec, Listener
from muster_operator.api.security import OAUTHBEARER, TLS


def clients_listener(spec: ClusterSpec, kind: str | None) -> Listener:
    """The first internal one that asks for a login of this `kind` (`authentication.type`); else the first."""
    inner = spec.internal_listeners
    return next((one for one in inner if one.authenticates_by == kind), inner[0])


def users_listener(spec: ClusterSpec, kind: str) -> Listener:
    """As `clients_listener`; where no internal one asks for such a login, the first external one that does."""
    found = clients_listener(spec, kind)
    if found.authenticates_by == kind:
        return found
    return next((one for one in spec.external_listeners if one.authenticates_by == kind), found)


def operators_listener(spec: ClusterSpec) -> Listener:
    """With an authorizer one that asks for a password, by which the operator is a super user; else the first that
    wants neither a client certificate nor a token, of which the operator has none. Where logins are passed on, one that
    takes the login of the coordinators."""
    inner = spec.internal_listeners
    there = _login_there(spec)
    if there is not None:
        return next((one for one in inner if one.authenticates_by == there.type), inner[0])
    known = [one for one in inner if one.scram is not None] if spec.authorization is not None else []
    open_to_it = [one for one in inner if one.authenticates_by not in (TLS, OAUTHBEARER)]
    return next(iter((*known, *open_to_it, *inner)))


def operators_access(cluster: str, spec: ClusterSpec, given: Access) -> tuple[Listener, Access]:
    """`given`: what the object says of the operator's login."""
    if given.tls is None and given.authentication is None:
        listener = operators_listener(spec)
        own = _login_there(spec) or _own_login(cluster, listener)
        return listener, Access(tls=trust(cluster, listener), authentication=own, ca_optional=True)
    kind = given.authentication.type if given.authentication is not None else None
    listener = clients_listener(spec, kind)
    return listener, filled(cluster, listener, given)


def filled(cluster: str, listener: Listener, given: Access) -> Access:
    """What a client says, with the trust that it leaves out. One that says nothing is left as it is."""
    if given.tls is None and given.authentication is None:
        return given
    return Access(tls=trusted(cluster, listener, given.tls), authentication=given.authentication)


def trusted(cluster: str, listener: Listener, given: Tls | None) -> Tls | None:
    """`tls` of a client of the listener. Authorities that are not ours are the client's to name."""
    if given is not None and given.ca_secret is not None:
        return given
    if listener.own_certificate:
        return trust(cluster, listener)
    return given or (Tls() if listener.tls is not None else None)


def trust(cluster: str, listener: Listener) -> Tls | None:
    """Who issues the certificate of a listener; None: it is not encrypted."""
    if listener.tls is None:
        return None
    if listener.own_certificate:
        return Tls(ca_secret=CaSecret(name=naming.ca_certificates(naming.cluster_ca(cluster))))
    issued = naming.listener_certificate(cluster, listener.name)
    return Tls(ca_secret=CaSecret(name=listener.tls.secret_name or issued))


def _login_there(spec: ClusterSpec) -> Authentication | None:
    """The coordinators' own at an existing Kafka that judges logins; None: it does not."""
    kafka = spec.passes_logins_on
    who = None if kafka is None else kafka.authentication
    return None if who is None else Authentication(type=who.type, secret=AuthenticationSecret(name=who.secret.name))


def _own_login(cluster: str, listener: Listener) -> Authentication | None:
    if listener.scram is None:
        return None
    return Authentication(
        type=listener.authenticates_by, secret=AuthenticationSecret(name=naming.operator_user(cluster))
    )
