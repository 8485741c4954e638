"""`GroupLog` over Kafka: all partitions of a group asked about together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import TopicPartition
from typing_extensions import override

from include.errors import Terminal
from include.lake.reading.group_log import GroupLog, Spot
from include.lake.reading.kafka_ranges import KafkaRanges
from include.log.kafka.admin import KafkaAdmin
from include.log.kafka.errors import Connection, Options
from include.log.planning.slices import Slice, cached_consumer
from include.log.planning.survey import Hidden, KafkaSurvey
from include.log.ports import TopicInfo

__all__ = ["KafkaGroupLog"]

_PATIENCE_S: Final = 5.0
_FURTHER: Final = 16


class KafkaGroupLog(GroupLog):
    """See `GroupLog`. Not for use from several threads."""

    def __init__(self, bootstrap: str, options: Options | None = None, *, timeout_s: float = 30.0) -> None:
        """`timeout_s`: how long to wait for the list of all topics."""
        self._admin = KafkaAdmin(bootstrap, options, timeout_s=timeout_s)
        self._connection = Connection(bootstrap, options)
        self._survey = KafkaSurvey(bootstrap, options)
        self._ranges = KafkaRanges(bootstrap, options)
        self._way = bootstrap, options

    @override
    def topics(self) -> list[TopicInfo]:
        return list(self._survey.topics(self._admin.names()).values())

    @override
    def edges(self, spots: Iterable[Spot]) -> dict[Spot, tuple[int, int]]:
        places = {(spot.topic, spot.partition): spot for spot in spots}
        begins = self._survey.offsets(places, "begin")
        ends = self._survey.offsets(places, "end")
        return {spot: (begins[at], ends[at]) for at, spot in places.items() if at in begins and at in ends}

    @override
    def hidden(self, spots: Iterable[Spot]) -> dict[Spot, Hidden]:
        places = {(spot.topic, spot.partition): spot for spot in spots}
        return {places[at]: hidden for at, hidden in self._survey.hidden(places).items()}

    def begun_ms(self, spot: Spot, offset: int) -> int:
        """See `GroupLog`. Reads one record, committed or not."""
        consumer = self._connection.consumer("lyrebird-lake", isolation_level="read_uncommitted")
        try:
            with self._connection.asking("read", topic=spot.topic, partition=spot.partition, offset=offset):
                consumer.assign([TopicPartition(spot.topic, spot.partition, offset)])
                message = consumer.poll(_PATIENCE_S)
            return -1 if message is None or message.error() is not None else int(message.timestamp()[1])
        finally:
            consumer.close()

    def timestamps_ms(self, offsets: Mapping[Spot, int]) -> dict[Spot, int]:
        """See `GroupLog`. Reads one record of each, many partitions at a time."""
        try:
            return dict.fromkeys(offsets, -1) | self._first_timestamps(offsets)
        except Terminal:
            if len(offsets) == 1:
                return dict.fromkeys(offsets, -1)
        # One of them has gone since its edges were told: the others are asked again without it.
        spots = sorted(offsets)
        halves = spots[: len(spots) // 2], spots[len(spots) // 2 :]
        return {at: ms for half in halves for at, ms in self.timestamps_ms({at: offsets[at] for at in half}).items()}

    def _first_timestamps(self, offsets: Mapping[Spot, int]) -> dict[Spot, int]:
        edges, timestamps = self.edges(offsets), dict[Spot, int]()
        spots = {(spot.topic, spot.partition): spot for spot in edges}
        starts = {spot: max(offsets[spot], begin) for spot, (begin, _) in edges.items()}
        # Mostly it is the very next one; a range read to its end leaves the consumer to the next question.
        reach = 1
        while waiting := [spot for spot, (_, end) in edges.items() if spot not in timestamps and starts[spot] < end]:
            slices = [
                Slice(spot.topic, spot.partition, starts[spot], min(starts[spot] + reach, edges[spot][1]))
                for spot in waiting
            ]
            with cached_consumer(*self._way) as consumer:
                for messages in consumer.read(slices):
                    for message in messages:
                        kind, timestamp_ms = message.timestamp()
                        spot = spots[message.topic(), message.partition()]
                        timestamps.setdefault(spot, timestamp_ms if kind else -1)
            starts |= {spot: starts[spot] + reach for spot in waiting}
            reach *= _FURTHER
        return timestamps

    @override
    def epoch_before(self, spot: Spot, offset: int) -> int | None:
        return self._ranges.epoch_before(spot.topic, spot.partition, offset)
