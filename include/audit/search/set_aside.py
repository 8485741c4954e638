"""Documents whose newest state is in neither side: the application that writes the topic set it aside.

Topic and index agree on an older state then, which no comparison of the two would tell. Dead letters of documents that
were never in the log have no coordinates; those with coordinates are the indexer's, whose documents a comparison finds.
"""

from __future__ import annotations

from collections.abc import Iterator

from include.audit.definition import SearchAuditSpec
from include.audit.search.cut import AuditCut
from include.audit.search.expected import ExpectedSide, records_below
from include.audit.search.report import UnmadeDocument
from include.audit.search.sides import AuditSides
from include.errors import InvalidRecord
from include.index.states import States
from include.log.publishing.dead_letter import DeadLetter
from include.log.topics import TopicName

__all__ = ["still_set_aside"]

_NOWHERE = -1


def still_set_aside(
    spec: SearchAuditSpec, sides: AuditSides, at: AuditCut, expected: ExpectedSide
) -> tuple[UnmadeDocument, ...]:
    """Those without a later state in the topic below the cut or in the index by now, sorted by id.

    Dead letters are read whole, and held one for each document. What their topic has let go is not known any more.
    """
    if spec.index.versions != "header":
        # Positions of records as versions: what was never in the log has none.
        return ()
    newest: dict[str, UnmadeDocument] = {}
    states = sides.writing(at.info.name, spec, at).states
    for letter in _letters(spec.topic, sides):
        found = _read(letter, states)
        if found is not None and found.version >= states.feed.floor:
            known = newest.get(found.doc_id)
            newest[found.doc_id] = found if known is None or found.version >= known.version else known
    for doc_id, state in expected.of(newest).items():
        if state.version >= newest[doc_id].version:
            del newest[doc_id]
    if not newest:
        return ()
    # What came from above the cut meanwhile.
    moment = sides.states(at.info.name, spec, at.bounds)
    try:
        for doc_id, copies in moment.now(list(newest), everywhere=True).items():
            if any(copy.version >= newest[doc_id].version for copy in copies):
                del newest[doc_id]
    finally:
        moment.close()
    return tuple(newest[doc_id] for doc_id in sorted(newest))


def _letters(topic: str, sides: AuditSides) -> Iterator[DeadLetter]:
    for name in sides.admin.names():
        parsed = TopicName.parse(name)
        if parsed.kind == "dead" and parsed.subject == topic:
            for record in records_below(sides.reader, name, sides.reader.end_offsets(name)):
                letter = DeadLetter.parse(record)
                if letter.record.offset == _NOWHERE:
                    yield letter


def _read(letter: DeadLetter, states: States) -> UnmadeDocument | None:
    record = letter.record
    try:
        doc_id, version = states.identity(record.partition, record.offset, record.key, record.headers)
    except InvalidRecord:
        # Without a key or a version it is no document's newest state.
        return None
    return UnmadeDocument(doc_id, version, letter.application, letter.reason, letter.at_us)
