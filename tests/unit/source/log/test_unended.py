"""What a transaction that Kafka left open was, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Restart, Terminal
from include.log.kafka.transaction_end import security
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import TopicSpec
from include.log.topics import change, document_spec, source_resolved
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.log.direct_log import DirectLog, memory_log, transactional_id
from include.source.log.unended import own_topics, was_committed
from include.source.ports import Group, OutgoingRecord
from include.source.state.capture_state import CaptureState

A, B, C = ("t", 0), ("t", 1), ("u", 0)
TOPIC = change("s", "shop", "t")


def seen(*places: tuple[str, int]) -> Any:
    """Readers see records there, wherever they are asked for."""
    return lambda topic, partition, start, end: start < end and (topic, partition) in places


def test_rows_below_what_the_resolved_record_names_were_committed_with_it() -> None:
    assert was_committed({A: 5}, {A: 9, B: 3}, {A: 5, B: 4}, seen())


def test_rows_beyond_it_that_are_seen_elsewhere_show_that_theirs_were_committed() -> None:
    assert was_committed({A: 5, ("cdc.s.resolved", 0): 7}, {A: 5, B: 3}, {A: 5, B: 6, C: 0}, seen(B))


def test_a_partition_that_no_resolved_record_names_is_looked_at_from_its_beginning() -> None:
    assert was_committed({A: 5}, {A: 5}, {A: 5, C: 2}, seen(C))


def test_where_nobody_saw_a_part_of_it_it_counts_as_aborted() -> None:
    # Ends of transactions and aborted records take offsets, too.
    assert not was_committed({A: 5}, {A: 4, B: 3}, {A: 5, B: 6}, seen())


class Slow:
    """A writer that takes two seconds for one of its steps, as when its broker starts again."""

    def __init__(self, inner: Any, clock: ManualClock, before_commit: Any, *, step: str = "commit") -> None:
        self._inner, self._clock, self._before_commit, self._step = inner, clock, before_commit, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def next_offsets(self) -> Any:
        self._take("next_offsets")
        return self._inner.next_offsets()

    def commit(self, group: str | None = None, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        self._before_commit()
        self._inner.commit(group, offsets)
        self._take("commit")

    def append(self, *args: Any, **kwargs: Any) -> None:
        self._take("append")
        self._inner.append(*args, **kwargs)

    def append_all(self, records: Any) -> None:
        self._take("append")
        self._inner.append_all(records)

    def _take(self, step: str) -> None:
        if step == self._step:
            self._clock.advance(2_000_000)


def group(number: int, *outputs: OutgoingRecord) -> Group:
    position = SourcePosition("mariadb", MariadbGtidSet({0: (1, number)}), BinlogPosition("bin.000001", number), number)
    state = CaptureState(version=number, tables={"shop.t": 1}, snapshot="done")
    return Group(outputs, position, state, number, (), len(outputs), 1)


@pytest.mark.parametrize("step", ["append", "next_offsets", "commit"])
@pytest.mark.parametrize("parts", [False, True])
def test_after_a_slow_step_capture_begins_anew_where_a_partition_did_not_hear_of_the_end(
    step: str, parts: bool
) -> None:
    log, clock = MemoryLog(), ManualClock()
    capture = memory_log("s", log, MemoryRegistry(), clock)
    log.admin().ensure(document_spec(TOPIC, 2))
    ports = capture._ports
    slow = DirectLog(
        "s",
        replace(ports, writer=lambda: Slow(ports.writer(), clock, lambda: log.forget((TOPIC, 1)), step=step)),
        clock,
    )
    slow.open()
    outputs = (OutgoingRecord(TOPIC, b"a", b"1", 1, 0), OutgoingRecord(TOPIC, b"b", b"2", 2, 1))
    if parts:
        slow.write(outputs[:1])
    with pytest.raises(Restart, match="Kafka left a transaction open") as caught:
        slow.commit(group(2, *outputs[parts:]))
    assert (caught.value.details["topic"], caught.value.details["partition"]) == (TOPIC, 1)
    point = capture.open()
    assert point is not None
    assert point.state.version == 2
    reader = log.reader()
    assert [r.value for p in (0, 1) for r in reader.read(TOPIC, p, 0, reader.end_offsets(TOPIC)[p])] == [b"1", b"2"]


def test_a_slow_commit_that_all_heard_of_is_like_any_other() -> None:
    log, clock = MemoryLog(), ManualClock()
    ports = memory_log("s", log, MemoryRegistry(), clock)._ports
    log.admin().ensure(document_spec(TOPIC, 2))
    slow = DirectLog("s", replace(ports, writer=lambda: Slow(ports.writer(), clock, lambda: None)), clock)
    slow.open()
    slow.commit(group(1, OutgoingRecord(TOPIC, b"a", b"1", 1, 0)))
    assert log.reader().end_offsets(source_resolved("s")) == {0: 2}
    assert transactional_id("s") == "lyrebird.capture.s"


@pytest.mark.parametrize("other", ["dead", "late"])
def test_what_an_application_leaves_open_beside_a_sources_tables_does_not_stop_capture(other: str) -> None:
    log, clock = MemoryLog(), ManualClock()
    capture = memory_log("s", log, MemoryRegistry(), clock)
    aside = f"{TOPIC}.assemble_orders.{other}"
    log.admin().ensure(TopicSpec(aside, 1))
    writer = log.writer("lyrebird.assemble_orders")
    writer.begin()
    writer.append(aside, b"k", b"v")
    assert capture.open() is None
    assert own_topics("s", log.admin()) == [f"cdc.s.{kind}" for kind in ("answers", "control", "resolved")]


def test_options_of_security_are_those_of_the_other_client() -> None:
    assert security(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "p",
            "ssl.ca.location": "/ca.pem",
            "ssl.endpoint.identification.algorithm": "none",
            "transaction.timeout.ms": 900_000,
        }
    ) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }


def test_an_option_of_security_without_a_like_is_refused_by_name() -> None:
    with pytest.raises(Terminal, match="cannot be ended under this option") as caught:
        security({"sasl.kerberos.keytab": "/x"})
    assert caught.value.details["option"] == "sasl.kerberos.keytab"
