"""Proves every version of every document against the source's transactions, replayed one after the other.

Knows nothing of the pipeline: rows in, a join over them (given by the test), documents beside it. A document must
equal the join after some whole transaction that is not before the one which its version names.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["TRANSIENT", "Fault", "History", "Replayed", "Step", "Transaction", "Written"]

TRANSIENT: Final = "rows, none of them final"
"""What a join gives where nothing should be written."""

Row = dict[str, Any]
Kind = Literal[
    "half a transaction", "older than its signal", "never existed", "version of nothing", "twice", "goes back", "stale"
]
"""stale: the key's newest document is not its newest state, though all is quiet."""


@dataclass(frozen=True)
class Step:
    """One row change; `version` as capture numbered it. Rows are known by their `id`."""

    version: int
    table: str
    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class Transaction:
    """The steps of one source transaction, by ascending version."""

    steps: tuple[Step, ...]

    @property
    def end(self) -> int:
        """Version of its last step."""
        return self.steps[-1].version


@dataclass(frozen=True)
class Written:
    """A version of a document (None: a tombstone), in the order of its partition."""

    key: Any
    version: int
    body: Any


@dataclass(frozen=True)
class Fault:
    """What is wrong with a document."""

    kind: Kind
    written: Written


class Replayed:
    """Tables as they are at a point of the replay; notes what is asked for."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, Any], Row] = {}
        self._by: dict[tuple[str, str, Any], dict[Any, Row]] = defaultdict(dict)
        self._columns: dict[str, set[str]] = defaultdict(set)
        self.asked: set[tuple[str, str, Any]] = set()

    def find(self, table: str, column: str, value: Any) -> list[Row]:
        """Rows with that value, by ascending id."""
        if column not in self._columns[table]:
            self._columns[table].add(column)
            for (name, id_), row in self._rows.items():
                if name == table:
                    self._by[table, column, row[column]][id_] = row
        self.asked.add((table, column, value))
        found = self._by.get((table, column, value), {})
        return [found[id_] for id_ in sorted(found)]

    def one(self, table: str, value: Any) -> Row | None:
        """The row of that id."""
        return next(iter(self.find(table, "id", value)), None)

    def apply(self, step: Step) -> Iterator[tuple[str, str, Any]]:
        """Carry a change out; the (table, column, value) that it touches."""
        for row, put in ((step.before, False), (step.after, True)):
            if row is None:
                continue
            if put:
                self._rows[step.table, row["id"]] = row
            else:
                self._rows.pop((step.table, row["id"]), None)
            for column in self._columns[step.table]:
                place = step.table, column, row[column]
                if put:
                    self._by[place][row["id"]] = row
                else:
                    self._by[place].pop(row["id"], None)
                yield place


class History:
    """All states that every key ever had, after each transaction and within."""

    def __init__(
        self,
        transactions: Sequence[Transaction],
        join: Callable[[Replayed, Any], Any],
        fact: tuple[str, str],
        resolved: Iterable[int] = (),
    ) -> None:
        """`fact`: table and column of the keys; `resolved`: versions of the resolved records, which rebuilds carry."""
        self._join = join
        self._tables = Replayed()
        self._waiting: dict[tuple[str, str, Any], set[Any]] = defaultdict(set)
        self.whole: dict[Any, list[tuple[int, Any]]] = {}
        self.half: dict[Any, list[Any]] = defaultdict(list)
        self._ends = [transaction.end for transaction in transactions]
        self._versions = {step.version for transaction in transactions for step in transaction.steps}
        self._resolved = set(resolved)
        for transaction in transactions:
            self._replay(transaction, *fact)

    def _replay(self, transaction: Transaction, table: str, column: str) -> None:
        touched: set[Any] = set()
        for step in transaction.steps:
            now = {key for place in self._tables.apply(step) for key in self._waiting.get(place, ())}
            if step.table == table:
                now |= {row[column] for row in (step.before, step.after) if row is not None}
            touched |= now
            if step is not transaction.steps[-1]:
                for key in now:
                    self.half[key].append(self._state(key))
        for key in touched:
            states = self.whole.setdefault(key, [(0, None)])
            state = self._state(key)
            if state != states[-1][1]:
                states.append((transaction.end, state))

    def _state(self, key: Any) -> Any:
        self._tables.asked = set()
        state = self._join(self._tables, key)
        for place in self._tables.asked:
            self._waiting[place].add(key)
        return state

    def faults(self, written: Iterable[Written], *, quiet: bool = True) -> list[Fault]:
        """What is wrong; with `quiet` also keys whose newest document is not their newest state."""
        found: list[Fault] = []
        newest: dict[Any, Written] = {}
        for each in written:
            before = newest.get(each.key)
            if before is not None and each.version <= before.version:
                found.append(Fault("twice" if each.version == before.version else "goes back", each))
            newest[each.key] = each
            kind = self._kind(each)
            if kind is not None:
                found.append(Fault(kind, each))
        if quiet:
            for key, states in self.whole.items():
                last = states[-1][1]
                have = newest.get(key, Written(key, 0, None))
                if last != TRANSIENT and have.body != last:
                    found.append(Fault("stale", have))
        return found

    def _kind(self, each: Written) -> Kind | None:
        if each.version in self._resolved:
            # All that is before it is in the snapshot.
            at = bisect_right(self._ends, each.version) - 1
            end = self._ends[at] if at >= 0 else 0
        elif each.version in self._versions:
            end = self._ends[bisect_right(self._ends, each.version - 1)]
        else:
            return "version of nothing"
        states = self.whole.get(each.key, [(0, None)])
        # A state holds until the next one; the last for ever.
        until = [since for since, _ in states[1:]] + [None]
        fits = [last is None or last > end for (_, body), last in zip(states, until, strict=True) if body == each.body]
        if any(fits):
            return None
        if fits:
            return "older than its signal"
        return "half a transaction" if each.body in self.half[each.key] else "never existed"
