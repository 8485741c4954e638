"""What changes tables: CREATE … SELECT, TRUNCATE, RENAME, ALTER between writes, temporary tables, databases."""

from __future__ import annotations

from tests.support.golden.case import Case, Step, both, mariadb
from tests.support.golden.cases.columns import OLD_DECIMAL, OLD_DECIMAL_FILES, of_old_tables
from tests.support.servers.catalogue import Known

__all__ = ["CASES"]

_T = "CREATE TABLE t (id int PRIMARY KEY, v varchar(20))"
_ROWS = "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')"


def _altered(row: Known) -> tuple[Step, ...]:
    new = row.at_least(8) if row.flavour == "mysql" else row.at_least(10, 11)
    rename = "RENAME COLUMN v TO w" if new else "CHANGE v w text CHARACTER SET latin1"
    return (
        _T,
        _ROWS,
        "ALTER TABLE t ADD COLUMN first_one int DEFAULT 5 FIRST",
        "INSERT INTO t VALUES (40, 4, 'four')",
        "ALTER TABLE t ADD COLUMN middle datetime(3) DEFAULT '2026-11-21 01:02:03.004' AFTER id",
        "UPDATE t SET v = 'two!' WHERE id = 2",
        "ALTER TABLE t MODIFY v text CHARACTER SET latin1",
        "UPDATE t SET v = 'dreië' WHERE id = 3",
        "ALTER TABLE t MODIFY id bigint unsigned",
        "INSERT INTO t (id, v) VALUES (18446744073709551615, 'big')",
        f"ALTER TABLE t {rename}",
        "UPDATE t SET w = 'renamed' WHERE id = 1",
        "ALTER TABLE t DROP COLUMN middle, MODIFY first_one int AFTER w",
        "DELETE FROM t WHERE id = 4",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, first_one)",
        "INSERT INTO t (id, w, first_one) VALUES (1, 'pair', 6)",
        "ALTER TABLE t COMMENT 'nothing else'",
        "DELETE FROM t WHERE first_one = 6",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
        "UPDATE t SET w = 'ü' WHERE id = 1",
    )


def _old_decimal_moved(_: Known) -> tuple[Step, ...]:
    """Old DECIMALs keep their form through an ALTER that moves them; two in a row, one before a VARCHAR of a digit."""
    return (
        f"INSERT INTO {OLD_DECIMAL} VALUES (1.50)",
        f"ALTER TABLE {OLD_DECIMAL} ADD COLUMN id int DEFAULT 7 FIRST, ADD COLUMN v varchar(60) DEFAULT 'x'",
        f"INSERT INTO {OLD_DECIMAL} VALUES (8, -2.25, REPEAT('1', 48)), (9, NULL, REPEAT('2', 57)), (10, 0, '')",
        f"UPDATE {OLD_DECIMAL} SET a = a + 1, v = CONCAT(v, '0') WHERE id < 9",
        f"ALTER TABLE {OLD_DECIMAL} MODIFY a decimal(10,2) AFTER v",
        f"INSERT INTO {OLD_DECIMAL} VALUES (11, 'new form', 3.75)",
        f"DELETE FROM {OLD_DECIMAL} WHERE id = 8",
    )


CASES = [
    Case(
        "create-select",
        both(),
        (
            _T,
            _ROWS,
            "CREATE TABLE made AS SELECT id, v, id * 2 AS twice FROM t",
            "CREATE TABLE shaped LIKE t",
            "INSERT INTO shaped SELECT * FROM t",
            "CREATE TABLE empty_one AS SELECT * FROM t WHERE id > 100",
        ),
        # GTIDs of MySQL 5.6 are off here; with them this statement is refused.
    ),
    Case(
        "truncate",
        both(),
        (
            _T,
            _ROWS,
            "TRUNCATE TABLE t",
            "INSERT INTO t VALUES (1, 'anew')",
            "DROP TABLE t",
            "CREATE TABLE t (v varchar(20), id int PRIMARY KEY)",
            "INSERT INTO t VALUES ('swapped', 1)",
            "CREATE TABLE e (id int PRIMARY KEY) ENGINE=MyISAM",
            "INSERT INTO e VALUES (1), (2)",
            "TRUNCATE e",
            "DELETE FROM t",
            "DROP TABLE e, t",
        ),
    ),
    Case(
        "rename-swap",
        both(),
        (
            _T,
            _ROWS,
            "CREATE TABLE _t_gho (id int PRIMARY KEY, v varchar(20), extra int DEFAULT 1)",
            "INSERT INTO _t_gho (id, v) SELECT id, v FROM t",
            "INSERT INTO t VALUES (4, 'late')",
            "INSERT INTO _t_gho (id, v) VALUES (4, 'late')",
            "RENAME TABLE t TO _t_del, _t_gho TO t",
            "UPDATE t SET extra = 2 WHERE id = 4",
            "DROP TABLE _t_del",
            "ALTER TABLE t RENAME TO u",
            "INSERT INTO u VALUES (5, 'five', 5)",
            "RENAME TABLE u TO a, a TO b",
            "INSERT INTO b VALUES (6, 'six', 6)",
        ),
    ),
    Case("altered-between", both(), _altered),
    Case(
        "altered-within",
        both(),
        (
            _T,
            "CREATE TABLE other (id int PRIMARY KEY)",
            "BEGIN",
            _ROWS,
            # DDL commits what is open.
            "ALTER TABLE other ADD COLUMN v int",
            "INSERT INTO other VALUES (1, 2)",
            "ROLLBACK",
        ),
    ),
    Case(
        "temporary-tables",
        both(),
        (
            _T,
            "CREATE TEMPORARY TABLE temp (id int PRIMARY KEY, v varchar(20))",
            "INSERT INTO temp VALUES (1, 'never logged'), (2, 'nor this')",
            "INSERT INTO t SELECT * FROM temp",
            "UPDATE temp SET v = 'still not'",
            "UPDATE t JOIN temp USING (id) SET t.v = temp.v WHERE id = 2",
            "DROP TEMPORARY TABLE temp",
        ),
    ),
    Case(
        "databases",
        both(),
        (
            "CREATE DATABASE golden_b CHARACTER SET latin1",
            "CREATE TABLE golden_b.t (id int PRIMARY KEY, v varchar(20))",
            "CREATE TABLE t (id int PRIMARY KEY)",
            "INSERT INTO golden_b.t VALUES (1, 'ü')",
            "BEGIN",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO golden_b.t VALUES (2, 'é')",
            "COMMIT",
            "RENAME TABLE golden_b.t TO moved",
            "INSERT INTO moved VALUES (3, 'x')",
            "DROP DATABASE golden_b",
        ),
    ),
    Case(
        "sequences",
        mariadb(10, 11),
        (
            "CREATE SEQUENCE s START WITH 5 INCREMENT BY 2 CACHE 3",
            "CREATE TABLE t (id int PRIMARY KEY DEFAULT (NEXT VALUE FOR s), v int)",
            "INSERT INTO t (v) VALUES (1), (2), (3), (4)",
            "DO SETVAL(s, 100)",
            "INSERT INTO t (v) VALUES (5)",
        ),
    ),
    Case(
        "old-decimal-moved",
        of_old_tables,
        _old_decimal_moved,
        files=(OLD_DECIMAL_FILES,),
    ),
]
