"""How events are written: checksums, compression, GTIDs of all kinds, statements beside rows, statement format."""

from __future__ import annotations

from tests.golden.case import Case, In, Step, both, mariadb, mysql

__all__ = ["CASES"]

_TABLE = "CREATE TABLE t (id int PRIMARY KEY, v varchar(300), b blob)"
_WRITES: tuple[Step, ...] = (
    "INSERT INTO t VALUES (1, REPEAT('v', 200), REPEAT(x'00', 250)), (2, REPEAT('w', 100), NULL)",
    "INSERT INTO t (id) VALUES (3)",
    "UPDATE t SET v = CONCAT(v, '!') WHERE id < 3",
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM t WHERE id = 3",
)
_BIG = "INSERT INTO t VALUES " + ", ".join(f"({n}, REPEAT('{n % 10}', 90), NULL)" for n in range(100, 210))

CASES = [
    Case(
        "checksum-none",
        both(),
        (_TABLE, *_WRITES),
        setup=("SET GLOBAL binlog_checksum = NONE",),
        restore=("SET GLOBAL binlog_checksum = CRC32",),
    ),
    Case("checksum-crc32", both(), (_TABLE, *_WRITES), setup=("SET GLOBAL binlog_checksum = CRC32",)),
    Case(
        "many-events",
        both(),
        (_TABLE, _BIG, "UPDATE t SET v = CONCAT(v, 'x') WHERE id < 160", "DELETE FROM t WHERE id % 10 = 0"),
    ),
    Case(
        "compressed-events",
        mariadb(10, 2),
        (
            _TABLE,
            *_WRITES,
            _BIG,
            "UPDATE t SET v = CONCAT(v, 'x') WHERE id % 20 = 0",
            "CREATE TABLE wordy (id int PRIMARY KEY, v varchar(100) COMMENT '" + "long comment " * 20 + "')",
            "DROP TABLE wordy",
        ),
        setup=("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10"),
        restore=("SET GLOBAL log_bin_compress = OFF", "SET GLOBAL log_bin_compress_min_len = 256"),
    ),
    Case(
        "compressed-events-long",
        mariadb(10, 2),
        (_TABLE, *_WRITES, _BIG),
        setup=("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 256"),
        restore=("SET GLOBAL log_bin_compress = OFF",),
    ),
    Case(
        "payload",
        mysql(8),
        (
            "SET binlog_transaction_compression = ON",
            _TABLE,
            "CREATE TABLE u (id int PRIMARY KEY, j json)",
            *_WRITES,
            "BEGIN",
            "INSERT INTO t VALUES (10, 'ten', 'x')",
            "INSERT INTO u VALUES (1, '{\"a\": [1, 2]}')",
            "UPDATE t SET v = 'TEN' WHERE id = 10",
            "SAVEPOINT here",
            "DELETE FROM t",
            "ROLLBACK TO here",
            "COMMIT",
            _BIG,
            "SET binlog_transaction_compression = OFF",
            "DELETE FROM t WHERE id > 190",
        ),
    ),
    Case(
        "payload-partial-json",
        mysql(8),
        (
            "SET binlog_transaction_compression = ON, binlog_row_value_options = PARTIAL_JSON",
            "CREATE TABLE u (id int PRIMARY KEY, j json)",
            'INSERT INTO u VALUES (1, \'{"a": [1, 2], "b": "text to be replaced"}\')',
            "UPDATE u SET j = JSON_SET(j, '$.b', 'neu')",
        ),
    ),
    Case(
        "gtid-anonymous",
        mysql(8),
        (_TABLE, *_WRITES),
        options=("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"),
    ),
    Case(
        "gtid-old",
        lambda row: row.name == "mysql-5.6",
        (_TABLE, *_WRITES, "DROP TABLE t"),
        options=("--gtid-mode=ON", "--enforce-gtid-consistency", "--log-slave-updates"),
    ),
    Case(
        "gtid-tagged",
        mysql(8, 3),
        (
            _TABLE,
            "SET gtid_next = 'automatic:nightly'",
            "INSERT INTO t VALUES (1, 'tagged', NULL)",
            "UPDATE t SET v = 'again'",
            "SET gtid_next = 'automatic'",
            "INSERT INTO t VALUES (2, 'plain', NULL)",
            "SET gtid_next = 'automatic:a_tag_of_thirty_two_characters_'",
            "INSERT INTO t VALUES (3, 'long', NULL)",
            "CREATE TABLE u (id int PRIMARY KEY)",
            "SET gtid_next = '00112233-4455-6677-8899-aabbccddeeff:named:70000'",
            "INSERT INTO u VALUES (1)",
            "SET gtid_next = '00112233-4455-6677-8899-aabbccddeeff:5'",
            "BEGIN",
            "COMMIT",
            "SET gtid_next = 'automatic'",
        ),
    ),
    Case(
        "gtid-domains",
        mariadb(),
        (
            _TABLE,
            "SET gtid_domain_id = 7",
            "INSERT INTO t VALUES (1, 'seven', NULL)",
            "SET server_id = 9, gtid_domain_id = 4294967295",
            "INSERT INTO t VALUES (2, 'nine', NULL)",
            "SET gtid_seq_no = 5000000000",
            "INSERT INTO t VALUES (3, 'far', NULL)",
            In("b", "INSERT INTO t VALUES (4, 'zero', NULL)"),
        ),
    ),
    Case(
        "statements-logged",
        mariadb(),
        (
            "SET binlog_annotate_row_events = ON",
            _TABLE,
            *_WRITES,
            "INSERT INTO t (id, v) VALUES (50, 'ü日𝄞') /* a comment that stays */",
            "BEGIN",
            "UPDATE t SET v = 'one' WHERE id = 50",
            "UPDATE t SET v = 'two' WHERE id = 50",
            "COMMIT",
            "SET binlog_annotate_row_events = OFF",
            "UPDATE t SET v = 'quiet' WHERE id = 50",
        ),
    ),
    Case(
        "statements-logged",
        mysql(),
        (
            "SET binlog_rows_query_log_events = ON",
            _TABLE,
            *_WRITES,
            "INSERT INTO t (id, v) VALUES (50, 'ü日𝄞') /* a comment that stays */",
            "BEGIN",
            "UPDATE t SET v = 'one' WHERE id = 50",
            "UPDATE t SET v = 'two' WHERE id = 50",
            "COMMIT",
            # More than the length byte of the event can say.
            "UPDATE t SET v = '" + "x" * 290 + "' WHERE id = 50",
            "SET binlog_rows_query_log_events = OFF",
            "UPDATE t SET v = 'quiet' WHERE id = 50",
        ),
    ),
    Case(
        "statement-format",
        both(),
        (
            _TABLE,
            "INSERT INTO t VALUES (1, 'as a row', NULL)",
            "SET binlog_format = STATEMENT",
            "INSERT INTO t VALUES (2, 'as a statement', NULL)",
            "SET @v = 'variable'",
            "UPDATE t SET v = @v WHERE id = 2",
            "INSERT INTO t VALUES (3, RAND(), NULL)",
            "CREATE TABLE auto (id int AUTO_INCREMENT PRIMARY KEY, v int)",
            "INSERT INTO auto (v) VALUES (1), (2)",
            "SET binlog_format = MIXED",
            "DELETE FROM t WHERE id = 2",
            "SET binlog_format = ROW",
            "DELETE FROM t WHERE id = 1",
        ),
    ),
]
