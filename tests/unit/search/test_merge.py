from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.clock import iso
from include.search.answer import Hit
from include.search.cursor import ListPlace
from include.search.merge import merged, newest

IDS = st.sampled_from([str(n) for n in range(12)])


def hit(doc_id: str, at: int, version: int | None = 1) -> Hit:
    return Hit(doc_id, version, {"at": iso(at), "version": version})


def place(one: Hit) -> ListPlace:
    return ListPlace.of(one.body, "at", one.doc_id)


def sorted_hits(hits: dict[str, Hit]) -> list[Hit]:
    return sorted(hits.values(), key=place, reverse=True)


states = st.dictionaries(IDS, st.integers(0, 5)).map(lambda found: {i: hit(i, at) for i, at in found.items()})
newer = st.dictionaries(IDS, st.none() | st.integers(0, 5)).map(
    lambda found: {i: None if at is None else hit(i, at, None) for i, at in found.items()}
)


@given(states, newer, st.integers(1, 5))
def test_walking_merged_pages_gives_the_newest_state_of_every_document_once_and_in_order(
    index: dict[str, Hit], database: dict[str, Hit | None], size: int
) -> None:
    truth = {i: h for i, h in {**index, **database}.items() if h is not None}
    # A document that has moved up in the list while pages are walked is met again or not at all: times stay here.
    database = {
        i: None if h is None else hit(i, place(index[i]).at_us, None) if i in index else h for i, h in database.items()
    }
    truth = {i: database.get(i, h) or h for i, h in truth.items()}
    found: list[Hit] = []
    after: ListPlace | None = None
    for _ in range(40):
        behind = [h for h in sorted_hits(index) if after is None or place(h) < after]
        page, more = merged(behind[:size], len(behind) >= size, database, "at", size, after)
        assert len(page) <= size
        found += page
        if more is None:
            break
        after = ListPlace.parse(more)
    assert found == sorted_hits(truth)


@given(st.lists(st.tuples(IDS, st.integers(1, 3)), max_size=20), st.randoms())
def test_the_newest_version_wins_in_whatever_order_states_come(pairs: list[tuple[str, int]], rng: object) -> None:
    hits = [hit(i, 0, version) for i, version in pairs]
    best: dict[str, int] = {}
    for i, version in pairs:
        best[i] = max(version, best.get(i, 0))
    rng.shuffle(hits)  # type: ignore[attr-defined]
    assert {i: h.version for i, h in newest(hits).items()} == best


def test_what_was_read_from_the_database_is_newer_than_any_version() -> None:
    database, index = hit("1", 0, None), hit("1", 5, 99)
    assert newest([database, index]) == newest([index, database]) == {"1": database}


def test_a_document_behind_the_end_of_a_full_page_waits_for_its_own_page() -> None:
    page = [hit("a", 9), hit("b", 8)]
    shown, more = merged(page, True, {"b": None, "z": hit("z", 1, None)}, "at", 2)
    assert [one.doc_id for one in shown] == ["a"]
    assert more == str(ListPlace(8, "b"))
    shown, more = merged(page, False, {"b": None, "z": hit("z", 1, None)}, "at", 2)
    assert ([one.doc_id for one in shown], more) == (["a", "z"], None)


def test_a_page_that_overflows_ends_at_its_last_hit() -> None:
    shown, more = merged([hit("a", 9), hit("b", 7)], True, {"new": hit("new", 8, None)}, "at", 2)
    assert [one.doc_id for one in shown] == ["a", "new"]
    assert more == str(ListPlace(8, "new"))
