"""Documents that no shop has made: each fault is named by the task of its expectation, mailed once, and mended."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from include.log.kafka.log import KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.ports import Record
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Decoder, Encoder
from include.record.version import from_headers, to_header
from tests.support.servers.addresses import registry_url

pytestmark = pytest.mark.timeout(1800)

TOPIC, AUDIT = "assembled_order", "assembled_order"
EXPECTATIONS = ("totals_add_up", "states_are_known", "each_order_once")
DOUBLE = 990_001
"""An order that the shop has not."""
WITHIN_S = 60


class Documents:
    """The topic as somebody writes it who is not its assembler."""

    def __init__(self, platform: Any) -> None:
        self._registry, kafka = ConfluentRegistry(registry_url(platform.env)), platform.kafka
        self._reader = KafkaReader(kafka.bootstrap, kafka.options)
        self._writer = KafkaWriter(kafka.bootstrap, "planted", kafka.options)
        self._decode = Decoder(self._registry.schema)

    def newest(self) -> dict[int, Record]:
        """The last record of each order, by its id; those without a document left out."""
        begin, end = self._reader.begin_offsets(TOPIC), self._reader.end_offsets(TOPIC)
        records = [each for p in end for each in self._reader.read(TOPIC, p, begin[p], end[p])]
        last = {each.key: each for each in records}
        return {self._decode(key)["order_id"]: each for key, each in last.items() if key and each.value}

    def plant(self, record: Record, *, order: int | None = None, **fields: Any) -> None:
        """A newer document in the place of `record`, or of `order`, with other `fields`; a callable takes the old."""
        assert record.key is not None
        assert record.value is not None
        key = record.key if order is None else self._encoded(record.key, {"order_id": lambda _: order})
        changes = {name: change if callable(change) else lambda _, c=change: c for name, change in fields.items()}
        self._writer.begin()
        header = to_header(from_headers(record.headers) + 1)
        self._writer.append(TOPIC, key, self._encoded(record.value, changes), headers=[header])
        self._writer.commit()

    def _encoded(self, data: bytes, changes: dict[str, Any]) -> bytes:
        schema_id = int.from_bytes(data[1:5], "big")
        old = self._decode(data)
        new = {**old, **{name: change(old[name]) for name, change in changes.items()}}
        return Encoder(schema_id, self._registry.schema(schema_id))(new)

    def close(self) -> None:
        self._writer.close()
        self._reader.close()
        self._registry.close()


@pytest.fixture
def documents(platform: Any) -> Iterator[Documents]:
    made = Documents(platform)
    yield made
    made.close()


def states(platform: Any, run: str) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in platform.airflow.tasks("audit_search", run)}


def indexed(platform: Any) -> tuple[int | None, set[int]]:
    """How many documents searches see, and the orders that they see otherwise than the shop."""
    return platform.index.count(), set(platform.compare().different)


def mailed(platform: Any) -> dict[str, dict[str, Any]]:
    """Mails about the DAG by the task that they name; a second one of a task fails."""
    found: dict[str, dict[str, Any]] = {}
    for mail in platform.mails("audit_search"):
        task = re.search(r"audit_search\.(\S+)", mail["subject"])
        assert task is not None, mail["subject"]
        name = task[1].rstrip(":")
        assert name not in found, mail["subject"]
        found[name] = mail
    return found


def body(mail: dict[str, Any]) -> str:
    return html.unescape(f"{mail.get('text') or ''}{mail.get('html') or ''}")


def command_of(mail: dict[str, Any]) -> list[str]:
    found = re.search(r"<pre>lyrebird ([^<]+)</pre>", body(mail))
    assert found is not None, mail
    return shlex.split(found[1])


def test_planted_documents_are_named_by_their_expectations_and_mailed_once(
    platform: Any, documents: Documents, eventually: Any
) -> None:
    tasks = {name: f"{AUDIT}.expect_{name}" for name in EXPECTATIONS}
    clean = states(platform, platform.succeed("audit_search"))
    assert {clean[task] for task in tasks.values()} == {"success"}
    assert mailed(platform) == {}

    newest = documents.newest()
    wrong, lost, twice, *_ = sorted(newest)
    documents.plant(newest[wrong], total_price=lambda total: total + Decimal("1.00"))
    documents.plant(newest[lost], state="lost")
    documents.plant(newest[twice], order=DOUBLE)
    eventually("the index has all", lambda: indexed(platform) == (len(newest) + 1, {wrong, lost}), WITHIN_S)
    run = platform.airflow.trigger("audit_search")
    assert platform.airflow.wait("audit_search", run, 600) == "failed"
    # The index has what the topic has: that audit is clean.
    assert {task for task, state in states(platform, run).items() if state == "failed"} == set(tasks.values())
    eventually("each is mailed", lambda: set(mailed(platform)) == set(tasks.values()), WITHIN_S)
    told = mailed(platform)
    faults = dict(zip(EXPECTATIONS, ({wrong}, {lost}, {twice, DOUBLE}), strict=True))
    for name, orders in faults.items():
        mail = told[tasks[name]]
        assert f"expectation {name} of {TOPIC} failed" in mail["subject"]
        assert re.search(f": {len(orders)} of {len(newest) + 1:,} documents, e.g. ", body(mail)), body(mail)
        assert all(re.search(rf"\b{order}\b", body(mail)) for order in orders), body(mail)
        assert f"/dags/audit_search/runs/{run}" in body(mail).replace("%3A", ":").replace("%2B", "+")
        # What it says to run next shows one of them as the database has it.
        command = command_of(mail)
        shown = platform.lyrebird(*command)
        if command[-1] == str(DOUBLE):
            assert "the database has no row of it" in shown.stderr, shown
        else:
            assert json.loads(shown.stdout)["order_id"] == int(command[-1]), shown
    history = platform.lyrebird("audit", "history", "--audit", AUDIT).stdout
    assert all(name in history for name in EXPECTATIONS), history

    # Assembled anew from the database they are right again, and the one that no order has is gone.
    platform.told("documents", "rebuild", "--wait", "120")
    eventually("search is the truth again", lambda: platform.compare().equal, WITHIN_S)
    assert platform.told("audit", "search", AUDIT, "--wait", "60")["clean"]
    assert mailed(platform) == told
