"""The compiled readers of `include.record.native`.

What they give None for, the Python way judges.
"""

from typing import Final

from include.record.native.program import ProgramStep

FORM: Final[int]

class Fields:
    """Finds the fields of one schema's records; see `include.record.fields`."""

    def __init__(self, steps: list[ProgramStep]) -> None:
        """Raises `KeyError`, `TypeError`, `ValueError` for steps that are none, or not those of a record."""

    def borders(self, data: bytes, begin: int, end: int) -> tuple[int, ...] | None:
        """The offsets at which the fields of the record in `data[begin:end]` begin, then the last one's end."""

    def cut(self, data: bytes, places: tuple[int, ...], begin: int, end: int) -> tuple[bytes, ...] | None:
        """The bytes of these fields; `IndexError` for a place that is none."""

    def images(
        self, data: bytes, places: tuple[int, int, int], begin: int
    ) -> tuple[str, bytes | None, bytes | None] | None:
        """(op, before, after) of the envelope in `data[begin:]`; `places` as `fields.envelope_places` gives them."""

class Columnar:
    """Many records of one schema as columns, in Arrow's layout."""

    codes: Final[list[tuple[str, int, tuple[str, ...]] | None]]
    """Of each field the step of its values: code, first number, labels; None for those that are handed out as bytes."""

    def __init__(self, steps: list[ProgramStep]) -> None:
        """As `Fields`."""

    def columns_of(self, rows: list[bytes]) -> list[tuple[bytes | None, int, bytes | None, bytes] | list[bytes]] | None:
        """Of each field (bits of those that are not null, how many are, offsets, values), or each record's own bytes.

        Offsets, of 32 bits, are those of texts and bytes. Other values have 64 bits each, `float` 32, `decimal` 128.
        """

def murmur2(data: bytes) -> int:
    """`record.key.murmur2`."""
