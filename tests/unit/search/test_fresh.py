"""Fresh reads over a model: a database with commits, an index that is behind it by some of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.clock import ManualClock, iso
from include.errors import BackPressure, InvalidRecord, Transient
from include.metrics.exporter import Metrics
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.search.answer import CompleteTo, Hit, Page
from include.search.cursor import ListPlace
from include.search.database import DatabaseRead
from include.search.definition import FreshReads, SearchTarget
from include.search.fresh import FreshSearch
from include.search.serving import NoIndex, ServingIndex

USER = 7
AT = "1970-01-01T00:00:00.000003Z"


def position(number: int) -> SourcePosition:
    gtids = parse_gtid_set(f"0-1-{number}" if number else "", "mariadb")
    return SourcePosition("mariadb", gtids, BinlogPosition("bin.000001", number), number)


def body(doc_id: str, state: str, user: int = USER) -> dict[str, Any]:
    return {"order_id": int(doc_id), "user_id": user, "state": state, "created_at": iso(int(doc_id) * 1_000_000)}


class Harness:
    """Commits are (id, body); None deletes, "pending" is a row that is not final yet."""

    def __init__(self, target: SearchTarget) -> None:
        self.target = target
        self.clock = ManualClock()
        self.commits: list[tuple[str, dict[str, Any] | str | None]] = []
        self.complete = self.visible = 0
        self.down = self.lost = self.database_down = False
        self.database_reads = 0
        self.uncovered: tuple[str, ...] = ()
        self.catch_up_by_s: float | None = None
        self.serving = self

    # What the index's side offers.
    def now(self, newer_than_s: float | None = None) -> ServingIndex:
        if self.down:
            raise Transient("away", system="elasticsearch")
        if self.lost:
            raise NoIndex("no index serves this alias", fix="Run `lyrebird index create orders`.")
        if self.catch_up_by_s is not None and self.clock.monotonic_s() >= self.catch_up_by_s:
            self.catch_up()
        return ServingIndex("orders-v1", position(self.complete), position(self.visible), self.uncovered)

    def one(self, doc_id: str) -> tuple[Hit | None, CompleteTo]:
        standing = self.now()
        return self.state(self.complete).get(doc_id), CompleteTo("index", standing.complete, uncovered=self.uncovered)

    def of_user(self, user: Any, size: int = 20, after: str | None = None) -> Page:
        standing = self.now()
        behind = [h for h in self.listed(self.visible) if after is None or self.place(h) < ListPlace.parse(after)]
        more = str(self.place(behind[size - 1])) if len(behind) >= size else None
        return Page(tuple(behind[:size]), more, CompleteTo("index", standing.visible, uncovered=self.uncovered))

    def catch_up(self) -> None:
        self.complete = self.visible = len(self.commits)

    # The database's side.
    def read(self, only: str | None = None) -> DatabaseRead:
        self.database_reads += 1
        if self.database_down:
            raise BackPressure("capped", system="mysql")
        living = {i: Hit(i, None, h.body) for i, h in self.state(len(self.commits)).items()}
        pending = frozenset(i for i, last in dict(self.commits).items() if last == "pending" and i not in living)
        if only is not None:
            return DatabaseRead(
                {only: living.get(only)} if only not in pending else {}, pending & {only}, self.position()
            )
        return DatabaseRead(living, pending, self.position())

    def by_id(self, doc_id: str) -> DatabaseRead:
        return self.read(doc_id)

    def position(self) -> SourcePosition:
        return position(len(self.commits))

    # The model.
    def state(self, upto: int) -> dict[str, Hit]:
        found: dict[str, Hit] = {}
        for number, (doc_id, what) in enumerate(self.commits[:upto], 1):
            if isinstance(what, dict):
                found[doc_id] = Hit(doc_id, number, what)
            elif what is None:
                found.pop(doc_id, None)
        return found

    def place(self, hit: Hit) -> ListPlace:
        return ListPlace.of(hit.body, "created_at", hit.doc_id)

    def listed(self, upto: int) -> list[Hit]:
        return sorted(self.state(upto).values(), key=self.place, reverse=True)

    def truth(self) -> list[dict[str, Any]]:
        return [dict(hit.body) for hit in self.listed(len(self.commits))]

    def search(self, metrics: Metrics | None = None, database: bool = True) -> FreshSearch:
        side = Side(self) if database else None
        return FreshSearch(self, side, self.clock, metrics)  # type: ignore[arg-type]


class Side:
    def __init__(self, world: Harness) -> None:
        self.by_id = world.by_id
        self.of_user = lambda _user, _ids=(): world.read()


@pytest.fixture
def world(target: SearchTarget) -> Harness:
    found = Harness(target)
    found.commits = [(str(n), body(str(n), "completed")) for n in range(1, 6)]
    found.catch_up()
    return found


def bodies(page: Page) -> list[dict[str, Any]]:
    return [dict(hit.body) for hit in page.hits]


steps = st.lists(
    st.tuples(
        st.sampled_from([str(n) for n in range(1, 9)]),
        st.sampled_from(["completed", "cancelled", "pending", "gone"]),
        st.booleans(),
    ),
    max_size=10,
)


@given(steps, st.integers(1, 4))
def test_a_reader_that_names_its_write_sees_it_whatever_the_index_has(
    target: SearchTarget, changes: list[tuple[str, str, bool]], size: int
) -> None:
    hasty = target.search.model_copy(update={"fresh": FreshReads(patience_ms=0)})
    world = Harness(dataclasses.replace(target, search=hasty))
    search = world.search()
    for doc_id, what, indexed in changes:
        final = body(doc_id, what) if what in ("completed", "cancelled") else None
        # A row that is not final changes nothing of what an order is: only new orders are of interest.
        if what == "pending" and doc_id in dict(world.commits):
            continue
        world.commits.append((doc_id, "pending" if what == "pending" else final))
        if indexed:
            world.complete = len(world.commits)
            world.visible = world.complete - 1
        written = f"0-1-{len(world.commits)}"
        found: list[dict[str, Any]] = []
        after = None
        while True:
            page = search.of_user(USER, size, after, written=written)
            assert page.seen.fresh
            found += bodies(page)
            after = page.next
            if after is None:
                break
        assert found == world.truth()
        hit, seen = search.one(doc_id, written=written)
        assert seen.fresh
        assert (dict(hit.body) if hit else None) == (final if final else None)


def test_a_write_that_is_visible_is_answered_by_the_index_alone(world: Harness) -> None:
    page = world.search().of_user(USER, written="0-1-5")
    assert (page.seen.origin, page.seen.position, world.database_reads) == ("index", position(5), 0)


def test_a_read_waits_a_little_for_the_index(world: Harness) -> None:
    world.commits.append(("6", body("6", "completed")))
    world.catch_up_by_s = 0.2
    page = world.search().of_user(USER, written="0-1-6")
    assert (page.hits[0].doc_id, page.seen.origin, world.database_reads) == ("6", "index", 0)
    assert 0.2 <= world.clock.monotonic_s() < 0.3


def test_a_read_does_not_wait_for_ever(world: Harness) -> None:
    world.commits.append(("6", body("6", "completed")))
    page = world.search().of_user(USER, written="0-1-6")
    assert (page.hits[0].doc_id, page.seen.origin, world.database_reads) == ("6", "index+mysql", 1)
    assert page.seen.position == position(5)
    assert world.clock.monotonic_s() < 0.4


def test_the_latest_order_is_put_in_from_the_index_before_it_is_visible(world: Harness) -> None:
    world.commits.append(("6", body("6", "completed")))
    world.complete = 6
    page = world.search().of_user(USER, 3, latest="6")
    assert [hit.doc_id for hit in page.hits] == ["6", "5", "4"]
    assert (page.seen.origin, world.database_reads) == ("index", 0)
    following = world.search().of_user(USER, 3, page.next, latest="6")
    assert [hit.doc_id for hit in following.hits] == ["3", "2", "1"]


def test_the_latest_order_is_asked_of_the_database_when_the_index_lacks_it(world: Harness) -> None:
    world.commits.append(("6", body("6", "completed")))
    page = world.search().of_user(USER, latest="6")
    assert [hit.doc_id for hit in page.hits] == ["6", "5", "4", "3", "2", "1"]
    assert (page.seen.origin, world.database_reads) == ("index+mysql", 1)


def test_an_order_that_is_not_final_yet_asks_the_database_once_and_not_for_ever(world: Harness) -> None:
    world.commits.append(("6", "pending"))
    search = world.search()
    origins = [search.of_user(USER, latest="6").seen.origin for _ in range(5)]
    assert origins == ["index+mysql", "index", "index", "index", "index"]
    assert world.database_reads == 1
    world.clock.advance(60)
    search.of_user(USER, latest="6")
    assert world.database_reads == 2
    world.commits.append(("6", body("6", "completed")))
    world.catch_up()
    assert search.of_user(USER, latest="6").hits[0].doc_id == "6"


def test_another_users_order_is_not_put_into_the_list(world: Harness) -> None:
    world.commits.append(("6", body("6", "completed", user=8)))
    assert "6" not in [hit.doc_id for hit in world.search().of_user(USER, latest="6").hits]


def test_without_the_index_the_database_answers_alone(world: Harness) -> None:
    world.down = True
    search = world.search()
    page = search.of_user(USER, 2)
    assert bodies(page) == world.truth()[:2]
    assert (page.seen.origin, page.seen.position) == ("mysql", position(5))
    assert bodies(search.of_user(USER, 20, page.next)) == world.truth()[2:]
    hit, seen = search.one("5")
    assert hit is not None
    assert (hit.body, seen.origin) == (body("5", "completed"), "mysql")


def test_when_both_are_away_the_caller_is_told_by_the_error(world: Harness) -> None:
    world.down = world.database_down = True
    with pytest.raises(BackPressure):
        world.search().of_user(USER)
    with pytest.raises(Transient):
        world.search(database=False).one("5")


def test_a_read_that_may_lack_the_write_says_so_rather_than_fail(world: Harness) -> None:
    world.commits.append(("6", body("6", "completed")))
    world.database_down = True
    for search in (world.search(), world.search(database=False)):
        for page in (search.of_user(USER, written="0-1-6"), search.of_user(USER, latest="6")):
            assert (len(page.hits), page.seen.origin, page.seen.fresh) == (5, "index", False)
        hit, seen = search.one("6", written="0-1-6")
        assert (hit, seen.fresh) == (None, False)


def test_a_position_that_leaves_tables_out_proves_no_write(world: Harness) -> None:
    world.uncovered = ("shop.orders",)
    page = world.search().of_user(USER, written="0-1-5")
    assert (page.seen.origin, page.seen.uncovered) == ("index+mysql", ("shop.orders",))
    assert "may lack changes of shop.orders" in page.seen.line()
    assert world.clock.monotonic_s() == 0, "waiting would not help"
    _, seen = world.search().one("5", written="0-1-5")
    assert seen.origin == "mysql"


def test_an_index_that_is_lost_is_one_that_is_away(world: Harness) -> None:
    world.lost = True
    assert bodies(world.search().of_user(USER)) == world.truth()
    with pytest.raises(NoIndex, match="lyrebird index create"):
        world.search(database=False).of_user(USER)


def test_reads_are_counted_by_where_they_were_answered(world: Harness) -> None:
    metrics = Metrics("shop")
    search = world.search(metrics)
    search.of_user(USER)
    world.commits.append(("6", body("6", "completed")))
    search.of_user(USER, written="0-1-6")
    world.database_down = True
    search.of_user(USER, written="0-1-6")
    text = metrics.text()
    for kind in ("index", "index+mysql", "index stale"):
        assert f'lyrebird_reads_total{{application="shop",kind="{kind}"}} 1.0' in text


def test_an_answer_of_a_database_that_lacks_the_write_says_so(target: SearchTarget) -> None:
    world = Harness(target)
    world.commits.append(("1", body("1", "completed")))
    reader = FreshSearch(world, Side(world), world.clock)  # type: ignore[arg-type]
    never = "0-1-9"
    assert [reader.one("1", never)[1].fresh, reader.of_user(USER, written=never).seen.fresh] == [False, False]
    world.down = True
    assert [reader.one("1", never)[1].fresh, reader.of_user(USER, written=never).seen.fresh] == [False, False]
    assert [reader.one("1", "0-1-1")[1].fresh, reader.of_user(USER, written="0-1-1").seen.fresh] == [True, True]


def test_what_only_the_index_can_tell_is_away_with_the_index(target: SearchTarget) -> None:
    world = Harness(target)
    world.down = True

    def refuse(doc_id: str) -> DatabaseRead:
        raise InvalidRecord("id of a long key cannot be asked of the database", reason="hash")

    world.by_id = refuse  # type: ignore[method-assign]
    reader = FreshSearch(world, Side(world), world.clock)  # type: ignore[arg-type]
    with pytest.raises(Transient, match="away"):
        reader.one("sha256:00")


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (CompleteTo("index", position(3)), f"from the index, up to 0-1-3, committed {AT}"),
        (
            CompleteTo("index+mysql", position(3)),
            f"from the index, with newer rows of the database, the index itself up to 0-1-3, committed {AT}",
        ),
        (
            CompleteTo("mysql", position(3), fresh=False),
            f"from the database, up to 0-1-3, asked {AT}; the write that was named may be missing",
        ),
        (CompleteTo("index", None), "from the index, position unknown"),
    ],
)
def test_an_answer_says_in_one_line_where_it_came_from_and_up_to_where_it_holds(seen: CompleteTo, line: str) -> None:
    assert seen.line() == line
