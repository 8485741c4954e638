from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.protocol.chain_key import ChainKey, CutKey, TopicKey, parse_cut_key
from include.lake.protocol.object_key import KEY_BYTES, QUARANTINE, ObjectKey, topic_of, topic_path

OFFSETS = st.integers(0, (1 << 63) - 1)
NAMES = st.text(
    st.characters(blacklist_categories=("Cc", "Cs"), blacklist_characters="/"), min_size=1, max_size=20
).filter(lambda name: name[0] not in "_.")
TOPICS = st.from_regex(r"[A-Za-z0-9-][A-Za-z0-9._-]{0,40}", fullmatch=True)
PREFIXES = st.sampled_from(["", "lake", "lake/backup", "a/b.c/d_e"])
EXTENSIONS = st.sampled_from(["", ".seq", ".json.gz", ".parquet"])
CHAINS = st.builds(
    ChainKey,
    st.builds(TopicKey, PREFIXES, TOPICS, st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True)),
    st.integers(0, 999_999_999),
    st.integers(0, (1 << 31) - 1),
)


@given(
    st.builds(
        ObjectKey,
        PREFIXES,
        TOPICS,
        st.lists(NAMES, max_size=4).map(tuple) | st.just((QUARANTINE,)),
        st.integers(0, 999_999_999),
        st.integers(0, (1 << 31) - 1),
        OFFSETS,
        EXTENSIONS,
    )
)
def test_a_data_key_comes_back_from_its_text(key: ObjectKey) -> None:
    assert ObjectKey.parse(str(key), key.prefix) == key


@given(CHAINS, OFFSETS, st.sampled_from(["intent", "commit", "commits"]))
def test_a_chain_key_comes_back_from_its_text(chain: ChainKey, first: int, kind: str) -> None:
    key = CutKey(chain, first, kind)  # type: ignore[arg-type]
    assert CutKey.parse(str(key), chain.of.prefix) == key
    if kind != "commits":
        assert parse_cut_key(str(key), chain) == (first, kind)


@given(CHAINS, OFFSETS, OFFSETS)
def test_keys_sort_as_offsets_do(chain: ChainKey, one: int, other: int) -> None:
    assert (chain.commit(one) < chain.commit(other)) == (one < other)
    assert chain.commit(one) < chain.intent(one)


def test_keys_are_as_documented() -> None:
    topic = TopicKey("lake/raw", "shop.orders", "q2mGjA1dRHyJ8pAQ1gK9xw")
    chain = ChainKey(topic, 2, 11)
    data = chain.data(("dt=2026-11-21", "hr=10"), 3405691582, ".seq")
    assert str(data) == "lake/raw/shop.orders/dt=2026-11-21/hr=10/2_11_00000000003405691582.seq"
    below = "lake/raw/_chain/shop.orders~q2mGjA1dRHyJ8pAQ1gK9xw"
    assert topic.pointer == f"{below}/current"
    assert chain.intent(5) == f"{below}/2/11/00000000000000000005.intent"
    assert chain.commit(5) == f"{below}/2/11/00000000000000000005.commit"
    assert chain.summary(5) == f"{below}/2/summary/11/00000000000000000005.commits"
    assert chain.hint == f"{below}/2/hint/11"


