"""An Elasticsearch of a test's own that speaks TLS, asks for credentials, and takes certificates of clients."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import elasticsearch
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from include.clock import SystemClock
from include.local import accounts, process
from include.local.programs import elasticsearch_plugin, resolve
from include.local.recipes import recipe
from include.local.services import service
from include.local.site import Site
from tests.support.paths import ROOT
from tests.support.servers.reaper import leashed
from tests.support.tls.certificates import certificate

__all__ = ["SecureNode", "secure_node"]

_SECURITY = """\
xpack.security.http.ssl.enabled: true
xpack.security.http.ssl.key: certificates/server.key
xpack.security.http.ssl.certificate: certificates/server.pem
xpack.security.http.ssl.certificate_authorities: certificates/authority.pem
xpack.security.http.ssl.client_authentication: {clients}
"""
_PLUGIN = ROOT / "tests/support/tls/SecurityAnalysisPlugin.java"


@dataclass(frozen=True)
class SecureNode:
    """Where it is and what it lets in. Paths are of PEM files; `fingerprint` is the authority's."""

    url: str
    user: str
    password: str
    api_key: str
    authority: str
    fingerprint: str
    client_cert: str
    client_key: str


@contextmanager
def secure_node(folder: Path, *, clients: str = "optional") -> Iterator[SecureNode]:
    """A node that runs, for the length of a `with`. `clients`: whether clients have to have a certificate."""
    row = service("elasticsearch")
    site = Site.open(folder / "site", free_ports=True, keep_ports=False)
    resolve.ensure([row], site.cache, SystemClock())
    (launch,) = recipe(row).prepare(site, row)
    home = _with_keys(site.install(row), site.folder(row) / "home", row.version)
    config = Path(launch.env["ES_PATH_CONF"])
    held = config / "certificates"
    held.mkdir()
    authority = certificate(held, "authority", [])
    certificate(held, "server", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))], authority)
    # With its authority behind it, as nodes send it by default: a fingerprint is looked for among what is sent.
    (held / "server.pem").write_bytes((held / "server.pem").read_bytes() + (held / "authority.pem").read_bytes())
    certificate(held, "client", [], authority)
    settings = (config / "elasticsearch.yml").read_text().replace("xpack.security.http.ssl.enabled: false\n", "")
    (config / "elasticsearch.yml").write_text(settings + _SECURITY.format(clients=clients))
    password = secrets.token_urlsafe(12)
    user_words = ["useradd", "founder", "-p", password, "-r", "superuser"]
    program = [str(home / "bin" / "elasticsearch-users"), *user_words]
    subprocess.run(program, env=launch.env, check=True, capture_output=True)
    accounts.give(site.folder(row), site.account)
    running = process.start(replace(launch, argv=(str(home / "bin" / "elasticsearch"),), log=str(folder / "node.log")))
    url = f"https://127.0.0.1:{site.ports['elasticsearch']}"
    # For the test itself, which may lie in a folder that the server's account cannot read.
    own = folder / "own"
    own.mkdir()
    for each in ("authority.pem", "client.pem", "client.key"):
        (own / each).write_bytes((held / each).read_bytes())
    with leashed(running) as identity:
        try:
            context = ssl.create_default_context(cafile=str(own / "authority.pem"))
            context.load_cert_chain(own / "client.pem", own / "client.key")
            with elasticsearch.Elasticsearch(url, basic_auth=("founder", password), ssl_context=context) as client:
                _await(client, running, folder / "node.log")
                key = client.security.create_api_key(name="tests").body["encoded"]
            fingerprint = hashlib.sha256(authority[0].public_bytes(Encoding.DER)).hexdigest()
            paths = [str(own / each) for each in ("client.pem", "client.key")]
            yield SecureNode(url, "founder", password, key, str(own / "authority.pem"), fingerprint, *paths)
        finally:
            process.stop([(identity, 20.0)], SystemClock())
            running.wait()


def _with_keys(installed: Path, home: Path, version: str) -> Path:
    """A copy of the small distribution that can keep API keys: their index wants an analyzer that it lacks."""
    shutil.copytree(installed, home)
    elasticsearch_plugin.install(home, version, _PLUGIN, "lyrebird.tests.SecurityAnalysisPlugin")
    return home


def _await(client: elasticsearch.Elasticsearch, running: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + 120
    while not _answers(client):
        assert running.poll() is None, process.tail(log)
        assert time.monotonic() < until_s, process.tail(log)
        time.sleep(0.2)


def _answers(client: elasticsearch.Elasticsearch) -> bool:
    try:
        client.cluster.health(wait_for_status="yellow")
    except (elasticsearch.TransportError, elasticsearch.ApiError):
        return False
    return True
