from __future__ import annotations

import pytest

from include.errors import SettingsError
from include.local.demo.extras import EXTRAS, ORDER_SEARCH, parts


def test_the_main_job_is_always_part_of_the_demo() -> None:
    assert parts("") == [ORDER_SEARCH]


def test_an_unknown_part_is_refused_with_the_list_of_those_that_exist() -> None:
    with pytest.raises(SettingsError) as refused:
        parts("lakes")
    assert refused.value.details["got"] == "lakes"
    assert all(name in str(refused.value) for name in EXTRAS)
    assert "allowed" in str(refused.value)


def test_a_part_joins_once_however_often_it_is_named() -> None:
    assert parts("lake, lake") == [ORDER_SEARCH, EXTRAS["lake"]]
