"""An S3 server of a test's own that speaks HTTPS, with a certificate of a test's own authority."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography import x509

from include.clock import SystemClock
from include.local import accounts, process
from include.local.programs import resolve
from include.local.recipes import recipe
from include.local.services import service
from tests.support.servers.reaper import leashed
from tests.support.sites import opened
from tests.support.tls.certificates import certificate

__all__ = ["SecureBucket", "https_s3"]


@dataclass(frozen=True)
class SecureBucket:
    endpoint: str
    access_key: str
    secret_key: str
    ca_file: str


@contextmanager
def https_s3(folder: Path) -> Iterator[SecureBucket]:
    """A server that runs, for the length of a `with`; it has no bucket."""
    authority = certificate(folder, "authority", [])
    trusted = folder / "authority.pem"
    row = service("s3")
    with opened(folder / "site") as site:
        resolve.ensure([row], site.cache, SystemClock())
        (launch,) = recipe(row).prepare(site, row)
        program, *words = launch.argv
        # Among the server's own files, as its account may read no others.
        held = Path(launch.cwd)
        certificate(held, "server", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))], authority)
        accounts.give(held, site.owner(row).account)
        tls = ("--cert", str(held / "server.pem"), "--key", str(held / "server.key"))
        running = process.start(replace(launch, argv=(program, *tls, *words)))
        with leashed(running):
            try:
                until_s = time.monotonic() + 30
                while not _shakes_hands(site.ports["s3"], trusted):
                    assert running.poll() is None, process.tail(Path(launch.log))
                    assert time.monotonic() < until_s, "the S3 server did not come up"
                    time.sleep(0.05)
                keys = launch.env["ROOT_ACCESS_KEY"], launch.env["ROOT_SECRET_KEY"]
                yield SecureBucket(f"https://127.0.0.1:{site.ports['s3']}", *keys, str(trusted))
            finally:
                running.terminate()
                running.wait()


def _shakes_hands(port: int, trusted: Path) -> bool:
    context = ssl.create_default_context(cafile=str(trusted))
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as plain:
            context.wrap_socket(plain, server_hostname="127.0.0.1").close()
    except OSError:
        return False
    return True
