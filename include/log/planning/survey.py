"""Asks about many topics at once for a planner: which are there, where their partitions begin and end.

`KafkaSurvey` asks the broker in one round trip per call; `PortSurvey` puts the same questions to the ports, topic by
topic, so that planning can be tried on the in-memory log.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal, NamedTuple, Protocol

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition, admin
from typing_extensions import override

from include.errors import Transient
from include.log.kafka.errors import LEADERLESS, UNKNOWN_TOPIC, ClientOptions, Connection
from include.log.planning.plan import Partition
from include.log.ports import LogReader, TopicAdmin, TopicInfo

__all__ = ["Edge", "HiddenOffsets", "KafkaSurvey", "PortSurvey", "Survey"]

Edge = Literal["begin", "end"] | int
"""begin: first offset still held; end: last stable offset; a number: the first offset whose record has that timestamp
(ms) or a later one, the end where there is none."""

_REQUEST_S: Final = 5.0


class HiddenOffsets(NamedTuple):
    """Offsets [stable, written) of a partition wait for the end of the transaction that begins at `stable`."""

    stable: int
    written: int


class Survey(Protocol):
    """Calls may block for some seconds and raise `Transient` when the log does not answer."""

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Those of `names` that exist."""

    def offsets(self, partitions: Collection[Partition], edge: Edge) -> dict[Partition, int]:
        """The edge of each partition; partitions that do not exist (any more) are left out."""

    def hidden(self, partitions: Collection[Partition]) -> dict[Partition, HiddenOffsets]:
        """Offsets written and not shown to readers of committed records, of the partitions that have such."""


class KafkaSurvey(Survey):
    """`Survey` over Kafka's AdminClient."""

    def __init__(self, bootstrap: str, options: ClientOptions | None = None) -> None:
        self._connection = Connection(bootstrap, options)
        self._client = self._connection.admin()

    @override
    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        if not names:
            return {}
        with self._connection.asking("describe topics"):
            futures = self._client.describe_topics(TopicCollection(sorted(names)), request_timeout=_REQUEST_S)
        infos: dict[str, TopicInfo] = {}
        for name, future in futures.items():
            answer = self._answer(future, "describe a topic", topic=name)
            if answer is not None:
                infos[name] = TopicInfo(name, str(answer.topic_id), len(answer.partitions))
        return infos

    @override
    def offsets(self, partitions: Collection[Partition], edge: Edge) -> dict[Partition, int]:
        return self._known(partitions, edge, IsolationLevel.READ_COMMITTED)

    @override
    def hidden(self, partitions: Collection[Partition]) -> dict[Partition, HiddenOffsets]:
        # What is written in between lies after both then.
        written = self._known(partitions, "end", IsolationLevel.READ_UNCOMMITTED)
        stable = self._known(partitions, "end", IsolationLevel.READ_COMMITTED)
        return {at: HiddenOffsets(stable[at], end) for at, end in written.items() if stable.get(at, end) < end}

    def _known(self, partitions: Collection[Partition], edge: Edge, isolation: Any) -> dict[Partition, int]:
        if not partitions:
            return {}
        try:
            return self._offsets(partitions, edge, isolation)
        except Transient as error:
            cause = error.__cause__
            if not isinstance(cause, KafkaException) or cause.args[0].code() not in LEADERLESS:
                raise
        # The client goes on asking the leader that it knows until it hears of another one.
        self.topics({topic for topic, _ in partitions})
        return self._offsets(partitions, edge, isolation)

    def _offsets(self, partitions: Collection[Partition], edge: Edge, isolation: Any) -> dict[Partition, int]:
        asked = {TopicPartition(topic, p): _spec(edge) for topic, p in partitions}
        with self._connection.asking("list offsets"):
            # "latest" is the last stable offset with READ_COMMITTED, else the high watermark.
            futures = self._client.list_offsets(asked, isolation_level=isolation, request_timeout=_REQUEST_S)
        offsets: dict[Partition, int] = {}
        later: list[Partition] = []
        for partition, future in futures.items():
            answer = self._answer(future, "list offsets", topic=partition.topic, partition=partition.partition)
            if answer is None:
                continue
            if answer.offset < 0 and isinstance(edge, int):
                # No record is as late as that.
                later.append((partition.topic, partition.partition))
                continue
            if answer.offset < 0:
                # While a broker comes back the client may answer so, without an error.
                raise self._connection.unreachable("list offsets", topic=partition.topic, partition=partition.partition)
            offsets[partition.topic, partition.partition] = answer.offset
        return offsets | self._offsets(later, "end", isolation) if later else offsets

    def _answer(self, future: Any, what: str, **place: Any) -> Any:
        """What a future holds; None for a topic that does not exist."""
        try:
            return future.result(_REQUEST_S * 2)
        except TimeoutError as error:
            raise self._connection.unreachable(what, **place) from error
        except KafkaException as error:
            if error.args[0].code() in UNKNOWN_TOPIC:
                return None
            raise self._connection.error(error.args[0], what, **place) from error


def _spec(edge: Edge) -> Any:
    offsets: Any = admin.OffsetSpec
    return (
        offsets.for_timestamp(edge)
        if isinstance(edge, int)
        else offsets.earliest()
        if edge == "begin"
        else offsets.latest()
    )


class PortSurvey(Survey):
    """`Survey` over a reader and an admin."""

    def __init__(self, reader: LogReader, topic_admin: TopicAdmin) -> None:
        self._reader = reader
        self._admin = topic_admin

    @override
    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        infos = {name: self._admin.describe(name) for name in names}
        return {name: info for name, info in infos.items() if info is not None}

    @override
    def offsets(self, partitions: Collection[Partition], edge: Edge) -> dict[Partition, int]:
        out: dict[Partition, int] = {}
        for topic in {topic for topic, _ in partitions} & self.topics({topic for topic, _ in partitions}).keys():
            ask = self._reader.begin_offsets if edge == "begin" else self._reader.end_offsets
            found = {(topic, p): offset for p, offset in ask(topic).items() if (topic, p) in partitions}
            if isinstance(edge, int):
                begins = self._reader.begin_offsets(topic)
                found = {at: self._first(at, begins[at[1]], end, edge) for at, end in found.items()}
            out.update(found)
        return out

    def _first(self, at: Partition, begin: int, end: int, timestamp_ms: int) -> int:
        records = self._reader.read(*at, begin, end)
        return next((record.offset for record in records if record.timestamp_ms >= timestamp_ms), end)

    @override
    def hidden(self, partitions: Collection[Partition]) -> dict[Partition, HiddenOffsets]:
        """The port does not tell how much there is: at least one offset."""
        asked = set(partitions)
        found = self._reader.unended({topic for topic, _ in asked})
        return {at: HiddenOffsets(stable, stable + 1) for at, stable in found.items() if at in asked}
