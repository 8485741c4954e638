"""Statements that stopped other capture tools: each passes here with its effect, and the rows after it are read.

Their parsers must understand every word of DDL, as they keep the columns by replaying it. Here TABLE_MAPs decode, and
of a statement only what makes rows vanish without row events is looked for. Statements are those of the reports named,
with shorter columns and other names.
"""

from __future__ import annotations

import struct

import pytest

from include.record.gtid import Flavour
from include.source.binlog.events import QueryEvent
from include.source.binlog.step import RowsEvent
from include.source.binlog.text.ddl import TableEffect, effects
from tests.support.binlog.builder import Log, transactions

A = "alter shop.t"
STATEMENTS: dict[str, tuple[str, str]] = {
    # Debezium (DBZ, dbz), and what embeds it.
    "dbz#360": ("ALTER TABLE t CHANGE order_id sum int(11) DEFAULT NULL", A),
    "dbz#1272": ("ALTER TABLE t MODIFY Description VARCHAR(512) UNICODE", A),
    "dbz#690": ("ALTER DATABASE exchange_otc /*!40100 DEFAULT CHARACTER SET utf8mb4 */", ""),
    "dbz#71": ("ALTER TABLE t ADD c set('ALL','CREDIT_CARD','PIX') DEFAULT NULL NOT SECONDARY", A),
    "DBZ-9065": ("ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (id)", A),
    "DBZ-9634 rename": ("RENAME TABLE IF EXISTS t WAIT 5 TO u", "rename shop.t shop.u"),
    "DBZ-9634 charset": ("ALTER TABLE t CONVERT TO CHARSET utf8mb4 COLLATE uca1400_ai_ci", A),
    "DBZ-9411": ("ALTER TABLE t ADD PARTITION (PARTITION p2 HISTORY), ADD SYSTEM VERSIONING", A),
    "DBZ-7468": ("ALTER TABLE t ADD PERIOD FOR SYSTEM_TIME(ts, te), ADD SYSTEM VERSIONING", A),
    "DBZ-6331": (
        "CREATE TABLE t (id int, vs timestamp(6), ve timestamp(6), PERIOD FOR p (vs, ve)) WITH SYSTEM VERSIONING",
        "create shop.t",
    ),
    "DBZ-5499": ("ANALYZE TABLE t UPDATE HISTOGRAM ON c WITH 254 BUCKETS", ""),
    "DBZ-5508": ("CREATE TABLE t (id int) ENGINE_ATTRIBUTE='{\"a\": 1}' ENGINE=InnoDB", "create shop.t"),
    "DBZ-5621": ("ALTER DATABASE shop COMMENT = 'drop table t'", ""),
    "DBZ-6794": ("CREATE VIEW v AS SELECT 1 + @sum:=1 AS ss", ""),
    "DBZ-7140": ("CREATE VIEW v AS (SELECT 1) UNION DISTINCT (SELECT 2) ORDER BY 1 LIMIT 3", ""),
    "DBZ-7881": ("CREATE TRIGGER IF NOT EXISTS g BEFORE INSERT ON t FOR EACH ROW DELETE FROM u", ""),
    "DBZ-198": ("ALTER TABLE `t` \n drop column `s`, \n drop index `k`,\n drop foreign key `k`", A),
    "airbyte#9196": ("flush table", ""),
    "airbyte#14745": (
        "CREATE TABLE `t` (`id` bigint(20) unsigned NOT NULL, `d` date NOT NULL DEFAULT curdate(), KEY (`id`))",
        "create shop.t",
    ),
    "airbyte#50865": ("ALTER USER 'root'@'%' IDENTIFIED WITH 'x' AS '*C2' RETAIN CURRENT PASSWORD", ""),
    "wso2#1677": ("CREATE TABLE t (d date DEFAULT (curdate()), PRIMARY KEY (d) USING BTREE)", "create shop.t"),
    "flink-cdc#905": (
        "CREATE TABLE t (id bigint auto_increment by group, primary key(id)) dbpartition by hash(id)",
        "create shop.t",
    ),
    "clickhouse-sink#682": ("alter table shop.t add entity varchar(255) , ALGORITHM=INPLACE, LOCK=NONE", A),
    "clickhouse-sink#1191": ("ALTER TABLE t AUTO_INCREMENT = 3841", A),
    "clickhouse-sink#1140": ("ALTER TABLE t ADD COLUMN a INT, algorithm=instant, ADD COLUMN b INT", A),
    # Maxwell.
    "maxwell#158": ("CREATE DATABASE /*! IF NOT EXISTS */ error", ""),
    "maxwell#158 table": ("create table /*! if not exists */ `shop`.`t` (`id` int (10))", "create shop.t"),
    "maxwell#161": ("CREATE TABLE \n\t `t` (f boolean default true, primary key(f)) ENGINE=INNODB", "create shop.t"),
    "maxwell#164": ("CREATE SCHEMA product_service_test", ""),
    "maxwell#178": ("ALTER TABLE `t` ADD c ENUM('Y', 'N') NULL DEFAULT 'N', ADD INDEX `c` (`c` ASC)", A),
    "maxwell#186": ("CREATE\nTEMPORARY\nTABLE 172898_16841_transmem\nSELECT\n t.*\nFROM map.transmem AS t", ""),
    "maxwell#203": ("CREATE TABLE `t` (id INTEGER, valid BOOL, CHECK (valid IN (0, 1)))", "create shop.t"),
    "maxwell#254": ("/*!50003 DROP FUNCTION IF EXISTS `DAY_NAME_FROM_NUMER` */", ""),
    "maxwell#262": ("-- Refresh the mysql access changes\nFLUSH PRIVILEGES", ""),
    "maxwell#272": ("ALTER TABLE .`t`\nCHANGE COLUMN `p` `p` VARCHAR(60) CHARACTER SET 'utf8' COLLATE 'utf8_bin'", A),
    "maxwell#309": ("create table if not exists t (e TIMESTAMP default CURRENT_TIMESTAMP())", "create shop.t"),
    "maxwell#416": ("ALTER TABLE t ADD c varchar(255) DEFAULT '' COMMENT ''", A),
    "maxwell#418": (
        "CREATE TABLE t (id int, UNIQUE U (id) comment '') ENGINE=InnoDB CHECKSUM=0 DELAY_KEY_WRITE=0",
        "create shop.t",
    ),
    "maxwell#458": ("ALTER TABLE `t` DROP COLUMN `metadata` CASCADE", A),
    "maxwell#463": ("CREATE TABLE t like u", "create shop.t"),
    "maxwell#626": ("CREATE TABLE t (id int default -1)", "create shop.t"),
    "maxwell#1166": ("alter table shop.t add column baz longtext", A),
    "maxwell#1216": ("ALTER TABLE t ADD x varchar(255) AFTER y, DROP INDEX k, CHANGE COLUMN z y int(11)", A),
    "maxwell#1303": ("ALTER TABLE t MODIFY COLUMN t.attribute5 VARCHAR(500)", A),
    "maxwell#1434": (
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE shop.u WITHOUT VALIDATION",
        f"reread shop.t, reread shop.u, {A}",
    ),
    "maxwell#1442": ("ALTER TABLE t DROP t.foo", A),
    "maxwell#1686": ("CREATE TABLE `t` (\n  `id` int DEFAULT NULL\n) START TRANSACTION", "create shop.t"),
    "maxwell#1722": ("CREATE SEQUENCE 21692141453801_SEQ START WITH 1 INCREMENT BY 1 MAXVALUE 9999 CYCLE", ""),
    "maxwell#1780": ("CREATE TABLE `t` (m decimal(11, 2) NOT NULL DEFAULT -1. COMMENT '')", "create shop.t"),
    "maxwell#1903": ("CREATE TABLE 1foobar (i int)", "create shop.1foobar"),
    "maxwell#2039": ("ALTER TABLE t DROP COLUMN IF EXISTS snoozed_until", A),
    "maxwell#2053": ("ALTER TABLE `t` ALGORITHM=COPY, DROP FOREIGN KEY `k`, STATS_SAMPLE_PAGES=DEFAULT", A),
    "maxwell#2088": (
        "ALTER TABLE t ADD UNIQUE INDEX a (x),\n DROP INDEX IF EXISTS vin,\n ALGORITHM=NOCOPY, LOCK=NONE",
        A,
    ),
    "maxwell#2128": ("create table if not exists t (id bigint(21) not null default _utf8mb4'0')", "create shop.t"),
    # canal, DM, TiDB's parser.
    "canal#450": ("CREATE USER 'w'@'%' IDENTIFIED WITH 'mysql_native_password' AS '*6B'", ""),
    "canal#1129": ("ALTER TABLE `t` DROP INDEX `name_indx`, DEFAULT CHARACTER SET DEFAULT", A),
    "canal#3638": ("CREATE TABLE t (id int) ENGINE = InnoDB ROW_FORMAT = DYNAMIC ALGORITHM = copy", "create shop.t"),
    "canal#3900": ("alter table t add partition (partition p VALUES LESS THAN (7) ENGINE = TokuDB)", A),
    "canal#5304": (
        "/* Create table in target */\nCREATE TABLE `t`(\n\t`o` varchar(19) COMMENT '借据号')",
        "create shop.t",
    ),
    "dm#205": ("CREATE TABLE t (id serial,intcol1 INT(32) ,charcol1 VARCHAR(128))", "create shop.t"),
    "tidb#3566": ("ALTER TABLE t ADD (a BIGINT NULL, tags VARCHAR (4000) NULL)", A),
    "tidb#4927": ("alter table t engine=``,add column id int", A),
}
ODD: dict[str, tuple[str, str]] = {
    "a comment that runs to the end of its line": ("-- nightly\n# twice\nTRUNCATE TABLE t", "truncate shop.t"),
    "no blank before a quoted name": ("TRUNCATE TABLE`t`", "truncate shop.t"),
    "a name that begins with its point": ("TRUNCATE .t", "truncate shop.t"),
    "blanks around the point": ("TRUNCATE `shop` . `t`", "truncate shop.t"),
    "a comment's mark in a string": ("ALTER TABLE t COMMENT '/*', RENAME TO u /* '*/", "rename shop.t shop.u"),
    "a rename in a comment of a column": ("ALTER TABLE t ADD c int COMMENT \"rename to x\"", A),
    "a column whose name is a word": ("ALTER TABLE t ADD `rename` int, ADD `drop partition` int", A),
    "a quote that is escaped": ("ALTER TABLE t COMMENT 'it\\'s', RENAME u", "rename shop.t shop.u"),
    "an index renamed before the table": ("ALTER TABLE t RENAME KEY a TO b, RENAME = `u`", "rename shop.t shop.u"),
    "many tables at once": ("RENAME TABLES t TO x, u NOWAIT TO t", "rename shop.t shop.x, rename shop.u shop.t"),
    "a partition made a table": (
        "ALTER TABLE t CONVERT PARTITION p TO TABLE u",
        f"reread shop.t, create shop.u, reread shop.u, {A}",
    ),
    "a table made a partition": (
        "ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (9)",
        f"reread shop.t, drop shop.u, {A}",
    ),
    "a body that begins with what it is not": ("CREATE PROCEDURE p() BEGIN TRUNCATE t; DROP TABLE t; END", ""),
}  # fmt: skip
EVERY = STATEMENTS | ODD


