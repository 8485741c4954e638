"""A join that takes another's place, beside the running one: what is read anew for it, and how far the change is. Pure.

An input keeps its slot while its rows stand in the state as the new join needs them. Others get slots of their own, and
are read from their topics' beginnings until they are where the others are. Then buckets change over, some rows at once
(`algorithm.rework`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import orjson

from include.join.algorithm.rework import BEGIN, DONE
from include.join.config.check import CheckedJoin
from include.join.config.definition import JoinFile
from include.log.planning.plan import Partition

__all__ = [
    "Edition",
    "Takeover",
    "changes_of",
    "definition_of",
    "joined_by",
    "kept_slots",
    "key_id_of",
    "same_join",
    "taken_over",
]

_NO_PART_OF_IT: Final = {"buckets", "records_per_batch", "max_product_per_change"}


def definition_of(join: JoinFile, inputs: Iterable[str], key_id: int | None = None) -> str:
    """What of a join's file decides of its state and its outputs, as text: equal texts, equal joins.

    `key_id`: registry id of the output's key schema, which begins each key; None: not known.
    """
    said: dict[str, Any] = join.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_NO_PART_OF_IT)
    said["output"].pop("doc", None)
    said["inputs"] = list(inputs)
    if key_id is not None:
        said["key_id"] = key_id
    return orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode()


def joined_by(definition: str, like: JoinFile) -> JoinFile:
    """The file behind a definition; what is no part of it is taken from `like`."""
    said: dict[str, Any] = orjson.loads(definition)
    said.pop("key_id", None)
    for each, topic in zip(said["join"], said.pop("inputs"), strict=True):
        each.pop("schema_id", None)
        each["topic"] = topic
    return JoinFile.model_validate({**like.model_dump(include=_NO_PART_OF_IT), **said})


def key_id_of(definition: str) -> int | None:
    """The key schema of a definition, if it names one."""
    return orjson.loads(definition).get("key_id")  # type: ignore[no-any-return]


def same_join(one: str, other: str) -> bool:
    """Whether two definitions are of one file and, where both name it, of one key schema."""
    said = [orjson.loads(one), orjson.loads(other)]
    keys = {key for each in said if (key := each.pop("key_id", None)) is not None}
    return said[0] == said[1] and len(keys) < 2


@dataclass(frozen=True)
class Edition:
    """A join as one file has it.

    Args:
        definition: see `definition_of`.
        checked: against what is there.
        slots: of its inputs.
        ids: registry ids of the output's key and value schema.
    """

    definition: str
    checked: CheckedJoin
    slots: tuple[int, ...]
    ids: tuple[int, int]

    @property
    def topics(self) -> list[str]:
        """Of its inputs."""
        return [each.topic for each in self.checked.inputs]


def kept_slots(now: Edition, later: CheckedJoin) -> list[int | None]:
    """Of each input of `later` the slot that it keeps; None: it has to be read anew."""
    known = {
        (each.topic, *_kept_by(now.checked, place)): slot
        for place, (each, slot) in enumerate(zip(now.checked.inputs, now.slots, strict=True))
    }
    return [known.get((each.topic, *_kept_by(later, place))) for place, each in enumerate(later.inputs)]


def _kept_by(checked: CheckedJoin, place: int) -> tuple[Any, ...]:
    """What decides of where an input's rows stand in the state."""
    alone = None
    if place == 0 and all(each.type == "left" for each in checked.join.join[1:]):
        # Rows without join key stand under their part of the output's key.
        types = {each["name"]: each["type"] for each in checked.output.key["fields"]}
        alone = orjson.dumps([(each.field, types[each.name]) for each in checked.plan.key if each.input == 0])
    return tuple(checked.join.join[place].join_keys), checked.inputs[place].located, alone


