"""An end that is written to partitions and to a group's offsets, on a real Kafka."""

from __future__ import annotations

from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.kafka.transaction_end import end_transaction
from include.log.topics import document_spec


def test_a_transaction_is_ended_where_it_wrote_and_where_its_groups_offsets_are_kept(kafka: str, unique: str) -> None:
    topic, group = f"{unique}.documents", f"{unique}.0"
    admin, reader = KafkaAdmin(kafka), KafkaReader(kafka)
    admin.ensure(document_spec(topic, 2))
    writer = KafkaWriter(kafka, group)
    writer.begin()
    writer.append(topic, b"a", b"1", partition=0)
    writer.commit(group, {(topic, 0): 7})
    writer.begin()
    writer.append(topic, b"a", b"2", partition=1)
    writer.next_offsets()
    end_transaction(kafka, group, [(topic, 0), (topic, 1)], commit=True, group=group)
    again = KafkaWriter(kafka, group)
    try:
        assert reader.unended([topic]) == {}
        # What was open when the end was asked for had been aborted by the fence.
        found = {p: [r.value for r in reader.read(topic, p, 0, end)] for p, end in reader.end_offsets(topic).items()}
        assert found == {0: [b"1"], 1: []}
        assert reader.committed(group, topic) == {0: 7}
        again.begin()
        again.commit(group, {(topic, 0): 8})
        assert reader.committed(group, topic) == {0: 8}
    finally:
        again.close()
        reader.close()
        admin.delete(topic)
