"""Draws what happens to one order from (seed, number), without a clock or a database.

A plan is the whole life of an order as a list of steps in time order. Changes of one order may overlap: each is an
*attempt* that begins with a pending row and ends with a completed row, or with a rollback: a row that repeats state,
lines and address of the newest final row before it, with the cause in a field of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from demo.shop.reference import Business, Reference

__all__ = [
    "Address",
    "OrderLine",
    "OrderPlan",
    "OrderState",
    "Review",
    "RowVersion",
    "ShopStep",
    "StepKind",
    "UserEntry",
    "plan_order",
]

OrderState = Literal["pending", "completed", "cancelled"]
"""pending: payment or fulfilment undecided; completed, cancelled: final."""

StepKind = Literal["place", "complete", "decline", "change", "rollback", "cancel", "settle", "review"]
"""place: first pending row; complete: an attempt succeeds; decline: the first payment fails, the order is cancelled;
change: pending row of a further attempt; rollback: such an attempt fails; cancel: by the guest; settle: payments and
delivery end, no row of the order; review: the guest writes, no row of the order."""

_DECLINED, _CHANGED, _ROLLED_BACK, _CANCELLED, _REVIEWED, _SETTLED = 0.06, 0.4, 0.2, 0.1, 0.25, 0.6
_CAUSES = ("payment_declined", "item_unavailable", "courier_unavailable", "kitchen_closed")

_CITIES = (
    ("Amsterdam", "NL", 52.3676, 4.9041),
    ("Berlin", "DE", 52.52, 13.405),
    ("København", "DK", 55.6761, 12.5683),
    ("Kraków", "PL", 50.0647, 19.945),
    ("London", "GB", 51.5072, -0.1276),
    ("Málaga", "ES", 36.7213, -4.4214),
    ("Wellington", "NZ", -41.2866, 174.7756),
)
_STREETS = ("Linden Street", "Market Square", "Canal Road", "Straße am Park", "Rue de l'Église", "Hill Lane")


@dataclass(frozen=True)
class OrderLine:
    """One line of an order: name, description, category and price as they were when it was ordered."""

    line_no: int
    menu_item_id: int
    name: str
    description: str | None
    category: str
    quantity: int
    price: Decimal


@dataclass(frozen=True)
class Address:
    """Where an order goes; coordinates in degrees, to six digits."""

    street: str
    city: str
    postal_code: str
    country: str
    lat: float
    lon: float
    door_code: str | None


@dataclass(frozen=True)
class UserEntry:
    """How the user came in."""

    channel: str
    campaign: str | None
    referrer: str | None


@dataclass(frozen=True)
class RowVersion:
    """One row of `orders` with its lines and its address."""

    state: OrderState
    lines: tuple[OrderLine, ...]
    address: Address
    rollback_cause: str | None = None

    @property
    def final(self) -> bool:
        """Whether this row says what the order is."""
        return self.state != "pending"

    @property
    def total_price(self) -> Decimal:
        """Sum of quantity times price of its lines."""
        return sum((line.quantity * line.price for line in self.lines), Decimal("0.00"))


@dataclass(frozen=True)
class Review:
    """What the guest says."""

    stars: int
    body: str | None


@dataclass(frozen=True)
class ShopStep:
    """One transaction: `after_s` since the order was placed, `attempt` that it belongs to (1 = the placing)."""

    after_s: float
    kind: StepKind
    attempt: int
    row: RowVersion | None = None
    review: Review | None = None


@dataclass(frozen=True)
class OrderPlan:
    """The whole life of one order; `steps[0]` places it, the last step with a row is final."""

    number: int
    user_id: int
    business: Business
    policy_id: int | None
    courier_id: int
    party_size: int
    entry: UserEntry
    steps: tuple[ShopStep, ...]

    def rows(self) -> Iterator[RowVersion]:
        """The row versions in the order in which they are written."""
        return (step.row for step in self.steps if step.row is not None)


@dataclass(frozen=True)
class _Event:
    """A step before it is known what it finds: changes carry their outcome."""

    after_s: float
    kind: StepKind
    attempt: int
    content: RowVersion | None = None


def plan_order(seed: int, number: int, reference: Reference, pace_s: float = 1.0) -> OrderPlan:
    """Draw the life of order `number`: equal arguments give equal plans, in every process.

    Args:
        seed: names the whole run.
        number: 0, 1, 2, …: the place of the order in the run.
        reference: the shop's reference data.
        pace_s: mean time between two steps of an order, in seconds.
    """
    rng = random.Random(f"{seed}/order/{number}")  # noqa: S311 - a reproducible draw, not a secret
    business = rng.choice(reference.businesses)
    first = RowVersion("pending", _lines(rng, business), _address(rng))
    events = sorted(_events(rng, business, first, pace_s), key=lambda event: event.after_s)
    return OrderPlan(
        number=number,
        user_id=rng.randint(1, reference.users),
        business=business,
        policy_id=rng.choice((None, *range(1, reference.policies + 1))),
        courier_id=rng.randint(1, reference.couriers),
        party_size=rng.randint(1, 12),
        entry=_entry(rng, reference),
        steps=(ShopStep(0.0, "place", 1, first), *_outcomes(rng, first, events)),
    )


def _events(rng: random.Random, business: Business, first: RowVersion, pace_s: float) -> Iterator[_Event]:
    """What is asked for and when, whatever comes of it."""

    def pause() -> float:
        return pace_s * rng.uniform(0.2, 1.8)

    decided_s = pause()
    if rng.random() < _DECLINED:
        yield _Event(decided_s, "decline", 1)
        return
    yield _Event(decided_s, "complete", 1, first)
    end_s, last_attempt = decided_s, 1
    if rng.random() < _CHANGED:
        begins_s = decided_s
        for attempt in range(2, 2 + rng.choice((1, 1, 2, 3))):
            begins_s += pause() / 2  # half the time of its outcome: changes overlap
            content = _changed(rng, business, first)
            yield _Event(begins_s, "change", attempt, content)
            ends_s = begins_s + pause()
            failed = rng.random() < _ROLLED_BACK
            yield _Event(ends_s, "rollback" if failed else "complete", attempt, content)
            end_s, last_attempt = max(end_s, ends_s), attempt
    if rng.random() < _CANCELLED:
        # Anywhere after the first completion: changes may be in flight.
        yield _Event(decided_s + rng.random() * (end_s - decided_s + pause()), "cancel", last_attempt + 1)
    if rng.random() < _SETTLED:
        yield _Event(end_s + pause(), "settle", 1)
    if rng.random() < _REVIEWED:
        yield _Event(end_s + pause(), "review", 1)


def _outcomes(rng: random.Random, first: RowVersion, events: list[_Event]) -> Iterator[ShopStep]:
    """Carry the events out in time order: what each finds decides what it writes."""
    newest = first  # the newest final row, once there is one
    begun: set[int] = {1}
    for event in events:
        cancelled = newest.state == "cancelled"
        step = ShopStep(event.after_s, event.kind, event.attempt)
        match event.kind:
            case "decline":
                newest = replace(first, state="cancelled", rollback_cause="payment_declined")
                yield replace(step, row=newest)
            case "change" if not cancelled:
                begun.add(event.attempt)
                yield replace(step, row=event.content)
            case "complete" | "rollback" if event.attempt in begun:
                if event.kind == "complete" and not cancelled and event.content is not None:
                    newest = replace(event.content, state="completed")
                    yield replace(step, row=newest)
                else:
                    cause = "order_cancelled" if cancelled else rng.choice(_CAUSES)
                    newest = replace(newest, rollback_cause=cause)
                    yield replace(step, kind="rollback", row=newest)
            case "cancel":
                newest = replace(newest, state="cancelled", rollback_cause=None)
                yield replace(step, row=newest)
            case "settle" if not cancelled:
                yield step
            case "review" if not cancelled:
                yield replace(step, review=_review(rng))
            case _:  # asked of a cancelled order: refused without a trace
                pass


def _changed(rng: random.Random, business: Business, before: RowVersion) -> RowVersion:
    """Other lines, another address, or both."""
    what = rng.choice(("lines", "address", "both"))
    return RowVersion(
        "pending",
        before.lines if what == "address" else _lines(rng, business),
        before.address if what == "lines" else _address(rng),
    )


def _lines(rng: random.Random, business: Business) -> tuple[OrderLine, ...]:
    items = rng.sample(business.menu, rng.choice((1, 2, 2, 3, 3, 4, 6)))
    return tuple(
        OrderLine(number, item.item_id, item.name, item.description, item.category, rng.randint(1, 4), item.price)
        for number, item in enumerate(items, 1)
    )


def _address(rng: random.Random) -> Address:
    city, country, lat, lon = rng.choice(_CITIES)
    return Address(
        street=f"{rng.choice(_STREETS)} {rng.randint(1, 240)}",
        city=city,
        postal_code=f"{rng.randrange(10_000, 99_999)}",
        country=country,
        lat=round(lat + rng.uniform(-0.08, 0.08), 6),
        lon=round(lon + rng.uniform(-0.12, 0.12), 6),
        door_code=f"DOOR-{rng.randrange(100_000, 999_999)}" if rng.random() < 0.3 else None,
    )


def _entry(rng: random.Random, reference: Reference) -> UserEntry:
    if rng.random() < 0.4:
        campaign, channel = rng.choice(reference.campaigns)
        return UserEntry(channel, campaign, f"https://{channel}.example/?c={campaign}&n={rng.randrange(10**6)}")
    channel = rng.choice(reference.channels)
    return UserEntry(channel, None, "https://search.example/?q=dinner" if channel == "search" else None)


def _review(rng: random.Random) -> Review:
    body = rng.choice((None, "As always.", "Très bon, merci !", "Cold when it came 🥶", "素晴らしい"))
    return Review(rng.randint(1, 5), body)
