"""Our HTTP against a server of the standard library that hangs up, answers late, or wants a password."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from include.log.http import Http


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server: Any = self.server
        server.seen.append((self.path, self.headers.get("Authorization"), self.headers.get("X"), asked))
        self.send_response(200 if self.path != "/folder/missing" else 404)
        self.send_header("Content-Length", str(len(asked)))
        self.end_headers()
        self.wfile.write(asked)
        self.close_connection = self.path.endswith("/last")

    do_GET = do_POST  # noqa: N815 - the library's name

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.daemon_threads = True
        made.seen = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_requests_go_under_the_address_with_its_account_and_come_back_whatever_their_status(server: Any) -> None:
    http = Http(f"http://anna:p%40ss@127.0.0.1:{server.server_port}/folder", {"X": "y"}, 5.0)
    found = http.ask("POST", "/a?b", b"body")
    assert (found.status, found.body) == (200, b"body")
    assert http.ask("GET", "/missing").status == 404
    assert server.seen[0] == ("/folder/a?b", "Basic YW5uYTpwQHNz", "y", b"body")
    http.close()


def test_a_connection_that_the_server_has_ended_is_opened_again(server: Any) -> None:
    http = Http(f"http://127.0.0.1:{server.server_port}", {}, 5.0)
    for path in ("/last", "/last", "/more", "/last", "/more"):
        assert http.ask("POST", path, path.encode()).body == path.encode()
    http.close()
    http.close()
    assert http.ask("POST", "/after", b"1").body == b"1"
    http.close()


def test_a_server_that_is_away_is_an_os_error(server: Any) -> None:
    http = Http("http://127.0.0.1:1", {}, 5.0)
    with pytest.raises(OSError):  # noqa: PT011 - of whatever kind
        http.ask("GET", "/")
