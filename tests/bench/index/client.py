"""elasticsearch-py's own ways to send documents, each in a process of its own: asked on stdin, told on stdout."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import orjson
from elasticsearch import Elasticsearch
from elasticsearch.helpers import parallel_bulk, streaming_bulk

from include.index.digest import bucket, limbs, state_hash
from include.record.json.body import canonical
from tests.bench.index.order_documents import ENTITY, bodies

__all__ = ["main"]

_CHUNK_BYTES: Final = 5_000_000
_CHUNK: Final = 5000
_PART: Final = 20_000


def main() -> int:
    """Send as asked: `way` is streaming, parallel or ndjson."""
    asked = json.load(sys.stdin)
    client = Elasticsearch(asked["url"], request_timeout=120, max_retries=0)
    cpu_s = wall_s = 0.0
    # Made part by part, so that ready ones fit into memory; what that takes is not measured.
    for actions in _parts(asked["index"], asked["documents"]):
        if asked["way"] == "ndjson":
            requests = list(_requests(actions))
            begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
            for lines in requests:
                _checked(client.bulk(operations=lines, filter_path="errors"))  # type: ignore[arg-type]
        else:
            begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
            deque(_sent(client, asked["way"], actions), maxlen=0)
        cpu_s += time.process_time() - begun_cpu_s
        wall_s += time.perf_counter() - begun_s
    client.close()
    print(json.dumps({"documents": asked["documents"], "cpu_s": cpu_s, "wall_s": wall_s}))
    return 0


def _parts(index: str, documents: int) -> Iterator[list[dict[str, Any]]]:
    """Actions as the helpers take them, each with all that the indexer writes."""
    part = []
    for number, body in enumerate(bodies(documents), 1):
        state = state_hash(str(number), number, canonical(body))
        d0, d1 = limbs(state)
        metadata = {
            "cluster_name": "local",
            "cluster_type": "bench",
            "topic": index,
            "generation": 1,
            "partition": number % 2,
            "offset": number,
            "doc_id": str(number),
            "version": number,
            "deleted": False,
            "d0": d0,
            "d1": d1,
            "s0": bucket(state, 0),
            "s1": bucket(state, 1),
        }
        head = {"_op_type": "index", "_index": index, "_id": str(number), "version": number}
        part.append({**head, "version_type": "external", "_source": {ENTITY: body, "metadata": metadata}})
        if len(part) == _PART:
            yield part
            part = []
    if part:
        yield part


def _sent(client: Elasticsearch, way: str, actions: list[dict[str, Any]]) -> Iterator[Any]:
    # As in their own examples, with the limit of bytes that the indexer has too.
    if way == "parallel":
        return iter(parallel_bulk(client, actions, chunk_size=_CHUNK, max_chunk_bytes=_CHUNK_BYTES))
    return iter(streaming_bulk(client, actions, chunk_size=_CHUNK, max_chunk_bytes=_CHUNK_BYTES))


def _requests(actions: list[dict[str, Any]]) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for action in actions:
        head = {name: action[name] for name in ("_index", "_id", "version", "version_type")}
        line = orjson.dumps({"index": head}) + b"\n" + orjson.dumps(action["_source"]) + b"\n"
        if size + len(line) > _CHUNK_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    yield b"".join(lines)


def _checked(answer: Any) -> None:
    if answer["errors"]:
        raise SystemExit("a document was refused")


if __name__ == "__main__":
    sys.exit(main())
