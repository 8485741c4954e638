"""Documents obey the masks and ignored columns of their source, but for those that a definition names."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml

from include.document.assembler import Assembler
from include.document.definition import DocumentDefinition, definitions
from include.document.reading.lookup import MissingRow
from include.document.reading.tables import MemoryTables
from include.document.schema import body_avro, check_columns
from include.document.signals import Inputs, SignalFold
from include.errors import SettingsError
from include.record.codec import Decoder, Encoder
from include.record.schema import Column
from include.settings.deployment import Deployment

SALT = "0123456789abcdef"
ENTRY: dict[str, Any] = {
    "application": "assemble",
    "source": "shop",
    "database": "shop",
    "entity": "order",
    "fact": {"table": "orders", "key": ["id"], "newest_by": "row", "state": "state", "final": ["done"]},
    "fields": {"id": "id", "total": "total"},
    "lookups": {
        "user": {
            "table": "users",
            "where": {"mail": "mail"},
            "fields": {"mail": "mail", "born": "born", "phone": "phone", "rank": "rank"},
        },
        "notes": {"table": "notes", "where": {"user": "mail"}, "many": True, "order_by": ["at"], "value": "text"},
    },
}
MASKS = {
    "orders": {"masks": {"total": "hash", "mail": "hash"}},
    "users": {"masks": {"mail": "hash", "born": None, "phone": {"keep_last": 2}}},
    "notes": {"masks": {"text": {"keep_last": 1}, "user": "hash"}},
}
COLUMNS = {
    "orders": [
        Column("id", "int"),
        Column("row", "int"),
        Column("state", "enum"),
        Column("total", "datetime", digits=3),
        Column("mail", "varchar"),
    ],
    "users": [Column("mail", "varchar"), Column("born", "date"), Column("phone", "varchar"), Column("rank", "int")],
    "notes": [Column("user", "varchar"), Column("at", "int"), Column("text", "text")],
}
ROWS = {
    "orders": [{"id": 1, "row": 1, "state": "done", "total": 1_500_000, "mail": "a@b"}],
    "users": [{"mail": "a@b", "born": 9, "phone": "12345", "rank": 7}],
    "notes": [{"user": "a@b", "at": 2, "text": "xyz"}, {"user": "a@b", "at": 1, "text": "abc"}],
}


def load(folder: Path, entry: dict[str, Any] | None = None, policy: dict[str, Any] = MASKS) -> DocumentDefinition:
    source = {"host": "h", "databases": ["shop"], "mask_salt": SALT, "filter": policy}
    application = {"entry": "spark_apps/assemble_documents.py", "topics": ["orders"]}
    values = {
        "documents": {"orders": ENTRY | (entry or {})},
        "applications": {"assemble": application},
        "sources": {"shop": source},
    }
    (folder / "all.yaml").write_text(yaml.safe_dump(values))
    return definitions(Deployment.load(folder, env={}))["orders"]


def hashed(text: str) -> str:
    return hashlib.sha256((SALT + text).encode()).hexdigest()


def assembled(definition: DocumentDefinition, rows: dict[str, Any] = ROWS) -> Any:
    """The document of key 1 as readers get it; by a definition that went to a worker."""
    tables = MemoryTables(rows, COLUMNS)
    check_columns(definition, tables.columns)
    found = Assembler(pickle.loads(pickle.dumps(definition))).assemble(tables, [(1,)])
    schema = body_avro("orders", definition, tables.columns)
    return Decoder(lambda _: schema)(Encoder(0, schema)(found.documents[1,]))


def test_values_are_masked_as_in_topics_and_rows_are_found_and_sorted_by_what_they_hold(tmp_path: Path) -> None:
    assert assembled(load(tmp_path)) == {
        "id": 1,
        "total": hashed("1970-01-01 00:00:01.500"),
        "user": {"mail": hashed("a@b"), "born": None, "phone": "***45", "rank": 7},
        "notes": ["**c", "**z"],
    }


def test_what_the_definition_names_is_as_it_is(tmp_path: Path) -> None:
    policy = {"users": {"ignored_columns": ["rank"], "masks": {"born": None, "mail": "hash"}}}
    definition = load(tmp_path, {"unmasked": ["users.rank", "users.mail"]}, policy)
    body = assembled(definition)
    assert (body["user"]["rank"], body["user"]["mail"], body["user"]["born"]) == (7, "a@b", None)
    assert definition.masks.lines() == ["users.born (null)"]
    assert definition.masks.unmasked == ("users.mail", "users.rank")


def test_hooks_see_what_documents_show(tmp_path: Path) -> None:
    computed = {"copy": {"hook": "tests.unit.document.test_masks.shown_total", "type": "string"}}
    body = assembled(load(tmp_path, {"computed": computed}))
    assert body["copy"] == body["total"] == hashed("1970-01-01 00:00:01.500")


def shown_total(body: dict[str, Any]) -> Any:
    """A field that repeats another."""
    return body["total"]


def test_a_row_that_is_missing_is_told_by_masked_values(tmp_path: Path) -> None:
    found = Assembler(load(tmp_path)).assemble(MemoryTables(ROWS | {"users": []}, COLUMNS), [(1,)])
    assert found.incomplete == {(1,): [MissingRow("user", "users", {"mail": hashed("a@b")})]}


@pytest.mark.parametrize(
    ("entry", "policy", "path", "got"),
    [
        ({}, {"users": {"ignored_columns": ["RANK"]}}, "documents.orders.lookups.user.fields", "users.rank"),
        ({}, {"notes": {"ignored_columns": ["at"]}}, "documents.orders.lookups.notes.order_by", "notes.at"),
        ({"unmasked": ["users.rnak"]}, MASKS, "documents.orders.unmasked.0", "users.rnak"),
        ({"unmasked": ["users.rank"]}, MASKS, "documents.orders.unmasked.0", "users.rank"),
        ({"unmasked": ["orders.id"]}, {"orders": {"masks": {"id": "hash"}}}, "documents.orders.fact.key", "orders.id"),
        ({"signals": ["users"]}, MASKS, "documents.orders.lookups.user.where", "users.mail"),
    ],
)
def test_a_definition_that_cannot_obey_is_refused_by_name(
    tmp_path: Path, entry: dict[str, Any], policy: dict[str, Any], path: str, got: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, entry, policy)
    assert refused.value.details["path"] == path
    assert refused.value.details["got"] == got
    assert refused.value.details["file"] == str(tmp_path / "all.yaml")


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"Did you mean users\.born\?"):
        load(tmp_path, {"unmasked": ["users.bron"]})


def test_a_mask_that_does_not_fit_its_column_is_refused_at_the_start(tmp_path: Path) -> None:
    definition = load(tmp_path, policy={"users": {"masks": {"rank": {"keep_last": 1}}}})
    with pytest.raises(SettingsError) as refused:
        check_columns(definition, MemoryTables(ROWS, COLUMNS).columns)
    assert refused.value.details["column"] == "rank"


@pytest.mark.parametrize(("unmasked", "rank", "signals"), [([], 7, False), ([], 8, True), (["users.born"], 7, True)])
def test_a_change_that_no_record_shows_is_a_signal_where_documents_depend_on_it(
    tmp_path: Path, unmasked: list[str], rank: int, signals: bool
) -> None:
    lookups = {"user": {"table": "users", "where": {"id": "id"}, "fields": {"born": "born", "rank": "rank"}}}
    entry = {"lookups": lookups, "signals": ["users"], "unmasked": unmasked}
    definition = load(tmp_path, entry, {"users": {"masks": {"born": None}}})
    fold = SignalFold(Inputs("orders", definition), lambda _: None)
    path = definition.paths()[0]
    before = {"id": 1, "born": None, "rank": 7}
    assert fold._same(before, before | {"rank": rank}, path) is not signals
