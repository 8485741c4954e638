"""One measurement of `make bench-lake`, in a process of its own: what is asked on stdin, what was found on stdout.

`limit`: librdkafka's consumer alone reads the topic. `store`: a task of the lake stores it, as a worker of Spark's
does it. Memory is the most that the process had, its libraries included.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

from botocore.httpsession import URLLib3Session
from confluent_kafka import Consumer, TopicPartition

from include.lake.definition import LakeGroup
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.planner import Range
from include.lake.writing.task import Outcome, Task
from include.lake.writing.worker import TaskPlace, work
from include.settings.connections import Kafka, StoreSettings

__all__ = ["main"]

_WARM: Final = 4000


def main() -> int:
    """Measure what stdin asks for."""
    asked = json.load(sys.stdin)
    found = _limit(asked) if asked["way"] == "limit" else _store(asked)
    print(json.dumps(found))
    return 0


@contextmanager
def _measured() -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    begun_s, before = time.monotonic(), os.times()
    yield found
    after = os.times()
    found["wall_s"] = time.monotonic() - begun_s
    found["cpu_s"] = after.user + after.system - before.user - before.system
    found["most_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _limit(asked: dict[str, Any]) -> dict[str, Any]:
    """Bytes of values and of a Python object for each record are all that it asks for."""
    consumer = Consumer(
        {
            "bootstrap.servers": asked["kafka"]["bootstrap"],
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "queued.max.messages.kbytes": 65536,
        }
    )

    def read(start: int, end: int) -> int:
        consumer.assign([TopicPartition(asked["topic"], 0, start)])
        size, at = 0, start
        while at < end:
            found = consumer.consume(10_000, 1.0)
            size += sum([len(message.value() or b"") for message in found])
            at += len(found)
        return size

    read(0, _WARM)
    with _measured() as told:
        told["bytes"] = read(_WARM, asked["records"])
    consumer.close()
    return told


def _store(asked: dict[str, Any]) -> dict[str, Any]:
    group = LakeGroup.model_validate(asked["group"])
    place = TaskPlace.of(
        group,
        Kafka.model_validate(asked["kafka"]),
        None,
        StoreSettings.model_validate(asked["store"]),
        Path(asked["folder"]),
    )
    tp = TopicIdPartition(asked["topic"], asked["topic_id"], 0)

    def stored(prefix: str, start: int, end: int) -> Outcome:
        due = Range(tp, start, end, "flush", group.policy.words)
        policy = group.policy
        outcome = work(place, Task("bench", prefix, due, 1, start, policy.max_bytes, policy.max_folders, "bench"))
        if outcome.error is not None or outcome.head != end:
            raise SystemExit(f"stored up to {outcome.head} of {end}: {outcome.error}")
        return outcome

    stored(f"{group.prefix}-before", 0, _WARM)
    with _requests() as requests, _measured() as told:
        outcome = stored(group.prefix, _WARM, asked["records"])
    commits = outcome.commits
    records = sum(commit.n_records for commit in commits)
    if records != asked["records"] - _WARM or any(commit.quarantined or commit.filtered for commit in commits):
        raise SystemExit(f"{records} records were stored, or some were refused")
    told |= {
        "bytes": records * asked["record_bytes"],
        "stored_bytes": sum(file.bytes for commit in commits for file in commit.files),
        "cuts": len(commits),
        "files": sum(len(commit.files) for commit in commits),
        "requests": dict(requests),
    }
    return told


@contextmanager
def _requests() -> Iterator[Counter[str]]:
    """Requests to the store by kind, as they leave this process, those that are tried again included."""
    found: Counter[str] = Counter()
    send = URLLib3Session.send

    def counted(session: Any, request: Any) -> Any:
        found[_kind(request)] += 1
        return send(session, request)

    with patch.object(URLLib3Session, "send", counted):
        yield found


def _kind(request: Any) -> str:
    query = parse_qs(urlsplit(request.url).query, keep_blank_values=True)
    if request.method == "PUT":
        if "x-amz-copy-source" in {name.lower() for name in request.headers}:
            return "copy"
        return "part" if "partNumber" in query else "put"
    if request.method == "POST":
        return "delete" if "delete" in query else "begin parts" if "uploads" in query else "end parts"
    if request.method == "GET":
        return "list" if "list-type" in query else "get"
    return str(request.method).lower()


if __name__ == "__main__":
    sys.exit(main())
