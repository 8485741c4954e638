"""Statements that change rows of several tables, or more rows than they name."""

from __future__ import annotations

from tests.support.golden.case import Case, Fails, both, mariadb

__all__ = ["CASES"]

_PAIR = ("CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (id int PRIMARY KEY, a_id int, v int)")
_PAIR_ROWS = (
    "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)",
    "INSERT INTO b VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30), (4, 9, 40)",
)
_CHILDREN = (
    "CREATE TABLE parent (id int PRIMARY KEY, v int) ENGINE=InnoDB",
    """CREATE TABLE child (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES parent (id)
    ON DELETE CASCADE ON UPDATE CASCADE) ENGINE=InnoDB""",
    """CREATE TABLE orphan (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES parent (id)
    ON DELETE SET NULL ON UPDATE SET NULL) ENGINE=InnoDB""",
    """CREATE TABLE grandchild (id int PRIMARY KEY, c int, FOREIGN KEY (c) REFERENCES child (id)
    ON DELETE CASCADE) ENGINE=InnoDB""",
)

CASES = [
    Case(
        "triggers",
        both(),
        (
            "CREATE TABLE a (id int PRIMARY KEY, v varchar(10))",
            "CREATE TABLE a_event (n int AUTO_INCREMENT PRIMARY KEY, what varchar(10), id int, v varchar(10))",
            """CREATE TRIGGER ai AFTER INSERT ON a FOR EACH ROW INSERT INTO a_event (what, id, v) VALUES ('insert',
            NEW.id, NEW.v)""",
            """CREATE TRIGGER au AFTER UPDATE ON a FOR EACH ROW INSERT INTO a_event (what, id, v) VALUES ('update',
            NEW.id, OLD.v)""",
            """CREATE TRIGGER bd BEFORE DELETE ON a FOR EACH ROW INSERT INTO a_event (what, id, v) VALUES ('delete',
            OLD.id, OLD.v)""",
            "CREATE TRIGGER bi BEFORE INSERT ON a FOR EACH ROW SET NEW.v = UPPER(NEW.v)",
            "INSERT INTO a VALUES (1, 'one')",
            "INSERT INTO a VALUES (2, 'two'), (3, 'three')",
            "UPDATE a SET v = 'neu' WHERE id < 3",
            "REPLACE INTO a VALUES (1, 'again')",
            "INSERT INTO a VALUES (2, 'dup') ON DUPLICATE KEY UPDATE v = 'dup'",
            "DELETE FROM a",
        ),
    ),
    Case(
        "multi-table",
        both(),
        (
            *_PAIR,
            *_PAIR_ROWS,
            "UPDATE a, b SET a.v = a.v + 1, b.v = b.v + 1 WHERE a.id = b.a_id",
            "UPDATE a LEFT JOIN b ON b.a_id = a.id SET a.v = 0 WHERE b.id IS NULL",
            "INSERT INTO a SELECT id + 100, v FROM b",
            "DELETE a, b FROM a JOIN b ON b.a_id = a.id WHERE a.id = 1",
            "DELETE a FROM a JOIN b ON b.id + 100 = a.id",
        ),
    ),
    Case(
        "upserts",
        both(),
        (
            "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, w int, UNIQUE KEY (w), v varchar(10))",
            "INSERT INTO t VALUES (1, 10, 100, 'a'), (2, 20, 200, 'b'), (3, 30, 300, 'c')",
            "REPLACE INTO t VALUES (1, 11, 100, 'replaced')",
            "REPLACE INTO t VALUES (1, 20, 300, 'three go')",
            "REPLACE INTO t VALUES (7, 70, 700, 'fresh')",
            "INSERT INTO t VALUES (7, 0, 0, 'x') ON DUPLICATE KEY UPDATE v = 'updated'",
            """INSERT INTO t VALUES (8, 80, 800, 'x'), (7, 0, 0, 'y') ON DUPLICATE KEY UPDATE v = CONCAT(v, '+'),
            id = 71""",
            "INSERT INTO t VALUES (8, 80, 0, 'same') ON DUPLICATE KEY UPDATE v = v",
            "INSERT IGNORE INTO t VALUES (1, 0, 0, 'ignored'), (90, 90, 90, 'taken')",
            Fails(1062, "INSERT INTO t VALUES (91, 91, 91, 'gone'), (90, 0, 0, 'duplicate')"),
            "UPDATE t SET id = id + 1000 ORDER BY id DESC",
        ),
    ),
    Case(
        "cascades",
        both(),
        (
            *_CHILDREN,
            "INSERT INTO parent VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
            "INSERT INTO child VALUES (10, 1), (11, 1), (20, 2), (30, 3)",
            "INSERT INTO orphan VALUES (10, 1), (20, 2), (30, 3)",
            "INSERT INTO grandchild VALUES (100, 10), (200, 20)",
            "UPDATE parent SET v = 9 WHERE id = 4",
            "UPDATE parent SET id = 33 WHERE id = 3",
            "DELETE FROM parent WHERE id = 1",
            "DELETE FROM parent WHERE id = 4",
            "BEGIN",
            "DELETE FROM grandchild",
            "DELETE FROM parent WHERE id = 2",
            "COMMIT",
            "SET foreign_key_checks = 0",
            "DELETE FROM parent",
        ),
    ),
    Case(
        "self-cascade",
        both(),
        (
            """CREATE TABLE t (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES t (id)
            ON DELETE CASCADE) ENGINE=InnoDB""",
            "INSERT INTO t VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)",
            "DELETE FROM t WHERE id = 1",
        ),
    ),
    Case(
        "returning",
        mariadb(10, 11),
        (
            "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, v int)",
            "INSERT INTO t (v) VALUES (1), (2) RETURNING id",
            "DELETE FROM t WHERE v = 1 RETURNING *",
        ),
    ),
    Case(
        "same-rows",
        both(),
        (
            "CREATE TABLE t (id int PRIMARY KEY, v int, at timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP)",
            "SET timestamp = 1767225600",
            "INSERT INTO t (id, v) VALUES (1, 1), (2, 2)",
            "UPDATE t SET v = v",
            "UPDATE t SET v = 2",
            "UPDATE t SET v = 3 WHERE id = 99",
            "DELETE FROM t WHERE id = 99",
        ),
    ),
]
