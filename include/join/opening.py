"""From a declared join to one that is ready to run: its inputs looked up, its schemas registered, its runner made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from include.errors import SettingsError, Terminal
from include.join.committed import read_committed
from include.join.config.check import CheckedJoin, checked_join
from include.join.config.definition import JoinFile
from include.join.config.deployed import DeployedJoin
from include.join.config.inputs import NotThereYet
from include.join.runner import REGROWN, JoinRunner
from include.join.takeover import Edition, definition_of, joined_by, key_id_of, same_join
from include.join.work import Equip
from include.log import topics
from include.log.access import LogAccess
from include.log.ports import Compatibility
from include.log.publishing.dead_letter import DeadLetterLimit
from include.log.publishing.last_mark import newest_of
from include.log.publishing.placement import require_ungrown
from include.log.publishing.publisher import Publisher

__all__ = ["OpenedJoin", "opened_join"]


@dataclass(frozen=True)
class OpenedJoin:
    """A join whose publisher is open.

    Args:
        checked: the join, as its file has it.
        publisher: to be closed.
        runner: carries its batches out.
        cut_at: resolved topics that batches end at; none where no input has one.
        start: topic → partition → next offset.
    """

    checked: CheckedJoin
    publisher: Publisher
    runner: JoinRunner
    cut_at: tuple[str, ...]
    start: dict[str, dict[int, int]]

    @property
    def topic_ids(self) -> dict[str, str]:
        """Ids of the topics that the committed offsets belong to, as far as they are known."""
        resolved = self.publisher.resolved
        known: dict[str, str] = dict(resolved.state.get("topic_ids", {})) if resolved else {}
        return {topic: each for topic, each in known.items() if topic in self.runner.topics}


def opened_join(
    join: DeployedJoin, application: str, access: LogAccess, spread: frozenset[str], equip: Equip
) -> OpenedJoin:
    """Look everything up, register the output's schemas and open the publisher.

    Where the file is not the one that made the state, the new join begins to take the old one's place.

    Args:
        join: what is declared.
        application: that hosts it.
        access: to log and registry.
        spread: change topics whose partitions are chosen by other columns than the key.
        equip: makes what does the work of a batch.

    Raises:
        NotThereYet: an input, its schema or its first resolved record is missing, or the state was imported and nobody
            has verified it: ask again later.
        SettingsError: the file does not fit what is there.
        Terminal: the state has other buckets, the last change of the file is not through yet, a topic has grown that
            may not, or a column of the output's key has become another type.
        Transient: a server does not answer.
    """
    checked = _checked(join, join.file, access, spread)
    definition = definition_of(join.file, [each.topic for each in checked.inputs])
    wanted = _registered(join, definition, checked, access, changed=bool(_earlier(join, definition, access)))
    known = [_edition(join, each, access, spread) for each in _earlier(join, wanted.definition, access)]
    inputs = list(dict.fromkeys(topic for each in (wanted, *known) for topic in each.topics))
    cut_at, sources = _resolved(inputs, access)
    publisher = Publisher(
        join.topic,
        application,
        sources,
        JoinRunner.topics_of(join.topic, inputs),
        own=(JoinRunner.spec(join.topic),),
        open_writer=access.open_writer,
        finish=access.finish,
        reader=access.reader,
        admin=access.admin,
        clock=access.clock,
    )
    runner = JoinRunner(
        wanted,
        known,
        publisher,
        epoch=join.entry.epoch,
        buckets=join.file.buckets,
        reader=access.reader,
        equip=equip,
        limit=DeadLetterLimit(),
        clock=access.clock,
        cut=bool(cut_at),
        fixed=_fixed(wanted, cut_at, access),
    )
    try:
        publisher.ensure(join.entry.partitions)
        runner.open()
        start: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in publisher.committed.items():
            start.setdefault(topic, {})[partition] = offset
        why = publisher.why_incomplete() if start else ""
        if why:
            runner.rebuild(why)
    except BaseException:
        publisher.close()
        raise
    return OpenedJoin(checked, publisher, runner, cut_at, start)


def _fixed(edition: Edition, cut_at: Iterable[str], access: LogAccess) -> dict[str, int]:
    """Topic → partitions, of inputs that nothing is resolved of: their offsets alone tell which record is newer."""
    plain = [topic for topic in edition.topics if topics.resolved_of(topic) not in cut_at]
    for topic in plain:
        require_ungrown(topic, access.reader, REGROWN)
    return {topic: len(access.reader.end_offsets(topic)) for topic in plain}


def _checked(join: DeployedJoin, file: JoinFile, access: LogAccess, spread: frozenset[str]) -> CheckedJoin:
    return checked_join(
        join.places, file, access.registry, access.admin, forgetting=join.entry.forgetting, spread=spread
    )


def _earlier(join: DeployedJoin, definition: str, access: LogAccess) -> list[str]:
    """The definition that made the state, where it is another."""
    committed = read_committed(access.reader, join.topic) if topics.state(join.topic) in access.admin.names() else None
    if committed is None:
        return []
    if committed.unverified:
        raise NotThereYet(
            "nobody has verified the imported state yet",
            join=join.name,
            fix=f"Run `lyrebird state verify {join.name}`; the join goes on by itself when that is clean.",
        )
    if committed.takeover is not None and not same_join(committed.takeover.definition, definition):
        raise Terminal(
            "the file was changed again before the join had become what it said before",
            join=join.name,
            becomes=committed.takeover.definition,
            fix="Write it as it was, wait until `lyrebird join status` tells of no change, and change it then.",
        )
    return [] if same_join(committed.definition, definition) else [committed.definition]


def _edition(join: DeployedJoin, definition: str, access: LogAccess, spread: frozenset[str]) -> Edition:
    """An earlier one."""
    file = joined_by(definition, join.file)
    try:
        found = _registered(join, definition, _checked(join, file, access, spread), access, changed=True)
        return replace(_of_key(join, found, key_id_of(definition), access), definition=definition)
    except NotThereYet:
        raise
    except SettingsError as error:
        raise Terminal(
            "what the join was before its file changed cannot be looked up any more",
            join=join.name,
            was=definition,
            why=str(error),
            fix="Bring that back, or give the changed join another `output.source`: a topic of its own.",
        ) from error


def _registered(
    join: DeployedJoin, definition: str, checked: CheckedJoin, access: LogAccess, *, changed: bool
) -> Edition:
    subjects = {"key": checked.output.key, "value": checked.output.value}
    # Another `pkey` makes keys that have nothing to do with the old ones, which go.
    levels: dict[str, Compatibility] = {"key": "NONE" if changed else "BACKWARD", "value": "BACKWARD"}
    key, value = (
        access.registry.register(f"{join.topic}-{what}", schema, compatibility=levels[what])
        for what, schema in subjects.items()
    )
    named = definition_of(joined_by(definition, join.file), [each.topic for each in checked.inputs], key)
    return Edition(named, checked, tuple(range(len(checked.inputs))), (key, value))


def _of_key(join: DeployedJoin, found: Edition, key_id: int | None, access: LogAccess) -> Edition:
    """The edition with the key schema that its outputs were written by, though a column's type has grown since."""
    if key_id is None or key_id == found.ids[0]:
        return found
    now, then = (_encodings(access.registry.schema(each)) for each in (found.ids[0], key_id))
    if now != then:
        raise Terminal(
            "a column of the output's key has another type than before, so its outputs have other keys",
            join=join.name,
            had=then,
            has=now,
            fix="Give the join another `output.source`: it begins anew, with a topic of its own.",
        )
    return replace(found, ids=(key_id, found.ids[1]))


def _encodings(schema: Mapping[str, Any]) -> dict[str, str]:
    """Field → its type; one for both integers, whose values Avro writes in the same way."""
    return {each["name"]: json.dumps(each["type"]).replace('"int"', '"long"') for each in schema["fields"]}


def _resolved(inputs: Iterable[str], access: LogAccess) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The resolved topics of the inputs that have some, and the sources that these speak of."""
    names = access.admin.names()
    cut_at: dict[str, None] = {}
    sources: dict[str, None] = {}
    for topic in inputs:
        resolved = topics.resolved_of(topic)
        if resolved not in names:
            continue
        cut_at[resolved] = None
        told = newest_of(access.reader, resolved)[0].sources()
        if not told:
            raise NotThereYet("nothing is resolved yet of what a join reads", topic=resolved)
        sources |= dict.fromkeys(told)
    return tuple(cut_at), tuple(sources)
