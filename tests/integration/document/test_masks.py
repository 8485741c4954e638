"""Documents of masked columns from a real server's tables: each hash is the one that the server itself makes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from include.clock import ManualClock
from include.document.assembler import Assembler
from include.document.database import DatabaseAddress
from include.document.definition import definitions
from include.document.reading.mysql import MysqlTables
from include.document.reading.read_throttle import Metered, ReadLoad
from include.document.schema import body_avro, check_columns
from include.record.codec import Decoder, Encoder
from include.settings.deployment import Deployment

SALT = "0123456789abcdef"
HASHED = ("name", "at", "day", "took", "price", "many", "raw")
TABLES = (
    """CREATE TABLE users (id int PRIMARY KEY, row int, state varchar(9), name varchar(20) CHARACTER SET latin1,
        at datetime(3), day date, took time(2), price decimal(8,2), many bigint unsigned, raw varbinary(9),
        phone varchar(20), born date, secret varchar(9))""",
    """INSERT INTO users VALUES (7, 1, 'done', 'Zoë', '2026-11-02 03:04:05.600', '1999-12-31', '-100:00:01.50', 8.50,
        18446744073709551615, x'00ff', '030-12345', '1999-12-31', 'open'),
        (8, 1, 'done', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
)


def test_documents_show_the_hashes_that_the_server_makes(mariadb: Any, unique: str, tmp_path: Path) -> None:
    connection = mariadb.connect()
    with connection.cursor() as cursor:
        for statement in (f"CREATE DATABASE {unique}", f"USE {unique}", *TABLES):
            cursor.execute(statement)
    columns = (*HASHED, "phone", "born", "secret")
    entry = {
        "application": "a",
        "source": "shop",
        "database": unique,
        "entity": "user",
        "fact": {"table": "users", "key": ["id"], "newest_by": "row", "state": "state", "final": ["done"]},
        "fields": {"id": "id", **{name: name for name in columns}},
        "unmasked": ["users.secret"],
    }
    masks: dict[str, Any] = {**dict.fromkeys(HASHED, "hash"), "phone": {"keep_last": 3}, "born": None}
    source = {
        "host": mariadb.host,
        "port": mariadb.port,
        "user": "root",
        "password": mariadb.root_password,
        "databases": [unique],
        "mask_salt": SALT,
        "filter": {"users": {"masks": masks, "ignored_columns": ["secret"]}},
    }
    application = {"entry": "spark_apps/assemble_documents.py", "topics": ["users"]}
    values = {"documents": {"users": entry}, "sources": {"shop": source}, "applications": {"a": application}}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(values))
    deployment = Deployment.load(tmp_path, env={})
    definition = definitions(deployment)["users"]
    server = deployment.section("sources", DatabaseAddress)["shop"]
    with closing(MysqlTables(server, unique)) as tables:
        check_columns(definition, tables.columns)
        with Metered(tables, ReadLoad(0, ManualClock())).snapshot() as snapshot:
            found = Assembler(definition).assemble(snapshot, [(7,), (8,)])
        schema = body_avro("users", definition, tables.columns)
    encode, decode = Encoder(0, schema), Decoder(lambda _: schema)
    shown = {key: decode(encode(body)) for key, body in found.documents.items()}
    with connection.cursor() as cursor:
        # A text's hash is that of its UTF-8.
        texts = [f"CONVERT({name} USING utf8mb4)" if name == "name" else name for name in HASHED]
        cursor.execute("SELECT " + ", ".join(f"SHA2(CONCAT('{SALT}', {each}), 256)" for each in texts) + " FROM users")
        hashes, nulls = cursor.fetchall()
    assert [shown[7,][name] for name in HASHED] == list(hashes)
    assert {name: shown[7,][name] for name in ("id", "phone", "born", "secret")} == {
        "id": 7,
        "phone": "******345",
        "born": None,
        "secret": "open",
    }
    assert list(nulls) == [None] * len(HASHED)
    assert shown[8,] == {"id": 8, **dict.fromkeys(columns)}
