"""What Kafka's client is asked about a topic's settings, and what an answer means; real answers are in the contract."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from include.errors import Terminal
from include.log.kafka.admin import KafkaAdmin


class Client:
    """Answers with these settings, or an error."""

    def __init__(self, settings: dict[str, str], error: int | None = None) -> None:
        self.settings, self.error = settings, error

    def describe_configs(self, resources: list[Any], **_: object) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        if self.error is not None:
            future.set_exception(KafkaException(KafkaError(self.error)))
        else:
            future.set_result({name: SimpleNamespace(value=value) for name, value in self.settings.items()})
        return dict.fromkeys(resources, future)


def admin(monkeypatch: pytest.MonkeyPatch, client: Client) -> KafkaAdmin:
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", lambda _configuration: client)
    return KafkaAdmin("127.0.0.1:9")


@pytest.mark.parametrize(
    ("policy", "compacts"), [("compact", True), ("delete", False), ("compact,delete", True), ("delete,compact", True)]
)
def test_a_topic_compacts_as_its_policy_says(monkeypatch: pytest.MonkeyPatch, policy: str, compacts: bool) -> None:
    asked = admin(monkeypatch, Client({"cleanup.policy": policy, "max.message.bytes": "2000"}))
    assert asked.compacts("t") is compacts
    assert asked.largest("t") == 2000


@pytest.mark.parametrize(("policy", "kept"), [("compact", 5000), ("delete", None), ("compact,delete", 5000)])
def test_deletions_are_kept_where_records_go_by_key(
    monkeypatch: pytest.MonkeyPatch, policy: str, kept: int | None
) -> None:
    settings = {"cleanup.policy": policy, "delete.retention.ms": "5000"}
    assert admin(monkeypatch, Client(settings)).deletions_kept_ms("t") == kept


def test_what_kafka_does_not_tell_this_account_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = admin(monkeypatch, Client({}, KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert asked.compacts("t") is None
    assert asked.largest("t") is None
    assert asked.deletions_kept_ms("t") is None


def test_a_topic_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = admin(monkeypatch, Client({}, KafkaError.UNKNOWN_TOPIC_OR_PART))
    with pytest.raises(Terminal, match="'t'"):
        asked.compacts("t")
