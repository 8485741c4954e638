from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit, CutObject, Gap, Intent, PlannedFile

CHAIN = ChainKey(TopicKey("lake", "shop", "q2mGjA1dRHyJ8pAQ1gK9xw"), 1, 0)
ONE = str(CHAIN.data(("_quarantine",), 7, ".seq"))
TWO = str(CHAIN.data(("dt=2026-11-21",), 7, ".seq"))

INTENT = Intent(
    12,
    "age",
    "size 200 MB or age 3600 s",
    "c0ffee",
    "worker 3",
    (PlannedFile(ONE, 1, 8, 8), PlannedFile(TWO, 2, 7, 11)),
)
COMMIT = Commit(
    first=7,
    next=12,
    intent=INTENT.id(CHAIN, 7),
    n_records=4,
    filtered=1,
    quarantined=1,
    min_ts=-1,
    max_ts=1_700_000_000_000,
    gaps=(Gap(7, 8, "lost"),),
    leader_epoch=None,
    config="c0ffee",
    versions={"zlib": "1.3.1"},
    files=(
        CutObject(ONE, 95, "a" * 64, 1, 8, 8, None, None, True),
        CutObject(TWO, 200, "b" * 64, 2, 7, 11, 5, 6),
    ),
)


def test_an_intent_is_stored_as_documented() -> None:
    body = INTENT.to_bytes()
    assert body == (
        b'{"config":"c0ffee","end":12,"files":'
        b'[["lake/shop/_quarantine/1_0_00000000000000000007.seq",1,8,8],'
        b'["lake/shop/dt=2026-11-21/1_0_00000000000000000007.seq",2,7,11]],'
        b'"policy":"size 200 MB or age 3600 s","reason":"age","v":1,"writer":"worker 3"}'
    )
    assert Intent.parse(body, CHAIN, 7) == INTENT


def test_a_commit_comes_back_from_its_bytes() -> None:
    assert Commit.parse(COMMIT.to_bytes(), CHAIN, 7) == COMMIT
    fields = json.loads(COMMIT.to_bytes())
    assert list(fields) == sorted(fields)
    assert fields["files"][0] == [ONE, 95, "a" * 64, 1, 8, 8, None, None, True]


def test_a_promise_is_named_by_what_it_says_and_where_it_stands() -> None:
    other = Intent(13, INTENT.reason, INTENT.policy, INTENT.config, INTENT.writer, INTENT.files)
    moved = ChainKey(TopicKey("lake", "shop", "AAAAAAAAAAAAAAAAAAAAAA"), 1, 0)
    names = {INTENT.id(CHAIN, 7), INTENT.id(CHAIN, 8), other.id(CHAIN, 7), INTENT.id(moved, 7)}
    assert len(names) == 4
    assert all(len(name) == 32 for name in names)


def changed(body: bytes, **values: Any) -> bytes:
    return json.dumps({**json.loads(body), **values}, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"v": 2}, "version 2, this release reads 1"),
        ({"end": 7}, "it ends at 7"),
        ({"end": 11}, "offsets outside the cut"),
        ({"end": -1}, "is below 0"),
        ({"end": True}, "is no whole number"),
        ({"end": "12"}, "is no whole number"),
        ({"reason": "mood"}, "is none of"),
        ({"more": 1}, "fields"),
        ({"writer": None}, "is no text"),
        ({"files": [[ONE, 1, 8, 8], [ONE, 1, 8, 8]]}, "twice or out of order"),
        ({"files": [[TWO, 2, 7, 11], [ONE, 1, 8, 8]]}, "twice or out of order"),
        ({"files": [[ONE, 0, 8, 8]]}, "offsets without records"),
        ({"files": [[ONE, 1, None, None]]}, "offsets without records"),
        ({"files": [[ONE, 1, 8, None]]}, "offsets without records"),
        ({"files": [[ONE, 1, 6, 8]]}, "offsets outside the cut"),
        ({"files": [[ONE.replace("1_0", "2_0"), 1, 8, 8]]}, "not a data object of this cut"),
        ({"files": [["x", 1, 8, 8]]}, "not a data object"),
        ({"files": [[ONE, 1, 8]]}, "not enough values"),
        ({"files": 5}, "TypeError"),
    ],
)
def test_an_intent_that_is_none_is_refused_by_its_key(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(Terminal, match=reason) as error:
        Intent.parse(changed(INTENT.to_bytes(), **values), CHAIN, 7)
    assert error.value.details["key"] == CHAIN.intent(7)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"first": 8}, "it is of the cut at 8"),
        ({"next": 7}, "it ends at 7"),
        ({"n_records": 5}, "records read are not those written and filtered"),
        ({"quarantined": 0}, "quarantined are not the records of their file"),
        ({"intent": "xyz"}, "is no hexadecimal of 32 digits"),
        ({"intent": "G" * 32}, "is no hexadecimal of 32 digits"),
        ({"min_ts": 1.5}, "is no whole number"),
        ({"gaps": [[8, 8, "lost"]]}, "a gap from 8 to 8"),
        ({"gaps": [[7, 8, "gone"]]}, "is none of"),
        ({"leader_epoch": -1}, "is below 0"),
        ({"versions": {"zlib": 1}}, "is no text"),
        ({"versions": []}, "AttributeError"),
        ({"files": [[ONE, 95, "a" * 64, 1, 8, 8, None, None, 1]]}, "is no truth value"),
    ],
)
def test_a_commit_that_is_none_is_refused_by_its_key(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(Terminal, match=reason) as error:
        Commit.parse(changed(COMMIT.to_bytes(), **values), CHAIN, 7)
    assert error.value.details["key"] == CHAIN.commit(7)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"\xff", COMMIT.to_bytes()[:-1]])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(Terminal, match="cannot be read"):
        Commit.parse(body, CHAIN, 7)


@given(st.integers(0, len(COMMIT.to_bytes()) - 1), st.integers(1, 255))
def test_a_commit_with_a_byte_changed_is_refused_or_another_commit(place: int, mask: int) -> None:
    body = bytearray(COMMIT.to_bytes())
    body[place] ^= mask
    try:
        found = Commit.parse(bytes(body), CHAIN, 7)
    except Terminal:
        return
    assert found != COMMIT
    assert found.to_bytes() == bytes(body)


def test_another_form_of_the_same_values_is_refused() -> None:
    with pytest.raises(Terminal, match="not in canonical form"):
        Commit.parse(COMMIT.to_bytes().replace(b'"v":1', b'"v": 1'), CHAIN, 7)