def test_dates_may_be_plain() -> None:
    key = ObjectKey.parse("lake/shop/2026-11-21/1_0_00000000000000000007", "lake")
    assert (key.names, key.extension, str(key)) == (
        ("2026-11-21",),
        "",
        "lake/shop/2026-11-21/1_0_00000000000000000007",
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\nb", "\x7f", "_hidden", ".hidden", "\ud800"])
def test_a_partition_name_that_is_no_folder_or_a_hidden_one_is_refused(name: str) -> None:
    with pytest.raises(Terminal, match="not a partition name of the lake"):
        ObjectKey("lake", "shop", (name,), 1, 0, 0)


def test_a_key_that_the_store_would_refuse_is_refused() -> None:
    room = KEY_BYTES - len(str(ObjectKey("lake", "shop", ("x",), 1, 0, 0))) + 1
    assert len(str(ObjectKey("lake", "shop", ("x" * room,), 1, 0, 0)).encode()) == KEY_BYTES
    with pytest.raises(Terminal, match="at most 1024 bytes"):
        ObjectKey("lake", "shop", ("ü" + "x" * (room - 1),), 1, 0, 0)


@pytest.mark.parametrize("topic", [".", "..", "=a", "", "a/b", "a~b", "x" * 250])
def test_a_topic_that_kafka_has_not_is_refused(topic: str) -> None:
    with pytest.raises(Terminal, match="not a topic of the lake"):
        TopicKey("lake", topic, "id")


@pytest.mark.parametrize("prefix", ["/lake", "lake/", "_lake", "a//b", "a/_b", "ü"])
def test_a_prefix_that_readers_would_skip_is_refused(prefix: str) -> None:
    with pytest.raises(Terminal, match="not a prefix of the lake"):
        ObjectKey(prefix, "shop", (), 1, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "lake/shop/dt=1/1_0_7.seq",
        "lake/shop/dt=1/01_0_00000000000000000007.seq",
        "lake/shop/dt=1/1_0_00000000000000000007.",
        "lake/shop/dt=1/1_0_99999999999999999999.seq",
        "lake/shop/dt=1/_SUCCESS",
        "other/shop/dt=1/1_0_00000000000000000007.seq",
        "lake/1_0_00000000000000000007.seq",
        "lake/shop/dt=1/1_0_0000000000000000000٧.seq",
        "",
    ],
)
def test_other_names_are_no_data_objects(text: str) -> None:
    with pytest.raises(Terminal, match="of the lake"):
        ObjectKey.parse(text, "lake")


@pytest.mark.parametrize(
    "text",
    [
        "lake/_chain/shop~id/1/0/7.commit",
        "lake/_chain/shop~id/1/0/00000000000000000007.commits",
        "lake/_chain/shop~id/1/summary/0/00000000000000000007.commit",
        "lake/_chain/shop~id/1/0/00000000000000000007.manifest",
        "lake/_chain/shop/1/0/00000000000000000007.commit",
        "lake/_chain/shop~id/current",
        "_chain/shop~id/1/0/00000000000000000007.commit",
    ],
)
def test_other_names_are_no_objects_of_a_chain(text: str) -> None:
    with pytest.raises(Terminal, match="of the lake"):
        CutKey.parse(text, "lake")


def test_a_stranger_in_the_folder_of_a_chain_is_named() -> None:
    chain = ChainKey(TopicKey("lake", "shop", "id"), 1, 0)
    for name in ("notes.txt", "00000000000000000007", "7.commit", "00000000000000000007.commit.bak"):
        with pytest.raises(Terminal, match=name):
            parse_cut_key(f"{chain}/{name}", chain)


def test_an_object_of_another_cut_is_none_of_this_one() -> None:
    chain = ChainKey(TopicKey("lake", "shop", "id"), 1, 0)
    mine = str(chain.data(("dt=1",), 7, ".seq"))
    assert chain.parse_data(mine, 7).names == ("dt=1",)
    for text in (mine.replace("1_0_", "2_0_"), mine.replace("1_0_", "1_1_"), mine.replace("shop", "other")):
        with pytest.raises(Terminal, match="not a data object of this cut"):
            chain.parse_data(text, 7)
    with pytest.raises(Terminal, match="not a data object of this cut"):
        chain.parse_data(mine, 8)


@pytest.mark.parametrize(("topic", "folder"), [("_schemas", "=_schemas"), (".a", "=.a"), ("a_b", "a_b"), ("-", "-")])
def test_a_topic_whose_name_readers_would_skip_has_another_folder(topic: str, folder: str) -> None:
    key = ObjectKey("raw", topic, ("offset=0",), 1, 0, 7)
    assert str(key) == f"raw/{folder}/offset=0/1_0_00000000000000000007"
    assert ObjectKey.parse(str(key), "raw") == key
    assert topic_path("raw", topic) == f"raw/{folder}/"
    assert topic_of(folder) == topic


@pytest.mark.parametrize("folder", ["_chain", "=events", ".hidden", "=", ""])
def test_a_folder_that_no_topic_has_is_none_of_ours(folder: str) -> None:
    assert not topic_of(folder)
    with pytest.raises(Terminal):
        ObjectKey.parse(f"raw/{folder}/offset=0/1_0_00000000000000000007", "raw")
