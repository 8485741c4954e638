"""A log that loses its newest records, as at an unclean election, and goes on with others at their offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from include.clock import SystemClock
from include.lake.definition import declared_groups
from include.lake.inspect.status import group_status
from include.lake.reading.kafka_group import KafkaGroupLog
from include.settings.deployment import Deployment
from tests.support.lake.hosted_harness import opened
from tests.support.lake.traffic import wait_until
from tests.support.log.broker import broker


def cut_short(files: Path, topic: str, offset: int) -> None:
    """The newest records of partition 0 go, as at an unclean election; the broker of these files is down."""
    folder = files / f"{topic}-0"
    (log,) = folder.glob("*.log")
    body, at = log.read_bytes(), 0
    while int.from_bytes(body[at : at + 8]) < offset:
        at += 12 + int.from_bytes(body[at + 8 : at + 12])
    log.write_bytes(body[:at])
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
        index.unlink()


def test_a_truncated_log_stops_its_partition_alone_until_a_newer_revision_stores_what_it_has_now(
    unique: str, tmp_path: Path, s3: Any
) -> None:
    with broker(tmp_path / "kafka") as kafka, opened(unique, tmp_path, kafka.address, s3) as world:
        topic, other = world.topic("events", 1), world.topic("others", 1)
        producer: Any = Producer({"bootstrap.servers": kafka.address, "linger.ms": 0, "log_level": 0})

        def write(name: str, count: int) -> None:
            for number in range(count):
                producer.produce(name, b'{"at": 1700000000, "n": %d}' % number, partition=0)
                producer.flush(10)

        def stands(words: str) -> None:
            for group in world.groups:

                def told(group: str = group) -> bool:
                    found = application.told(group)
                    return words in found.get("failing", {}).get(f"{topic}/0", "")

                wait_until(told, f"{group} tells", 90)

        write(topic, 300)
        write(other, 100)
        deployed = world.declare()
        application = world.start(deployed)
        for each in (topic, other):
            world.taken_up(each, 1)
        wait_until(lambda: not world.behind(deployed), "all is stored")
        kafka.kill()
        cut_short(kafka.files, topic, 200)
        kafka.start()
        write(other, 100)
        stands("truncated")
        log, now_ms = KafkaGroupLog(kafka.address), SystemClock().now_us() // 1000
        for name, group in declared_groups(Deployment.load(deployed, {})).items():
            states = {each.topic: each for each in group_status(name, group, world.store, log, now_ms).partitions}
            assert states[topic].state == "truncated"
            assert "The log ends at 200" in states[topic].todo

        # Grown past what is stored, it shows by its records alone: those from 200 on are others.
        write(topic, 200)
        assert application.stop() == 0, application.log()
        application = world.start(deployed)
        stands("truncated, and has grown since")
        write(other, 100)
        wait_until(lambda: world.records("raw", world.objects("raw", other)).keys() == {(0, o) for o in range(300)}, "")
        assert {offset for _, offset in world.records("raw", world.objects("raw", topic))} == set(range(300))
        assert application.stop() == 0, application.log()

        second = world.declare(2)
        application = world.start(second)
        world.taken_up(topic, 1, generation=2)
        wait_until(lambda: not world.behind(second), "the newer revision stores what there is", 90)
        assert application.stop() == 0, application.log()
        assert world.is_whole(topic) == 400
        assert world.is_whole(other) == 300
