"""Routines, events, prepared statements, engines."""

from __future__ import annotations

from tests.support.golden.case import Case, Fails, both, mariadb

__all__ = ["CASES"]

CASES = [
    Case(
        "routines",
        both(),
        (
            "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, v varchar(20))",
            """CREATE PROCEDURE two(x varchar(20)) BEGIN INSERT INTO t (v) VALUES (x); UPDATE t SET v = CONCAT(v,
            '!'); END""",
            """CREATE FUNCTION put(x varchar(20)) RETURNS int NOT DETERMINISTIC MODIFIES SQL DATA
            BEGIN INSERT INTO t (v) VALUES (x); RETURN LAST_INSERT_ID(); END""",
            "CALL two('called')",
            "DO put('by function')",
            "CREATE TABLE other (id int PRIMARY KEY, v int)",
            "INSERT INTO other VALUES (1, put('inner')), (2, put('inner again'))",
            "PREPARE p FROM 'INSERT INTO t (v) VALUES (?)'",
            "SET @x = 'prepared'",
            "EXECUTE p USING @x",
            "DROP PROCEDURE two",
        ),
        setup=("SET GLOBAL log_bin_trust_function_creators = ON",),
        restore=("SET GLOBAL log_bin_trust_function_creators = OFF",),
    ),
    Case(
        "engines",
        both(),
        (
            "CREATE TABLE my (id int PRIMARY KEY, v varchar(10)) ENGINE=MyISAM",
            "CREATE TABLE mem (id int PRIMARY KEY, v varchar(10)) ENGINE=MEMORY",
            "CREATE TABLE csv (id int NOT NULL, v varchar(10) NOT NULL) ENGINE=CSV",
            "INSERT INTO my VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO mem VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO csv VALUES (1, 'one'), (2, 'two')",
            "UPDATE my SET v = 'neu'",
            "UPDATE mem SET v = NULL WHERE id = 1",
            "DELETE FROM csv WHERE id = 1",
            # The first row stays.
            Fails(1062, "INSERT INTO my VALUES (3, 'stays'), (1, 'duplicate'), (4, 'never')"),
            "DELETE FROM my",
        ),
    ),
    Case(
        "aria",
        mariadb(),
        (
            "CREATE TABLE a (id int PRIMARY KEY, v varchar(10)) ENGINE=Aria",
            "INSERT INTO a VALUES (1, 'one'), (2, 'two')",
            "BEGIN",
            "UPDATE a SET v = 'stays'",
            "ROLLBACK",
            "DELETE FROM a WHERE id = 1",
        ),
    ),
]
