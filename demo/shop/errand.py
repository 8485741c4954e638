"""Changes of reference data while orders run, drawn from (seed, number): few alter documents, most alter none.

The rare ones (a partner's public name and site, a business's vertical) make every document of that partner or
business stale; the others touch private columns and must alter nothing in the index.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from demo.shop.reference import Reference

__all__ = ["ORDERS_PER_ERRAND", "Errand", "plan_errand"]

ORDERS_PER_ERRAND = 25
"""One errand for so many orders placed."""

_ALTERS_DOCUMENTS = 0.25


@dataclass(frozen=True)
class Errand:
    """One row of a table of reference data gets these values."""

    table: Literal["partners", "businesses", "users", "menu_items"]
    row_id: int
    values: Mapping[str, object]
    alters_documents: bool


def plan_errand(seed: int, number: int, reference: Reference) -> Errand:
    """Draw errand `number`: equal arguments give equal errands. Each carries its number, so that it is a change."""
    rng = random.Random(f"{seed}/errand/{number}")  # noqa: S311 - a reproducible draw, not a secret
    if rng.random() < _ALTERS_DOCUMENTS:
        if rng.random() < 0.6:
            partner = rng.randint(1, reference.partners)
            names = {
                "name": f"Partner {partner:02d} · {seed}.{number}",
                "site": f"https://partner-{partner:02d}.example/{seed}/{number}",
            }
            return Errand("partners", partner, names, alters_documents=True)
        business = rng.choice(reference.businesses).business_id
        vertical = {"vertical_id": rng.randint(1, reference.verticals)}
        return Errand("businesses", business, vertical, alters_documents=True)
    match rng.choice(("users", "partners", "businesses", "menu_items")):
        case "users":
            user = rng.randint(1, reference.users)
            email = {"email": f"guest-{user:04d}.{seed}.{number}@mail.example"}
            return Errand("users", user, email, alters_documents=False)
        case "partners":
            terms = {
                "commission_percent": Decimal(rng.randrange(500, 3000)).scaleb(-2),
                "contact_email": f"contact.{seed}.{number}@partner.example",
            }
            partner = rng.randint(1, reference.partners)
            return Errand("partners", partner, terms, alters_documents=False)
        case "businesses":
            business = rng.choice(reference.businesses).business_id
            return Errand("businesses", business, {"margin": rng.random()}, alters_documents=False)
        case _:
            item = rng.choice(rng.choice(reference.businesses).menu)
            availability = {"available": rng.randint(0, 1)}
            return Errand("menu_items", item.item_id, availability, alters_documents=False)
