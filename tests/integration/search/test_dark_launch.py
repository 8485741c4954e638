"""Dark launch on real servers: the shop's database beside an index with planted differences, and with lag."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from include.clock import SystemClock
from include.errors import SettingsError
from include.metrics.exporter import Metrics
from include.search.dark_launch.launch import DarkLaunch, Limits, Question
from include.search.dark_launch.page import dark_page
from include.search.dark_launch.stores import database_and_index, drawn_questions, rules_of
from tests.support.search.shop_search import ShopSearch

METRICS = Metrics("dark-launch-test")


@pytest.fixture
def dark(world: ShopSearch) -> Iterator[DarkLaunch]:
    world.index_all()
    index = world.reader().index
    stores = database_and_index(index, world.database)
    limits = Limits(sample=1.0, queued=1000, deadline_s=10)
    made = DarkLaunch(stores, rules_of(index, ["entry"]), SystemClock(), limits, METRICS)
    made.start(2)
    yield made
    made.close()


def test_an_index_that_is_right_gives_the_advice_to_switch_also_while_it_lags(
    world: ShopSearch, dark: DarkLaunch
) -> None:
    for question in drawn_questions(world.database, 5, 50, random.Random(1)):
        dark.ask(question)
    # Orders come in; the index has them a second later.
    world.more(11, 5)
    later = threading.Timer(1.0, world.index_all)
    later.start()
    for question in drawn_questions(world.database, 5, 60, random.Random(2)):
        dark.ask(question)
    later.join()
    report = dark.close()
    assert report.outcomes["lag"] > 0
    assert report.samples == report.outcomes["lag"] + report.outcomes["equal"] == 110
    assert report.advice(0.0).switch


def test_planted_differences_are_told_by_kind_and_id(world: ShopSearch, dark: DarkLaunch) -> None:
    told = world.told()
    by_user: dict[int, list[str]] = {}
    for doc_id, body in told.items():
        by_user.setdefault(body["user_id"], []).append(doc_id)
    one, two, three, *_ = by_user
    wrong, gone = by_user[one][0], by_user[two][0]
    lines = [{**told[wrong]["lines"][0], "quantity": 99}, *told[wrong]["lines"][1:]]
    world.plant(wrong, {**told[wrong], "lines": lines})
    world.plant(gone, None)
    world.plant("990001", {**told[by_user[three][0]], "order_id": 990001})
    # Listed first by the index, where the database lists it last; and what is not compared.
    four = next(user for user, orders in by_user.items() if user not in (one, two, three) and len(orders) > 1)
    oldest = min(by_user[four], key=lambda doc_id: told[doc_id]["created_at"])
    world.plant(oldest, {**told[oldest], "created_at": "2200-01-01T00:00:00Z", "entry": None})
    for user in (one, two, three, four):
        dark.ask(Question("user", str(user), 20))
    report = dark.close()
    world.plant("990001", None)
    assert dict(report.outcomes) == {"differs": 4}
    kinds = {"field lines.quantity": 1, "missing": 1, "extra": 1, "order": 1, "field created_at": 1}
    assert dict(report.found) == kinds
    assert {each.name: each.doc_id for each in report.examples} == {
        "field lines.quantity": wrong,
        "missing": gone,
        "extra": "990001",
        "order": max(by_user[four], key=lambda doc_id: told[doc_id]["created_at"]),
        "field created_at": oldest,
    }
    assert not report.advice(0.1, 1).switch
    assert "field lines.quantity" in dark_page("orders", report, 0.1, 1)
    for kind, count in {"field": 2, "missing": 1, "extra": 1, "order": 1}.items():
        assert f'lyrebird_compared_total{{application="dark-launch-test",kind="{kind}"}} {count}.0' in METRICS.text()


def test_a_field_that_the_mapping_does_not_have_is_not_silently_left_out(world: ShopSearch) -> None:
    with pytest.raises(SettingsError, match="the mapping has no such field"):
        rules_of(world.reader().index, ["entri"])
