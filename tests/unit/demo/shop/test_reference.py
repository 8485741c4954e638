"""Tables, reference data, errands, and the list of what is private."""

from __future__ import annotations

import re

from demo.shop.errand import plan_errand
from demo.shop.privacy import PRIVATE_FIELDS
from demo.shop.reference import reference_data
from demo.shop.schema import TABLES


def columns(table: str) -> list[str]:
    body = TABLES[table].split("(", 1)[1].rsplit(") ENGINE", 1)[0]
    names = (line.split()[0] for line in body.splitlines() if line.strip())
    return [name for name in names if re.fullmatch(r"[a-z_]+", name)]


def test_the_shop_has_fifteen_tables_or_more_with_foreign_keys_to_tables_made_before() -> None:
    assert len(TABLES) >= 15
    made: set[str] = set()
    for table, statement in TABLES.items():
        made.add(table)
        assert "ENGINE=InnoDB" in statement
        assert set(re.findall(r"REFERENCES (\w+)", statement)) <= made
    assert sum(statement.count("FOREIGN KEY") for statement in TABLES.values()) >= 20


def test_each_reference_row_has_a_value_for_each_column() -> None:
    for table, rows in reference_data().rows.items():
        assert {len(row) for row in rows} == {len(columns(table))}


def test_every_private_field_is_a_column_of_the_shop() -> None:
    known = {f"{table}.{column}" for table in TABLES for column in columns(table)}
    assert known >= PRIVATE_FIELDS


def test_all_of_payments_and_all_but_the_id_of_users_and_businesses_is_private() -> None:
    assert {f"payments.{column}" for column in columns("payments")} <= PRIVATE_FIELDS
    for table in ("users", "businesses"):
        private = {column for column in columns(table) if f"{table}.{column}" in PRIVATE_FIELDS}
        assert private == set(columns(table)) - {"id"}


def test_only_name_and_site_of_a_partner_are_public() -> None:
    public = {column for column in columns("partners") if f"partners.{column}" not in PRIVATE_FIELDS}
    assert public == {"id", "name", "site"}


def test_errands_change_what_exists_and_say_rightly_whether_documents_alter() -> None:
    errands = [plan_errand(3, number, reference_data()) for number in range(400)]
    in_documents = {"partners.name", "partners.site", "businesses.vertical_id"}
    for errand in errands:
        assert set(errand.values) <= set(columns(errand.table))
        touched = {f"{errand.table}.{column}" for column in errand.values}
        assert bool(touched & in_documents) == errand.alters_documents
    share = sum(errand.alters_documents for errand in errands) / len(errands)
    assert 0.1 < share < 0.4
    assert {errand.table for errand in errands} == {"partners", "businesses", "users", "menu_items"}


def test_equal_seed_and_number_give_equal_errands() -> None:
    assert plan_errand(3, 5, reference_data()) == plan_errand(3, 5, reference_data())
