"""Capture over TLS from a server whose certificate is asked for: by its own authority, by another, for another name."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import CaptureHarness, opened
from tests.support.tls.certificates import certificate

__all__ = ["server"]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    # The server reads them, whoever it runs as.
    folder.chmod(0o755)
    folder.parent.chmod(0o755)
    authority = certificate(folder, "authority", [])
    certificate(folder, "server", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))], authority)
    certificate(folder, "elsewhere", [x509.DNSName("db.example.com")], authority)
    certificate(folder, "stranger", [])
    for key in folder.glob("*.key"):
        key.chmod(0o644)
    return folder


@pytest.fixture(params=["mysql-9.7", "mariadb-11.8"])
def world(
    request: pytest.FixtureRequest,
    certificates: Path,
    server: Give,
    unique: str,
    tmp_path: Path,
    kafka: str,
    registry_url: str,
) -> Iterator[CaptureHarness]:
    options = (f"--ssl-cert={certificates}/server.pem", f"--ssl-key={certificates}/server.key")
    with opened(unique, tmp_path, server(request.param, *options), kafka, registry_url) as made:
        yield made


def test_a_certificate_of_the_declared_authority_is_taken_and_another_is_not(
    world: CaptureHarness, certificates: Path
) -> None:
    n = world.name
    world.declare(tls="verified", tls_ca=str(certificates / "stranger.pem"))
    assert "certificate is not good" in world.run("run", "--snapshot", code=1)[1]
    world.declare(tls="verified", tls_ca=str(certificates / "authority.pem"))
    world.run("run", "--snapshot")
    capture = world.start("run")
    # Larger than a TLS record.
    world.sql(f"INSERT INTO {n}.b VALUES (1, 1, 'x'), (2, 1, repeat('y', 60000))")
    world.is_whole()
    world.stop(capture)


def test_a_certificate_for_another_name_is_refused(
    certificates: Path, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    options = (f"--ssl-cert={certificates}/elsewhere.pem", f"--ssl-key={certificates}/elsewhere.key")
    with opened(unique, tmp_path, server("mysql-9.7", *options), kafka, registry_url) as world:
        world.declare(tls="verified", tls_ca=str(certificates / "authority.pem"))
        assert "certificate is not good for its address" in world.run("run", "--snapshot", code=1)[1]
