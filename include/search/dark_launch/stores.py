"""The two stores of a search for its dark launch: lists from the database (old) and from the index (new)."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from typing import Final

from include.errors import SettingsError
from include.record.position import SourcePosition
from include.search.client import IndexSearch
from include.search.cursor import ListPlace
from include.search.dark_launch.compare import ComparisonRules, Listing
from include.search.dark_launch.launch import Question, Stores
from include.search.database import DatabaseDocuments

__all__ = ["database_and_index", "drawn_questions", "rules_of"]

_USERS: Final = 10_000


def database_and_index(index: IndexSearch, database: DatabaseDocuments) -> Stores:
    """Users' lists, newest first. A user of whom the database read a part only is compared as far as that goes."""
    time_field, step_us = index.target.search.time, index.target.time_step_us

    def old(question: Question) -> Listing:
        read = database.of_user(question.value)
        hits = [hit for hit in read.documents.values() if hit is not None]
        hits.sort(key=lambda hit: ListPlace.of(hit.body, time_field, hit.doc_id, step_us), reverse=True)
        if read.more:
            raise SettingsError(
                "a user has more than is read of one",
                user=question.value,
                read=len(read.documents),
                fix="Raise `fresh.recent` of the search for its dark launch.",
            )
        return Listing(tuple((hit.doc_id, hit.body) for hit in hits[: question.size]), question.size)

    def new(question: Question) -> Listing:
        page = index.of_user(question.value, question.size)
        return Listing(tuple((hit.doc_id, hit.body) for hit in page.hits), question.size)

    def covers() -> SourcePosition | None:
        standing = index.serving.now()
        return None if standing.uncovered else standing.visible

    return Stores(old, new, database.position, covers)


def rules_of(index: IndexSearch, ignored: Collection[str] = ()) -> ComparisonRules:
    """Both sides keep microseconds. Fields `ignored` of a body are not compared; raises `SettingsError` for others."""
    for name in ignored:
        if index.target.field_type(name) is None:
            raise SettingsError("the mapping has no such field", field=name, search=index.target.name)
    return ComparisonRules(index.target.search.time, ignored=frozenset(ignored))


def drawn_questions(database: DatabaseDocuments, size: int, number: int, rng: random.Random) -> Iterator[Question]:
    """`number` lists of users drawn from the first 10,000 that have rows; none when nobody has."""
    users = database.users(None, _USERS)
    for _ in range(number if users else 0):
        yield Question("user", str(rng.choice(users)), size)
