"""Does this store really honour conditional writes? Many writers race; at most one may win, and its bytes stay.

A store that lets two win must not carry a protocol that rests on conditions: who starts one asks first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal, get_args

from include.errors import BackPressure, Terminal, Transient
from include.store.object_store import NotImplementedByStore, ObjectInfo, ObjectStore

__all__ = ["Race", "RaceVerdict", "race"]

Race = Literal["put_if_absent", "upload_if_absent", "put_if_match"]

_KEPT: Final = "_probe/kept"


@dataclass(frozen=True, slots=True)
class RaceVerdict:
    """The outcome of `rounds` races of each kind among `writers`; `broken` lists what should not have been."""

    writers: int
    rounds: int
    broken: tuple[str, ...]

    @property
    def honest(self) -> bool:
        """Whether each round had one winner and kept its bytes."""
        return not self.broken


def race(stores: Sequence[ObjectStore], name: str, *, rounds: int = 40) -> RaceVerdict:
    """Race a writer for each of `stores` (all of one bucket) on fresh keys under `_probe/<name>/`, removed after.

    They stay where the account may not delete: a lifecycle rule of the bucket takes them then. `_probe/kept`, an empty
    object, stays always. `name` must be new with each call. Raises what the store raises, except that a writer whose
    outcome is unknown (`Transient`, `BackPressure`) counts as neither winner nor loser, and that one who is told that
    there is no such call (`NotImplementedByStore`) breaks its round.

    Raises:
        Transient: in half of the rounds of a kind or more nobody is known to have won; nothing is known of the store.
    """
    # Where keys are files, a server removes a folder with its last one: not under others that race beside this.
    stores[0].put(_KEPT, b"")
    broken: list[str] = []
    removes = True
    with ThreadPoolExecutor(len(stores)) as pool:
        for kind in get_args(Race):
            known = 0
            for number in range(rounds):
                key = f"_probe/{name}/{kind}/{number:04d}"
                try:
                    problem = _round(pool, stores, kind, key)
                finally:
                    removes = removes and _removed(stores[0], key)
                if problem:
                    broken.append(f"{kind}, round {number}: {problem}")
                known += problem is not None
            if 2 * known <= rounds and not broken:
                raise Transient(
                    "the object store failed too often to tell whether it honours conditional writes",
                    system="s3",
                    call=kind,
                    rounds=rounds,
                    without_winner=rounds - known,
                    fix="See its log; then start again.",
                )
    return RaceVerdict(len(stores), rounds, tuple(broken))


def _removed(store: ObjectStore, key: str) -> bool:
    """False where the store refuses it: those who write need no right to delete."""
    try:
        store.delete(key)
    except Terminal:
        return False
    return True


def _round(pool: ThreadPoolExecutor, stores: Sequence[ObjectStore], kind: Race, key: str) -> str | None:
    """What should not have been, "" for nothing; None where it is not known who won."""
    start = threading.Barrier(len(stores))
    before = stores[0].put(key, b"before").etag if kind == "put_if_match" else ""

    def write(writer: int) -> bool | str | None:
        body = b"writer %d" % writer
        calls: dict[Race, Callable[[], ObjectInfo | None]] = {
            "put_if_absent": lambda: stores[writer].put_if_absent(key, body),
            "upload_if_absent": lambda: stores[writer].upload(key, [body], if_absent=True),
            "put_if_match": lambda: stores[writer].put_if_match(key, body, before),
        }
        start.wait()
        try:
            return calls[kind]() is not None
        except (Transient, BackPressure):
            return None
        except NotImplementedByStore:
            return "not implemented"

    outcomes = list(pool.map(write, range(len(stores))))
    if "not implemented" in outcomes:
        return "not implemented"
    stored = stores[0].get(key)
    winners = [writer for writer, won in enumerate(outcomes) if won]
    if len(winners) > 1:
        return f"{len(winners)} winners"
    if not winners:
        return None if None in outcomes else "no winner"
    return "" if stored and stored.body == b"writer %d" % winners[0] else "another's bytes than the winner's"
