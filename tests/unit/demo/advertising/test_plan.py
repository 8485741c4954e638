"""What advertising writes: fit for its tables, and of every kind that a join must meet."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import yaml

from demo.advertising.plan import AdvertisingChange, changes, first_rows
from demo.advertising.schema import TABLES
from demo.shop.reference import reference_data
from include.settings.environment import PROJECT_ROOT

SEED, MANY = 3, 2_000
BUSINESSES = {each.business_id for each in reference_data().businesses}


def columns(table: str) -> list[str]:
    return re.findall(r"^ +([a-z_]+) ", TABLES[table], re.MULTILINE)


def drawn(seed: int = SEED, count: int = MANY) -> list[AdvertisingChange]:
    return list(itertools.islice(changes(seed), count))


def test_equal_seeds_give_equal_changes_and_others_do_not() -> None:
    assert drawn() == drawn()
    assert drawn(count=20) != drawn(SEED + 1, 20)


def test_each_row_has_a_value_for_each_column_and_begins_with_its_id_and_business() -> None:
    assert columns("packages")[:2] == columns("owners")[:2] == ["id", "business_id"]
    rows = [(table, row[0], row) for table, each in first_rows().items() for row in each]
    rows += [(change.table, change.row_id, change.row) for change in drawn() if change.row is not None]
    for table, row_id, row in rows:
        assert len(row) == len(columns(table))
        assert row[0] == row_id
        assert row[1] in BUSINESSES


def test_the_first_rows_leave_businesses_without_package_or_owner_and_give_others_several() -> None:
    for table, rows in first_rows().items():
        each = Counter(row[1] for row in rows)
        assert BUSINESSES - each.keys(), table
        assert max(each.values()) > 1, table
        assert [row[0] for row in rows] == list(range(1, len(rows) + 1))


def test_only_what_is_there_is_changed_or_deleted_and_an_id_is_given_once() -> None:
    there: Mapping[str, dict[Any, Any]] = {t: {row[0]: row for row in rows} for t, rows in first_rows().items()}
    given = {table: set(rows) for table, rows in there.items()}
    seen: Counter[str] = Counter()
    for change in drawn():
        rows, old = there[change.table], there[change.table].get(change.row_id)
        if change.row is None:
            assert old is not None
            del rows[change.row_id]
            seen[f"{change.table} deleted"] += 1
            continue
        if old is None:
            assert change.row_id not in given[change.table]
            given[change.table].add(change.row_id)
            seen[f"{change.table} new"] += 1
        elif old[1] != change.row[1]:
            assert change.table == "owners"
            seen["owners moved"] += 1
        else:
            seen[f"{change.table} altered"] += 1
        rows[change.row_id] = change.row
    assert min(seen.values()) > 20
    assert len(seen) == 7
    assert all(rows for rows in there.values())


def test_what_a_sales_team_need_not_see_never_leaves_the_server() -> None:
    sources = yaml.safe_load((PROJECT_ROOT / "include/deployment/sources.yaml").read_text("utf-8"))["sources"]
    owners = sources["ads"]["filter"]["owners"]
    assert owners["ignored_columns"] == ["email"]
    assert {*owners["ignored_columns"], *owners["masks"]} < set(columns("owners"))
