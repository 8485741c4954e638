"""Wrong names meet the nearest ones that exist."""

from __future__ import annotations

import pytest

from include.errors import SettingsError
from include.settings.names import require_known, unknown
from include.settings.nearest import nearest

TOPICS = ["cdc.shop.shop.orders", "cdc.shop.shop.order_lines", "cdc.shop.shop.users", "assembled_order"]


def test_the_nearest_come_first() -> None:
    assert nearest("cdc.shop.shop.order", TOPICS)[0] == "cdc.shop.shop.orders"
    assert nearest("orders", TOPICS)[0] == "cdc.shop.shop.orders"
    assert nearest("Users", TOPICS)[0] == "cdc.shop.shop.users"


def test_where_none_is_alike_some_are_shown() -> None:
    assert nearest("zzz", [f"t{number}" for number in range(9)]) == ["t0", "t1", "t2", "t3", "t4"]


def test_the_error_names_what_was_asked_for_and_what_may_be_meant() -> None:
    require_known("assembled_order", TOPICS, "no such topic")
    with pytest.raises(SettingsError, match=r"no such topic.*Did you mean cdc.shop.shop.orders\?") as refused:
        require_known("orders", TOPICS, "no such topic")
    assert refused.value.details["got"] == "orders"
    assert "There is none yet." in str(unknown("a", [], "no such topic"))
