"""An HTTP server on loopback that speaks as much of Elasticsearch as the indexer uses.

    python -m tests.support.faults.elasticsearch.server

Started so it is a stub that accepts every document at once and keeps none; it prints its address, and ends with its
stdin. In a test, `serving(node)` serves a `FaultyNode`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from include.index.server.memory import MemoryIndex
from include.index.server.port import IndexInfo, IndexNote
from tests.support.faults.elasticsearch.node import FaultyNode, Reply

__all__ = ["accepting", "main", "serving"]

Bulk = Callable[[str, bytes], Reply]
_Answer = tuple[int, Any]
_NO_INDEX = {"error": {"type": "index_not_found_exception", "reason": "no such index"}, "status": 404}
_CONFLICT = {"error": {"type": "version_conflict_engine_exception", "reason": "conflict"}, "status": 409}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle_one_request()

    def _serve(self) -> None:
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        body = self._body()
        if parts[-1] == "_bulk":
            self._reply(self.server.bulk(parts[0], body))
            return
        asked = {name: values[-1] for name, values in parse_qs(url.query).items()}
        with self.server.lock:
            status, found = _answer(self.server.index, self.command, parts, asked, json.loads(body) if body else {})
        self._send(status, json.dumps(found).encode())

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def _reply(self, reply: Reply) -> None:
        if reply.manner == "silent":
            # Until the client has gone, or the server goes.
            self.connection.settimeout(0.05)
            while not self.server.ending.is_set():
                try:
                    if not self.connection.recv(1):
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            self.close_connection = True
            return
        if reply.manner in ("reset", "reset before"):
            self._reset()
            return
        whole = len(reply.body)
        body = reply.body[: whole // 2] if reply.manner in ("cut", "cut length") else reply.body
        self._send(reply.status, body, reply.retry_after_s, whole if reply.manner == "cut" else len(body))
        if reply.manner == "cut":
            self._reset()

    def _send(self, status: int, body: bytes, retry_after_s: int | None = None, told: int | None = None) -> None:
        self.send_response_only(status)
        self.send_header("content-type", "application/vnd.elasticsearch+json;compatible-with=8")
        self.send_header("x-elastic-product", "Elasticsearch")
        self.send_header("content-length", str(len(body) if told is None else told))
        if retry_after_s is not None:
            self.send_header("retry-after", str(retry_after_s))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _reset(self) -> None:
        # What is left in the buffers goes nowhere.
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


for _method in ("DELETE", "GET", "HEAD", "POST", "PUT"):
    setattr(_Handler, f"do_{_method}", _Handler._serve)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, index: MemoryIndex, bulk: Bulk) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.index = index
        self.bulk = bulk
        self.lock = threading.Lock()
        self.ending = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients come and go; what is really wrong fails the test that sees it."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def accepting() -> Bulk:
    """Says 201 to every document, as fast as it can, and forgets it."""
    ready: dict[int, bytes] = {}

    def bulk(_name: str, lines: bytes) -> Reply:
        count = lines.count(b"\n") // 2
        if count not in ready:
            items = ",".join(['{"index":{"status":201}}'] * count)
            ready[count] = f'{{"errors":false,"items":[{items}]}}'.encode()
        return Reply(200, ready[count])

    return bulk


@contextmanager
def serving(index: MemoryIndex, bulk: Bulk | FaultyNode) -> Iterator[str]:
    """The address of a server of `index` whose bulk requests `bulk` answers, while it serves."""
    server = _Server(index, bulk.bulk if isinstance(bulk, FaultyNode) else bulk)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(index: MemoryIndex, method: str, parts: list[str], asked: dict[str, str], body: Any) -> _Answer:  # noqa: PLR0911, RUF100 - a table
    name, rest = parts[0], parts[1:]
    if name == "_mget" or rest == ["_mget"]:
        return _many(index, name, body)
    if not rest:
        return _of_index(index, method, name, body)
    if rest[0] == "_refresh":
        if index.describe(name) is None:
            return 404, _NO_INDEX
        index.refresh(name)
        return 200, {"_shards": {"total": 1, "successful": 1, "failed": 0}}
    if rest[0] in ("_doc", "_create", "_source") and len(rest) == 2:
        if method == "GET":
            return _one(index, name, rest[1])
        return _note(index, name, rest[1], asked | ({"op_type": "create"} if rest[0] == "_create" else {}), body)
    if rest[0] in ("_settings", "_mapping", "_alias") and method == "GET":
        return _of_index(index, method, name, body)
    return 400, {"error": {"type": "illegal_argument_exception", "reason": f"{method} {'/'.join(parts)} is not served"}}


def _of_index(index: MemoryIndex, method: str, name: str, body: Any) -> _Answer:
    info = index.create(name, body) if method == "PUT" else index.describe(name)
    if info is None:
        return 404, _NO_INDEX
    return 200, {"acknowledged": True} if method == "PUT" else {info.name: _told(info)}


def _told(info: IndexInfo) -> dict[str, Any]:
    return {"settings": {"index": {"uuid": info.uuid}}, "mappings": info.mapping, "aliases": info.aliases}


def _one(index: MemoryIndex, name: str, doc_id: str) -> _Answer:
    info = index.describe(name)
    if info is None:
        return 404, _NO_INDEX
    note = index.note(info.name, doc_id)
    if note is not None:
        found = {"found": True, "_source": note.source, "_version": 1}
        return 200, found | {"_seq_no": note.seq_no, "_primary_term": note.primary_term}
    document = index.get(name, doc_id)
    if document is None:
        return 404, {"found": False}
    return 200, {"found": True, "_id": doc_id, "_version": document.version, "_source": document.source}


def _many(index: MemoryIndex, name: str, body: Any) -> _Answer:
    if index.describe(name) is None:
        return 404, _NO_INDEX
    ids = body.get("ids") or [each["_id"] for each in body.get("docs", ())]
    found = index.get_many(name, ids)
    return 200, {
        "docs": [
            {"_id": i, "found": i in found}
            | ({"_version": found[i].version, "_source": found[i].source} if i in found else {})
            for i in ids
        ]
    }


def _note(index: MemoryIndex, name: str, note_id: str, asked: dict[str, str], body: Any) -> _Answer:
    if index.describe(name) is None:
        return 404, _NO_INDEX
    last = None
    if "if_seq_no" in asked:
        last = IndexNote({}, int(asked["if_seq_no"]), int(asked["if_primary_term"]))
    written = index.write_note(name, note_id, body, last)
    if written is None:
        return 409, _CONFLICT
    return 200, {"_seq_no": written.seq_no, "_primary_term": written.primary_term, "result": "updated"}


def main() -> int:
    """Serve a stub until stdin ends; the exit code."""
    index = MemoryIndex()
    with serving(index, accepting()) as url:
        print(url, flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
