"""Signals travel between tasks and the driver without loss, and requests' keys read back."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.document.reading.lookup import keys_behind
from include.document.reading.tables import MemoryTables
from include.document.rebuild import parse_key
from include.document.signals import Signals, UnreadableRecord
from include.errors import InvalidRecord
from include.log.ports import Record
from include.log.requests.records import Request
from include.record.key import doc_id
from tests.support.documents.order_harness import COLUMNS, DEFINITION

keys = st.tuples(st.one_of(st.integers(-(2**63), 2**63 - 1), st.text()))
versions = st.integers(0, 2**53 - 1)
records = st.builds(
    Record,
    st.just("t"),
    st.integers(0, 9),
    st.integers(0, 99),
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.lists(st.tuples(st.text(), st.none() | st.binary())).map(tuple),
    st.integers(0, 2**40),
)
signals = st.builds(
    Signals,
    keys=st.dictionaries(keys, versions),
    rows=st.dictionaries(st.tuples(st.integers(0, 3), keys), versions),
    floor=versions,
    requests=st.lists(st.builds(Request, st.text(), st.just("rebuild"), st.text(), versions)),
    set_aside=st.lists(st.builds(UnreadableRecord, records, st.text())),
    counts=st.dictionaries(st.sampled_from(["read", "applied"]), st.integers(1, 99)).map(Counter),
)


@settings(max_examples=25, deadline=None)
@given(signals)
def test_signals_are_the_same_after_they_have_travelled(made: Signals) -> None:
    assert pickle.loads(pickle.dumps(made)) == made


def merged(parts: Iterable[Signals]) -> Signals:
    out = Signals()
    for part in parts:
        out.merge(part)
    return out


@settings(max_examples=25, deadline=None)
@given(st.lists(signals, max_size=3))
def test_the_order_in_which_tasks_answer_does_not_matter(parts: list[Signals]) -> None:
    one, other = merged(parts), merged(reversed(parts))
    assert (one.keys, one.rows, one.floor) == (other.keys, other.rows, other.floor)
    for part in parts:
        assert all(one.keys[key] >= version for key, version in part.keys.items())
    assert sum(one.counts[n] for n in ("applied", "superseded")) == sum(
        part.counts[n] for part in parts for n in ("applied", "superseded")
    )


@settings(deadline=None)
@given(st.tuples(st.integers(), st.text()))
def test_a_documents_id_reads_back_as_its_key(key: tuple[int, str]) -> None:
    text = doc_id({"a": key[0], "b": key[1]})
    if not text.startswith("sha256:"):
        assert parse_key(text, [True, False]) == key
    assert parse_key(doc_id({"a": key[0]}), [True]) == key[:1]


@pytest.mark.parametrize("text", ["", "x", "[1", '["1"]', "[1,2,3]"])
def test_a_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRecord, match="not a key"):
        parse_key(text, [True, False])


def test_the_way_back_gives_each_document_the_newest_version_that_leads_to_it() -> None:
    rows: dict[str, list[dict[str, Any]]] = {
        "regions": [{"id": 1, "name": "n"}],
        "partners": [{"id": p, "name": "", "secret": "", "region_id": 1 if p < 3 else None} for p in (1, 2, 3)],
        "orders": [
            {"id": n, "order_id": n, "state": "completed", "partner_id": n, "policy_id": None} for n in (1, 2, 3)
        ],
    }
    tables = MemoryTables(rows, COLUMNS)
    by_table = {path.table: path for path in DEFINITION.paths() if len(path.hops) == (path.table == "regions") + 1}
    fact = DEFINITION.fact
    assert keys_behind(tables, fact, by_table["partners"], {(2,): 20, (3,): 30}, 9) == {(2,): 20, (3,): 30}
    assert keys_behind(tables, fact, by_table["regions"], {(1,): 7}, 9) == {(1,): 7, (2,): 7}
    assert keys_behind(tables, fact, by_table["regions"], {(5,): 7}, 9) == {}
    tables.tables["orders"].append({"id": 4, "order_id": 2, "state": "completed", "partner_id": 3, "policy_id": None})
    assert keys_behind(tables, fact, by_table["partners"], {(2,): 30, (3,): 20}, 9) == {(2,): 30, (3,): 20}
