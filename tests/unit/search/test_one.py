from __future__ import annotations

import json
from typing import Any

import pytest

from include.errors import Terminal
from include.index.server.memory import MemoryIndex
from include.search.one import find_one


def index_with(source: dict[str, Any]) -> MemoryIndex:
    index = MemoryIndex()
    index.create("orders-v1", {"aliases": {"orders": {}}})
    action = {"index": {"_id": "7", "version": 3, "version_type": "external"}}
    index.bulk("orders-v1", f"{json.dumps(action)}\n{json.dumps(source)}\n".encode())
    return index


def test_a_living_document_is_found_by_its_id_before_any_refresh() -> None:
    index = index_with({"order": {"state": "completed"}, "metadata": {"deleted": False}})
    answer = find_one(index, "orders", "order", "7")
    assert answer is not None
    assert (answer.doc_id, answer.version, answer.body) == ("7", 3, {"state": "completed"})


def test_a_deleted_document_is_not_found_although_a_realtime_read_sees_it() -> None:
    index = index_with({"metadata": {"deleted": True}})
    assert index.get("orders", "7") is not None
    assert find_one(index, "orders", "order", "7") is None


def test_an_id_that_nobody_wrote_is_not_found() -> None:
    assert find_one(index_with({"metadata": {}}), "orders", "order", "8") is None


def test_an_alias_that_leads_nowhere_is_an_error_and_not_an_empty_answer() -> None:
    with pytest.raises(Terminal, match="index does not exist"):
        find_one(MemoryIndex(), "orders", "order", "7")
