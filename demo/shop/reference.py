"""Draws what the shop knows before its first order: partners, businesses, menus, users. The same on every machine.

Ids are fixed, so that a shop is made again by inserting what is missing, and a plan of orders can be drawn without
asking the database.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

__all__ = ["Business", "MenuItem", "Reference", "ReferenceRow", "reference_data"]

ReferenceRow = tuple[object, ...]
"""Values of one row, in the order of the table's columns."""

_SEED = "the shop's own furniture"  # apart from the orders' seed: any seed meets the same menus
_PARTNERS, _BUSINESSES, _USERS, _COURIERS = 24, 80, 400, 30

_VERTICALS = (
    ("food", "Food"),
    ("reservations", "Reservations"),
    ("groceries", "Groceries"),
    ("flowers", "Flowers"),
    ("pharmacy", "Pharmacy"),
)
_CHANNELS = (
    ("app", "Mobile application"),
    ("web", "Website"),
    ("partner", "Partner's page"),
    ("mail", "Newsletter"),
    ("search", "Search engine"),
    ("phone", "Telephone"),
)
_CAMPAIGNS = (
    ("spring-lunch", "mail"),
    ("free-delivery", "app"),
    ("first-order", "search"),
    ("rainy-day", "app"),
    ("weekend-table", "web"),
    ("late-night", "search"),
    ("double-points", "partner"),
    ("summer-garden", "mail"),
)
_POLICIES = (("Flexible", 60), ("Moderate", 24 * 60), ("Strict", 7 * 24 * 60), ("Until the door", 0))
_DISHES: Mapping[str, Sequence[tuple[str, str | None]]] = {
    "Starters": (
        ("Tomato soup", "With basil and croûtons"),
        ("Jalapeño bites", "Hot 🌶"),
        ("Green salad", None),
        ("Spring rolls", "Six pieces; soy sauce 醤油"),
    ),
    "Mains": (
        ("Ramen 🍜", "Broth of twelve hours"),
        ("Pizza Margherita", "Tomato, mozzarella, basil"),
        ("Käsespätzle", "With crisp onions"),
        ("Vegetable curry", 'Mild; ask for "hot"'),
    ),
    "Desserts": (
        ("Crème brûlée", "Contains egg & milk"),
        ("Apple crumble", None),
        ("Sorbet of the day", "Today's fruit\nfrom today's market"),
        ("Cheese board", "Three kinds, 50% goat's milk"),
    ),
}


@dataclass(frozen=True)
class MenuItem:
    """One thing on a menu; `price` in the business's currency."""

    item_id: int
    name: str
    description: str | None
    category: str
    price: Decimal


@dataclass(frozen=True)
class Business:
    """One business as orders see it.

    `currency` is what it sells in; `delivers` is false where a table is booked instead.
    """

    business_id: int
    partner_id: int
    vertical_id: int
    currency: str
    delivers: bool
    menu: tuple[MenuItem, ...]


@dataclass(frozen=True)
class Reference:
    """The reference data: as rows for the database, and as objects for the plan of orders."""

    rows: Mapping[str, Sequence[ReferenceRow]]
    businesses: tuple[Business, ...]
    campaigns: tuple[tuple[str, str], ...] = _CAMPAIGNS
    """(campaign, the channel it runs on)."""
    channels: tuple[str, ...] = tuple(code for code, _ in _CHANNELS)
    couriers: int = _COURIERS
    partners: int = _PARTNERS
    policies: int = len(_POLICIES)
    users: int = _USERS
    verticals: int = len(_VERTICALS)


def _digest(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


@cache
def reference_data() -> Reference:
    """Draw the reference data: pure, the same in every process."""
    rng = random.Random(_SEED)  # noqa: S311 - a reproducible draw, not a secret
    rows: dict[str, list[ReferenceRow]] = {
        "verticals": [(number, *names) for number, names in enumerate(_VERTICALS, 1)],
        "partners": [_partner(number, rng) for number in range(1, _PARTNERS + 1)],
        "businesses": [],
        "users": [_user(number, rng) for number in range(1, _USERS + 1)],
        "menu_categories": [],
        "menu_items": [],
        "channels": list(_CHANNELS),
        "campaigns": [
            (code, channel, Decimal(rng.randrange(100_000, 9_000_000)).scaleb(-2), dt.date(2026, 1, 1))
            for code, channel in _CAMPAIGNS
        ],
        "cancellation_policies": [
            (number, name, minutes, f"internal: revenue class {number}")
            for number, (name, minutes) in enumerate(_POLICIES, 1)
        ],
        "couriers": [
            (number, f"Courier {number:02d}", f"+00 555 02{number:04d}",
             rng.choice(("foot", "bicycle", "scooter", "car")))
            for number in range(1, _COURIERS + 1)
        ],
    }  # fmt: skip
    businesses = tuple(_business(number, rng, rows) for number in range(1, _BUSINESSES + 1))
    return Reference(rows=rows, businesses=businesses)


def _partner(number: int, rng: random.Random) -> ReferenceRow:
    return (
        number,
        f"Partner {number:02d}",
        f"https://partner-{number:02d}.example/",
        f"Legal entity of partner {number:02d}",
        Decimal(rng.randrange(500, 3000)).scaleb(-2),
        f"contact-{number:02d}@partner.example",
        f"+00 555 00{number:04d}",
        f"CONTRACT-{_digest('contract', number)[:12]}",
        f"ACCOUNT-{_digest('account', number)[:16]}",
    )


def _user(number: int, rng: random.Random) -> ReferenceRow:
    born_on = dt.date(1950, 1, 1) + dt.timedelta(days=rng.randrange(20_000))
    return (
        number,
        f"Guest {number:04d}",
        f"guest-{number:04d}@mail.example",
        f"+00 555 01{number:04d}",
        _digest("password", number),
        born_on if rng.random() < 0.8 else None,
        int(rng.random() < 0.5),
        dt.datetime(2026, 1, 1, tzinfo=None) + dt.timedelta(microseconds=rng.randrange(10**12)),  # noqa: DTZ001 - datetime(6) columns carry no zone; all are UTC
    )


def _business(number: int, rng: random.Random, rows: dict[str, list[ReferenceRow]]) -> Business:
    partner_id, vertical_id = rng.randint(1, _PARTNERS), rng.randint(1, len(_VERTICALS))
    currency = rng.choice(("EUR", "EUR", "GBP", "USD"))
    rows["businesses"].append(
        (
            number,
            partner_id,
            vertical_id,
            f"Business {number:03d}",
            f"TAX-{_digest('tax', number)[:10]}",
            f"owner-{number:03d}@business.example",
            f"+00 555 03{number:04d}",
            rng.random(),
            dt.date(2010, 1, 1) + dt.timedelta(days=rng.randrange(5_000)),
        )
    )
    menu: list[MenuItem] = []
    for category, dishes in _DISHES.items():
        category_id = len(rows["menu_categories"]) + 1
        rows["menu_categories"].append((category_id, number, category))
        for name, description in dishes:
            item_id = len(rows["menu_items"]) + 1
            price = Decimal(rng.randrange(150, 4_000)).scaleb(-2)
            menu.append(MenuItem(item_id, name, description, category, price))
            rows["menu_items"].append((item_id, category_id, name, description, price, 1))
    delivers = _VERTICALS[vertical_id - 1][0] != "reservations"
    return Business(number, partner_id, vertical_id, currency, delivers, tuple(menu))