@dataclass(frozen=True)
class Takeover:
    """How far the change is.

    Args:
        definition: of the join that takes the place.
        slots: of its inputs.
        cursors: partition → next offset, of inputs that are read anew.
        anew: topics of these inputs.
        again: everything is written in a second round, as an input changes its slot.
        second: that round is under way.
        places: bucket → how far it is gone through in this round; missing: not at all.
        request: who asked for it; '': the file changed.
    """

    definition: str
    slots: tuple[int, ...]
    anew: tuple[str, ...]
    again: bool
    second: bool = False
    cursors: Mapping[Partition, int] = field(default_factory=dict)
    places: Mapping[int, bytes] = field(default_factory=dict)
    request: str = ""

    def through(self, buckets: int) -> bool:
        """Whether this round has gone through all buckets."""
        return all(self.places.get(bucket, BEGIN) == DONE for bucket in range(buckets))

    def shown(self, buckets: int) -> dict[int, bytes]:
        """Bucket → up to where its outputs are the new join's."""
        return dict.fromkeys(range(buckets), DONE) if self.second else dict(self.places)

    def stepped(self, places: Mapping[int, bytes], buckets: int) -> Self:
        """After a step to these places."""
        after = replace(self, places={**self.places, **places})
        if after.again and not after.second and after.through(buckets):
            return replace(after, second=True, places={})
        return after

    def behind(self, ends: Mapping[Partition, int], most: int) -> tuple[dict[Partition, tuple[int, int]], bool]:
        """What to read next of what is read anew: partition → start <= offset < end; and whether that is all."""
        ranges: dict[Partition, tuple[int, int]] = {}
        for partition, end in sorted(ends.items()):
            start = self.cursors.get(partition, 0)
            if partition[0] not in self.anew or start >= end:
                continue
            if most <= 0:
                return ranges, False
            ranges[partition] = start, min(end, start + most)
            most -= ranges[partition][1] - start
            if ranges[partition][1] < end:
                return ranges, False
        return ranges, True

    def read(self, ranges: Mapping[Partition, tuple[int, int]]) -> Self:
        """After these ranges."""
        return replace(self, cursors={**self.cursors, **{at: end for at, (_, end) in ranges.items()}})

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "definition": self.definition,
            "slots": self.slots,
            "anew": self.anew,
            "again": self.again,
            "second": self.second,
            "cursors": [[*at, offset] for at, offset in sorted(self.cursors.items())],
            "places": {str(bucket): place.hex() for bucket, place in sorted(self.places.items())},
            "request": self.request,
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(
            said["definition"],
            tuple(said["slots"]),
            tuple(said["anew"]),
            said["again"],
            said["second"],
            {(topic, partition): offset for topic, partition, offset in said["cursors"]},
            {int(bucket): bytes.fromhex(place) for bucket, place in said["places"].items()},
            said["request"],
        )


def taken_over(
    now: Edition, definition: str, later: CheckedJoin, *, whole: bool = False, request: str = ""
) -> Takeover:
    """The beginning of a change from one join to another, or of a rebuild.

    Args:
        now: whose outputs are out.
        definition: of the one that takes its place.
        later: the same, checked.
        whole: all inputs are read anew, and all outputs written.
        request: who asked.
    """
    kept = [None] * len(later.inputs) if whole else kept_slots(now, later)
    free = (slot for slot in range(255) if slot not in now.slots)
    slots = tuple(next(free) if slot is None else slot for slot in kept)
    anew = tuple(each.topic for each, slot in zip(later.inputs, kept, strict=True) if slot is None)
    return Takeover(definition, slots, anew, whole or bool({*anew} & {*now.topics}), request=request)


def changes_of(
    definition: str, slots: tuple[int, ...], later: CheckedJoin, look: Callable[[JoinFile], CheckedJoin]
) -> list[str]:
    """What a file brings about for a join that runs by another one, in sentences; nothing where it is the same.

    Args:
        definition: of the one that made the state.
        slots: of its inputs.
        later: the file.
        look: checks a file.
    """
    if same_join(definition, definition_of(later.join, [each.topic for each in later.inputs])):
        return []
    now = Edition(definition, look(joined_by(definition, later.join)), slots, (0, 0))
    kept = kept_slots(now, later)
    anew = [each.topic for each, slot in zip(later.inputs, kept, strict=True) if slot is None]
    gone = [topic for topic in now.topics if topic not in {each.topic for each in later.inputs}]
    said = [f"{topic} is read from its beginning" for topic in anew]
    said += [f"rows of {topic} are removed from the state" for topic in gone]
    if {*anew} & {*now.topics}:
        return [*said, "all outputs are written again"]
    return [*said, "outputs are made of the rows that the state has; those that change are written"]
