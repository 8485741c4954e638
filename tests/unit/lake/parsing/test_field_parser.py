from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord, Terminal
from include.lake.message import Message
from include.lake.parsing.field_parser import FieldParser
from include.lake.parsing.port import Batch, Parsed, one_by_one
from include.lake.parsing.readers.json_fields import json_reader
from include.lake.parsing.rules import ParserRules

MS = 1_700_000_000_000
TIME = {"field": "ts", "unit": "ms"}
PLAIN: dict[str, Any] = {"time": TIME, "names": [{"by": "hour"}]}
RICH: dict[str, Any] = {
    "time": TIME,
    "names": [{"by": "day"}, {"by": "field", "name": "country", "field": "c"}, {"by": "offset", "step": 10}],
    "drop": [{"field": "c", "one_of": ["xx", 5]}, {"field": "debug", "present": True}],
    "keep": [{"field": "v", "one_of": [1, 2, None]}],
}


def parser(rules: dict[str, Any], transformer: Any = None) -> FieldParser:
    return FieldParser(ParserRules.model_validate(rules), json_reader, transformer)


def message(value: Any, offset: int = 5, kafka_ms: int = MS) -> Message:
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return Message(offset, b"k", data, (("h", None),), kafka_ms, 1)


VALUES = (
    st.none()
    | st.binary(max_size=5)
    | st.fixed_dictionaries(
        {},
        optional={
            "ts": st.sampled_from([MS, MS + 3_600_000, MS - 40 * 86_400_000, "x", None, MS // 1000 + 0.5]),
            "c": st.sampled_from(["de", "fr", "xx", "", None, 5, True, "a/b", 1.5]),
            "v": st.sampled_from([1, True, "1", 3]),
            "debug": st.just(1),
        },
    )
)


@settings(max_examples=40)
@given(
    values=st.lists(VALUES, max_size=12),
    rules=st.sampled_from([PLAIN, RICH]),
    tombstones=st.sampled_from(["refuse", "drop", "kafka"]),
)
def test_a_batch_is_what_its_messages_are_one_by_one(values: list[Any], rules: Any, tombstones: str) -> None:
    messages = [message(value, offset) for offset, value in enumerate(values)]
    parse = parser({**rules, "tombstones": tombstones})
    whole, single = parse.parse_all(messages), one_by_one(parse, messages)
    assert (whole.kept, whole.filtered) == (single.kept, single.filtered)
    assert list(whole.kept) == list(single.kept)
    assert (whole.least_us, whole.most_us) == (single.least_us, single.most_us)
    assert [(m, str(e)) for m, e in whole.refused] == [(m, str(e)) for m, e in single.refused]
    assert sum(map(len, whole.kept.values())) + whole.filtered + len(whole.refused) == len(messages)


@settings(max_examples=40)
@given(values=st.lists(VALUES, max_size=12), cut=st.integers(0, 12))
def test_it_makes_no_difference_where_a_batch_ends(values: list[Any], cut: int) -> None:
    messages = [message(value, offset) for offset, value in enumerate(values)]
    parse = parser(RICH)
    whole, parts = parse.parse_all(messages), [parse.parse_all(messages[:cut]), parse.parse_all(messages[cut:])]
    for names, kept in whole.kept.items():
        assert kept == [each for part in parts for each in part.kept.get(names, [])]
    assert whole.filtered == sum(part.filtered for part in parts)


def test_names_nest_in_the_order_in_which_they_are_declared() -> None:
    parsed = parser(RICH).parse(message({"ts": MS, "c": "de", "v": 1}, offset=37))
    assert parsed == Parsed(
        b'{"ts": 1700000000000, "c": "de", "v": 1}', ("dt=2023-11-14", "country=de", "offset=30"), MS * 1000
    )


def test_filters_look_at_types() -> None:
    parse = parser(RICH)
    base = {"ts": MS, "c": "de", "v": 1}
    assert parse.parse(message(base)) is not None
    assert parse.parse(message({"ts": MS, "c": "de"})) is not None
    for other in ({"c": "xx"}, {"c": 5}, {"debug": 0}, {"v": True}, {"v": "1"}, {"v": 3}):
        assert parse.parse(message({**base, **other})) is None


def test_a_filtered_message_needs_no_event_time() -> None:
    assert parser(RICH).parse(message({"c": "xx"})) is None
    with pytest.raises(InvalidRecord, match="no event time"):
        parser(RICH).parse(message({"c": "de"}))


def test_everything_of_a_message_but_its_value_stays() -> None:
    given = message({"ts": MS, "c": "de"})
    assert parser(RICH).parse_all([given]).kept == {("dt=2023-11-14", "country=de", "offset=0"): [given]}


def test_a_tombstone_is_refused_dropped_or_kept_as_one() -> None:
    gone = message(None)
    with pytest.raises(InvalidRecord, match="tombstone"):
        parser(RICH).parse(gone)
    assert parser({**RICH, "tombstones": "drop"}).parse(gone) is None
    names = ("dt=2023-11-14", "country=__HIVE_DEFAULT_PARTITION__", "offset=0")
    assert parser({**RICH, "tombstones": "kafka"}).parse(gone) == Parsed(None, names, MS * 1000)


def test_empty_is_not_null() -> None:
    with pytest.raises(InvalidRecord, match="JSON"):
        parser({**PLAIN, "tombstones": "drop"}).parse(message(b""))


def test_the_span_of_event_times_is_that_of_what_is_kept() -> None:
    values = [{"ts": MS + 5}, {"ts": MS - 7}, {"ts": MS + 10**12}, {}]
    batch = parser(PLAIN).parse_all([message(value) for value in values])
    assert (batch.least_us, batch.most_us) == ((MS - 7) * 1000, (MS + 5) * 1000)
    assert parser(PLAIN).parse_all([]) == Batch()


class Unwrapped:
    version = "1"

    def transform(self, message: Message) -> Message | None:
        if message.value == b"drop":
            return None
        if message.value == b"move":
            return message._replace(offset=message.offset + 1)
        return message._replace(value=(message.value or b"").removeprefix(b"> "))


def test_a_transformer_comes_first_and_may_filter() -> None:
    parse = parser(PLAIN, Unwrapped())
    batch = parse.parse_all([message(b'> {"ts": %d}' % MS), message(b"drop"), message(b"junk")])
    assert [each.value for kept in batch.kept.values() for each in kept] == [b'{"ts": %d}' % MS]
    assert (batch.filtered, [each.value for each, _ in batch.refused]) == (1, [b"junk"])
    assert parse.parse(message(b"drop")) is None


def test_a_transformer_that_moves_a_message_stops_the_stage() -> None:
    with pytest.raises(Terminal, match="changed the offset"):
        parser(PLAIN, Unwrapped()).parse_all([message(b"move")])


def test_paths_too_long_together_are_refused() -> None:
    names = [{"by": "field", "name": name, "field": name} for name in ("aa", "bb", "cc")]
    with pytest.raises(InvalidRecord, match="together"):
        parser({"names": names}).parse(message({"aa": "x" * 200, "bb": "x" * 200, "cc": "x" * 200}))


def test_values_that_repeat_are_remembered_within_bounds() -> None:
    rules = {"names": [{"by": "field", "name": "a", "field": "a"}, {"by": "field", "name": "b", "field": "b"}]}
    parse = parser(rules)
    messages = [message({"a": str(i), "b": i}) for i in range(9000)]
    first = parse.parse_all(messages)
    assert len(first.kept) == 9000
    assert parse.parse_all(messages).kept == first.kept


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"names": [{"by": "day"}]},
        {"time": TIME, "names": []},
        {"time": TIME, "names": [{"by": "day"}, {"by": "hour"}]},
        {"time": TIME, "names": [{"by": "hour"}, {"by": "field", "name": "HR".lower(), "field": "h"}]},
        {"time": TIME, "names": [{"by": "day"}, {"by": "field", "name": "DT", "field": "h"}]},
        {"names": [{"by": "week"}]},
        {"time": TIME, "drop": [{"field": "x"}]},
        {"time": TIME, "drop": [{"field": "x", "one_of": []}]},
        {"time": TIME, "drop": [{"field": "x", "one_of": [1], "present": True}]},
        {"time": TIME, "transformer": {"name": "no colon"}},
        {"time": TIME, "other": 1},
    ],
)
def test_rules_that_contradict_themselves_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        ParserRules.model_validate(rules)


def test_one_path_cannot_end_where_another_goes_on() -> None:
    from include.lake.parsing.fields import WantedValue, plan

    for paths in ((("a",), ("a", "b")), (("a", "b"), ("a",))):
        with pytest.raises(ValueError, match="goes on"):
            plan([WantedValue(path) for path in paths])
