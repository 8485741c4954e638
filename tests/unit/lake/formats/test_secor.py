"""Names of Secor's archives: any extension, hashed or not, one partition or several."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.formats.sequence.secor import SecorName, group_digest

PARTS = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=12)
EXTENSIONS = st.just("") | st.from_regex(r"\A(\.[a-z0-9]{1,6}){1,2}\Z")
SINGLE = st.tuples(st.integers(0, 10**6).map(lambda n: (n, n)), st.integers(0, 2**63 - 1), st.just(""))
GROUPED = st.tuples(
    st.tuples(st.integers(0, 50), st.integers(51, 99)),
    st.none(),
    st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=5).map(group_digest),
)


@st.composite
def names(draw: st.DrawFn) -> SecorName:
    partitions, first, digest = draw(SINGLE | GROUPED)
    return SecorName(
        draw(st.lists(PARTS, max_size=2).map("/".join)).strip("/"),
        draw(PARTS),
        tuple(draw(st.lists(PARTS, min_size=1, max_size=3))),
        draw(st.integers(0, 99)),
        partitions,
        first,
        digest,
        draw(EXTENSIONS),
        draw(st.booleans()),
    )


@given(names())
def test_a_name_comes_back(name: SecorName) -> None:
    # Without a prefix a hash cannot be told from a topic: it is asked for with one.
    if name.prefix or not name.hashed:
        assert SecorName.parse(str(name), name.prefix) == name


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (
            "backup/clicks/offset=0/10_0_00000000000000000500",
            SecorName("backup", "clicks", ("offset=0",), 10, (0, 0), 500),
        ),
        (
            "logs/raw/clicks/dt=2014-01-01/hr=05/1_12_00000000000000000000.snappy.parquet",
            SecorName("logs/raw", "clicks", ("dt=2014-01-01", "hr=05"), 1, (12, 12), 0, "", ".snappy.parquet"),
        ),
    ],
)
def test_these_are_secors(key: str, name: SecorName) -> None:
    assert SecorName.parse(key, name.prefix) == name
    assert str(name) == key


def test_a_hash_is_that_of_topic_and_names() -> None:
    name = SecorName("logs", "clicks", ("dt=2014-01-01",), 1, (0, 0), 7, "", ".gz", hashed=True)
    # printf 'clicks/dt=2014-01-01' | md5sum
    assert str(name) == "b7c7/logs/clicks/dt=2014-01-01/1_0_00000000000000000007.gz"
    assert SecorName.parse(str(name), "logs/") == name
    with pytest.raises(Terminal):
        SecorName.parse("zzzz" + str(name)[4:], "logs")
    assert SecorName.parse("b7c7/clicks/dt=2014-01-01/1_0_00000000000000000007").topic == "b7c7"


def test_partitions_that_share_a_file_are_named_by_their_offsets() -> None:
    # printf '1007' | openssl md5 -binary | base64 | tr '+/' '-_'
    digest = group_digest([100, 7])
    assert digest == "1zIu1xfe3x605uUqN-p7zQ"
    name = SecorName.parse(f"logs/clicks/dt=2014-01-01/1_0-1_{digest}.gz", "logs")
    assert (name.partitions, name.first, name.digest, name.extension) == ((0, 1), None, digest, ".gz")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "logs/clicks/1_0_00000000000000000007",
        "logs/clicks//1_0_00000000000000000007",
        "logs/clicks/dt=2014-01-01/1_0_7",
        "logs/clicks/dt=2014-01-01/01_0_00000000000000000007",
        "logs/clicks/dt=2014-01-01/1_0_99999999999999999999",
        "logs/clicks/dt=2014-01-01/1_0",
        "logs/clicks/dt=2014-01-01/_SUCCESS",
        "logs/clicks/dt=2014-01-01/1_1-0_" + group_digest([1, 2]),
        "logs/clicks/dt=2014-01-01/.1_0_00000000000000000007.crc",
        "other/clicks/dt=2014-01-01/1_0_00000000000000000007",
    ],
)
def test_other_keys_are_refused_with_the_next_step(key: str) -> None:
    with pytest.raises(Terminal, match="leave other objects out"):
        SecorName.parse(key, "logs")
