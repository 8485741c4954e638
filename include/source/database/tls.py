"""Warns where nobody verifies that the server is the source's own: only `tls: verified` looks at its certificate."""

from __future__ import annotations

import ipaddress

from include.source.database.failover import places
from include.source.database.finding import ServerFinding
from include.source.definition import SourceDefinition

__all__ = ["unverified"]

_SAYS = {
    "off": "is off: rows and the account's name cross the network in the clear",
    "preferred": "is preferred: no certificate is looked at, and without TLS rows cross the network in the clear",
    "required": "is required: what crosses the network is encrypted, but no certificate is looked at",
}


def unverified(source: SourceDefinition) -> list[ServerFinding]:
    """A warning where the server, or a fallback, is elsewhere than on this machine and nobody is verified."""
    far = [place.place for place in places(source) if not _loopback(place.host)]
    if source.tls == "verified" or not far:
        return []
    problem = f"{_SAYS[source.tls]}: whoever stands in for {', '.join(far)} reads or makes up rows"
    fix = "Declare `tls: verified`, with `tls_ca` where the authority is your own."
    return [ServerFinding(source.policy.origin.place(("tls",)), problem, fix, "warn")]


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