def told(effect: TableEffect) -> str:
    table = f" {effect.database}.{effect.table}"
    return effect.kind + table + (f" {'.'.join(effect.to)}" if effect.to else "")


def numbers(log: Log) -> list[int]:
    steps = [step for each in transactions(log.events) for step in each.steps if isinstance(step, RowsEvent)]
    return [struct.unpack_from("<i", step.body, 3)[0] for step in steps]


def test_there_are_more_statements_than_the_forty_that_are_promised() -> None:
    assert len({text for text, _ in STATEMENTS.values()}) == len(STATEMENTS) > 60


@pytest.mark.parametrize("name", EVERY)
def test_a_statement_that_stopped_others_has_its_effect_and_the_rows_after_it_are_read(name: str) -> None:
    """dbz#2321 #2401 #2224, DBZ-9623 -9411, maxwell #1457 #416 #1303 #2100: a DDL parser stops the stream."""
    text, expected = EVERY[name]
    assert ", ".join(map(told, effects(text, "shop"))) == expected
    flavours: tuple[Flavour, Flavour] = ("mariadb", "mysql")
    for flavour in flavours:
        log = Log(flavour).begin().insert("t", 1).xid().gtid(0x29).query(text)
        log.begin().insert("t", 2).xid()
        assert numbers(log) == [1, 2]
        texts = [step.text for each in transactions(log.events) for step in each.steps if isinstance(step, QueryEvent)]
        assert texts == [text]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t SELECT * FROM u",
        "CREATE TABLE IF NOT EXISTS t (id int) IGNORE AS (SELECT 1 AS id)",
        "create or replace table t as with c as (select 1) select * from c",
        "-- by hand\nINSERT INTO t VALUES (1)",
        "# by hand\nDELETE FROM t",
        "INSERT /*+ SET_VAR(sort_buffer_size = 16M) */ INTO t VALUES (1)",
    ],
)
def test_rows_that_a_statement_made_as_text_are_never_passed_over(text: str) -> None:
    """maxwell#186, airbyte: a session with binlog_format of its own; the rows of its statement are in no event."""
    assert TableEffect("rows", "shop", "t") in effects(text, "shop")
