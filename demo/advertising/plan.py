"""Draws what advertising writes, without a clock or a database: its first rows, and one change after the other.

Four of five businesses may buy packages, some several; most have an owner, some two, some none. A package is sold,
gets another plan, price or status, and is deleted when it ends. An owner gets another phone, sells the business,
comes or goes.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Literal

from demo.shop.reference import ReferenceRow, reference_data

__all__ = ["AdvertisingChange", "AdvertisingTable", "changes", "first_rows"]

AdvertisingTable = Literal["packages", "owners"]

_SEED = "first customers of advertising"  # apart from the changes' seed: any seed meets the same ones
_EPOCH = dt.date(2026, 1, 1)
_LANGUAGES = ("en", "de", "fr", "nl", "pl", "ja")
_PRICES = {"basic": 4_900, "plus": 9_900, "premium": 24_900}
_STATUSES = ("trial", "running", "running", "paused")
_NEVER_BUYS = 5  # a business whose number is divisible by it
# Shares of changes, added up: packages are sold, altered, ended; owners come, get a phone, sell the business, go.
_SOLD, _ALTERED, _ENDED, _CAME, _PHONED, _MOVED = 0.3, 0.65, 0.82, 0.85, 0.93, 0.97


@dataclass(frozen=True)
class AdvertisingChange:
    """One row of `table` is `row` from now on; without `row` it is deleted."""

    table: AdvertisingTable
    row_id: int
    row: ReferenceRow | None


@cache
def first_rows() -> Mapping[AdvertisingTable, tuple[ReferenceRow, ...]]:
    """Draws the rows that are there before the first change: pure, the same in every process."""
    rng = random.Random(_SEED)  # noqa: S311 - a reproducible draw, not a secret
    packages: list[ReferenceRow] = []
    owners: list[ReferenceRow] = []
    for business in _businesses():
        for _ in range(rng.choice((0, 1, 1, 2, 3)) if business % _NEVER_BUYS else 0):
            packages.append(_package(len(packages) + 1, business, rng))
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            owners.append(_owner(len(owners) + 1, business, rng))
    return {"packages": tuple(packages), "owners": tuple(owners)}


def changes(seed: int) -> Iterator[AdvertisingChange]:
    """Endless; equal seeds give equal changes. Ids are given once, and only what is there is changed or deleted."""
    rng = random.Random(f"{seed}/advertising")  # noqa: S311 - a reproducible draw, not a secret
    there = {table: dict(enumerate(rows, 1)) for table, rows in first_rows().items()}
    given = {table: len(rows) for table, rows in there.items()}
    packages, owners = there["packages"], there["owners"]
    while True:
        change = _change(rng, packages, owners, given)
        rows = there[change.table]
        if change.row is None:
            del rows[change.row_id]
        else:
            given[change.table] = max(given[change.table], change.row_id)
            rows[change.row_id] = change.row
        yield change


def _change(
    rng: random.Random,
    packages: Mapping[int, ReferenceRow],
    owners: Mapping[int, ReferenceRow],
    given: Mapping[AdvertisingTable, int],
) -> AdvertisingChange:
    draw = rng.random()
    if draw < _SOLD or not packages:
        package = given["packages"] + 1
        return AdvertisingChange("packages", package, _package(package, _buyer(rng), rng))
    if draw < _ALTERED:
        package = rng.choice(list(packages))
        *_, starts_on = packages[package]
        return AdvertisingChange("packages", package, (*_package(package, packages[package][1], rng)[:-1], starts_on))
    if draw < _ENDED:
        return AdvertisingChange("packages", rng.choice(list(packages)), None)
    if draw < _CAME or not owners:
        owner = given["owners"] + 1
        return AdvertisingChange("owners", owner, _owner(owner, _buyer(rng), rng))
    owner = rng.choice(list(owners))
    number, business, name, phone, *rest = owners[owner]
    if draw < _PHONED:
        return AdvertisingChange("owners", owner, (number, business, name, _phone(rng), *rest))
    if draw < _MOVED:
        return AdvertisingChange("owners", owner, (number, _buyer(rng), name, phone, *rest))
    return AdvertisingChange("owners", owner, None)


def _package(number: int, business: object, rng: random.Random) -> ReferenceRow:
    plan, price = rng.choice(tuple(_PRICES.items()))
    return (
        number,
        business,
        plan,
        Decimal(price + rng.randrange(-1_000, 1_000)).scaleb(-2),
        rng.choice(_STATUSES),
        _EPOCH + dt.timedelta(days=rng.randrange(365)),
    )


def _owner(number: int, business: object, rng: random.Random) -> ReferenceRow:
    name, email = f"Owner {number:03d}", f"owner-{number:03d}@advertising.example"
    return (number, business, name, _phone(rng), email, rng.choice(_LANGUAGES))


def _phone(rng: random.Random) -> str:
    return f"+00 555 04{rng.randrange(10_000):04d}"


def _buyer(rng: random.Random) -> int:
    return rng.choice([business for business in _businesses() if business % _NEVER_BUYS])


def _businesses() -> list[int]:
    return [each.business_id for each in reference_data().businesses]
