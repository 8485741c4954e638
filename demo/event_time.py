"""The scooters' share of the demo: a fleet beside the shop, and whether the detector says what the fleet knows."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from demo.part_summary import ClosePart, PartSummary
from include.clock import Clock, iso

if TYPE_CHECKING:
    from demo.scooters.fleet import FleetTruth
    from demo.scooters.truth import Known

__all__ = ["CLOSINGS", "as_known", "told_of", "written"]

_JOB: Final = "scooter_status"
_WITHIN_S: Final = 300.0
_LOOK_EVERY_S: Final = 1.0
_EXAMPLES: Final = 5
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

Late = tuple[str, int]


@contextlib.contextmanager
def written(env: Mapping[str, str], seed: int, clock: Clock) -> Iterator[None]:
    """A fleet of scooters is on the air, an hour a minute, until the block ends; a `Writing`."""
    del env
    from demo.scooters.fleet import Fleet, begin_of, make_topics, on_the_air, truth_in
    from demo.scooters.plan import FleetPlan
    from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment

    kafka = Deployment.load().one("kafka", Kafka)
    make_topics(KafkaAdmin(kafka.bootstrap, kafka.options))
    with contextlib.ExitStack() as left:
        reader = left.enter_context(contextlib.closing(KafkaReader(kafka.bootstrap, kafka.options)))
        writer = left.enter_context(contextlib.closing(KafkaWriter(kafka.bootstrap, "scooters", kafka.options)))
        begin, prefix = begin_of(reader, clock.now_us()), f"s{truth_in(reader).runs + 1}-"
        with on_the_air(Fleet(writer, FleetPlan(seed, begin, prefix=prefix), prefix, begin, clock)):
            yield


def as_known(clock: Clock) -> PartSummary:
    """What the detector has told beside what the fleet knows, once it has read all; five minutes are waited at most."""
    import orjson

    from demo.scooters.fleet import TRACKS, records, truth_in
    from demo.scooters.truth import Known, statuses
    from include.eventtime.committed import read_committed
    from include.eventtime.config.definition import declared_jobs
    from include.log import topics
    from include.log.kafka.log import KafkaReader
    from include.log.publishing.unended import unended
    from include.log.registry.confluent import ConfluentRegistry
    from include.record.codec import Decoder
    from include.settings.connections import Kafka, Registry
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    kafka, job = deployment.one("kafka", Kafka), declared_jobs(deployment)[_JOB]
    decode = Decoder(ConfluentRegistry(deployment.one("registry", Registry)).schema)

    with contextlib.closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:

        def reached() -> int:
            committed = read_committed(reader, job.topic)
            return -1 if committed is None else committed.watermark

        truth = truth_in(reader)
        _awaited(lambda: reached() >= (truth.until or 0), clock)
        until = min(reached(), truth.until or 0)
        events, aside = job.entry.outputs["events"].topic, topics.late(TRACKS, job.entry.application)
        # A broker says that a transaction is committed before readers see it.
        unended(reader, [events, aside], clock)
        told = [decode(record.value or b"") for record in records(reader, events)]
        late = [record.value for record in records(reader, aside)]
        return told_of(
            truth,
            until,
            statuses(truth.silences, until),
            [Known(event["device"], _us(event["at"]), event["status"], _us(event["last_seen"])) for event in told],
            [(said["device"], said["at"] * 1_000) for value in late if (said := orjson.loads(value or b"{}"))],
        )


CLOSINGS: Final[tuple[ClosePart, ...]] = (as_known,)


def _us(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


def _awaited(holds: Callable[[], bool], clock: Clock) -> None:
    deadline_s = clock.monotonic_s() + _WITHIN_S
    while not holds() and clock.monotonic_s() < deadline_s:
        clock.sleep(_LOOK_EVERY_S)


def told_of(
    truth: FleetTruth, until: int, known: Collection[Known], told: Collection[Known], late: Collection[Late]
) -> PartSummary:
    """What was told up to `until` beside what is known.

    Good when it is the same, each once, and just those tracks are late that were planted.
    """
    ours = [each for each in told if each.at <= until and not _cut_short(truth, each.device)]
    strange = [each for each in late if not _cut_short(truth, each[0])]
    missing, extra = sorted(set(known) - set(ours)), sorted(set(ours) - set(known))
    doubled = len(ours) - len(set(ours))
    odd = sorted(set(strange) ^ {each for each in truth.late if not _cut_short(truth, each[0])})
    whole = truth.until is not None and until >= truth.until
    good = bool(known) and whole and not (missing or extra or doubled or odd or len(strange) != len(set(strange)))
    offline = sum(each.status == "offline" for each in known)
    until_text = f" up to {iso(until)}" if until > 0 else ""
    lines = [
        f"scooters: {offline:,} went offline, {len(known) - offline:,} came back, by the fleet's own word{until_text}",
        "  the detector says the same, each once"
        if good
        else f"  the detector has {len(missing):,} not, {len(extra):,} besides, {doubled:,} twice",
        f"  {len(strange):,} tracks came too late, {len(truth.late):,} were planted so",
    ]
    if not whole:
        lines.append("  the detector has not come to the fleet's end: see `lyrebird eventtime status`")
    lines += [f"  missing: {_shown(each)}" for each in missing[:_EXAMPLES]]
    lines += [f"  besides: {_shown(each)}" for each in extra[:_EXAMPLES]]
    lines += [f"  late or planted, not both: {device} at {iso(at)}" for device, at in odd[:_EXAMPLES]]
    values = {
        "known": len(known),
        "missing": len(missing),
        "extra": len(extra),
        "doubled": doubled,
        "late": len(strange),
        "planted": len(truth.late),
        "until": iso(until) if until > 0 else None,
    }
    return PartSummary(tuple(lines), {"scooters": values}, good)


def _cut_short(truth: FleetTruth, device: str) -> bool:
    return any(device.startswith(prefix) for prefix in truth.cut_short)


def _shown(known: Known) -> str:
    return f"{known.device} {known.status} at {iso(known.at)}, last seen at {iso(known.last_seen)}"
