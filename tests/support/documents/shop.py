"""A shop in a database of its own, captured by a real capture, assembled by a process that tests may kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from demo.shop.connection import ShopServer
from demo.shop.truth import truth
from include.cli.documents.commands import command
from include.log import topics
from include.log.kafka.log import KafkaAdmin
from include.log.resolved import ResolvedView
from include.record.gtid import parse_gtid_set
from tests.support.documents.replay_oracle import Written
from tests.support.documents.shop_oracle import ShopLog
from tests.support.paths import ROOT

__all__ = ["IN_PLACE", "SPARK", "WITHOUT_SPARK", "DocumentShop", "document_shop"]

MOST_ENDS = 3
SPARK = ("spark_apps/assemble_documents.py",)
WITHOUT_SPARK = ("-m", "tests.support.documents.assembler_process")
"""The same batches over the same ports, planned and folded in one process: it starts in a second."""
_FIRST = "(SELECT * FROM (SELECT MIN(order_id) FROM orders) AS first)"
IN_PLACE = (
    "SET FOREIGN_KEY_CHECKS = 0",
    # Final rows rewritten, made transient and final again.
    "UPDATE orders SET currency = 'CHF' WHERE state = 'completed' ORDER BY id LIMIT 5",
    "UPDATE orders SET state = 'pending' WHERE currency = 'CHF'",
    "UPDATE orders SET state = 'completed' WHERE currency = 'CHF'",
    # An order that goes, one that moves, one that goes and comes back, one that loses its newest row.
    f"DELETE FROM orders WHERE order_id = {_FIRST}",
    f"UPDATE orders SET order_id = order_id + 1000000 WHERE order_id = {_FIRST}",
    f"CREATE TEMPORARY TABLE kept SELECT * FROM orders WHERE order_id = {_FIRST}",
    f"DELETE FROM orders WHERE order_id = {_FIRST}",
    "COMMIT",
    "INSERT INTO orders SELECT * FROM kept",
    "COMMIT",
    "DELETE FROM orders WHERE id = (SELECT * FROM (SELECT MAX(id) FROM orders WHERE previous_id IS NOT NULL) AS last)",
)
"""What no shop does to its orders, and an assembler must stand."""


class DocumentShop:
    """Its deployment and processes; all under one unique name."""

    def __init__(self, name: str, mariadb: Any, kafka: str, registry_url: str, folder: Path, **entry: Any) -> None:
        self.name, self.topic, self.kafka, self.folder = name, f"{name}_order", kafka, folder
        self.application = f"assemble_{name}"
        self.server = ShopServer(mariadb.host, mariadb.port, "root", mariadb.root_password, name)
        self.server.create_database()
        self.log = ShopLog(kafka, registry_url, name, name, self.topic)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.kills = self.ended = 0
        shipped = yaml.safe_load((ROOT / "include" / "deployment" / "documents.yaml").read_text())
        document = shipped["documents"]["assembled_order"]
        application = {"entry": SPARK[0], "topics": [self.topic]}
        source = {"host": mariadb.host, "port": mariadb.port, "user": "root", "password": mariadb.root_password}
        source |= {"databases": [name], "partitions": 1, "table_partitions": {"orders": 4}}
        values = {
            "documents": {
                self.topic: document | {"source": name, "database": name, "application": self.application} | entry
            },
            "applications": {self.application: application},
            "sources": {name: source | {"partition_by": {"orders": ["order_id"]}, "group_ms": 20}},
            "kafka": {"bootstrap": kafka},
            "registry": {"url": registry_url},
        }
        (folder / "deployment").mkdir()
        (folder / "deployment" / "all.yaml").write_text(yaml.safe_dump(values))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """A process of the product's, which ends with the test."""
        run = self.folder / f"run-{len(self.processes)}"
        run.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LYREBIRD_")}
        environment |= {
            "LYREBIRD_DEPLOYMENT": str(self.folder / "deployment"),
            "LYREBIRD_STATE": str(self.folder / "state"),
            "LYREBIRD_RUN": str(run),
            "PYTHONPATH": str(ROOT),
        }
        with (run / "said").open("wb") as said:
            process = subprocess.Popen([sys.executable, *words], env=environment, cwd=ROOT, stdout=said, stderr=said)
        self.processes.append(process)
        return process

    def capture(self) -> None:
        """Take the snapshot and go on."""
        snapshot = self.start("-m", "include", "capture", "run", "--source", self.name, "--snapshot")
        assert snapshot.wait(60) == 0, self.said(snapshot)
        self.start("-m", "include", "capture", "run", "--source", self.name)

    def assemble(self, how: tuple[str, ...]) -> None:
        """Start the assembler."""
        self._how = how
        self._assembler = self.start(*how, "--application", self.application)

    def kill(self) -> None:
        """End the assembler as the machine's memory killer does, and start it again."""
        self._assembler.send_signal(signal.SIGKILL)
        self._assembler.wait()
        self.kills += 1
        self.assemble(self._how)

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """The end of what it printed."""
        place = self.processes.index(process)
        return (self.folder / f"run-{place}" / "said").read_text(errors="replace")[-2000:]

    def command(self, *words: str) -> Any:
        """What `lyrebird documents …` prints, as JSON."""
        answer = CliRunner().invoke(command, words, env={"LYREBIRD_DEPLOYMENT": str(self.folder / "deployment")})
        assert answer.exit_code == 0, answer.exception
        return json.loads(answer.stdout)

    def sql(self, *statements: str) -> Any:
        """The rows of the last, run as root."""
        connection = self.server.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                found = cursor.fetchall()
            connection.commit()
        finally:
            connection.close()
        return found

    def wait(self, done: Callable[[], bool], seconds: float = 90) -> None:
        """Until something is so. An assembler that ends by itself is started again some times, as by its guardian."""
        until_s = time.monotonic() + seconds
        while not done():
            said = self.said(self._assembler)
            if self._assembler.poll() is not None:
                self.ended += 1
                assert self.ended <= MOST_ENDS, said
                self.assemble(self._how)
            assert time.monotonic() < until_s, f"it did not come about: {said}"
            time.sleep(0.3)

    def complete(self) -> bool:
        """Whether the documents' own topic says that it has all that the server has now, of every table."""
        gtids = parse_gtid_set(self.sql("SELECT @@gtid_binlog_pos")[0][0], "mariadb")
        view = ResolvedView()
        if KafkaAdmin(self.kafka).describe(topics.resolved(self.topic)) is None:
            return False
        for record in self.log.records(topics.resolved(self.topic)):
            view.on_record(record.value)
        last = view.newest
        return last is not None and not last.uncovered and last.position.gtids.contains(gtids)  # type: ignore[arg-type]

    def wrote_more(self) -> Callable[[], bool]:
        """Whether documents were written after this call."""
        began = self._end()
        return lambda: self._end() > began

    def _end(self) -> int:
        if KafkaAdmin(self.kafka).describe(self.topic) is None:
            return 0
        return sum(self.log.reader.end_offsets(self.topic).values())

    def newest(self) -> dict[int, Written]:
        """The newest version of each document."""
        return {each.key: each for each in self.log.written()}

    def truth(self) -> dict[int, Any]:
        """One SQL join now."""
        connection = self.server.connect()
        try:
            return {body["order_id"]: body for body in truth(connection)}
        finally:
            connection.close()

    def close(self) -> None:
        """End what runs and take all away."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.log.close()
        self.sql(f"DROP DATABASE IF EXISTS {self.name}")
        admin = KafkaAdmin(self.kafka)
        for topic in admin.names():
            if topic.startswith((f"cdc.{self.name}.", self.topic)):
                admin.delete(topic)


@contextmanager
def document_shop(
    name: str, mariadb: Any, kafka: str, registry_url: str, folder: Path, **entry: Any
) -> Iterator[DocumentShop]:
    """For the length of a `with`; `entry` changes the shipped document."""
    made = DocumentShop(name, mariadb, kafka, registry_url, folder, **entry)
    try:
        yield made
    finally:
        made.close()
