from __future__ import annotations

import pytest

from include.errors import SettingsError
from include.local.demo.extras import EXTRAS, ORDER_SEARCH, parts, services
from include.local.services import SERVICES, select


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


def test_a_service_that_is_optional_is_started_for_its_part_alone() -> None:
    for wanted in ("", "lake"):
        assert services(parts(wanted)) == [row.name for row in select()]
    assert set(services(parts("lake,joins"))) == {row.name for row in SERVICES}
