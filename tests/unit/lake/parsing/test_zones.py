from __future__ import annotations

import datetime as dt
import time

import pytest

from include.lake.parsing.date_pattern import pattern
from include.lake.parsing.partition_names import TimeName, time_names
from include.lake.parsing.zones import RULES, zone


def test_zones_come_from_the_pinned_package() -> None:
    assert zone("Europe/Berlin").key == "Europe/Berlin"
    assert dt.datetime(2026, 7, 1, tzinfo=zone("Europe/Berlin")).utcoffset() == dt.timedelta(hours=2)
    assert zone("Etc/GMT+5") is zone("Etc/GMT+5")
    assert RULES >= "2024a"


@pytest.mark.parametrize(
    "name",
    ["", "Mars/Base", "Europe", "../zoneinfo/UTC", "/UTC", "UTC/", "zone.tab", "zones", "__init__.py", "tzdata.zi"],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        zone(name)


@pytest.mark.parametrize("machine", ["America/Lima", "Asia/Tokyo", "UTC"])
def test_names_do_not_depend_on_the_zone_of_the_machine(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", machine)
    time.tzset()
    try:
        assert time_names(TimeName(by="hour", zone="Asia/Kolkata"))(1_700_000_000_000_000) == ("dt=2023-11-15", "hr=03")
        assert pattern("%d %B %Y", zone("Asia/Kolkata"))("14 November 2023") == 1_699_900_200_000_000
    finally:
        monkeypatch.undo()
        time.tzset()
