"""What columns may be besides their type: generated, invisible, versioned, many, strangely named, from MySQL 4."""

from __future__ import annotations

from tests.support.golden.case import DATABASE, Case, Step, both, mariadb, mysql
from tests.support.golden.old_definition import OldDecimal, definition
from tests.support.servers.catalogue import Known

__all__ = ["CASES", "OLD_DECIMAL", "OLD_DECIMAL_FILES", "of_old_tables"]

OLD_DECIMAL = "t1dec102"
"""The table of MySQL 4.1 that comes with MariaDB's test data: one column `a decimal(10,2)`."""
OLD_DECIMAL_FILES = f"old_decimal/{OLD_DECIMAL}.*"


def of_old_tables(row: Known) -> bool:
    """The servers on which tables of MySQL 4 and 3.23 are tried."""
    return row.name in {"mariadb-10.2", "mariadb-10.11", "mariadb-11.4", "mysql-5.6"}


def _generated(row: Known) -> tuple[Step, ...]:
    stored = "PERSISTENT" if row.flavour == "mariadb" and not row.at_least(10, 2) else "STORED"
    return (
        f"""CREATE TABLE t (id int PRIMARY KEY, a int, v int AS (a * 2) VIRTUAL, s int AS (a + 1) {stored},
        t varchar(20),
        tv varchar(40) AS (CONCAT(t, '!')) VIRTUAL, ts varchar(40) AS (UPPER(t)) {stored}, z decimal(10,2)
        AS (a / 4) VIRTUAL, last int)""",
        "INSERT INTO t (id, a, t, last) VALUES (1, 10, 'ü', 1), (2, NULL, NULL, 2), (3, -3, '', 3)",
        "UPDATE t SET a = a + 1 WHERE id <> 2",
        "UPDATE t SET t = 'neu' WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
    )


def _wide(_: Known) -> tuple[Step, ...]:
    columns = ", ".join(f"c{n} {('int', 'varchar(10)', 'smallint', 'bit(3)', 'date')[n % 5]}" for n in range(130))
    odd = ", ".join(f"c{n}" for n in range(1, 130, 2))
    values = ", ".join(("1", "'v'", "2", "5", "'2026-11-21'")[n % 5] for n in range(1, 130, 2))
    return (
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        "INSERT INTO t (id) VALUES (1)",
        f"INSERT INTO t (id, {odd}) VALUES (2, {values})",
        "UPDATE t SET c129 = '2026-01-01', c0 = 7 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
    )


_NAMES = (
    "CREATE DATABASE `golden-2.ü`",
    """CREATE TABLE `golden-2.ü`.`t.a b-ü` (`id` int PRIMARY KEY, `select` int, `a.b` int, `Ünïcödé` varchar(5),
    `a``b` int, ` lead` int, `%s` int)""",
    "INSERT INTO `golden-2.ü`.`t.a b-ü` VALUES (1, 2, 3, 'ü', 5, 6, 7)",
    "UPDATE `golden-2.ü`.`t.a b-ü` SET `a.b` = 30, `%s` = NULL",
    f"CREATE TABLE `{'n' * 64}` (`{'c' * 64}` int PRIMARY KEY)",
    f"INSERT INTO `{'n' * 64}` VALUES (1)",
    "CREATE TABLE `日本` (`列` int PRIMARY KEY, `UPPER` int, `1` int, `@1` int)",
    "INSERT INTO `日本` VALUES (1, 2, 3, 4)",
    "DROP DATABASE `golden-2.ü`",
)

_OLD_DATETIMES = (
    "/*M! SET GLOBAL mysql56_temporal_format = OFF */",
    "/*M! SET GLOBAL mysql56_temporal_format = ON */",
)

