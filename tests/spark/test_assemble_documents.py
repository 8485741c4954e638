"""The assembler in Spark against a real log and a real database: what the shop did comes out, once, over a restart."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from pyspark.sql import SparkSession

from demo.shop.connection import ShopServer
from demo.shop.generator import Shop
from demo.shop.truth import truth
from include.cli.documents.commands import command
from include.clock import SystemClock
from include.document import assembler_spark as stream
from include.document import batch, making
from include.document.database import DatabaseAddress as Server
from include.document.reading.mysql import MysqlTables
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Decoder
from include.record.json.body import plain
from include.record.schema import TableSchema
from include.record.version import from_headers
from include.settings.deployment import Deployment
from include.settings.secret import REVEALED
from tests.support.paths import ROOT
from tests.support.source.captured_changes import CapturedChanges

DEPLOYMENT = ROOT / "include" / "deployment" / "documents.yaml"
SIGNALS = ("orders", "partners", "businesses", "verticals", "cancellation_policies")
PATIENCE_S = 100


class Scenario:
    """A shop in a database of its own, its capture, and the assembler's deployment; all under one unique name."""

    def __init__(self, name: str, mariadb: Any, kafka: str, registry_url: str, folder: Path) -> None:
        self.name, self.topic, self.kafka, self.registry_url = name, f"{name}_order", kafka, registry_url
        self.server = ShopServer(mariadb.host, mariadb.port, "root", mariadb.root_password, name)
        self.server.create_database()
        server = Server(host=mariadb.host, port=mariadb.port, user="root", password=mariadb.root_password)
        self.tables = MysqlTables(server, name)
        self.folder = folder
        entry = yaml.safe_load(DEPLOYMENT.read_text())["documents"]["assembled_order"]
        application = {"entry": "spark_apps/assemble_documents.py", "topics": [self.topic]}
        values = {
            "documents": {self.topic: entry | {"source": name, "database": name, "application": f"assemble_{name}"}},
            "applications": {f"assemble_{name}": application},
            "sources": {name: server.model_dump(mode="json", context=REVEALED) | {"databases": [name]}},
            "kafka": {"bootstrap": kafka},
            "registry": {"url": registry_url},
        }
        (folder / "all.yaml").write_text(yaml.safe_dump(values))
        self._seen: dict[tuple[str, int], Any] = {}

    def open_capture(self) -> None:
        """After the shop has made its tables."""
        schemas = [
            TableSchema(self.name, table, tuple(self.tables.columns(table).values()), ("id",)) for table in SIGNALS
        ]
        self.capture = CapturedChanges(
            KafkaWriter(self.kafka, f"capture-{self.name}"),
            KafkaAdmin(self.kafka),
            ConfluentRegistry(self.registry_url),
            schemas,
            source=self.name,
            partition_by={"orders": "order_id"},
        )

    def follow(self) -> None:
        """Write what changed in the database since the last call, as one transaction."""
        steps: list[Any] = []
        with self.tables.snapshot() as snapshot:
            for table in SIGNALS:
                columns = list(self.tables.columns(table))
                for row in snapshot.rows(table, columns, ["id"], snapshot.keys_after(table, ["id"], None, 10**6)):
                    before = self._seen.get((table, row["id"]))
                    if before != row:
                        self._seen[table, row["id"]] = row
                        steps.append(("c" if before is None else "u", table, before, row))
        self.capture.commit(*steps)

    @contextmanager
    def assembler(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Runs while the block does; ends by a stop request, and its error is raised here."""
        run = self.folder / "run"
        run.mkdir(exist_ok=True)
        (run / "stop").unlink(missing_ok=True)
        monkeypatch.setenv("LYREBIRD_RUN", str(run))
        monkeypatch.setenv("LYREBIRD_STATE", str(self.folder / "state"))
        failures: list[BaseException] = []

        def work() -> None:
            try:
                stream.run(f"assemble_{self.name}", Deployment.load(self.folder), keep_session=True)
            except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
                failures.append(error)

        assert spark.version
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            (run / "stop").touch()
            thread.join(PATIENCE_S)
        assert not thread.is_alive()
        if failures:
            raise failures[0]

    def wait(self, done: Callable[[], bool]) -> None:
        """Heartbeats until something is so."""
        clock = SystemClock()
        until_s = clock.monotonic_s() + PATIENCE_S
        while not done():
            assert clock.monotonic_s() < until_s, "it did not come about"
            clock.sleep(0.3)
            self.capture.heartbeat()

    def command(self, name: str, *options: str) -> Any:
        """What `lyrebird documents <name> --json` prints."""
        environment = {"LYREBIRD_DEPLOYMENT": str(self.folder)}
        answer = CliRunner().invoke(command, [name, "--topic", self.topic, "--json", *options], env=environment)
        assert answer.exit_code == 0, answer.exception
        return json.loads(answer.stdout)

    def documents(self) -> dict[int, Any]:
        """Newest document of each order; each (key, version) is there once and versions grow."""
        if KafkaAdmin(self.kafka).describe(self.topic) is None:
            return {}
        reader, decode = KafkaReader(self.kafka), Decoder(ConfluentRegistry(self.registry_url).schema)
        found: dict[int, tuple[int, Any]] = {}
        for partition, end in reader.end_offsets(self.topic).items():
            for record in reader.read(self.topic, partition, 0, end):
                key, version = decode(record.key or b"")["order_id"], from_headers(record.headers)
                assert version > found.get(key, (0, None))[0], "once, and growing"
                found[key] = version, record.value and plain(decode(record.value))
        reader.close()
        return {key: body for key, (_, body) in found.items()}

    def truth(self) -> dict[int, Any]:
        """What search must answer."""
        connection = self.server.connect()
        try:
            return {body["order_id"]: body for body in truth(connection)}
        finally:
            connection.close()

    def close(self) -> None:
        """Take it all away."""
        connection = self.server.connect()
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {self.name}")
        connection.close()
        self.tables.close()
        admin = KafkaAdmin(self.kafka)
        for topic in admin.names():
            if topic.startswith((f"cdc.{self.name}.", self.topic)):
                admin.delete(topic)


@pytest.fixture
def scene(unique: str, mariadb: Any, kafka: str, registry_url: str, tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(unique, mariadb, kafka, registry_url, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(300)  # two starts of a query, each of them seconds of CPU
def test_what_the_shop_did_comes_out_once_and_equal_over_a_restart(
    scene: Scenario, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A first start's and the partners' batches are more than two chunks then, which tasks make.
    monkeypatch.setattr(making, "CHUNK", 10)
    monkeypatch.setattr(batch, "CHUNK", 10)
    make, by_tasks = stream.made, list[int]()

    def counted(*each: Any) -> Any:
        by_tasks.append(len(each[-1]))
        return make(*each)

    monkeypatch.setattr(stream, "made", counted)
    with Shop(scene.server.connect, 7, writers=2, pace_s=0.01) as shop:
        shop.prepare()
        scene.open_capture()
        shop.run(500, orders=15)
        shop.quiesce()
        scene.follow()
        with scene.assembler(spark, monkeypatch):
            scene.wait(lambda: scene.documents() == scene.truth())
            shop.run(500, orders=40)
            scene.follow()
            scene.capture.spoil("orders", b"no envelope")
            scene.wait(lambda: scene.documents() == scene.truth())
        shop.run(500, orders=15)
        shop.quiesce()
        with scene.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE partners SET site = CONCAT(site, 'new/')")
            connection.commit()
        scene.follow()
        with scene.assembler(spark, monkeypatch):
            scene.wait(lambda: scene.documents() == scene.truth())
            asked = scene.command("rebuild", "--key", str(min(scene.truth())))
            scene.wait(lambda: not scene.command("status")["requests"])
            assert scene.command("rebuild", "--id", asked["id"], "--wait", "9")["state"] == "done"
    assert len(scene.truth()) == 70
    assert by_tasks, "a batch of more than two chunks is made by tasks"
    assert scene.command("status")["state"] == "started"
    dead = topics.dead(topics.change(scene.name, scene.name, "orders"), f"assemble_{scene.name}")
    reader = KafkaReader(scene.kafka)
    assert [r.value for r in reader.read(dead, 0, 0, reader.end_offsets(dead)[0])] == [b"no envelope"]
    reader.close()
