"""A server whose numbers have passed capture's again since its binlog was reset."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from include.errors import Terminal
from include.record.gtid import Flavour, parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.source.database.history import require_history
from include.source.database.server import Reset

OWN = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
COMMIT_US = 1_764_000_000_000_000
NUMBERS: dict[Flavour, tuple[str, str, str]] = {
    "mariadb": ("0-7-100", "0-7-500", "0-8-100"),
    "mysql": (f"{OWN}:1-100", f"{OWN}:1-500", f"{OTHER}:1-100"),
}
"""What capture has, what the server has now, and what capture would have of another server's."""

INFOS: dict[Flavour, str] = {
    "mariadb": "BEGIN GTID 0-7-{} cid=314",
    "mysql": f"SET @@SESSION.GTID_NEXT= '{OWN}:{{}}'",
}


def look(
    flavour: Flavour,
    *,
    captured: str | None = None,
    before: str = "",
    began_us: int | None = COMMIT_US + 1_000_000,
    event: int | None = None,
    kind: str = "Gtid",
    info: str | None = None,
    readable: bool = True,
    size: int = 9000,
) -> None:
    """`before`: what lies before the oldest file; `event`: where the next event from capture's place on begins.

    `info`: what the server says of it, a transaction that capture has not unless given.
    """

    def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if sql.startswith("SHOW BINLOG EVENTS IN %s FROM"):
            assert values == ("bin.000003", 500)
            if event is None:
                raise Terminal("the server refuses a statement", code=1220)
            return [("bin.000003", event, kind, 7, event + 42, INFOS[flavour].format(101) if info is None else info)]
        if sql.startswith("SHOW BINLOG EVENTS") and not readable:
            raise Terminal("the server refuses a statement", code=1220)
        answers: dict[str, list[tuple[Any, ...]]] = {
            "SELECT VERSION()": [("11.4.5-MariaDB" if flavour == "mariadb" else "9.7.0",)],
            "SELECT @@lower_case_table_names": [(0,)],
            "SHOW GLOBAL VARIABLES LIKE 'gtid\\_mode'": [("gtid_mode", "ON")],
            "SHOW BINARY LOGS": [("bin.000001", 9000), ("bin.000002", 9000), ("bin.000003", size)],
            "SELECT @@global.server_id": [(7,)],
            "SELECT @@global.server_uuid": [(OWN,)],
            "SELECT @@global.gtid_binlog_pos": [(NUMBERS[flavour][1],)],
            "SELECT @@global.gtid_executed": [(NUMBERS[flavour][1],)],
            "SELECT @@global.gtid_purged": [(before,)],
            "SHOW BINLOG EVENTS IN %s LIMIT 3": [
                ("bin.000001", 4, "Format_desc", 7, 256, "Server ver: 11.4.5"),
                ("bin.000001", 256, "Gtid_list", 7, 285, f"[{before}]"),
            ],
        }
        return answers[sql]

    gtids = parse_gtid_set(captured or NUMBERS[flavour][0], flavour)
    position = SourcePosition(flavour, gtids, BinlogPosition("bin.000003", 500), COMMIT_US)
    files: Any = SimpleNamespace(started=lambda name: {"bin.000001": began_us}[name])
    require_history(ask, position, files, "db:3306")


@pytest.mark.parametrize("flavour", ["mariadb", "mysql"])
def test_a_server_that_has_begun_anew_and_passed_capture_is_refused(flavour: Flavour) -> None:
    with pytest.raises(Reset, match=r"has numbered other transactions alike.*--snapshot --anew"):
        look(flavour)
    # MySQL 8 shows the next event where none begins.
    with pytest.raises(Reset):
        look(flavour, event=562)
    with pytest.raises(Reset):
        look(flavour, size=499)
    # By chance an event of the new files begins there: within a transaction, or with a number that capture has.
    for kind in ("Query", "Table_map", "Update_rows", "Write_rows_compressed_v1", "Rows_query", "Annotate_rows", "Xid"):
        with pytest.raises(Reset):
            look(flavour, event=500, kind=kind, info="")
    with pytest.raises(Reset):
        look(flavour, event=500, info=INFOS[flavour].format(100))


@pytest.mark.parametrize("flavour", ["mariadb", "mysql"])
def test_a_server_that_has_not_begun_anew_is_read(flavour: Flavour) -> None:
    own, _, other = NUMBERS[flavour]
    # Older files were purged.
    look(flavour, before=own)
    # The oldest file is older than what was captured, or nobody can tell how old it is.
    look(flavour, began_us=COMMIT_US)
    look(flavour, began_us=None)
    # A statement ran while files changed: its time is that of its begin.
    look(flavour, event=500)
    look(flavour, size=500)
    # No transaction stands there yet, or one of a server without GTIDs.
    look(flavour, event=500, kind="Rotate", info="bin.000004;pos=4")
    look(flavour, event=500, kind="Anonymous_Gtid", info="SET @@SESSION.GTID_NEXT= 'ANONYMOUS'")
    # Made by another server, from which this one has it: it may have been set up later.
    look(flavour, captured=other)


def test_what_lies_before_mariadbs_oldest_file_has_each_server_of_a_domain() -> None:
    """Two servers have written in it, as after each promotion."""
    look("mariadb", before="0-8-50,0-7-100")
    look("mariadb", before="0-7-100,0-8-150,1-7-3")
    with pytest.raises(Reset):
        look("mariadb", before="0-8-50,0-7-60")


def test_an_oldest_file_that_cannot_be_read_refuses_nothing() -> None:
    look("mariadb", readable=False)
