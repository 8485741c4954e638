"""Tables and columns that `check` warns of."""

from __future__ import annotations

from include.record.schema import Column
from include.source.database.preflight import short_horizon
from include.source.database.purge import PurgeHorizon
from include.source.database.server import Server
from include.source.database.table_info import TableInfo
from include.source.database.warnings import needs_care
from include.source.definition import SourceDefinition
from include.source.rows.columns import column_of

MARIADB = Server("mariadb", (11, 4, 5), "11.4.5-MariaDB-log", gtids=True)
MYSQL = Server("mysql", (9, 7, 0), "9.7.0", gtids=True)


def source(**more: object) -> SourceDefinition:
    given = {"host": "h", "port": 1, "user": "u", "password": "p", "databases": ["shop"]}
    return SourceDefinition.model_validate(given | more)


def table(*columns: tuple[str, str, str], key: tuple[str, ...] = ("id",)) -> TableInfo:
    """Columns as (name, COLUMN_TYPE, EXTRA)."""
    info = TableInfo("shop", "t")
    for name, column_type, extra in columns:
        info.columns.append(Column(name, column_type.partition("(")[0]))
        info.note_type(name, column_type)
        info.note_extra(name, extra)
    info.key = key
    return info


def places(info: TableInfo, server: Server = MARIADB, **more: object) -> list[str]:
    return [place for place, _, _ in needs_care(info, source(**more), server, labelled=True)]


PLAIN = (("id", "int(11)", ""), ("d", "double", ""), ("f", "float(7)", ""), ("n", "decimal(10,2)", ""))


def test_plain_columns_need_no_care() -> None:
    assert places(table(*PLAIN, ("at", "datetime(3)", "on update current_timestamp(3)"))) == []


def test_each_kind_of_column_is_named_with_what_to_do() -> None:
    info = table(
        *PLAIN,
        ("v", "int(11)", "VIRTUAL GENERATED"),
        ("dd", "double(10,2) unsigned", ""),
        ("ff", "FLOAT(7, 2)", ""),
        ("at", "datetime /* mariadb-5.3 */", ""),
        ("old", "timestamp /* 5.5 binary format */", ""),
    )
    found = list(needs_care(info, source(), MARIADB, labelled=True))
    assert [place for place, _, _ in found] == ["shop.t.v", "shop.t.dd", "shop.t.ff", "shop.t.at", "shop.t.old"]
    assert all(problem and fix.endswith(".") for _, problem, fix in found)


def test_tables_with_a_past_and_tables_in_memory_are_named() -> None:
    found = table(*PLAIN)
    found.period, found.engine = ("row_start", "row_end"), "MEMORY"
    assert [problem.split(":")[0] for _, problem, _ in needs_care(found, source(), MARIADB, labelled=True)] == [
        "lies in the server's memory",
        "is system-versioned",
    ]


def test_a_key_with_a_date_and_an_old_decimal_need_care() -> None:
    info = table(*PLAIN, ("day", "date", ""), key=("id", "day"))
    info.columns.append(column_of("old", "decimal(10,2)/*old*/"))
    found = list(needs_care(info, source(), MARIADB, labelled=True))
    assert [place for place, _, _ in found] == ["shop.t.day", "shop.t.old"]
    assert "sets the table aside" in found[0][1]


def test_a_computed_column_that_the_binlog_has_needs_no_care() -> None:
    assert places(table(*PLAIN, ("v", "int", "VIRTUAL GENERATED")), MYSQL) == []


def test_a_column_that_does_not_leave_needs_no_care() -> None:
    info = table(*PLAIN, ("v", "int(11)", "VIRTUAL GENERATED"))
    assert places(info, filter={"t": {"ignored_columns": ["v"]}}) == []


def test_a_label_with_a_question_mark_needs_care_where_the_binlog_tells_no_labels() -> None:
    info = table(*PLAIN)
    info.columns += [column_of("face", "enum('?','b')"), column_of("plain", "set('a','b')")]
    (found,) = needs_care(info, source(), MARIADB, labelled=False)
    assert found[0] == "shop.t.face"
    assert "sets the table aside" in found[1]
    assert places(info) == []
    ignored = source(filter={"t": {"ignored_columns": ["face"]}})
    assert list(needs_care(info, ignored, MARIADB, labelled=False)) == []


def test_a_table_without_a_key_is_warned_of() -> None:
    assert places(table(*PLAIN, key=())) == ["shop.t"]


def test_a_server_that_keeps_less_than_a_day_is_warned_of() -> None:
    (found,) = short_horizon(PurgeHorizon(3.0, "its limit of time"))
    assert (found.place, found.level) == ("binlog", "warn")
    assert "after 3.0 h" in found.problem
    assert short_horizon(PurgeHorizon(24.0, "its limit of time")) == []
    assert short_horizon(PurgeHorizon(None, "never")) == []
