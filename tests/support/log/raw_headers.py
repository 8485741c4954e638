"""Writes a record to Kafka as other clients may: with header names of any bytes, by librdkafka's own functions."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL, c_int32, c_size_t, c_ssize_t, c_void_p, create_string_buffer
from pathlib import Path

import confluent_kafka

__all__ = ["RawHeaders", "produce_raw"]

RawHeaders = Sequence[tuple[bytes, bytes | None]]

_ERROR_BYTES = 512
_PRODUCER, _COPY = 0, 2
# Of `rd_kafka_vtype_t`.
_END, _TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _HEADERS = 0, 1, 3, 4, 5, 7, 10


def produce_raw(
    bootstrap: str, topic: str, key: bytes, value: bytes, headers: RawHeaders, *, partition: int = 0
) -> None:
    """Returns when Kafka has it."""
    rdkafka = _library()
    why = create_string_buffer(_ERROR_BYTES)
    conf = c_void_p(rdkafka.rd_kafka_conf_new())
    told = rdkafka.rd_kafka_conf_set(conf, b"bootstrap.servers", bootstrap.encode(), why, c_size_t(_ERROR_BYTES))
    assert told == 0, why.value
    producer = c_void_p(rdkafka.rd_kafka_new(_PRODUCER, conf, why, c_size_t(_ERROR_BYTES)))
    assert producer.value, why.value
    made = c_void_p(rdkafka.rd_kafka_headers_new(c_size_t(len(headers))))
    for name, held in headers:
        size = c_ssize_t(0 if held is None else len(held))
        assert rdkafka.rd_kafka_header_add(made, name, c_ssize_t(len(name)), held, size) == 0
    arguments = [_TOPIC, topic.encode(), _PARTITION, c_int32(partition), _FLAGS, _COPY]
    arguments += [_VALUE, value, c_size_t(len(value)), _KEY, key, c_size_t(len(key)), _HEADERS, made, _END]
    assert rdkafka.rd_kafka_producev(producer, *arguments) == 0
    assert rdkafka.rd_kafka_flush(producer, 20_000) == 0
    rdkafka.rd_kafka_destroy(producer)


def _library() -> CDLL:
    """The one that comes with the client, which is loaded already."""
    beside = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    (path,) = beside.glob("librdkafka*.so*")
    found = CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(found, name).restype = c_void_p
    return found