CASES = [
    Case("generated", both((), (8,)), _generated),
    Case("wide", both(), _wide),
    Case("names", both(), _NAMES),
    Case(
        "invisible",
        both((10, 11), (8,)),
        (
            """CREATE TABLE t (id int PRIMARY KEY, a int INVISIBLE DEFAULT 7, b varchar(10), c datetime(3) INVISIBLE,
            d int)""",
            "INSERT INTO t VALUES (1, 'one', 10), (2, NULL, NULL)",
            "INSERT INTO t (id, a, b, c) VALUES (3, 8, 'three', '2026-11-21 01:02:03.004')",
            "UPDATE t SET a = a + 1",
            "DELETE FROM t WHERE id = 2",
        ),
    ),
    Case(
        "versioned",
        mariadb(10, 11),
        (
            "SET timestamp = 1767225600.25",
            "CREATE TABLE implicit (id int PRIMARY KEY, v varchar(10)) WITH SYSTEM VERSIONING",
            """CREATE TABLE explicit (id int PRIMARY KEY, v varchar(10), b timestamp(6) GENERATED ALWAYS AS ROW START,
            e timestamp(6) GENERATED ALWAYS AS ROW END INVISIBLE, w int, PERIOD FOR SYSTEM_TIME (b,
            e)) WITH SYSTEM VERSIONING""",
            """CREATE TABLE parts (id int PRIMARY KEY, v varchar(10),
            x int WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING""",
            "INSERT INTO implicit VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO explicit (id, v, w) VALUES (1, 'one', 1), (2, 'two', 2)",
            "INSERT INTO parts VALUES (1, 'one', 1)",
            "SET timestamp = 1767225601.5",
            "UPDATE implicit SET v = 'uno' WHERE id = 1",
            "UPDATE explicit SET v = 'uno' WHERE id = 1",
            "UPDATE parts SET x = 2",
            "UPDATE parts SET v = 'uno'",
            "SET timestamp = 1767225602.75",
            "UPDATE implicit SET id = 20 WHERE id = 2",
            "DELETE FROM implicit WHERE id = 1",
            "DELETE FROM explicit WHERE id = 2",
            "REPLACE INTO explicit (id, v, w) VALUES (1, 'eins', 5)",
            "DELETE HISTORY FROM implicit",
        ),
    ),
    Case(
        "versioned-ways",
        mariadb(10, 11),
        (
            "SET timestamp = 1767225600.25",
            """CREATE TABLE plain (id int, d date, v varchar(10), PRIMARY KEY (id))""",
            "INSERT INTO plain VALUES (1, '2026-01-01', 'one'), (2, NULL, 'two')",
            "ALTER TABLE plain ADD SYSTEM VERSIONING",
            "CREATE TABLE keyless (a int, b varchar(10)) WITH SYSTEM VERSIONING",
            "CREATE TABLE named (a int NOT NULL, b varchar(10), UNIQUE (a)) WITH SYSTEM VERSIONING",
            """CREATE TABLE parted (id int PRIMARY KEY, v varchar(10)) WITH SYSTEM VERSIONING
            PARTITION BY SYSTEM_TIME LIMIT 2 (PARTITION p0 HISTORY, PARTITION p1 HISTORY, PARTITION pn CURRENT)""",
            """CREATE TABLE sunk (v varchar(10), b timestamp(6) GENERATED ALWAYS AS ROW START INVISIBLE, id int,
            e timestamp(6) GENERATED ALWAYS AS ROW END, PRIMARY KEY (id, v), PERIOD FOR SYSTEM_TIME (b, e))
            WITH SYSTEM VERSIONING""",
            "SET timestamp = 1767225601.5",
            "UPDATE plain SET v = 'uno' WHERE id = 1",
            "INSERT INTO keyless VALUES (1, 'one'), (1, 'one'), (NULL, NULL)",
            "INSERT INTO named VALUES (1, 'one'), (2, NULL)",
            "INSERT INTO parted VALUES (1, 'one'), (2, 'two'), (3, 'three')",
            "INSERT INTO sunk (v, id) VALUES ('one', 1), ('two', 2)",
            "SET timestamp = 1767225602.75",
            "UPDATE keyless SET b = 'neu' WHERE a IS NULL",
            "DELETE FROM keyless WHERE a = 1",
            "UPDATE named SET a = 10 WHERE a = 1",
            "INSERT INTO named VALUES (2, 'zwei'), (3, 'drei') ON DUPLICATE KEY UPDATE b = VALUES(b)",
            "UPDATE parted SET v = CONCAT(v, '!')",
            "DELETE FROM parted WHERE id < 3",
            "UPDATE sunk SET v = 'uno' WHERE id = 1",
            "DELETE FROM sunk WHERE id = 2",
            "SET timestamp = 1767225603",
            "BEGIN",
            "INSERT INTO plain VALUES (5, '2026-05-05', 'five'), (6, NULL, 'six')",
            "UPDATE plain SET v = 'fünf' WHERE id = 5",
            "DELETE FROM plain WHERE id = 6",
            "UPDATE plain SET v = 'due' WHERE id = 2",
            "UPDATE plain SET v = 'zwo' WHERE id = 2",
            "COMMIT",
            "ALTER TABLE named DROP SYSTEM VERSIONING",
            "SET timestamp = 1767225604.5",
            "UPDATE named SET b = 'plain'",
            "SET SESSION system_versioning_alter_history = KEEP",
            "ALTER TABLE plain ADD COLUMN z int DEFAULT 7, ADD COLUMN f varchar(5) FIRST",
            "SET timestamp = 1767225605.5",
            "UPDATE plain SET z = 8, f = 'new'",
            "INSERT INTO plain (id, v) VALUES (9, 'nine')",
            "ALTER TABLE plain DROP PRIMARY KEY, ADD PRIMARY KEY (id, z)",
            "SET timestamp = 1767225606.5",
            "UPDATE plain SET v = 'last' WHERE id = 9",
            "DELETE FROM plain WHERE id = 1",
        ),
    ),
    Case(
        "versioned-history",
        mariadb(10, 11),
        (
            "CREATE TABLE implicit (id int PRIMARY KEY, v varchar(10)) WITH SYSTEM VERSIONING",
            """CREATE TABLE explicit (id int PRIMARY KEY, b timestamp(6) GENERATED ALWAYS AS ROW START,
            e timestamp(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (b, e)) WITH SYSTEM VERSIONING""",
            "SET SESSION system_versioning_insert_history = ON",
            """INSERT INTO implicit (id, v, row_start, row_end) VALUES (1, 'old', '2001-01-01', '2002-01-01'),
            (1, 'older', '1970-01-02', '1970-01-03')""",
            "INSERT INTO explicit (id, b, e) VALUES (1, '2001-01-01', '2002-01-01')",
            "INSERT INTO explicit (id) VALUES (1)",
            "DELETE FROM explicit",
            "DELETE HISTORY FROM explicit",
        ),
    ),
    Case(
        "versioned-transactions",
        mariadb(10, 11),
        (
            """CREATE TABLE t (id int PRIMARY KEY, v varchar(10), b bigint unsigned GENERATED ALWAYS AS ROW START,
            e bigint unsigned GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (b, e)) WITH SYSTEM VERSIONING""",
            "INSERT INTO t (id, v) VALUES (1, 'one'), (2, 'two')",
            "UPDATE t SET v = 'uno' WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
        ),
    ),
    Case(
        "application-periods",
        mariadb(10, 11),
        (
            """CREATE TABLE t (id int, b date, e date, v int, PERIOD FOR valid (b, e), PRIMARY KEY (id,
            valid WITHOUT OVERLAPS))""",
            "INSERT INTO t VALUES (1, '2026-01-01', '2026-12-31', 5)",
            "UPDATE t FOR PORTION OF valid FROM '2026-03-01' TO '2026-04-01' SET v = 6",
            "DELETE FROM t FOR PORTION OF valid FROM '2026-06-01' TO '2026-07-01'",
        ),
    ),
    Case(
        "generated-key",
        mysql(8),
        (
            "SET sql_generate_invisible_primary_key = ON",
            "CREATE TABLE t (a int, b varchar(10))",
            "INSERT INTO t VALUES (1, 'one'), (1, 'one'), (NULL, NULL)",
            "UPDATE t SET b = 'neu' WHERE a = 1",
            "DELETE FROM t WHERE a IS NULL",
        ),
    ),
    Case(
        "old-decimal",
        of_old_tables,
        (
            f"INSERT INTO {OLD_DECIMAL} VALUES (1.50), (-1234567.89), (0), (NULL), (99999999.99), (-9999999.99)",
            f"UPDATE {OLD_DECIMAL} SET a = 2.25 WHERE a = 1.50",
            f"DELETE FROM {OLD_DECIMAL} WHERE a = 0",
            f"UPDATE {OLD_DECIMAL} SET a = NULL WHERE a < 0",
        ),
        files=(OLD_DECIMAL_FILES,),
    ),
    Case(
        "old-varchar",
        of_old_tables,
        (
            "INSERT INTO vchar VALUES ('abc', 'def', 'def', 'text'), (REPEAT('v', 30), 'c', 'abc', REPEAT('t', 300))",
            "INSERT INTO vchar VALUES ('trailing  ', '', 'ghi', ''), (NULL, NULL, NULL, NULL), ('é', 'ü', 'abc', 'ß')",
            "UPDATE vchar SET v = CONCAT(v, '!'), t = NULL WHERE c = 'def'",
            "DELETE FROM vchar WHERE v = 'trailing'",
        ),
        files=("vchar.frm",),
        # Makes the data files that the definition lacks, and leaves the definition alone.
        setup=(f"TRUNCATE TABLE {DATABASE}.vchar",),
        # The definition names no charset, so that of the server counts.
        options=("--character-set-server=latin1", "--collation-server=latin1_swedish_ci"),
    ),
    Case(
        "old-decimal-shapes",
        of_old_tables,
        (
            "SET sql_mode = ''",
            "INSERT INTO shapes VALUES (0, 0, 0, 0, 0, 0, 0), (NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            "INSERT INTO shapes VALUES (1.5, -1.5, 1.5, -7, 7, 0.125, -0.5)",
            # More than fits, so that the least and the greatest are kept.
            "INSERT INTO shapes VALUES (1e99, 1e99, 1e99, 1e99, 1e99, 1e99, 1e99)",
            "INSERT INTO shapes VALUES (-1e99, -1e99, -1e99, -1e99, -1e99, -1e99, -1e99)",
            # A positive value may take the place of the sign.
            "INSERT INTO shapes (signed_, whole) VALUES (123.456, 99999)",
            "UPDATE shapes SET filled = filled + 1, plain = 2.25 WHERE plain = 1.5",
            "DELETE FROM shapes WHERE plain IS NULL",
        ),
        definitions=(
            (
                "shapes",
                definition(
                    (
                        OldDecimal("plain", 10, 2, unsigned=True),
                        OldDecimal("signed_", 5, 3),
                        OldDecimal("filled", 8, 2, zerofill=True),
                        OldDecimal("whole", 4, 0),
                        OldDecimal("natural", 3, 0, unsigned=True),
                        OldDecimal("fraction", 4, 3, unsigned=True),
                        OldDecimal("long_", 60, 30),
                    )
                ),
            ),
        ),
        setup=(f"TRUNCATE TABLE {DATABASE}.shapes",),
    ),
    Case(
        "old-decimal-among",
        of_old_tables,
        (
            # Types 3 3 15 246 0 0 12 0 15 12 12 15 3 3 15 15: two old DECIMALs in a row, one before a VARCHAR.
            "SET sql_mode = ''",
            """INSERT INTO among VALUES (1, 2, 'name', 0, 0, 0, '2003-05-06 07:08:09', 12.34, REPEAT('1', 40),
            '2004-01-02 03:04:05', NULL, 'x', 3, 4, 'y', REPEAT('z', 300))""",
            "INSERT INTO among VALUES (2, 2, NULL, -1.5, 1.5, -0.5, NULL, 99, '0', 0, 0, '', 0, 0, '', '')",
            "INSERT INTO among (id) VALUES (3)",
            "ALTER TABLE among DROP COLUMN b, ADD COLUMN first_one varchar(60) FIRST",
            "INSERT INTO among (id, first_one, o1, o2, o3) VALUES (4, REPEAT('1', 49), 4294967.29, 1.234, 5.5)",
            "UPDATE among SET o1 = o1 + 1, o3 = NULL",
            "DELETE FROM among WHERE id = 2",
        ),
        definitions=(
            (
                "among",
                definition((OldDecimal("o1", 10, 2, unsigned=True), OldDecimal("o2", 5, 3), OldDecimal("o3", 10, 2))),
            ),
        ),
        setup=(
            f"TRUNCATE TABLE {DATABASE}.among",
            *_OLD_DATETIMES[:1],
            f"""ALTER TABLE {DATABASE}.among ADD COLUMN id int FIRST, ADD COLUMN b int AFTER id,
            ADD COLUMN c varchar(255) CHARACTER SET latin1 AFTER b, ADD COLUMN d decimal(10,2) AFTER c,
            ADD COLUMN e datetime AFTER o2, ADD COLUMN f varchar(40) CHARACTER SET latin1 AFTER o3,
            ADD COLUMN g datetime AFTER f, ADD COLUMN h datetime AFTER g,
            ADD COLUMN i varchar(10) CHARACTER SET latin1 AFTER h, ADD COLUMN j int AFTER i, ADD COLUMN k int AFTER j,
            ADD COLUMN l varchar(255) CHARACTER SET latin1 AFTER k, ADD COLUMN m varchar(1023) CHARACTER SET latin1
            AFTER l""",
        ),
        restore=_OLD_DATETIMES[1:],
    ),
]
