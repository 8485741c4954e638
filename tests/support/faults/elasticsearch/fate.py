"""What befalls one bulk request: which of its items are written, and what is answered. The two need not agree.

A server never lies about success: an item answered 201 or 409 is written, or is stale. Everything else may be answered
whatever was written, also late: after requests that came behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

__all__ = ["Fate", "ItemFate", "Manner", "RandomFates", "Written"]

Written = Literal["yes", "no", "late"]
Manner = Literal["answer", "reset", "reset before", "cut", "cut length", "short", "silent", "garbage"]
"""answer: whole. reset: the connection ends once the request was read; before: while it is read. cut: the answer ends
in the middle, though its length was told; cut length: half of it, as if that were all. short: too few items. silent: no
answer until the client gives up. garbage: no JSON."""


@dataclass(frozen=True, slots=True)
class ItemFate:
    """An item that is answered so, whatever becomes of it."""

    status: int
    type: str
    written: Written = "no"


@dataclass(frozen=True, slots=True)
class Fate:
    """`status` 0: items are answered one by one, those in `items` (by place) as told there, others by what is true."""

    manner: Manner = "answer"
    status: int = 0
    type: str = ""
    written: Written = "yes"
    share: float = 1.0
    items: dict[int, ItemFate] = field(default_factory=dict)
    retry_after_s: int | None = None
    most_bytes: int = 0
    """A request of more bytes is answered 413, and nothing of it written; 0: of any number is taken."""


_REFUSED: Final = (
    ItemFate(429, "es_rejected_execution_exception"),
    ItemFate(503, "unavailable_shards_exception"),
    ItemFate(503, "unavailable_shards_exception", "yes"),
    ItemFate(500, "illegal_state_exception", "late"),
    ItemFate(500, "null_pointer_exception"),
    ItemFate(502, "", "yes"),
    ItemFate(429, "cluster_block_exception"),
    ItemFate(403, "cluster_block_exception"),
    ItemFate(400, "index_closed_exception"),
)
_WHOLE: Final = (
    (429, "es_rejected_execution_exception"),
    (429, "circuit_breaking_exception"),
    (429, "cluster_block_exception"),
    (500, "illegal_state_exception"),
    (502, ""),
    (503, "master_not_discovered_exception"),
    (504, ""),
)
_WRITTEN: Final[tuple[Written, ...]] = ("yes", "no", "late")
_MANNERS: Final[tuple[Manner, ...]] = (
    "reset",
    "reset before",
    "cut",
    "cut length",
    "short",
    "short",
    "silent",
    "garbage",
)


class RandomFates:
    """The fate of each request in turn, by its number of items: bad for a while, good in the end."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._left = self._random.randint(0, 12)
        self._badness = self._random.choice((0.2, 0.5, 0.9))
        self.most_bytes = self._random.choice((0, 0, self._random.randint(300, 2000)))

    def __call__(self, items: int) -> Fate:
        """The next one."""
        self._left -= 1
        if self._left < 0 or self._random.random() > self._badness:
            return Fate(most_bytes=self.most_bytes)
        return _bad(self._random, items, self.most_bytes)


def _bad(random: Random, items: int, most_bytes: int) -> Fate:
    written, share = random.choice(_WRITTEN), random.random()
    retry_after_s = random.choice((None, None, 1, 7))
    draw = random.random()
    if draw < 0.45:
        chosen = {place: random.choice(_REFUSED) for place in range(items) if random.random() < 0.4}
        if items > 1 and random.random() < 0.2:
            # One that is refused for what may be a sibling's fault: alone it is taken.
            chosen[random.randrange(items)] = ItemFate(400, "action_request_validation_exception")
        return Fate(items=chosen, retry_after_s=retry_after_s, most_bytes=most_bytes)
    if draw < 0.7:
        manner = random.choice(_MANNERS)
        if manner == "reset before":
            written = "no"
        elif manner in ("cut", "cut length", "short", "garbage"):
            # An answer was on its way, so all of it was done.
            written, share = "yes", 1.0
        return Fate(manner, written=written, share=share, most_bytes=most_bytes)
    if draw < 0.8 and items > 1:
        status, kind = random.choice(((413, ""), (400, "action_request_validation_exception")))
        return Fate(status=status, type=kind, written="no", most_bytes=most_bytes)
    status, kind = random.choice(_WHOLE)
    return Fate(
        status=status, type=kind, written=written, share=share, retry_after_s=retry_after_s, most_bytes=most_bytes
    )
