"""The race of writers, by an account that may not delete."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from include.errors import Terminal, Transient
from include.store.memory import MemoryStore
from include.store.race_probe import race
from tests.support.faults.unsound_stores import KnowsNoConditions


class KeepsAll(MemoryStore):
    """Refuses to delete."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def delete(self, key: str) -> None:
        self.asked += 1
        raise Terminal("access denied", key=key)


class Gone(MemoryStore):
    """Its bucket goes while writers race."""

    def get(self, key: str) -> None:
        raise Terminal("no such bucket", key=key)


def test_a_writer_that_may_not_delete_is_asked_whether_its_store_is_honest_all_the_same() -> None:
    store = KeepsAll()
    verdict = race([store, store], "mine", rounds=3)
    assert verdict.honest
    assert store.asked == 1
    assert len(list(store.list("_probe/mine/"))) == 9


def test_what_is_refused_besides_is_told() -> None:
    store = Gone()
    with pytest.raises(Terminal, match="no such bucket"):
        race([store, store], "mine", rounds=3)
    assert not list(store.list("_probe/mine/"))


@pytest.mark.parametrize("call", ["put_if_match", "upload_if_absent", "put_if_absent"])
def test_one_conditional_call_that_the_store_does_not_know_is_enough(call: str) -> None:
    known = {"put_if_match", "upload_if_absent", "put_if_absent"} - {call}
    verdict = race([KnowsNoConditions(*known)] * 3, "mine", rounds=2)
    assert verdict.broken == (f"{call}, round 0: not implemented", f"{call}, round 1: not implemented")


class Failing(MemoryStore):
    """Never tells a conditional writer what became of it."""

    def put_if_match(self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None) -> None:
        raise Transient("the object store failed", system="s3", key=key)


def test_a_store_that_mostly_fails_is_not_called_honest() -> None:
    with pytest.raises(Transient, match=r"too often to tell.*put_if_match"):
        race([Failing()] * 3, "mine", rounds=4)
