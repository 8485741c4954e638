"""Statements' texts beside a capture: null in envelopes unless the source says `queries: true`."""

from __future__ import annotations

from include.log.registry.confluent import ConfluentRegistry
from include.log.topics import change
from include.record.codec import Decoder
from tests.support.source.capture_harness import CaptureHarness

__all__ = ["texts_leave_only_when_asked_for"]


def texts_leave_only_when_asked_for(world: CaptureHarness, logged: str) -> None:
    """`logged` makes the server log the texts of the connection's statements."""
    world.sql(logged)
    world.run("run", "--snapshot")
    texts = [f"INSERT INTO {world.name}.a VALUES ({number}, 1, 'secret', 1, NULL)" for number in (1, 2)]
    for asked, text in zip((False, True), texts, strict=True):
        world.declare(queries=asked)
        capture = world.start("run")
        world.sql(text)
        world.wait_until_complete()
        world.stop(capture)
        world.running.remove(capture)
    decode = Decoder(ConfluentRegistry(world.registry).schema)
    records = [decode(record.value) for record in world.records(change(world.name, world.name, "a"))]
    assert [record["source"]["query"] for record in records] == [None, texts[1]]
