"""What leaves in the place of a masked value."""

from __future__ import annotations

import hashlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.policy.masks import HashMask, KeepLastMask, Mask, NullMask, masked_column, parse_mask
from include.record.schema import Column

SALT = "0123456789abcdef"
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
MASKS_ = st.one_of(st.builds(HashMask, st.just(SALT)), st.just(NullMask()), st.builds(KeepLastMask, st.integers(0, 8)))


@given(MASKS_, TEXT)
def test_text_and_its_bytes_are_masked_alike(mask: Mask, text: str) -> None:
    found = mask.of_text(text)
    assert mask.of(text.encode()) == (None if found is None else found.encode())


@given(MASKS_)
def test_null_stays_null(mask: Mask) -> None:
    assert mask.of(None) is None
    assert mask.of_text(None) is None


@given(TEXT, st.integers(0, 8))
def test_keep_last_keeps_the_length_and_the_end_alone(text: str, count: int) -> None:
    found = KeepLastMask(count).of_text(text)
    assert found is not None
    kept = min(count, len(text))
    assert len(found) == len(text)
    assert found[: len(text) - kept] == "*" * (len(text) - kept)
    assert found[len(text) - kept :] == text[len(text) - kept :]


def test_a_hash_is_sha256_of_salt_and_text_as_sql_computes_it() -> None:
    # SELECT SHA2(CONCAT('0123456789abcdef', 'ann@example.org'), 256)
    expected = "cd0c1bd112652d6605ec5daeca3daf75e9e6faff68c4dc1ee60cc2512b9d449e"
    assert HashMask(SALT).of_text("ann@example.org") == expected
    assert HashMask(SALT).of(b"\xff\x00") == hashlib.sha256(SALT.encode() + b"\xff\x00").hexdigest().encode()


def test_equal_values_have_equal_hashes_and_another_salt_gives_others() -> None:
    assert HashMask(SALT).of_text("a") == HashMask(SALT).of_text("a") != HashMask(SALT[::-1]).of_text("a")


def test_a_salt_is_never_printed() -> None:
    assert SALT not in repr(HashMask(SALT)) + str(HashMask(SALT))


@pytest.mark.parametrize(
    ("written", "mask"),
    [
        ("hash", HashMask()),
        ("null", NullMask()),
        (None, NullMask()),
        ({"keep_last": 4}, KeepLastMask(4)),
        ({"keep_last": 0}, KeepLastMask(0)),
    ],
)
def test_masks_are_read_as_files_write_them(written: object, mask: Mask) -> None:
    assert parse_mask(written) == mask
    assert pickle.loads(pickle.dumps(mask)) == mask


@pytest.mark.parametrize(
    "written", ["hashed", "", 4, True, [], {}, {"keep_last": -1}, {"keep_last": True}, {"keep_last": 1, "hash": 1}]
)
def test_what_is_no_mask_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="not a mask"):
        parse_mask(written)


@pytest.mark.parametrize(
    "column",
    [Column("c", "int", unsigned=True), Column("c", "decimal", precision=9, scale=2), Column("c", "blob")],
)
def test_a_hashed_column_is_text_and_others_stay_as_they_are(column: Column) -> None:
    hashed = masked_column(column, HashMask(SALT))
    assert (hashed.name, hashed.type, hashed.avro()) == ("c", "varchar", "string")
    assert masked_column(column, NullMask()) == column
    assert masked_column(column, KeepLastMask(2)) == column


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        ("char", True),
        ("varchar", True),
        ("longtext", True),
        ("enum", False),
        ("json", False),
        ("varbinary", False),
        ("int", False),
    ],
)
def test_keep_last_is_for_text_and_the_others_for_all(kind: str, fits: bool) -> None:
    assert KeepLastMask(1).fits(Column("c", kind)) is fits
    assert HashMask(SALT).fits(Column("c", kind))
    assert NullMask().fits(Column("c", kind))
