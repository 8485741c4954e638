"""`GroupLog` over Kafka: all partitions of a group asked about together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from include.lake.kafka_ranges import KafkaRanges
from include.lake.planner import Spot
from include.log.kafka_admin import KafkaAdmin
from include.log.kafka_errors import Connection, Options
from include.log.ports import TopicInfo
from include.log.survey import Hidden, KafkaSurvey

__all__ = ["KafkaGroupLog"]

_PATIENCE_S: Final = 5.0


class KafkaGroupLog:
    """See `GroupLog`. Not for use from several threads."""

    def __init__(self, bootstrap: str, options: Options | None = None, *, timeout_s: float = 30.0) -> None:
        """`timeout_s`: how long to wait for the list of all topics."""
        self._admin = KafkaAdmin(bootstrap, options, timeout_s=timeout_s)
        self._connection = Connection(bootstrap, options)
        self._survey = KafkaSurvey(bootstrap, options)
        self._ranges = KafkaRanges(bootstrap, options)

    def topics(self) -> list[TopicInfo]:
        """See `GroupLog`."""
        return list(self._survey.topics(self._admin.names()).values())

    def edges(self, spots: Iterable[Spot]) -> dict[Spot, tuple[int, int]]:
        """See `GroupLog`."""
        places = {(spot.topic, spot.partition): spot for spot in spots}
        begins = self._survey.offsets(places, "begin")
        ends = self._survey.offsets(places, "end")
        return {spot: (begins[at], ends[at]) for at, spot in places.items() if at in begins and at in ends}

    def hidden(self, spots: Iterable[Spot]) -> dict[Spot, Hidden]:
        """See `GroupLog`."""
        places = {(spot.topic, spot.partition): spot for spot in spots}
        return {places[at]: hidden for at, hidden in self._survey.hidden(places).items()}

    def begun_ms(self, spot: Spot, offset: int) -> int:
        """See `GroupLog`. Reads one record, committed or not."""
        settings = self._connection.configuration(
            group_id="lyrebird-lake",
            isolation_level="read_uncommitted",
            enable_auto_commit=False,
            auto_offset_reset="error",
        )
        consumer: Any = Consumer(settings)
        try:
            with self._connection.asking("read", topic=spot.topic, partition=spot.partition, offset=offset):
                consumer.assign([TopicPartition(spot.topic, spot.partition, offset)])
                message = consumer.poll(_PATIENCE_S)
            return -1 if message is None or message.error() is not None else int(message.timestamp()[1])
        finally:
            consumer.close()

    def timestamp_ms(self, spot: Spot, offset: int) -> int:
        """See `GroupLog`."""
        place = spot.topic, spot.partition
        begin, end = self._ranges.edges(*place)
        start = max(offset, begin)
        # Mostly it is the very next one; a range read to its end leaves the consumer to the next question.
        found = list(self._ranges.batches(*place, start, min(start + 1, end)))
        first = found[0] if found else next(self._ranges.batches(*place, start + 1, end), None)
        return -1 if first is None else first.messages[0].timestamp_ms

    def epoch_before(self, spot: Spot, offset: int) -> int | None:
        """See `GroupLog`."""
        return self._ranges.epoch_before(spot.topic, spot.partition, offset)
