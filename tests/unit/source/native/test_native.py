"""The compiled decoders against the Python ones: equal bytes, or both refuse."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import Terminal
from include.record.schema import DATES, Column
from include.source.binlog.step import RowsEvent
from include.source.charsets.charset import CHARSETS
from include.source.rows import layout as layouts
from include.source.rows.compiled import decoder_of
from include.source.rows.decoder import NativeImages, images_of
from include.source.rows.images import Pair, RowImages
from include.source.rows.layout import Field, Layout, mismatch
from tests.support.binlog.decoded_recording import shape_of, transactions
from tests.support.binlog.random_row_images import KINDS, event, layout_of
from tests.support.golden.recording import load, names

pytestmark = pytest.mark.compiled

seeds = st.integers(0, 2**64 - 1)
kinds = st.lists(st.sampled_from(KINDS), max_size=12).map(tuple)
ops = st.sampled_from(("c", "u", "d"))


def outcome(images: RowImages | NativeImages, op: str, body: bytes) -> list[Pair] | str:
    try:
        return images.rows(op, body)  # type: ignore[arg-type]
    except Terminal as error:
        return str(error)


def agree(layout: Layout, op: str, body: bytes, whole: bool = True) -> bool:
    """Both give the same; whether they gave rows. An event that may not be `whole` may be left to Python."""
    native = NativeImages(layout)
    expected = outcome(native.plain, op, body)
    alone = native.decoder.rows(op, body)  # type: ignore[arg-type]
    assert outcome(native, op, body) == expected
    if isinstance(expected, str):
        assert alone is None
        return False
    assert alone == expected or (alone is None and not whole)
    return True


@settings(max_examples=150, deadline=None)
@given(kinds=kinds, op=ops, seed=seeds, rows=st.integers(0, 8))
def test_rows_of_any_layout_are_equal_to_the_python_ones(kinds: tuple[str, ...], op: str, seed: int, rows: int) -> None:
    random = Random(seed)
    layout = layout_of(random, kinds)
    agree(layout, op, event(random, layout, 2 if op == "u" else 1, rows))


@settings(max_examples=60, deadline=None)
@given(kinds=kinds, op=ops, seed=seeds)
def test_what_flipped_cut_or_longer_bytes_give_is_equal_too(kinds: tuple[str, ...], op: str, seed: int) -> None:
    random = Random(seed)
    layout = layout_of(random, kinds)
    body = event(random, layout, 2 if op == "u" else 1, 3)
    for _ in range(12):
        damaged = bytearray(body)
        at = random.randrange(len(damaged))
        kind = random.randrange(4)
        if kind == 0:
            del damaged[at:]
        elif kind == 1:
            damaged[at:at] = random.randbytes(random.randint(1, 9))
        elif kind == 2:
            damaged[at : at + 8] = b"\xff" * len(damaged[at : at + 8])
        else:
            damaged[at] ^= 1 << random.randrange(8)
        agree(layout, op, bytes(damaged), whole=False)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_by_the_compiled_decoder_itself(kind: str) -> None:
    read = 0
    for seed in range(60):
        random = Random(seed)
        layout = layout_of(random, (kind, kind))
        read += agree(layout, "c", event(random, layout, 1, 2))
    assert read >= 5


@pytest.mark.parametrize("charset", CHARSETS)
def test_every_byte_and_pair_of_bytes_of_a_charset_is_read_as_python_reads_it(charset: str) -> None:
    column = Column("c1", "text", charset=charset)
    first = layout_of(Random(0), ())
    layout = Layout(
        type(first.shape)((*first.shape.columns, column), _schema(first, column)),
        (*first.fields, Field(column, "text", 2)),
    )
    native = NativeImages(layout)
    random = Random(charset)
    texts = [bytes((i,)) for i in range(256)] + [random.randbytes(random.randint(2, 4)) for _ in range(60)]
    texts += [b"a" + bytes((0xC0 | i, 0x80)) + b"b" * 9 for i in range(64)]
    for text in texts:
        body = b"\x02\xff" + b"\0\1\0\0\0" + len(text).to_bytes(2, "little") + text
        assert outcome(native, "c", body) == outcome(native.plain, "c", body), text.hex()


def _schema(layout: Layout, column: Column):
    schema = layout.shape.schema
    return type(schema)(schema.database, schema.table, (*schema.columns, column), schema.key)


EDGES = [
    "7f", "c280", "dfbf", "c080", "c1bf", "e0a080", "e09f80", "ed9fbf", "eda080", "edbfbf", "ee8080", "efbfbf",
    "f0908080", "f08f8080", "f48fbfbf", "f4908080", "f5808080", "ff", "80", "c3", "e282", "f09f90", "c328", "e28228",
]  # fmt: skip


@pytest.mark.parametrize("charset", ["utf8mb3", "utf8mb4"])
@pytest.mark.parametrize("text", EDGES)
def test_utf8_is_taken_exactly_where_python_takes_it(charset: str, text: str) -> None:
    column = Column("c1", "text", charset=charset)
    first = layout_of(Random(0), ())
    shape = type(first.shape)((*first.shape.columns, column), _schema(first, column))
    layout = Layout(shape, (*first.fields, Field(column, "text", 1)))
    for before in (b"", b"12345678", "é".encode()):
        data = before + bytes.fromhex(text)
        agree(layout, "c", b"\x02\xff" + b"\0\1\0\0\0" + bytes((len(data),)) + data)


TEXT = {"statement-format", "versioned-transactions"}
"""Recordings of statements, whose files hold events that are refused."""


@pytest.mark.parametrize("server", sorted({server for server, _ in names()}))
def test_rows_that_real_servers_logged_are_equal_to_the_python_ones(server: str) -> None:
    read = 0
    for recording in (load(*name) for name in names() if name[0] == server and name[1] not in TEXT):
        known = [(change.table, change.description) for change in recording.changes if change.description]
        steps = (step for found in transactions(recording) for step in found.steps)
        for step in (step for step in steps if isinstance(step, RowsEvent) and not step.partial):
            table = (step.table.database, step.table.table)
            shapes = [shape_of(table, told, recording.server) for name, told in known if name == table]
            fitting = (shape for shape in shapes if mismatch(step.table, shape.columns, recording.flavour) is None)
            shape = next(fitting, None)
            # Columns that are read and do not leave are left to Python.
            if shape is not None and not shape.unsent:
                try:
                    made = layouts.layout(step.table, shape, recording.flavour)
                except Terminal:
                    continue
                read += agree(made, step.op, step.body, whole=False)
    assert read > 100


def test_what_the_compiled_decoder_refuses_is_named_by_the_python_one() -> None:
    layout = layout_of(Random(3), ("year",))
    with pytest.raises(Terminal, match="a row cannot be read") as refused:
        NativeImages(layout).rows("c", b"\x02\xff\0\1")
    assert refused.value.details["table"] == "d.t"


def masked(layout: Layout, *names: str, by: tuple[str, ...] = ()) -> Layout:
    masks = {name: lambda piece: b"\0" if piece == b"\0" else b"\x02\x02" + piece[-1:] for name in names}
    dates = {
        column.name: lambda text: b"\x02\x0a" + text.encode()[:5]
        for column in layout.shape.columns
        if column.name in masks and column.type in DATES
    }
    shape = type(layout.shape)(layout.shape.columns, layout.shape.schema, by, masks, dates)
    return Layout(shape, layout.fields)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_change_what_leaves_as_they_do_in_python(kind: str) -> None:
    read = 0
    for seed in range(40):
        random = Random(seed)
        layout = layout_of(random, (kind, kind))
        keys = {i for i, _ in layout.shape.key_parts}
        layout = masked(layout, *(f"c{i - 1}" for i in (1, 2) if i not in keys))
        read += agree(layout, "c", event(random, layout, 1, 2))
    assert read >= 3


def test_a_mask_that_fails_fails_in_python() -> None:
    def fail(_: bytes) -> bytes:
        raise ValueError("no mask for this")

    layout = next(
        each for each in (layout_of(Random(seed), ("year",)) for seed in range(99)) if each.shape.schema.key == ("id",)
        and not each.shape.skipped
    )  # fmt: skip
    shape = type(layout.shape)(layout.shape.columns, layout.shape.schema, masks={"c0": fail})
    with pytest.raises(Terminal, match="a row cannot be read"):
        NativeImages(Layout(shape, layout.fields)).rows("c", b"\x02\xff\0\1\0\0\0\x05")


def test_what_the_compiled_decoder_cannot_read_is_left_to_the_python_one() -> None:
    layout = layout_of(Random(3), ("year",))
    assert isinstance(images_of(layout), NativeImages)
    for other in (masked(layout, "id"), masked(layout, "c0", by=("c0",))):
        assert decoder_of(other) is None
        assert isinstance(images_of(other), RowImages)


def test_images_are_the_same_tuples_that_python_makes() -> None:
    layout = layout_of(Random(5), ("int", "date"))
    body = event(Random(5), layout, 2, 3, nulls=0)
    native = NativeImages(layout)
    found = native.decoder.rows("u", body)
    assert found is not None
    for pair in found:
        for image in pair:
            assert image is not None
            assert type(image).__name__ == "EncodedImage"
            assert image._fields == ("row", "key", "by")
    assert hash(found[0]) == hash(native.plain.rows("u", body)[0])
