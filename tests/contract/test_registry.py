"""The registry's port: the double in memory and a real registry give the same answers."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from include.errors import InvalidRecord, LyrebirdError, Terminal, Transient
from include.local.ports import free_port
from include.log.http import basic
from include.log.memory import MemoryRegistry
from include.log.ports import SchemaRegistry
from include.log.registry.confluent import ConfluentRegistry
from include.record.codec import Decoder, Encoder
from include.record.schema import Column, TableSchema
from include.settings.secret import without_login


def record(*fields: dict[str, Any], name: str = "Value") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "test", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
MUST = {"name": "must", "type": "string"}
# Beside tests that kill and start brokers a registry may stand for longer than the product waits before it asks again.
PATIENT_S = 60.0


@pytest.fixture(params=["memory", "confluent"])
def registry(request: pytest.FixtureRequest) -> Iterator[SchemaRegistry]:
    if request.param == "memory":
        yield MemoryRegistry()
        return
    found = ConfluentRegistry(request.getfixturevalue("registry_url"), timeout_s=PATIENT_S)
    yield found
    found.close()


def test_a_schema_has_one_id_however_often_it_is_registered(registry: SchemaRegistry, unique: str) -> None:
    first = registry.register(unique + "-value", record(ID))
    assert registry.register(unique + "-value", record(ID)) == first
    assert registry.schema(first) == record(ID)


def test_a_new_field_with_a_default_is_taken_and_one_without_is_refused(registry: SchemaRegistry, unique: str) -> None:
    old = registry.register(unique + "-value", record(ID))
    new = registry.register(unique + "-value", record(ID, NOTE))
    assert new != old
    with pytest.raises(Terminal, match=unique):
        registry.register(unique + "-value", record(ID, NOTE, MUST))
    assert registry.register(unique + "-value", record(ID)) == old


@pytest.mark.parametrize(
    "changed",
    [
        record({"name": "id", "type": "string"}),
        record({"name": "id", "type": "int"}),
        record({"name": "id", "type": ["null", "int"], "default": None}),
    ],
)
def test_a_type_that_cannot_read_the_old_one_is_refused(
    registry: SchemaRegistry, unique: str, changed: dict[str, Any]
) -> None:
    registry.register(unique + "-value", record(ID))
    with pytest.raises(Terminal, match="incompatible"):
        registry.register(unique + "-value", changed)


def test_without_a_level_that_of_the_subject_stays(registry: SchemaRegistry, unique: str) -> None:
    registry.register(unique + "-free", record(ID), "NONE")
    assert registry.register(unique + "-free", record(MUST), None)
    registry.register(unique + "-held", record(ID))
    with pytest.raises(Terminal, match="incompatible"):
        registry.register(unique + "-held", record(ID, MUST), None)


@pytest.mark.parametrize(
    "changed",
    [record({"name": "id", "type": ["null", "long"], "default": None}), record({"name": "id", "type": "double"})],
)
def test_a_wider_type_is_taken(registry: SchemaRegistry, unique: str, changed: dict[str, Any]) -> None:
    registry.register(unique + "-value", record(ID))
    assert registry.schema(registry.register(unique + "-value", changed)) == changed


def test_change_topics_take_any_schema(registry: SchemaRegistry, unique: str) -> None:
    first = registry.register(unique + "-value", record(ID, MUST), "NONE")
    second = registry.register(unique + "-value", record({"name": "id", "type": "string"}, NOTE), "NONE")
    assert first != second


def test_a_tables_key_and_envelope_survive_the_registry(registry: SchemaRegistry, unique: str) -> None:
    table = TableSchema(
        "shop", "t", (Column("id", "bigint"), Column("price", "decimal", precision=9, scale=2)), ("id",)
    )
    key, envelope = table.key_avro(unique), table.envelope_avro(unique)
    key_id = registry.register(f"{unique}-key", key, "NONE")
    assert registry.schema(key_id) == key
    assert registry.schema(registry.register(f"{unique}-value", envelope, "NONE")) == envelope
    assert Decoder(registry.schema)(Encoder(key_id, key)({"id": 7})) == {"id": 7}


def test_a_schema_tells_its_language(registry: SchemaRegistry, unique: str) -> None:
    shape = {"type": "object", "properties": {"id": {"type": "integer"}}}
    found = registry.register(f"{unique}-value", shape, language="JSON")
    assert registry.language(found) == "JSON"
    assert registry.schema(found) == shape
    assert registry.language(registry.register(f"{unique}-key", record(ID))) == "AVRO"
    with pytest.raises(InvalidRecord):
        registry.language(99_999_999)


def test_the_newest_schema_of_a_subject_is_the_one_registered_last(registry: SchemaRegistry, unique: str) -> None:
    subject = f"{unique}-value"
    assert registry.newest(subject) is None
    registry.register(subject, record(ID))
    newer = registry.register(subject, record(ID, NOTE))
    assert registry.newest(subject) == newer
    assert registry.newest(f"{unique}-key") is None


def test_a_schema_tells_all_subjects_that_have_it(registry: SchemaRegistry, unique: str) -> None:
    mine = record(ID, name="T" + unique.replace("-", "_"))
    schema_id = registry.register(unique + "-b-value", mine)
    assert registry.subjects(schema_id) == (unique + "-b-value",)
    assert registry.register(unique + "-a-value", mine) == schema_id
    later = registry.register(unique + "-b-value", {**mine, "fields": [ID, NOTE]})
    assert registry.subjects(schema_id) == (unique + "-a-value", unique + "-b-value")
    assert registry.subjects(later) == (unique + "-b-value",)
    with pytest.raises(InvalidRecord, match="no schema of this id"):
        registry.subjects(2_000_000_000)


def test_an_id_that_nobody_registered_is_an_invalid_record(registry: SchemaRegistry) -> None:
    with pytest.raises(InvalidRecord, match="99999999"):
        registry.schema(99_999_999)


def test_a_registry_that_is_away_is_named_with_the_next_step() -> None:
    url = f"http://127.0.0.1:{free_port()}/apis/ccompat/v7"
    with pytest.raises(Transient, match=r"does not answer.*127\.0\.0\.1.*lyrebird status"):
        ConfluentRegistry(url).schema(1)


def test_what_is_no_schema_is_refused(registry_url: str, unique: str) -> None:
    with pytest.raises(Terminal, match=unique):
        ConfluentRegistry(registry_url, timeout_s=PATIENT_S).register(unique + "-value", {"type": "nonsense"})


def test_an_address_that_is_no_registry_is_refused(registry_url: str) -> None:
    registry = ConfluentRegistry(registry_url + "/nowhere", timeout_s=10.0)

    def answer() -> LyrebirdError:
        with pytest.raises(LyrebirdError) as told:
            registry.register("x-value", record(ID))
        return told.value

    # Apicurio leaves one in some thousand requests for a path that it does not know without an answer.
    answers = [each for each in (answer() for _ in range(3)) if not isinstance(each, Transient)]
    assert answers
    assert all(isinstance(each, (Terminal, InvalidRecord)) for each in answers)


def test_an_address_that_is_no_registry_is_sent_nothing_to_keep() -> None:
    class Page(BaseHTTPRequestHandler):
        asked: ClassVar[list[str]] = []

        def do_GET(self) -> None:
            self.asked.append(self.command)
            self.send_error(404)

        def do_PUT(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    with server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, 0.05)
        try:
            registry = ConfluentRegistry(f"http://127.0.0.1:{server.server_port}")
            for ask in (lambda: registry.register("x-value", record(ID)), lambda: registry.newest("x-value")):
                with pytest.raises(Terminal, match="Check `registry` in the deployment files"):
                    ask()
            for ask_id in (registry.schema, registry.subjects):
                with pytest.raises(Terminal, match="status=404"):
                    ask_id(1)
        finally:
            server.shutdown()
    assert Page.asked == ["GET"] * 4


def test_types_of_other_subjects_are_part_of_a_schema(registry_url: str, unique: str) -> None:
    def put(subject: str, schema: Mapping[str, Any], language: str, *references: tuple[str, str]) -> int:
        refers = [{"name": name, "subject": to, "version": 1} for name, to in references]
        body = {"schema": json.dumps(schema), "schemaType": language, "references": refers}
        login = urlsplit(registry_url)
        request = urllib.request.Request(
            f"{without_login(registry_url)}/subjects/{subject}/versions",
            json.dumps(body).encode(),
            {
                "Content-Type": "application/vnd.schemaregistry.v1+json",
                "Authorization": basic(login.username or "", login.password or ""),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return int(json.load(answer)["id"])
        except urllib.error.HTTPError as error:
            raise AssertionError(subject, error.read()) from error

    city, place, order = (f"{unique}-{name}" for name in ("city", "place", "order"))
    named: Any = {"type": "record", "name": "City", "namespace": "geo", "fields": [{"name": "n", "type": "string"}]}
    put(city, named, "AVRO")
    held: Any = {"type": "record", "name": "geo.Place", "fields": [{"name": "city", "type": "City"}]}
    put(place, held, "AVRO", ("geo.City", city))
    fields: Any = [{"name": "to", "type": "geo.Place"}, {"name": "was", "type": ["null", "geo.City"], "default": None}]
    schema = {"type": "record", "name": "Order", "fields": fields}
    avro = put(order, schema, "AVRO", ("geo.Place", place), ("geo.City", city))
    found = ConfluentRegistry(registry_url).schema(avro)
    assert found["fields"][0]["type"]["fields"][0]["type"]["fields"] == named["fields"]
    assert found["fields"][1]["type"] == ["null", "geo.City"]
    value = {"to": {"city": {"n": "Bern"}}, "was": None}
    assert Decoder(lambda _: found)(Encoder(avro, found)(value)) == value

    note = {"type": "object", "properties": {"text": {"type": "string"}}}
    put(f"{unique}-note", note, "JSON")
    schema = {"type": "object", "properties": {"note": {"$ref": "note.json"}}}
    found = ConfluentRegistry(registry_url).schema(
        put(f"{unique}-doc", schema, "JSON", ("note.json", f"{unique}-note"))
    )
    assert found["properties"]["note"] == {"$ref": "#/$defs/note.json"}
    assert found["$defs"]["note.json"] == note


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": ["null", "string"]}, {"type": ["null", record(ID)]}])
def test_what_is_no_record_can_be_registered_as_a_registry_gives_it(
    registry: SchemaRegistry, unique: str, schema: dict[str, Any]
) -> None:
    found = registry.register(unique + "-value", schema)
    assert registry.schema(found) == schema
    assert registry.register(f"{unique}-other-value", registry.schema(found)) == found
