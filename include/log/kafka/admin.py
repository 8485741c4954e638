"""`KafkaAdmin`: topics made and described by confluent-kafka's AdminClient."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource
from confluent_kafka.cimpl import NewTopic
from typing_extensions import override

from include.errors import Terminal
from include.log.kafka.errors import UNKNOWN_TOPIC, KafkaClient
from include.log.ports import TopicAdmin, TopicInfo, TopicSpec

__all__ = ["KafkaAdmin"]

_TOGETHER: Final = 200
_DESCRIBED_TOGETHER: Final = 1_000
"""So that the answers of very many topics are not held all at once."""
_NOT_TOLD: Final = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


class KafkaAdmin(KafkaClient, TopicAdmin):
    """`TopicAdmin` over Kafka's AdminClient."""

    def cluster_id(self) -> str:
        """Which cluster answers here: tells a foreign broker on a reused port from one's own."""
        with self._connection.asking("ask for the cluster"):
            return str(self._client.list_topics(timeout=self._timeout_s).cluster_id)

    @override
    def ensure(self, spec: TopicSpec) -> TopicInfo:
        """Harmless when several processes do it at once."""
        info = self.describe(spec.name)
        if info is None:
            self._create([spec])
            info = self._wait_for(spec.name, there=True)
        if info is None:
            raise self._connection.unreachable("create a topic", topic=spec.name)
        _require(spec, info.partitions)
        return info

    @override
    def ensure_all(self, specs: Iterable[TopicSpec]) -> None:
        """One look at all topics; the missing ones are made by hundreds."""
        wanted = {spec.name: spec for spec in specs}
        partitions = self._partitions() if wanted else {}
        missing = [spec for name, spec in wanted.items() if name not in partitions]
        for start in range(0, len(missing), _TOGETHER):
            some = missing[start : start + _TOGETHER]
            self._create(some)
            partitions |= self._wait_for_all([spec.name for spec in some])
        for name, spec in wanted.items():
            _require(spec, partitions[name])

    @override
    def describe(self, topic: str) -> TopicInfo | None:
        return self.describe_all([topic]).get(topic)

    @override
    def describe_all(self, topics: Collection[str]) -> dict[str, TopicInfo]:
        names = sorted(topics)
        described: dict[str, TopicInfo] = {}
        for start in range(0, len(names), _DESCRIBED_TOGETHER):
            described |= self._described(names[start : start + _DESCRIBED_TOGETHER])
        return described

    def _described(self, topics: list[str]) -> dict[str, TopicInfo]:
        with self._connection.asking("describe topics"):
            futures = self._client.describe_topics(TopicCollection(topics), request_timeout=self._timeout_s)
        described: dict[str, TopicInfo] = {}
        for name, future in futures.items():
            with self._connection.asking("describe a topic", topic=name):
                refused = future.exception(self._timeout_s + 1)
                if refused is not None and _code(refused) in UNKNOWN_TOPIC:
                    continue
                answer = future.result()
            described[name] = TopicInfo(name, str(answer.topic_id), len(answer.partitions))
        return described

    @override
    def largest(self, topic: str) -> int | None:
        settings = self.settings(topic)
        return None if settings is None else int(settings["max.message.bytes"])

    @override
    def deletions_kept_ms(self, topic: str) -> int | None:
        settings = self.settings(topic)
        return int(settings["delete.retention.ms"]) if settings is not None and _compacts(settings) else None

    def compacts(self, topic: str) -> bool | None:
        """Whether records of the topic go when newer ones have their key; None where Kafka does not tell this account.

        Raises as `largest` does.
        """
        settings = self.settings(topic)
        return None if settings is None else _compacts(settings)

    @override
    def settings(self, topic: str) -> dict[str, str] | None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            with self._connection.asking("ask for a topic's settings", topic=topic):
                futures = self._client.describe_configs([resource], request_timeout=self._timeout_s)
                entries = futures[resource].result(self._timeout_s + 1)
        except Terminal as error:
            if _code(error) in _NOT_TOLD:
                return None
            raise
        return {name: str(each.value) for name, each in entries.items()}

    @override
    def names(self) -> list[str]:
        return sorted(name for name in self._partitions() if not name.startswith("__"))

    @override
    def delete(self, topic: str) -> None:
        if self.describe(topic) is None:
            return
        try:
            with self._connection.asking("delete a topic", topic=topic):
                self._client.delete_topics([topic], request_timeout=self._timeout_s)[topic].result(self._timeout_s + 1)
        except Terminal as error:
            if _code(error) not in UNKNOWN_TOPIC:
                raise
        self._wait_for(topic, there=False)

    def _partitions(self) -> dict[str, int]:
        """All topics, with how many partitions each has."""
        with self._connection.asking("list topics"):
            found = self._client.list_topics(timeout=self._timeout_s).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def _create(self, specs: Sequence[TopicSpec]) -> None:
        new = [
            NewTopic(spec.name, num_partitions=spec.partitions, replication_factor=-1, config=_text(spec.config))
            for spec in specs
        ]
        futures = self._client.create_topics(new, request_timeout=self._timeout_s)
        for name, future in futures.items():
            try:
                with self._connection.asking("create a topic", topic=name):
                    future.result(self._timeout_s + 1)
            except (Terminal, KafkaException) as error:
                if _code(error) == KafkaError.INVALID_REPLICATION_FACTOR:
                    # The cluster's own number is asked for: brokers are away.
                    raise self._connection.unreachable("create a topic", topic=name) from error
                if _code(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _wait_for_all(self, topics: Sequence[str]) -> dict[str, int]:
        """The same as `_wait_for`: how many partitions each has, once all are known."""
        until_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            found = self._partitions()
            missing = [topic for topic in topics if not found.get(topic)]
            if not missing:
                return found
            if self._clock.monotonic_s() > until_s:
                raise self._connection.unreachable("topics are slow to change", topic=missing[0])
            self._clock.sleep(0.05)

    def _wait_for(self, topic: str, *, there: bool) -> TopicInfo | None:
        """Brokers hear of a topic some time after the controller has answered."""
        until_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            info = self.describe(topic)
            if (info is not None) == there:
                return info
            if self._clock.monotonic_s() > until_s:
                raise self._connection.unreachable("topics are slow to change", topic=topic)
            self._clock.sleep(0.05)


def _compacts(settings: Mapping[str, str]) -> bool:
    return "compact" in settings["cleanup.policy"].split(",")


def _require(spec: TopicSpec, partitions: int) -> None:
    if partitions != spec.partitions:
        raise Terminal(
            "topic has another number of partitions, so keys would move",
            topic=spec.name,
            has=partitions,
            declared=spec.partitions,
            fix="Declare the number that it was made with. If the topic itself has grown, make it anew: delete it and "
            "write it again from its source (a snapshot, or a rebuild of documents).",
        )


def _code(error: BaseException) -> int | None:
    cause = error if isinstance(error, KafkaException) else error.__cause__
    return cause.args[0].code() if isinstance(cause, KafkaException) else None


def _text(config: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in config.items()}
