"""Documents of a real shop: assembled set-wise from MariaDB they equal what the shop says, field by field."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import CliRunner
from pydantic import SecretStr

from demo.shop.connection import ShopServer
from demo.shop.generator import Shop
from demo.shop.privacy import private_texts
from demo.shop.truth import truth
from include.cli.documents.commands import command
from include.document.assembler import Assembler
from include.document.database import DatabaseAddress as Server
from include.document.definition import DocumentDefinition
from include.document.reading.mysql import MysqlTables
from include.document.reading.tables import RowKeys, TableRow
from include.document.schema import body_avro
from include.record.codec import Decoder, Encoder
from include.record.json.body import plain
from tests.support.paths import ROOT

SHIPPED = ROOT / "include" / "deployment" / "documents.yaml"


class Counted:
    """The tables, with every read counted."""

    def __init__(self, inner: MysqlTables) -> None:
        self._inner, self.reads = inner, list[tuple[str, int]]()
        self.columns = inner.columns
        self.keys_after, self.folded, self.newest = inner.keys_after, inner.folded, inner.newest

    @contextmanager
    def snapshot(self) -> Iterator[Counted]:
        with self._inner.snapshot():
            yield self

    def rows(
        self, table: str, columns: Sequence[str], match: Sequence[str], values: RowKeys, most: int | None = None
    ) -> list[TableRow]:
        self.reads.append((table, len(values)))
        return self._inner.rows(table, columns, match, values, most)


@pytest.fixture(scope="module")
def shop(mariadb: Any) -> Iterator[ShopServer]:
    """Thirty orders, with all that happens to orders."""
    server = ShopServer(mariadb.host, mariadb.port, "root", mariadb.root_password, f"t{uuid.uuid4().hex[:10]}")
    server.create_database()
    with Shop(server.connect, 3, writers=2, pace_s=0.01) as made:
        made.prepare()
        made.run(1000, orders=30)
        made.quiesce()
    yield server
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {server.database}")
    connection.close()


@pytest.fixture
def definition(shop: ShopServer) -> DocumentDefinition:
    entry = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))["documents"]["assembled_order"]
    return DocumentDefinition.model_validate(entry | {"database": shop.database})


@pytest.fixture
def tables(shop: ShopServer) -> Iterator[Counted]:
    inner = MysqlTables(
        Server(host=shop.host, port=shop.port, user="root", password=SecretStr(shop.password)), shop.database
    )
    yield Counted(inner)
    inner.close()


def shown(definition: DocumentDefinition, tables: Counted, bodies: dict[Any, Any]) -> dict[int, Any]:
    """Bodies as they read after a way through Avro."""
    schema = body_avro("assembled_order", definition, tables.columns)
    encode, decode = Encoder(0, schema), Decoder(lambda _: schema)
    return {key[0]: plain(decode(encode(body))) for key, body in bodies.items()}


def told(shop: ShopServer) -> dict[int, Any]:
    connection = shop.connect()
    try:
        return {body["order_id"]: body for body in truth(connection)}
    finally:
        connection.close()


def test_thirty_orders_read_together_equal_the_shops_truth_with_a_query_for_each_look_up(
    shop: ShopServer, definition: DocumentDefinition, tables: Counted
) -> None:
    with tables.snapshot() as snapshot:
        keys = snapshot.keys_after("orders", ["order_id"], None, 1_000)
        found = Assembler(definition).assemble(snapshot, keys)
    assert shown(definition, tables, found.documents) == told(shop)
    assert len(found.documents) == 30
    assert len(tables.reads) == 1 + sum(len(lookup.hops) for lookup in definition.lookups.values())


def test_a_change_that_comes_while_a_batch_reads_does_not_show_in_it(
    shop: ShopServer, definition: DocumentDefinition, tables: Counted
) -> None:
    before = told(shop)
    with tables.snapshot() as snapshot:
        keys = snapshot.keys_after("orders", ["order_id"], None, 1_000)
        connection = shop.connect()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE partners SET name = CONCAT(name, '!')")
            cursor.execute("UPDATE order_lines SET quantity = quantity + 1")
        connection.commit()
        connection.close()
        found = Assembler(definition).assemble(snapshot, keys)
    assert shown(definition, tables, found.documents) == before
    assert told(shop) != before


def test_no_private_text_of_the_shop_is_in_any_document(
    shop: ShopServer, definition: DocumentDefinition, tables: Counted
) -> None:
    with tables.snapshot() as snapshot:
        keys = snapshot.keys_after("orders", ["order_id"], None, 1_000)
        found = Assembler(definition).assemble(snapshot, keys)
    everything = orjson.dumps(list(shown(definition, tables, found.documents).values())).decode()
    connection = shop.connect()
    leaks = [column for column, text in private_texts(connection) if text in everything]
    connection.close()
    assert leaks == []


def test_the_command_prints_one_document_with_its_sources(
    shop: ShopServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))["documents"]["assembled_order"]
    server = {"host": shop.host, "port": shop.port, "user": "root", "password": shop.password}
    application = {"entry": "spark_apps/assemble_documents.py", "topics": ["assembled_order"]}
    values = {
        "documents": {"assembled_order": entry | {"database": shop.database}},
        "applications": {"assemble_orders": application},
        "sources": {"shop": server | {"databases": [shop.database]}},
    }
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(values))
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    expected = told(shop)
    order_id = min(expected)
    asked = ["assemble", "--topic", "assembled_order", "--key", str(order_id), "--json"]
    answer = CliRunner().invoke(command, asked)
    assert answer.exit_code == 0, answer.output
    printed = orjson.loads(answer.stdout)
    assert printed["document"] == expected[order_id]
    assert {source["table"] for source in printed["sources"]} >= {"orders", "order_lines", "partners", "verticals"}
    alone = CliRunner().invoke(command, ["assemble", "--key", str(order_id)])
    assert alone.exit_code == 0, alone.output
    assert orjson.loads(alone.stdout) == expected[order_id], "one topic needs no name"
    assert "lines: order_lines where order_row_id=" in alone.stderr
    text = CliRunner().invoke(command, ["assemble", "--key", "pizza"])
    assert "no key of these documents" in str(text.exception)
    assert "Give an integer." in str(text.exception)
    gone = CliRunner().invoke(command, ["assemble", "--topic", "assembled_order", "--key", "999999", "--json"])
    assert "the database has no row of it" in str(gone.exception)
    wrong = CliRunner().invoke(command, ["assemble", "--topic", "orders", "--key", "1"])
    assert "allowed=['assembled_order']" in str(wrong.exception)
