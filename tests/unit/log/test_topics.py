"""Names of topics, and the policy that each kind is made with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import SettingsError
from include.log import topics
from include.log.topics import TopicName

parts = st.text("abZ09_.-ä/ ", min_size=1, max_size=6)


def test_names_are_those_of_the_design() -> None:
    assert topics.change("shop", "shop", "order_lines") == "cdc.shop.shop.order_lines"
    assert topics.control("shop") == "cdc.shop.control"
    assert topics.source_resolved("shop") == "cdc.shop.resolved"
    assert topics.source_requests("shop") == "cdc.shop.requests"
    assert topics.source_answers("shop") == "cdc.shop.answers"
    assert topics.resolved("assembled_order") == "assembled_order.resolved"
    assert topics.requests("assembled_order") == "assembled_order.requests"
    assert topics.answers("assembled_order") == "assembled_order.answers"
    assert topics.dead("cdc.shop.shop.orders", "assemble_orders") == "cdc.shop.shop.orders.assemble_orders.dead"


def test_names_from_a_database_are_escaped() -> None:
    assert topics.change("s", "my_db", "my_table") == "cdc.s.my-5fdb.my_table"
    assert topics.change("s", "a.b", "ü-x") == "cdc.s.a-2eb.-c3-bc-2dx"
    for database, table in (("my_db", "my_table"), ("a.b", "ü-x"), ("-5f", "control")):
        assert topics.TopicName.parse(topics.change("s", database, table)).table == f"{database}.{table}"
    assert topics.TopicName.parse("cdc.s.control").table is None


@given(st.tuples(parts, parts), st.tuples(parts, parts))
def test_two_tables_never_share_a_topic_even_where_kafka_takes_a_dot_for_an_underscore(
    a: tuple[str, str], b: tuple[str, str]
) -> None:
    one, two = topics.change("s", *a), topics.change("s", *b)
    assert (one.replace(".", "_") == two.replace(".", "_")) == (a == b)
    assert one.count(".") == 3


@pytest.mark.parametrize("name", ["", "a_b", "a.b", "ä", "a b"])
def test_a_source_has_a_plain_name(name: str) -> None:
    with pytest.raises(SettingsError, match="letters, digits"):
        topics.control(name)


def test_a_name_that_kafka_would_refuse_is_refused_here() -> None:
    assert len(topics.change("s", "d", "t" * 241)) == 249
    with pytest.raises(SettingsError, match="249"):
        topics.change("s", "d", "t" * 242)


@pytest.mark.parametrize("name", ["assembled_order", "shop.orders-2", "a"])
def test_a_declared_topic_keeps_its_name(name: str) -> None:
    assert topics.declared(name) == name


@pytest.mark.parametrize("name", ["", "a b", "ä", ".a", "a..b", "a.", "x" * 250])
def test_what_is_no_topic_name_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="allowed"):
        topics.declared(name)


@pytest.mark.parametrize("name", ["cdc", "cdc.shop.x", "a.resolved", "a.dead", "requests", "a.b.control"])
def test_a_declared_topic_may_not_take_the_name_of_another_kind(name: str) -> None:
    with pytest.raises(SettingsError):
        topics.declared(name)


def test_what_holds_state_is_kept_for_ever() -> None:
    for name in ("cdc.s.d.orders", "cdc.s.control", "cdc.s.resolved", "assembled_order", "assembled_order.resolved"):
        policy = topics.policy(name)
        assert (policy["cleanup.policy"], policy["retention.ms"]) == ("compact", "-1")
        assert policy["delete.retention.ms"] == policy["min.compaction.lag.ms"] == str(7 * 86_400_000)


def test_requests_and_dead_letters_go_in_the_end() -> None:
    assert topics.policy("cdc.s.requests")["cleanup.policy"] == "compact,delete"
    assert topics.policy("assembled_order.answers")["retention.ms"] == str(30 * 86_400_000)
    assert topics.policy(topics.dead("cdc.s.d.orders", "app"))["cleanup.policy"] == "delete"


@pytest.mark.parametrize("table", ["requests", "answers", "dead", "late", "control"])
def test_a_table_with_the_name_of_another_kind_keeps_its_rows(table: str) -> None:
    assert topics.policy(topics.change("s", "d", table))["cleanup.policy"] == "compact"


words = st.from_regex(r"[A-Za-z0-9-]{1,8}", fullmatch=True)
declared_names = st.sampled_from(["assembled_order", "shop.orders-2", "a", "t.x.y"])
table_names = st.one_of(parts, st.sampled_from(["requests", "answers", "resolved", "control", "dead", "late", "idle"]))
changes = st.builds(topics.change, words, table_names, table_names)
written = st.one_of(changes, declared_names, st.builds(topics.control, words))


@given(
    st.one_of(
        written,
        st.builds(topics.source_resolved, words),
        st.builds(topics.source_requests, words),
        st.builds(topics.source_answers, words),
        st.builds(topics.resolved, st.one_of(changes, declared_names)),
        st.builds(topics.requests, declared_names),
        st.builds(topics.answers, declared_names),
        st.builds(topics.dead, written, parts),
        st.text("acd.-_ ", max_size=12),
    )
)
def test_a_name_that_is_read_is_written_as_it_was(name: str) -> None:
    assert str(TopicName.parse(name)) == name
    assert TopicName.parse(str(TopicName.parse(name))) == TopicName.parse(name)


@given(words, table_names, table_names)
def test_a_table_is_a_table_whatever_its_name_is(source: str, database: str, table: str) -> None:
    read = TopicName.parse(topics.change(source, database, table))
    assert (read.kind, read.source, read.application) == ("change", source, None)


@given(written, parts)
def test_a_dead_letters_topic_names_its_topic_and_no_source(topic: str, application: str) -> None:
    read = TopicName.parse(topics.dead(topic, application))
    assert (read.kind, read.subject, read.source) == ("dead", topic, None)


@pytest.mark.parametrize("kind", ["control", "resolved", "requests", "answers"])
def test_the_topics_of_a_source_name_it(kind: str) -> None:
    read = TopicName.parse(f"cdc.shop.{kind}")
    assert (read.kind, read.subject, read.source) == (kind, "cdc.shop", "shop")


@pytest.mark.parametrize("name", ["", "a", "resolved", "a.dead", "cdc.shop", "cdc.shop.orders", "cdc..a.b", "x.", "_a"])
def test_other_names_are_plain_topics(name: str) -> None:
    assert TopicName.parse(name) == TopicName("plain", name)


def test_a_document_topic_is_compacted() -> None:
    spec = topics.document_spec("assembled_order", 4)
    assert (spec.name, spec.partitions, spec.config["cleanup.policy"]) == ("assembled_order", 4, "compact")
