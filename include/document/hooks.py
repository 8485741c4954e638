"""Fields that a deployment file names by hook, as YAML cannot say them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

__all__ = ["lines_total"]


def lines_total(body: Mapping[str, Any]) -> Decimal:
    """Sum of quantity times price over the body's `lines`; 0.00 without lines. Exact, two digits."""
    return sum((line["quantity"] * line["price"] for line in body["lines"]), Decimal("0.00"))
