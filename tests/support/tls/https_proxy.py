"""HTTPS before a server that speaks HTTP, with a certificate of a test's own authority; lets one `Authorization` in.

Behind it goes the login of the server's address.
"""

from __future__ import annotations

import http.client
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from include.log.http import basic
from tests.support.tls.certificates import certificate

__all__ = ["HttpsProxy", "https_proxy"]


@dataclass(frozen=True)
class HttpsProxy:
    """Where it is, and the authority that its certificate is of."""

    url: str
    authority: str


@contextmanager
def https_proxy(behind: str, folder: Path, authorization: str) -> Iterator[HttpsProxy]:
    """One that answers, for the length of a `with`."""
    authority = certificate(folder, "authority", [])
    certificate(folder, "server", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))], authority)
    target = urlsplit(behind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != authorization:
                self._send(401, b'{"message": "who are you"}')
                return
            connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=10)
            kept = {name: value for name, value in self.headers.items() if name in ("Content-Type", "Accept")}
            if target.username:
                kept["Authorization"] = basic(target.username, target.password or "")
            connection.request(self.command, target.path + self.path, body, kept)
            answer = connection.getresponse()
            self._send(answer.status, answer.read())
            connection.close()

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the names that the base class looks for

        def log_message(self, *_: object) -> None:
            """Nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield HttpsProxy(f"https://127.0.0.1:{server.server_address[1]}", str(folder / "authority.pem"))
        finally:
            server.shutdown()
            thread.join()
