"""The race of writers, by an account that may not delete."""

from __future__ import annotations

import pytest

from include.errors import Terminal
from include.store.memory import MemoryStore
from include.store.race_probe import race


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
