"""The transactions of a join: outputs, records set aside, answers, input ends, and what the state is after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from include.clock import Clock
from include.join.algorithm.ranks import Ranks
from include.join.algorithm.versions import of_tombstone, vector_to_header
from include.join.bucket import BucketKey, JoinBucketResult
from include.join.committed import CommittedJoin
from include.join.gathering import RefusedRecord
from include.join.work import CarryOutJoins, JoinBatch
from include.log import topics
from include.log.planning.plan import Partition
from include.log.ports import Headers, Record
from include.log.publishing.dead_letter import DeadLetter, DeadLetterLimit
from include.log.publishing.publisher import Publisher
from include.log.requests.records import Answer
from include.record import version as versions

__all__ = ["JoinTransactions"]


class JoinTransactions:
    """Writes what workers made.

    Args:
        publisher: of the joined topic.
        epoch: of the outputs' versions.
        limit: how many records may be set aside.
        clock: when they were.

    `committed` is what the last one committed. `anchored`: an output's key belongs to one join key (`FieldPlan`).
    """

    def __init__(self, publisher: Publisher, epoch: int, limit: DeadLetterLimit, clock: Clock) -> None:
        self._publisher, self._epoch, self._limit, self._clock = publisher, epoch, limit, clock
        self._written: dict[bytes, int] = {}
        self._told: set[bytes] = set()
        self._letters: list[DeadLetter] = []
        self.committed = CommittedJoin(0)
        self.anchored = False

    def run(
        self,
        carry_out: CarryOutJoins,
        work: JoinBatch | None,
        after: CommittedJoin,
        counts: Counter[str],
        ranks: Ranks,
        start: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        answers: Iterable[tuple[Answer, Headers]] = (),
        *,
        refused: Iterable[RefusedRecord] = (),
        part: bool = True,
    ) -> None:
        """One transaction: what this work makes, and what is committed after it.

        Args:
            carry_out: does the work.
            work: None where nobody has any.
            after: what is committed after it; pointers and places of a takeover are added here.
            counts: what was written, read and found is added, by name and by name and input; `product <place>` is the
                most outputs that one record of the input at that place changed.
            ranks: of the records that are read.
            start: where their partitions begin.
            ends: offsets that are committed.
            answers: to requests.
            refused: records of other topics than inputs that cannot be understood.
            part: nothing is resolved next.

        Raises:
            Terminal: too many records cannot be understood; nothing is committed.
        """
        publisher, pointers = self._publisher, dict[BucketKey, bytes]()
        places: dict[int, bytes] = {}
        publisher.begin()
        self._written.clear()
        self._told.clear()
        self._letters.clear()
        read = counts["read"]
        for each in refused:
            self._set_aside(each)
        for bucket, result in () if work is None else carry_out(work):
            self._write(result, counts)
            self._tell_of_held(result, ranks, start, counts)
            if result.pointer is not None:
                pointers["rows", bucket] = result.pointer
            if result.place is not None:
                places[bucket] = result.place
            for first, located in result.located.items():
                counts["stale"] += located.stale
                if located.pointer is not None:
                    pointers["whereabouts", first] = located.pointer
        if work is not None and work.step is not None:
            for key in sorted(work.step.keys - self._told):
                # The state makes no such output.
                version = versions.pack(self._epoch, of_tombstone(work.step.rank))
                publisher.write(key, None, version, (vector_to_header(()),))
                counts["tombstones"] += 1
        self._limit.batch(self._letters, max(0, counts["read"] - read - len(self._letters)))
        for answer, headers in answers:
            publisher.answer(answer, headers)
        if after.takeover is not None and places:
            after.takeover = after.takeover.stepped(places, after.buckets)
        state = topics.state(publisher.topic)
        for key, value in (*CommittedJoin.of_buckets(pointers), after.of_join()):
            publisher.append(state, key, value, partition=0)
        publisher.commit(ends, part=part)
        after.pointers = {**self.committed.pointers, **pointers}
        self.committed = after

    def _write(self, result: JoinBucketResult, counts: Counter[str]) -> None:
        publisher = self._publisher
        counts["stale"] += result.stale
        for key, value, number, vector in result.outputs:
            if not self.anchored:
                if self._written.get(key, -1) >= number:
                    # A row left one join key for another, and the new one's bucket told of it first. Compaction keeps
                    # the last record of a key, so this one must not come behind. Or it left several at once.
                    continue
                self._written[key] = number
            if result.place is not None:
                self._told.add(key)
            publisher.write(key, value, versions.pack(self._epoch, number), (vector_to_header(vector),))
            counts["tombstones" if value is None else "puts"] += 1
        for refused in result.refused:
            self._set_aside(refused)
        for (topic, what), count in result.counts.items():
            counts[what] += count
            counts[f"{what} {topic}"] += count
        for place, size in enumerate(result.products):
            counts[f"product {place}"] = max(size, counts[f"product {place}"])

    def _tell_of_held(
        self, result: JoinBucketResult, ranks: Ranks, start: Mapping[Partition, int], counts: Counter[str]
    ) -> None:
        """Name records whose outputs did not go out, with the number of these, where dead letters are looked for.

        They are in the state and are no reason to stop: no limit counts them.
        """
        counts["held"] += len(result.held)
        for held in result.held:
            reason = f"incomplete: it changes {held.outputs:,} outputs, more than max_product_per_change"
            if ranks.first:
                (topic, partition), offset = ranks.place_of(held.rank, start)
                record = Record(topic, partition, offset, held.key, None, (), 0)
            else:
                # No record changes them but a takeover; the key is the join key's.
                record = Record(self._publisher.topic, 0, held.rank, held.join_key, None, (), 0)
            self._publisher.set_aside(DeadLetter(record, self._publisher.application, reason, self._clock.now_us()))

    def _set_aside(self, refused: RefusedRecord) -> None:
        """A record that cannot be understood."""
        letter = DeadLetter(refused.record, self._publisher.application, refused.reason, self._clock.now_us())
        self._letters.append(letter)
        self._publisher.set_aside(letter)
