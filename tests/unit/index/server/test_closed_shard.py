"""A shard whose log of writes is closed: no read opens it again, and a flush does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from elastic_transport import ApiResponseMeta, BaseNode, HttpHeaders
from elastic_transport._node import NodeApiResponse

from include.errors import Transient
from include.index.server.elasticsearch import ElasticsearchIndex, connect
from include.settings.connections import Elasticsearch

CLOSED = {
    "type": "no_shard_available_action_exception",
    "reason": "No shard available for [get [notes][n]: routing [null]]",
    "root_cause": [{"type": "already_closed_exception", "reason": "translog is already closed"}],
}
AWAY = {"type": "no_shard_available_action_exception", "reason": "away", "root_cause": [{"type": "node_left"}]}
NOTE = {"_id": "n", "found": True, "_version": 3, "_seq_no": 2, "_primary_term": 1, "_source": {"metadata": {}}}


class Shard:
    """Of Elasticsearch: refuses with `error` until it is flushed."""

    def __init__(self, error: dict[str, Any], flush_status: int = 200) -> None:
        self.error: dict[str, Any] | None = error
        self.flush_status = flush_status
        self.asked: list[str] = []
        answer = self._answer

        class Node(BaseNode):
            def perform_request(self, method: str, target: str, *_: Any, **__: Any) -> NodeApiResponse:
                status, body = answer(f"{method} {target.partition('?')[0]}")
                headers = HttpHeaders({"content-type": "application/json", "x-elastic-product": "Elasticsearch"})
                meta = ApiResponseMeta(
                    node=self.config, duration=0.0, http_version="1.1", status=status, headers=headers
                )
                return NodeApiResponse(meta, json.dumps(body).encode())

            def close(self) -> None:
                pass

        settings = Elasticsearch(url="http://127.0.0.1:9")
        self.index = ElasticsearchIndex(settings, connect(settings, Node))

    def _answer(self, asked: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(asked)
        if asked == "POST /notes/_flush":
            if self.flush_status == 200:
                self.error = None
            return self.flush_status, {"_shards": {"failed": 0}}
        many = asked.endswith("_mget")
        if self.error is not None:
            return (200, {"docs": [{"_id": "n", "error": self.error}]}) if many else (503, {"error": self.error})
        return 200, ({"docs": [NOTE]} if many else NOTE)

    @property
    def flushed(self) -> int:
        return self.asked.count("POST /notes/_flush")


READS: list[Callable[[ElasticsearchIndex], Any]] = [
    lambda index: index.note("notes", "n"),
    lambda index: index.get("notes", "n"),
    lambda index: index.get_many("notes", ["n"]).get("n"),
]


@pytest.mark.parametrize("read", READS, ids=["note", "get", "get_many"])
def test_a_shard_whose_log_of_writes_is_closed_is_flushed_and_answers_the_next_time(
    read: Callable[[ElasticsearchIndex], Any],
) -> None:
    shard = Shard(CLOSED)
    with pytest.raises(Transient):
        read(shard.index)
    assert shard.flushed == 1
    assert read(shard.index) is not None
    assert shard.flushed == 1


@pytest.mark.parametrize("read", READS, ids=["note", "get", "get_many"])
def test_a_shard_that_is_away_for_another_reason_is_left_alone(read: Callable[[ElasticsearchIndex], Any]) -> None:
    shard = Shard(AWAY)
    with pytest.raises(Transient):
        read(shard.index)
    assert shard.flushed == 0


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_flush_that_is_refused_leaves_the_first_error(status: int) -> None:
    shard = Shard(CLOSED, status)
    with pytest.raises(Transient) as error:
        shard.index.note("notes", "n")
    assert error.value.details["status"] == 503
    assert error.value.details["reason"] == CLOSED["reason"]
    assert shard.flushed == 1
