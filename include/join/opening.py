"""From a declared join to one that is ready to run: its inputs looked up, its schemas registered, its runner made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from include.clock import Clock
from include.errors import Terminal
from include.join.check import CheckedJoin, checked_join
from include.join.definition import JoinFile
from include.join.deployed import DeployedJoin
from include.join.inputs import NotThereYet
from include.join.runner import CarryOut, JoinRunner
from include.log import topics
from include.log.dead_letter import DeadLetterLimit
from include.log.ports import LogReader, LogWriter, SchemaRegistry, TopicAdmin
from include.log.publisher import Finish, Publisher
from include.log.spoken import newest_of

__all__ = ["Means", "OpenedJoin", "opened_join"]

_NO_PART_OF_IT: Final = {"buckets", "records_per_batch", "max_product_per_change"}


@dataclass(frozen=True)
class Means:
    """What a join's driver works with; `open_writer` and `finish` as those of `Publisher`."""

    registry: SchemaRegistry
    reader: LogReader
    admin: TopicAdmin
    open_writer: Callable[[str], LogWriter]
    finish: Finish
    clock: Clock
    spread: frozenset[str]


@dataclass(frozen=True)
class OpenedJoin:
    """A join whose publisher is open.

    Args:
        checked: the join, as it was found.
        ids: registry ids of the output's key and value schema.
        publisher: to be closed.
        runner: carries its batches out.
        cut_at: resolved topics that batches end at; none where no input has one.
        start: topic → partition → next offset.
    """

    checked: CheckedJoin
    ids: tuple[int, int]
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
    join: DeployedJoin,
    application: str,
    means: Means,
    carry_out: Callable[[CheckedJoin, tuple[int, int]], CarryOut],
) -> OpenedJoin:
    """Look everything up, register the output's schemas and open the publisher.

    Args:
        join: what is declared.
        application: that hosts it.
        means: see there.
        carry_out: makes what does the work of a batch.

    Raises:
        NotThereYet: an input, its schema or its first resolved record is missing: ask again later.
        SettingsError: the file does not fit what is there.
        Terminal: the state is another join's, or deletes may have gone by unread.
        Transient: a server does not answer.
    """
    checked = checked_join(
        join.places,
        join.file,
        means.registry,
        means.admin,
        forgetting=join.entry.forgetting,
        spread=means.spread,
    )
    inputs = [each.topic for each in checked.inputs]
    cut_at, sources = _resolved(inputs, means)
    ids = tuple(
        means.registry.register(f"{join.topic}-{what}", schema)
        for what, schema in (("key", checked.output.key), ("value", checked.output.value))
    )
    both = ids[0], ids[1]
    publisher = Publisher(
        join.topic,
        application,
        sources,
        JoinRunner.topics_of(inputs),
        own=(JoinRunner.spec(join.topic),),
        open_writer=means.open_writer,
        finish=means.finish,
        reader=means.reader,
        admin=means.admin,
        clock=means.clock,
    )
    runner = JoinRunner(
        inputs,
        publisher,
        epoch=join.entry.epoch,
        buckets=join.file.buckets,
        anchored=checked.plan.anchored,
        definition=definition_of(join.file, inputs),
        reader=means.reader,
        carry_out=carry_out(checked, both),
        limit=DeadLetterLimit(),
        clock=means.clock,
    )
    try:
        publisher.ensure(join.entry.partitions)
        runner.open()
        start: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in publisher.committed.items():
            start.setdefault(topic, {})[partition] = offset
        why = publisher.why_incomplete() if start else ""
        if why:
            raise Terminal(
                "the join's outputs may lack deletes",
                why=why,
                topic=join.topic,
                fix="Give it another `output.source`: it begins anew, with a topic and a state of its own.",
            )
    except BaseException:
        publisher.close()
        raise
    return OpenedJoin(checked, both, publisher, runner, cut_at, start)


def definition_of(join: JoinFile, inputs: Iterable[str]) -> str:
    """What of a join's file decides of its state and its outputs, as text: equal texts, equal joins."""
    said: dict[str, Any] = join.model_dump(mode="json", exclude_defaults=True, exclude=_NO_PART_OF_IT)
    said["output"].pop("doc", None)
    said["inputs"] = list(inputs)
    return orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode()


def _resolved(inputs: Iterable[str], means: Means) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The resolved topics of the inputs that have some, and the sources that these speak of."""
    names = means.admin.names()
    cut_at: dict[str, None] = {}
    sources: dict[str, None] = {}
    for topic in inputs:
        resolved = topics.resolved_of(topic)
        if resolved not in names:
            continue
        cut_at[resolved] = None
        told = newest_of(means.reader, resolved)[0].sources()
        if not told:
            raise NotThereYet("nothing is resolved yet of what a join reads", topic=resolved)
        sources |= dict.fromkeys(told)
    return tuple(cut_at), tuple(sources)
