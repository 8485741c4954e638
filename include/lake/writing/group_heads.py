"""Looks up where a group's chains end, and what its revision has taken over, for many partitions at once.

The store is asked by several threads; the log, whose clients are for one thread, about many partitions in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final, Protocol, TypeVar

from include.errors import Fenced, LyrebirdError, Terminal
from include.lake.definition import LakeGroup
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.commit_protocol import Head
from include.lake.protocol.divergence import agreed_until
from include.lake.protocol.generations import LiveGeneration, take_over
from include.lake.reading.group_log import TopicIdPartition
from include.store.object_store import ObjectStore

__all__ = ["PART", "GroupHeads", "OnPart", "from_outside"]

PART: Final = 256
"""Partitions that are looked up before that is told."""

OnPart = Callable[[], None]
"""Called between parts of what takes long."""

_OUTSIDE: Final = {"s3", "kafka", "registry"}
# No more than the store's client has connections for.
_AT_ONCE: Final = 16

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")
_Place = TypeVar("_Place", TopicIdPartition, tuple[str, str])


class _Log(Protocol):
    """What of `GroupLog` is used here."""

    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]: ...

    def epoch_before(self, tp: TopicIdPartition, offset: int) -> int | None: ...


class GroupHeads:
    """Those of one group; not for use from several threads. `live`: by topic and its id, what was taken over."""

    def __init__(self, store: ObjectStore, log: _Log, group: LakeGroup) -> None:
        self._store, self._log, self._group = store, log, group
        self._one_at_a_time = Lock()
        self.live: dict[tuple[str, str], LiveGeneration] = {}

    def look_up(
        self, tps: Sequence[TopicIdPartition], partitions: Mapping[str, int], on_part: OnPart
    ) -> Iterator[tuple[TopicIdPartition, Head | Terminal]]:
        """The head of each chain, or why its partition must not go on; topics that are new are taken over first.

        `partitions`: how many each topic has. A refusal of the store is given where it is of one object (it lies in an
        archive, or is denied), as the others of the group go on; of a topic that is taken over, all partitions wait.

        Raises what the store and the log raise for all, and `Fenced`; what was given before holds.
        """
        places = dict.fromkeys((tp.topic, tp.topic_id) for tp in tps)
        taken_over = partial(self._or_refused, partial(self._taken_over, partitions=partitions, on_part=on_part))
        for place, live in _each(taken_over, [place for place in places if place not in self.live]):
            if isinstance(live, LiveGeneration):
                self.live[place] = live
            else:
                yield from ((tp, live) for tp in tps if (tp.topic, tp.topic_id) == place)
        known = [tp for tp in tps if (tp.topic, tp.topic_id) in self.live]
        yield from _each(partial(self._or_refused, self._head_of), known)

    def _or_refused(self, ask: Callable[[_Place], _Answer], place: _Place) -> _Answer | Terminal:
        """The answer, or what must not go on; raises what passes, or stops all."""
        try:
            return ask(place)
        except Terminal as error:
            outside = isinstance(error, Fenced) or from_outside(error)
            if outside and not self._of_one_object(error, TopicKey(self._group.prefix, place[0], place[1])):
                raise
            return error

    def _of_one_object(self, error: Terminal, topic: TopicKey) -> bool:
        """Whether the store refuses one object below the chains, of this life of the topic or a former one.

        Then it gives another: the topic's pointer, or, where that is what it refuses, it lists what is there.
        """
        key, folder = str(error.details.get("key", "")), str(topic).rpartition("/")[0] + "/"
        if error.details.get("system") != "s3" or key.endswith("/") or not key.startswith(folder):
            return False
        try:
            if key != topic.pointer:
                return self._store.get(topic.pointer) is not None
            return next(iter(self._store.list(f"{topic}/")), None) is not None
        except LyrebirdError:
            return False

    def _head_of(self, tp: TopicIdPartition) -> Head:
        live = self.live[tp.topic, tp.topic_id]
        head = self._look_along((live.chain(tp.partition), live.start(tp.partition)))
        live.check_head(tp.partition, head.next)
        return head

    def _look_along(self, begun: tuple[ChainKey, int]) -> Head:
        # Without patience: the next step looks again, and reports in between.
        chain, start = begun
        return Chain(self._store, chain, start=start).head()

    def _taken_over(self, place: tuple[str, str], partitions: Mapping[str, int], on_part: OnPart) -> LiveGeneration:
        topic, topic_id = place
        key = TopicKey(self._group.prefix, topic, topic_id)
        goes_on_at = partial(self._goes_on_at, on_part=on_part)
        return take_over(self._store, key, self._group.revision, partitions[topic], goes_on_at)

    def _goes_on_at(self, chains: Mapping[ChainKey, int], on_part: OnPart) -> dict[ChainKey, int]:
        """Where a newer revision begins: at the heads, unless the log was truncated below them."""
        begun: dict[ChainKey, int] = {}
        asked = list(chains.items())
        for part in (asked[at : at + PART] for at in range(0, len(asked), PART)):
            # Whoever still writes stores no more than the log has now.
            heads = dict(_each(self._look_along, part))
            # Several topics may be taken over at once.
            with self._one_at_a_time:
                on_part()
                edges = self._log.edges([_spot(chain) for chain, _ in part])
            agreed = _each(partial(self._agreed, heads=heads, edges=edges), part)
            begun |= {chain: offset for (chain, _), offset in agreed}
        return begun

    def _agreed(
        self,
        begun: tuple[ChainKey, int],
        heads: Mapping[tuple[ChainKey, int], Head],
        edges: Mapping[TopicIdPartition, tuple[int, int]],
    ) -> int:
        chain, start = begun
        tp, head = _spot(chain), heads[begun]
        if tp not in edges:
            return head.next

        def epoch_before(offset: int) -> int | None:
            with self._one_at_a_time:
                return self._log.epoch_before(tp, offset)

        return agreed_until(Chain(self._store, chain, start=start), head, edges[tp][1], epoch_before)


def from_outside(error: LyrebirdError) -> bool:
    """Whether another system refuses, which is mended there."""
    return not isinstance(error, Fenced) and error.details.get("system") in _OUTSIDE


def _spot(chain: ChainKey) -> TopicIdPartition:
    return TopicIdPartition(chain.of.topic, chain.of.topic_id, chain.partition)


def _each(ask: Callable[[_Asked], _Answer], asked: Sequence[_Asked]) -> Iterator[tuple[_Asked, _Answer]]:
    """Each with its answer, in this order; raises what the first that fails raises, and asks for no more then."""
    if len(asked) < 2:
        yield from ((question, ask(question)) for question in asked)
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as threads:
        answers = [threads.submit(ask, question) for question in asked]
        try:
            for question, answer in zip(asked, answers, strict=True):
                yield question, answer.result()
        finally:
            for answer in answers:
                answer.cancel()
