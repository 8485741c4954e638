"""`GroupLog` over Kafka: all partitions of a group asked about together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import TopicPartition
from typing_extensions import override

from include.errors import Terminal
from include.lake.reading.group_log import GroupLog, TopicIdPartition
from include.lake.reading.kafka_ranges import KafkaRanges
from include.log.kafka.admin import KafkaAdmin
from include.log.kafka.errors import ClientOptions, Connection
from include.log.planning.slices import Slice, cached_consumer
from include.log.planning.survey import HiddenOffsets, KafkaSurvey
from include.log.ports import TopicInfo

__all__ = ["KafkaGroupLog"]

_PATIENCE_S: Final = 5.0
_FURTHER: Final = 16


class KafkaGroupLog(GroupLog):
    """The `GroupLog` of Kafka. Not for use from several threads."""

    def __init__(self, bootstrap: str, options: ClientOptions | None = None, *, timeout_s: float = 30.0) -> None:
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
    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]:
        places = {(tp.topic, tp.partition): tp for tp in tps}
        begins = self._survey.offsets(places, "begin")
        ends = self._survey.offsets(places, "end")
        return {tp: (begins[at], ends[at]) for at, tp in places.items() if at in begins and at in ends}

    @override
    def hidden(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, HiddenOffsets]:
        places = {(tp.topic, tp.partition): tp for tp in tps}
        return {places[at]: hidden for at, hidden in self._survey.hidden(places).items()}

    @override
    def begun_ms(self, tp: TopicIdPartition, offset: int) -> int:
        """Reads one record, committed or not."""
        consumer = self._connection.consumer("lyrebird-lake", isolation_level="read_uncommitted")
        try:
            with self._connection.asking("read", topic=tp.topic, partition=tp.partition, offset=offset):
                consumer.assign([TopicPartition(tp.topic, tp.partition, offset)])
                message = consumer.poll(_PATIENCE_S)
            return -1 if message is None or message.error() is not None else int(message.timestamp()[1])
        finally:
            consumer.close()

    @override
    def timestamps_ms(self, offsets: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        """Reads one record of each, many partitions at a time."""
        try:
            return dict.fromkeys(offsets, -1) | self._first_timestamps(offsets)
        except Terminal:
            if len(offsets) == 1:
                return dict.fromkeys(offsets, -1)
        # One of them has gone since its edges were told: the others are asked again without it.
        tps = sorted(offsets)
        halves = tps[: len(tps) // 2], tps[len(tps) // 2 :]
        return {at: ms for half in halves for at, ms in self.timestamps_ms({at: offsets[at] for at in half}).items()}

    def _first_timestamps(self, offsets: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        edges, timestamps = self.edges(offsets), dict[TopicIdPartition, int]()
        tps = {(tp.topic, tp.partition): tp for tp in edges}
        starts = {tp: max(offsets[tp], begin) for tp, (begin, _) in edges.items()}
        # Mostly it is the very next one; a range read to its end leaves the consumer to the next question.
        reach = 1
        while waiting := [tp for tp, (_, end) in edges.items() if tp not in timestamps and starts[tp] < end]:
            slices = [
                Slice(tp.topic, tp.partition, starts[tp], min(starts[tp] + reach, edges[tp][1])) for tp in waiting
            ]
            with cached_consumer(*self._way) as consumer:
                for messages in consumer.read(slices):
                    for message in messages:
                        kind, timestamp_ms = message.timestamp()
                        tp = tps[message.topic(), message.partition()]
                        timestamps.setdefault(tp, timestamp_ms if kind else -1)
            starts |= {tp: starts[tp] + reach for tp in waiting}
            reach *= _FURTHER
        return timestamps

    @override
    def epoch_before(self, tp: TopicIdPartition, offset: int) -> int | None:
        return self._ranges.epoch_before(tp.topic, tp.partition, offset)
