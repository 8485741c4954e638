"""The compiled writer of `include.record.json.native`: one schema's values as JSON.

Not for use from several threads at once: a call that meets another one gives None.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from include.record.json.native.program import JsonStep

FORM: Final[int]

class Program:
    """Each method gives None for what is left to the Python way."""

    def __init__(self, steps: list[JsonStep]) -> None:
        """Raises `KeyError`, `TypeError`, `ValueError` for steps that are none."""

    def json(self, wire: bytes) -> bytes | None:
        """The value behind the five bytes of the wire format's head."""

    def doc_id(self, wire: bytes) -> str | None:
        """The text of a key; for steps of `key_steps`."""

    def change(self, wire: bytes, places: tuple[int, int, int]) -> tuple[str, bytes | None, bytes | None] | None:
        """(op, body after, body before); for steps and places of `envelope_steps`."""

class Lines:
    """Records of one keyed topic straight to lines of bulk requests, as `bulk.line_bytes` and `metadata` write them."""

    def __init__(
        self,
        key_programs: Callable[[bytes], Program | None],
        value_programs: Callable[[bytes], Program | tuple[Program, tuple[int, int, int]] | None],
        entity: bytes,
        metadata: bytes,
        views: tuple[int, int],
    ) -> None:
        """Programs are asked for once in a row of equal heads; with places a value is a change envelope.

        `entity` is JSON, `metadata` the beginning of that object, `views` the constants of `digest.VIEWS`.
        """

    def line(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] | None,
        partition: int,
        offset: int,
    ) -> tuple[str, int, bytes, bool] | None:
        """(the document's id, version, both lines, whether it is deleted); raises what the programs' givers raise."""

    def enter(
        self,
        raws: list[Any],
        begin: int,
        window: dict[str, Any],
        counts: dict[str, int],
        met: set[bytes],
        epoch: int,
        floor: int,
        room: int,
    ) -> tuple[int, int]:
        """Enter records as `task.Raw`, from `begin` on, into a window of `task.IndexTask`, the newest of each id.

        Ends before the first that is of another partition, needs the other way, has a schema whose head was not `met`,
        is of another epoch or below the floor, or makes the window larger by more than `room` bytes. Gives its number
        and by how many bytes the window has grown; raises as `line`, with what came before entered.
        """

def state_hash(doc_id: str, version: int, body: bytes) -> int:
    """`digest.state_hash`."""
