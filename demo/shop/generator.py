"""The shop at work: places orders at a rate and carries each through its life, several threads at a time.

An order belongs to one thread for life, so that its rows are committed in the order of their ids. What happens to
which order depends on the seed alone; when, and thus which ids rows get, depends on the machine. A generator that is
killed leaves a valid database: orders whose newest row is pending, nothing half written.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from demo.shop.counts import CommittedRow, ShopCounts
from demo.shop.errand import ORDERS_PER_ERRAND, plan_errand
from demo.shop.plan import ShopStep, plan_order
from demo.shop.reference import reference_data
from demo.shop.schema import create_tables
from demo.shop.writer import Connect, OrderInFlight, ShopWriter
from include.clock import Clock, SystemClock
from include.errors import SettingsError

__all__ = ["OnEvent", "Shop"]

_LOOK_UP_S = 0.05  # how soon a sleeping thread notices `stop`
_ROWS_AT_ONCE = 500


OnEvent = Callable[[CommittedRow], None]
"""Told of each committed row of `orders`, by one thread at a time; what it raises stops the run."""


@dataclass(order=True)
class _Due:
    """The next step of an order, and when."""

    due_s: float
    number: int
    order: OrderInFlight = field(compare=False)
    placed_s: float = field(compare=False)


@dataclass
class _Lane:
    """What one thread owns: its connection, its orders in flight, its place in the run."""

    writer: ShopWriter
    next_number: int
    in_flight: list[_Due] = field(default_factory=list)
    counts: ShopCounts = field(default_factory=ShopCounts)


class Shop:
    """Places orders in the database that `connect` leads to; the same seed gives the same orders.

    `run` and `quiesce` block and belong to one thread; `stop` may be called from any. Use it as a context manager, or
    `close` it.
    """

    def __init__(
        self,
        connect: Connect,
        seed: int,
        *,
        clock: Clock | None = None,
        writers: int = 4,
        pace_s: float = 1.0,
    ) -> None:
        """`pace_s` is the mean time between two steps of an order, in seconds; `writers` the number of threads."""
        if writers < 1 or pace_s < 0:
            raise SettingsError("a shop needs a writer and no negative pace", writers=writers, pace_s=pace_s)
        self._connect = connect
        self._seed = seed
        self._clock = clock or SystemClock()
        self._pace_s = pace_s
        self._reference = reference_data()
        self._lanes = [_Lane(ShopWriter(connect, self._clock), number) for number in range(writers)]
        self._errands_done = 0
        self._stop = threading.Event()
        self._telling = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def counts(self) -> ShopCounts:
        """All that this shop has committed so far; may be asked while it runs."""
        total = ShopCounts()
        for lane in self._lanes:
            total += lane.counts
            total.repeats += lane.writer.repeats
        return total

    @property
    def in_flight(self) -> int:
        """Orders whose life is not over."""
        return sum(len(lane.in_flight) for lane in self._lanes)

    def prepare(self) -> None:
        """Make the tables and the reference data where they are missing; what is there stays as it is."""
        connection = self._connect()
        try:
            create_tables(connection)
            with connection.cursor() as cursor:
                for table, rows in self._reference.rows.items():
                    marks = ", ".join(["%s"] * len(rows[0]))
                    keep = "code" if table in {"channels", "campaigns"} else "id"
                    statement = f"INSERT INTO {table} VALUES ({marks}) ON DUPLICATE KEY UPDATE {keep} = {keep}"  # noqa: S608 - names from our own schema
                    for start in range(0, len(rows), _ROWS_AT_ONCE):
                        cursor.executemany(statement, rows[start : start + _ROWS_AT_ONCE])
            connection.commit()
        finally:
            connection.close()

    def run(
        self,
        rate: float,
        *,
        seconds: float | None = None,
        orders: int | None = None,
        on_event: OnEvent | None = None,
    ) -> ShopCounts:
        """Place `rate` orders a second until `seconds` are over, `orders` are placed, or `stop` is called.

        Orders in flight go on meanwhile; those unfinished at the end wait for the next `run` or for `quiesce`.
        `on_event` is called after each commit of a row of `orders`, by one thread at a time. A shop that is slower
        than `rate` places as fast as it can. Returns what this call committed. Raises `Transient` when the database
        stays away; every order is then as far as its last commit.
        """
        if rate <= 0:
            raise SettingsError("orders need a rate above 0 a second", rate=rate)
        before, lanes = self.counts, len(self._lanes)
        start_s = self._clock.monotonic_s()
        end_s = None if seconds is None else start_s + seconds

        def work(place: int, lane: _Lane) -> None:
            share = None if orders is None else len(range(place, orders, lanes))
            turns = itertools.count() if share is None else iter(range(share))
            for turn in turns:
                due_s = start_s + (place + turn * lanes) / rate
                if end_s is not None and due_s >= end_s:
                    self._continue(lane, end_s, on_event)
                    return
                if not self._continue(lane, due_s, on_event) or self._over(end_s):
                    return
                self._place(lane, on_event)
            if end_s is not None:
                self._continue(lane, end_s, on_event)

        self._in_threads(work)
        return self.counts - before

    def quiesce(self, on_event: OnEvent | None = None) -> ShopCounts:
        """Write all that is left of the orders in flight, at once: afterwards each order's newest row is final."""
        before = self.counts

        def work(place: int, lane: _Lane) -> None:
            self._continue(lane, None, on_event)
            if place == 0:
                self._run_errands(lane, sum(each.next_number // len(self._lanes) for each in self._lanes))

        self._in_threads(work)
        return self.counts - before

    def stop(self) -> None:
        """Make a running `run` or `quiesce` return after the transactions that its threads are in."""
        self._stop.set()

    def close(self) -> None:
        """Close the connections. Orders in flight stay as they are."""
        for lane in self._lanes:
            lane.writer.close()

    def _in_threads(self, work: Callable[[int, _Lane], None]) -> None:
        """Run `work` for each lane in a thread of its own; the first error of one stops all and is raised here."""
        self._stop.clear()
        errors: list[BaseException] = []

        def guarded(place: int, lane: _Lane) -> None:
            try:
                work(place, lane)
            except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
                errors.append(error)
                self._stop.set()

        threads = [
            threading.Thread(target=guarded, args=each, name=f"shop-{each[0]}", daemon=True)
            for each in enumerate(self._lanes)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        except BaseException:
            self._stop.set()
            for thread in threads:
                thread.join()
            raise
        if errors:
            raise errors[0]

    def _over(self, end_s: float | None) -> bool:
        return end_s is not None and self._clock.monotonic_s() >= end_s

    def _continue(self, lane: _Lane, until_s: float | None, on_event: OnEvent | None) -> bool:
        """Carry orders on until `until_s` (none: to their ends, without waiting). False when told to stop."""
        while not self._stop.is_set():
            due = lane.in_flight[0] if lane.in_flight else None
            if until_s is None:
                if due is None:
                    return True
            else:
                now_s = self._clock.monotonic_s()
                if due is None or due.due_s > until_s:
                    if now_s >= until_s:
                        return True
                    self._clock.sleep(min(until_s - now_s, _LOOK_UP_S))
                    continue
                if due.due_s > now_s:
                    self._clock.sleep(min(due.due_s - now_s, _LOOK_UP_S))
                    continue
            heapq.heappop(lane.in_flight)
            self._advance(lane, due, on_event)
        return False

    def _place(self, lane: _Lane, on_event: OnEvent | None) -> None:
        number, lanes = lane.next_number, len(self._lanes)
        plan = plan_order(self._seed, number, self._reference, self._pace_s)
        placed_s = self._clock.monotonic_s()
        self._advance(lane, _Due(placed_s, number, OrderInFlight(plan), placed_s), on_event)
        lane.next_number += lanes
        if lane is self._lanes[0]:
            self._run_errands(lane, number + 1)

    def _run_errands(self, lane: _Lane, orders_placed: int) -> None:
        """One lane runs all errands, in their order: the last one of a row wins on every machine."""
        while self._errands_done * ORDERS_PER_ERRAND < orders_placed:
            lane.writer.run_errand(plan_errand(self._seed, self._errands_done, self._reference))
            self._errands_done += 1
            lane.counts.errands += 1
            lane.counts.transactions += 1

    def _advance(self, lane: _Lane, due: _Due, on_event: OnEvent | None) -> None:
        order, step = due.order, due.order.next_step
        if step is None:
            return
        try:
            row_id = lane.writer.write(order, step)
        finally:
            following = order.next_step
            if following is not None and order.steps_done > 0:
                later = _Due(due.placed_s + following.after_s, due.number, order, due.placed_s)
                heapq.heappush(lane.in_flight, later)
        self._tell(lane, order, step, row_id, on_event)

    def _tell(
        self, lane: _Lane, order: OrderInFlight, step: ShopStep, row_id: int | None, on_event: OnEvent | None
    ) -> None:
        committed_us = self._clock.now_us()
        lane.counts.count(step.kind)
        if on_event is not None and row_id is not None and step.row is not None:
            event = CommittedRow(order.order_id, row_id, step.kind, step.row.final, committed_us)
            with self._telling:
                on_event(event)
