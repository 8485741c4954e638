"""A transaction of a real Kafka whose end some partitions never hear of, as after KAFKA-20734.

A coordinator forgets them only if it starts again at a bad moment. Here it never knew them: their records are sent
beside the client, under its producer's id, which needs `transaction.partition.verification.enable=false`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka.admin import KafkaAdminClient
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from include.log.kafka.log import KafkaWriter
from include.log.ports import Headers, Versioned
from include.record.version import to_header

__all__ = ["HangingTransactionWriter", "unverified"]

_VERIFIES = "transaction.partition.verification.enable"
Place = tuple[str, int]


@contextmanager
def unverified(bootstrap: str) -> Iterator[None]:
    """Brokers take transactional records for a partition that its coordinator does not know of."""
    client = AdminClient({"bootstrap.servers": bootstrap})

    def set_to(value: str | None) -> None:
        kind = AlterConfigOpType.SET if value else AlterConfigOpType.DELETE
        entry = ConfigEntry(_VERIFIES, value or "", incremental_operation=kind)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for future in client.incremental_alter_configs([resource]).values():
            future.result(20)

    set_to("false")
    try:
        # The broker hears of it a moment after the controller has answered.
        time.sleep(0.5)
        yield
    finally:
        set_to(None)


class HangingTransactionWriter:
    """`LogWriter` for one transaction; its records for `forgotten` stand in the log without an end."""

    def __init__(self, bootstrap: str, transactional_id: str, forgotten: Collection[Place]) -> None:
        self._inner = KafkaWriter(bootstrap, transactional_id, timeout_s=20)
        self._id, self._forgotten = transactional_id, forgotten
        self._client: Any = KafkaAdminClient(bootstrap_servers=bootstrap)  # type: ignore[no-untyped-call]
        self._held: dict[Place, list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]] = defaultdict(
            list
        )
        self._sent: dict[Place, int] = defaultdict(int)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        place = topic, partition or 0
        if place in self._forgotten:
            self._held[place].append((key, value, list(headers)))
        else:
            self._inner.append(topic, key, value, headers=headers, partition=partition)

    def append_all(self, records: Sequence[Versioned]) -> None:
        for topic, key, value, version, partition in records:
            self.append(topic, key, value, headers=(to_header(version),), partition=partition)

    def next_offsets(self) -> dict[Place, int]:
        return self._inner.next_offsets() | self._send()

    def commit(self) -> None:
        self._send()
        self._inner.commit()

    def close(self) -> None:
        self._client.close()
        self._inner.close()

    def _send(self) -> dict[Place, int]:
        about = self._client.describe_transactions([self._id])[self._id]
        ends = {}
        for place, records in self._held.items():
            builder: Any = MemoryRecordsBuilder(  # type: ignore[no-untyped-call]
                magic=2,
                compression_type=0,
                batch_size=1 << 20,
                transactional=True,
                producer_id=about.producer_id,
                producer_epoch=about.producer_epoch,
                base_sequence=self._sent[place],
            )
            for key, value, headers in records:
                assert builder.append(int(time.time() * 1000), key, value, headers) is not None
            builder.close()
            self._sent[place] += len(records)
            ends[place] = self._produce(place, builder.buffer()) + len(records)
        self._held.clear()
        return ends

    def _produce(self, place: Place, batch: Any) -> int:
        """Returns the offset of the batch's first record."""
        topic = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=20_000,
            topic_data=[
                topic(name=place[0], partition_data=[topic.PartitionProduceData(index=place[1], records=bytes(batch))])
            ],
            min_version=3,
            max_version=9,
        )

        async def sent() -> Any:
            return await self._client._manager.send(request)

        answer: Any = self._client._manager.run(sent)
        (found,) = answer.responses[0].partition_responses
        assert found.error_code == 0, found
        return int(found.base_offset)
