"""What capture must do beside XA transactions, on any server that logs them when they are prepared."""

from __future__ import annotations

import time

from tests.support.source.capture_harness import CaptureHarness

__all__ = ["commits_after_a_kill", "snapshots_wait"]


class _Branch:
    """A connection with an XA transaction that is prepared."""

    def __init__(self, world: CaptureHarness, xid: str, id_: int) -> None:
        self._xid = xid
        self._connection = world.server.connect(database=world.name)
        self.ask(
            f"XA START '{xid}'",
            f"INSERT INTO a VALUES ({id_}, 1, '{xid}', 1, NULL)",
            f"INSERT INTO b (a_id, v) VALUES ({id_}, 'x')",
            f"XA END '{xid}'",
            f"XA PREPARE '{xid}'",
        )

    def ask(self, *statements: str) -> None:
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def end(self, word: str) -> None:
        self.ask(f"XA {word} '{self._xid}'")
        self._connection.close()


def _name(xid: str) -> str:
    return f"X'{xid.encode().hex()}',X'',1"


def commits_after_a_kill(world: CaptureHarness) -> None:
    """Prepared, killed, committed: the oldest ends before the kill, the others after it, in another order."""
    n = world.name
    world.run("run", "--snapshot")
    capture = world.start("run")
    first, second, third, undone = (_Branch(world, n + name, id_) for id_, name in enumerate("pqrs", 1))
    first.end("COMMIT")
    world.sql(f"INSERT INTO {n}.a VALUES (50, 1, 'between', 1, NULL)")
    world.wait_until_complete()
    assert set(world.copy("a")) == {1, 50}
    world.kill(capture)
    last = world.resolved().newest
    assert last is not None
    assert [each["xid"] for each in last.state["waiting"]] == [
        f"X'{(n + name).encode().hex()}',X'',1" for name in "qrs"
    ]
    third.end("COMMIT")
    capture = world.start("run")
    world.wait_until_complete()
    assert set(world.copy("a")) == {1, 50, 3}
    world.kill(capture)
    capture = world.start("run")
    undone.end("ROLLBACK")
    second.end("COMMIT")
    world.sql(f"UPDATE {n}.a SET v = 'end' WHERE id < 3")
    world.is_whole()
    assert set(world.copy("a")) == {1, 2, 3, 50}
    last = world.resolved().newest
    assert last is not None
    assert last.state["waiting"] == []
    world.stop(capture)


def snapshots_wait(world: CaptureHarness) -> None:
    """A first snapshot waits for a prepared transaction, or refuses it by name; one beside the stream needs not."""
    n = world.name
    world.declare(prepared_wait_s=0)
    branch = _Branch(world, n + "p", 1)
    said = world.run("run", "--snapshot", code=1)[1]
    assert n.encode().hex() in said
    world.declare()
    snapshot = world.start("run", "--snapshot")
    time.sleep(4)
    assert snapshot.poll() is None
    branch.end("COMMIT")
    assert snapshot.wait(30) == 0
    assert set(world.copy("a")) == {1}
    capture = world.start("run")
    branch = _Branch(world, n + "q", 2)
    world.run("request-snapshot", "--tables", "a", "--id", "beside", "--wait", "--timeout", "30")
    branch.end("COMMIT")
    world.is_whole()
    assert set(world.copy("a")) == {1, 2}
    world.stop(capture)
