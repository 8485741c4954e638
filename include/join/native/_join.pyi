"""The compiled way of `join.gathering` and `join.algorithm.batch.apply`, over rows in Avro."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from include.join.algorithm.row import PlainTouch
from include.record.native.program import ProgramStep

FORM: Final[int]

class Cut:
    """Fields from `place` up to `until` of a row, or of its key, as they are or with a head for each branch."""

    def __init__(
        self,
        of_key: bool,
        place: int,
        until: int,
        union: bool,
        heads: list[bytes | None] | None,
        constant: bytes | None,
    ) -> None:
        """`heads`: None for a branch that the Python way converts. `constant`: instead of any field."""

class JoinKey:
    """The join key of rows of one schema, under keys of one schema; `rows` None: the key alone has it."""

    def __init__(self, rows: list[ProgramStep] | None, keys: list[ProgramStep], cuts: list[Cut]) -> None: ...
    def values(self, key: bytes, body: bytes) -> Any:
        """`AvroRows.join_key`; `NotImplemented` for the Python way."""

class Changes:
    """What reads change envelopes of one schema, under keys of one schema; `places` as in `EnvelopeFields`."""

    def __init__(self, envelope: list[ProgramStep], places: tuple[int, int, int], joined: JoinKey) -> None: ...

class Source:
    """The change topic of an input; `plan_of(schema id, key)`: None for the Python way."""

    def __init__(self, slot: int, plan_of: Callable[[int, bytes], Changes | None]) -> None: ...

class Projector:
    """What rows of one schema, under keys of one schema, bring to outputs."""

    def __init__(
        self,
        rows: list[ProgramStep],
        keys: list[ProgramStep],
        shown: list[Cut],
        grouped: list[Cut],
        where: list[tuple[Cut, frozenset[bytes]]],
    ) -> None: ...

class Program:
    """A join's shape.

    `probes`: of each input the others, in the order in which they are looked at. `projector(place, key, kept)`: what
    reads such rows, None for the Python way, which is `entry_of(place, key, kept)`. `make` takes what was made.
    """

    def __init__(
        self,
        slots: tuple[int, ...],
        optional: tuple[bool, ...],
        distinct: tuple[bool, ...],
        probes: tuple[tuple[int, ...], ...],
        key_fields: tuple[tuple[int, int], ...],
        key_prefix: bytes,
        value_prefix: bytes,
        most: int,
        projector: Callable[[int, bytes, bytes], Projector | None],
        entry_of: Callable[[int, bytes, bytes], Any],
        absent: Callable[[int], Any],
        make: Callable[..., Any],
    ) -> None: ...

def apply(
    touches: Iterable[Any],
    get: Callable[[Sequence[bytes]], Sequence[bytes | None]],
    scan: Callable[[bytes], Iterable[tuple[bytes, bytes]]],
    program: Program,
) -> Any:
    """What `make` makes of it."""

def gather(
    messages: Sequence[Any],
    sources: Mapping[str, Source],
    bases: Mapping[tuple[str, int], int],
    floors: Mapping[str, int],
    touches: Sequence[list[PlainTouch]],
) -> tuple[list[Any], dict[str, int]]:
    """Put the touches of Kafka's messages to their buckets; what is left to the Python way, and how many were taken.

    Arguments are those of `Gathering`; `touches`: of each bucket.
    """
