"""Writes one step of an order as one transaction, and finds out what became of a commit that was not answered."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from demo.shop.errand import Errand
from demo.shop.plan import Address, OrderPlan, RowVersion, ShopStep
from include.clock import Clock
from include.errors import Transient
from include.pace import Backoff

__all__ = ["Connect", "OrderInFlight", "ShopWriter"]

Connect: TypeAlias = "Callable[[], Connection[Cursor]]"
"""Opens a new connection to the shop's database, autocommit off; raises `Transient` when it does not answer."""

T = TypeVar("T")

_DUPLICATE, _LOCK_TIMEOUT, _DEADLOCK = 1062, 1205, 1213
_PATIENCE_S = 120.0
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - datetime(6) columns carry no zone; all are UTC

_INSERT_ROW = (
    "INSERT INTO orders (order_id, previous_id, attempt, state, user_id, business_id, partner_id, entry_id,"
    " address_id, cancellation_policy_id, currency, total_price, rollback_cause, created_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_INSERT_LINES = (
    "INSERT INTO order_lines (order_row_id, line_no, menu_item_id, name, description, category, quantity, price)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
_INSERT_ADDRESS = (
    "INSERT INTO addresses (user_id, street, city, postal_code, country, lat, lon, door_code)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
_INSERT_ENTRY = "INSERT INTO order_entries (channel, campaign, referrer, device_fingerprint) VALUES (%s, %s, %s, %s)"
_INSERT_PAYMENT = (
    "INSERT INTO payments (order_id, attempt, method, status, amount, card_token)"
    " VALUES (%s, %s, %s, 'authorised', %s, %s)"
)
_END_PAYMENT = "UPDATE payments SET status = %s, processor_reference = %s WHERE order_id = %s AND attempt = %s"


@dataclass
class OrderInFlight:
    """How far the life of one order has been written."""

    plan: OrderPlan
    steps_done: int = 0
    order_id: int = 0
    entry_id: int = 0
    newest_row_id: int | None = None
    address_ids: dict[Address, int] = field(default_factory=dict)

    @property
    def next_step(self) -> ShopStep | None:
        """The step to write next; none when the life is over."""
        steps = self.plan.steps
        return steps[self.steps_done] if self.steps_done < len(steps) else None


class ShopWriter:
    """One connection that writes steps. Not for use by two threads at a time."""

    def __init__(self, connect: Connect, clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._connection: Connection[Cursor] | None = None
        self.repeats = 0

    def write(self, order: OrderInFlight, step: ShopStep) -> int | None:
        """Commit `step`, the order's next; afterwards `order` knows its ids.

        Blocks while the server is away, up to two minutes, then raises `Transient`. A commit whose answer was lost is
        looked up, so that no row is written twice. Returns the id of the row of `orders`, none if the step has none.
        """
        if step.kind == "place":
            row_id = self._committed(
                lambda cursor: self._place(cursor, order, step), lambda cursor: _placed(cursor, order)
            )
        elif step.row is not None:
            row_id = self._committed(
                lambda cursor: self._append(cursor, order, step), lambda cursor: _appended(cursor, order, step)
            )
        else:
            self._committed(lambda cursor: _leave_trace(cursor, order, step), lambda _: None)
            row_id = None
        if row_id is not None:
            order.newest_row_id = row_id
        order.steps_done += 1
        return row_id

    def run_errand(self, errand: Errand) -> None:
        """Commit a change of reference data; running it twice does it once."""
        assignments = ", ".join(f"{column} = %s" for column in errand.values)
        statement = f"UPDATE {errand.table} SET {assignments} WHERE id = %s"  # noqa: S608 - names from Errand's own list

        self.run_again(statement, (*errand.values.values(), errand.row_id))

    def run_again(self, statement: str, values: Sequence[object]) -> None:
        """Commit one statement that changes nothing more when it is run twice; blocks and raises as `write`."""
        self._committed(lambda cursor: cursor.execute(statement, values), lambda _: None)

    def close(self) -> None:
        """Leave the server; what is not committed is rolled back there."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            connection.close()

    def _committed(self, work: Callable[[Cursor], T], look_up: Callable[[Cursor], T | None]) -> T:
        """Run `work` in a transaction until it is committed once; `look_up` finds what an earlier try committed."""
        began_s, tries, backoff = self._clock.monotonic_s(), 0, Backoff(0.1, 2.0)
        while True:
            tries += 1
            try:
                if self._connection is None:
                    self._connection = self._connect()
                with self._connection.cursor() as cursor:
                    result = look_up(cursor) if tries > 1 else None
                    if result is None:
                        result = work(cursor)
                    self._connection.commit()
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError, Transient) as outage:
                self.close()
                if self._clock.monotonic_s() - began_s > _PATIENCE_S:
                    raise Transient(
                        "the shop's database stays away",
                        system="mysql",
                        attempt=tries,
                        answer=str(outage),
                        fix="See `lyrebird status` and `lyrebird logs mariadb`.",
                    ) from outage
                if not _is_conflict(outage):
                    self._clock.sleep(backoff.next_s())
            except pymysql.err.IntegrityError as refusal:
                self.close()
                # The try before was still being committed when it was looked for: look again.
                if tries == 1 or refusal.args[0] != _DUPLICATE:
                    raise
            except BaseException:
                self.close()
                raise
            else:
                return result
            self.repeats += 1

    def _place(self, cursor: Cursor, order: OrderInFlight, step: ShopStep) -> int:
        plan, row = order.plan, _row(step)
        cursor.execute("INSERT INTO order_numbers (user_id) VALUES (%s)", (plan.user_id,))
        order.order_id = cursor.lastrowid
        entry = plan.entry
        fingerprint = hashlib.sha256(f"device/{plan.user_id}".encode()).hexdigest()[:32]
        cursor.execute(_INSERT_ENTRY, (entry.channel, entry.campaign, entry.referrer, fingerprint))
        order.entry_id = cursor.lastrowid
        row_id = self._insert_row(cursor, order, step, row)
        self._authorise(cursor, order, step, row)
        return row_id

    def _append(self, cursor: Cursor, order: OrderInFlight, step: ShopStep) -> int:
        row = _row(step)
        row_id = self._insert_row(cursor, order, step, row)
        match step.kind:
            case "change":
                self._authorise(cursor, order, step, row)
            case "complete":
                self._end_payment(cursor, order, step, "captured")
                if step.attempt == 1:
                    self._promise(cursor, order)
            case "decline" | "rollback":
                self._end_payment(cursor, order, step, "declined")
            case "cancel":
                cursor.execute(
                    "UPDATE payments SET status = 'refunded' WHERE order_id = %s AND status <> 'declined'",
                    (order.order_id,),
                )
                booked = "deliveries" if order.plan.business.delivers else "table_bookings"
                cursor.execute(f"DELETE FROM {booked} WHERE order_id = %s", (order.order_id,))  # noqa: S608 - one of two literals
            case _:  # place, settle and review do not come here
                pass
        return row_id

    def _insert_row(self, cursor: Cursor, order: OrderInFlight, step: ShopStep, row: RowVersion) -> int:
        plan, business = order.plan, order.plan.business
        if row.state == "pending":  # each placing and each change brings an address row of its own
            to = row.address
            cursor.execute(
                _INSERT_ADDRESS,
                (plan.user_id, to.street, to.city, to.postal_code, to.country, to.lat, to.lon, to.door_code),
            )  # fmt: skip
            order.address_ids[to] = cursor.lastrowid
        cursor.execute(
            _INSERT_ROW,
            (order.order_id, order.newest_row_id, step.attempt, row.state, plan.user_id, business.business_id,
             business.partner_id, order.entry_id, order.address_ids[row.address], plan.policy_id,
             business.currency, row.total_price, row.rollback_cause, self._now()),
        )  # fmt: skip
        row_id = cursor.lastrowid
        cursor.executemany(
            _INSERT_LINES,
            [(row_id, line.line_no, line.menu_item_id, line.name, line.description, line.category,
              line.quantity, line.price) for line in row.lines],
        )  # fmt: skip
        return row_id

    def _authorise(self, cursor: Cursor, order: OrderInFlight, step: ShopStep, row: RowVersion) -> None:
        method = ("card", "wallet", "voucher")[order.plan.user_id % 3]
        token = hashlib.sha256(f"card/{order.plan.user_id}".encode()).hexdigest()[:24]
        cursor.execute(
            _INSERT_PAYMENT,
            (order.order_id, step.attempt, method, row.total_price, f"TOKEN-{token}"),
        )

    def _end_payment(self, cursor: Cursor, order: OrderInFlight, step: ShopStep, status: str) -> None:
        reference = f"PROCESSOR-{order.order_id:08d}-{step.attempt}"
        cursor.execute(_END_PAYMENT, (status, reference, order.order_id, step.attempt))

    def _promise(self, cursor: Cursor, order: OrderInFlight) -> None:
        plan, promised_at = order.plan, self._now() + dt.timedelta(minutes=40)
        if plan.business.delivers:
            cursor.execute(
                "INSERT INTO deliveries (order_id, courier_id, status, distance_m, promised_at)"
                " VALUES (%s, %s, 'assigned', %s, %s)",
                (order.order_id, plan.courier_id, 300 + 70 * plan.courier_id, promised_at),
            )
        else:
            cursor.execute(
                "INSERT INTO table_bookings (order_id, party_size, starts_at) VALUES (%s, %s, %s)",
                (order.order_id, plan.party_size, promised_at),
            )

    def _now(self) -> dt.datetime:
        return _EPOCH + dt.timedelta(microseconds=self._clock.now_us())


def _row(step: ShopStep) -> RowVersion:
    if step.row is None:
        raise ValueError(f"step {step.kind} of attempt {step.attempt} has no row")
    return step.row


def _is_conflict(outage: Exception) -> bool:
    """Whether the server chose this transaction to give way: it may be run again at once."""
    return bool(outage.args) and outage.args[0] in {_LOCK_TIMEOUT, _DEADLOCK}


def _placed(cursor: Cursor, order: OrderInFlight) -> int | None:
    """The first row of the order, if the try that drew its number was committed."""
    # A cut connection's commit may still be under way: it holds its number's row until it has ended, so wait for that.
    cursor.execute("SELECT user_id FROM order_numbers WHERE order_id = %s LOCK IN SHARE MODE", (order.order_id,))
    cursor.execute("SELECT id FROM orders WHERE order_id = %s AND previous_id IS NULL", (order.order_id,))
    found = cursor.fetchone()
    return int(found[0]) if found else None


def _appended(cursor: Cursor, order: OrderInFlight, step: ShopStep) -> int | None:
    """The row after the newest that is known, if an earlier try of `step` was committed."""
    cursor.execute("SELECT id, address_id FROM orders WHERE previous_id = %s", (order.newest_row_id,))
    found = cursor.fetchone()
    if found is None:
        return None
    order.address_ids[_row(step).address] = int(found[1])
    return int(found[0])


def _leave_trace(cursor: Cursor, order: OrderInFlight, step: ShopStep) -> int:
    """Steps that write no row of the order; running one twice does it once."""
    plan, review = order.plan, step.review
    if review is not None:
        return cursor.execute(
            "INSERT INTO reviews (order_id, user_id, business_id, stars, body) VALUES (%s, %s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE stars = VALUES(stars)",
            (order.order_id, plan.user_id, plan.business.business_id, review.stars, review.body),
        )
    changed = cursor.execute(
        "UPDATE payments SET status = 'settled' WHERE order_id = %s AND status = 'captured'",
        (order.order_id,),
    )
    return changed + cursor.execute("UPDATE deliveries SET status = 'delivered' WHERE order_id = %s", (order.order_id,))
