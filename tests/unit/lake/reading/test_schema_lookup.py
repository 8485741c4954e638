"""An id that the registry does not know yet is waited for once, then remembered as unknown."""

from __future__ import annotations

from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import InvalidRecord, Transient
from include.lake.incidents.diagnosis import diagnose
from include.lake.reading.schema_lookup import PatientRegistry
from include.log.ports import SchemaRegistry, UnknownSchema
from include.log.registry.memory import MemoryRegistry

LONG: dict[str, Any] = {"type": "long"}


class Counting(MemoryRegistry):
    """Counts what it is asked."""

    asked = 0

    def schema(self, schema_id: int) -> dict[str, Any]:
        self.asked += 1
        return super().schema(schema_id)


def made(grace_s: float = 600) -> tuple[Counting, ManualClock, SchemaRegistry]:
    registry, clock = Counting(), ManualClock(0)
    return registry, clock, PatientRegistry(registry, clock, grace_s)


def test_a_schema_that_comes_within_the_grace_sets_nothing_aside() -> None:
    registry, clock, patient = made()
    with pytest.raises(Transient, match="does not know the schema of a record yet") as waits:
        patient.schema(1)
    found = diagnose(waits.value)
    assert found.trouble == "registry refuses"
    assert "restore the registry" in found.fix
    registry.register("s", LONG)
    clock.advance(60)
    assert patient.schema(1) == LONG
    assert patient.language(1) == "AVRO"


def test_ids_that_are_met_together_are_waited_for_together() -> None:
    """A registry that was restored empty lacks all of them."""
    registry, clock, patient = made()
    for schema_id in range(1, 8):
        with pytest.raises(Transient):
            patient.schema(schema_id)
        clock.advance(1)
    registry.register("s", LONG)
    clock.advance(40)
    assert patient.schema(1) == LONG


def test_a_day_has_three_graces_and_behind_them_unknown_ids_are_set_aside_at_once() -> None:
    _, clock, patient = made()
    for schema_id in (7, 8, 9):
        for _ in range(20):
            with pytest.raises(Transient):
                patient.schema(schema_id)
            clock.advance(29)
        clock.advance(60)
    for schema_id in (7, 8, 9, 10):
        with pytest.raises(UnknownSchema) as refused:
            patient.schema(schema_id)
        assert isinstance(refused.value, InvalidRecord)
        assert refused.value.details["schema_id"] == schema_id
    # A day later another schema may be late.
    clock.advance(86_400)
    with pytest.raises(Transient):
        patient.schema(11)


def test_a_schema_that_is_late_is_waited_for_though_another_id_was_none() -> None:
    """One odd record, and hours later a deploy whose registry is a second behind."""
    registry, clock, patient = made()
    with pytest.raises(Transient):
        patient.schema(999)
    clock.advance(601)
    with pytest.raises(UnknownSchema):
        patient.schema(999)
    clock.advance(3600)
    with pytest.raises(Transient):
        patient.schema(1)
    registry.register("s", LONG)
    clock.advance(30)
    assert patient.schema(1) == LONG


def test_unknown_ids_are_not_asked_for_again_for_each_record() -> None:
    registry, clock, patient = made(0)
    for _ in range(1000):
        with pytest.raises(UnknownSchema):
            patient.schema(7)
    assert registry.asked == 1
    clock.advance(31)
    registry.register("s", LONG)
    with pytest.raises(UnknownSchema):
        patient.schema(7)
    assert patient.schema(1) == LONG


def test_random_ids_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("include.lake.reading.schema_lookup._REMEMBERED", 10)
    registry, _, patient = made(0)
    for schema_id in range(100):
        with pytest.raises(UnknownSchema):
            patient.schema(schema_id)
    assert registry.asked == 100
    with pytest.raises(UnknownSchema):
        patient.schema(99)
    assert registry.asked == 100


def test_a_registry_that_caught_up_is_waited_for_anew() -> None:
    registry, clock, patient = made()
    with pytest.raises(Transient):
        patient.schema(1)
    registry.register("s", LONG)
    clock.advance(100)
    patient.schema(1)
    clock.advance(550)
    with pytest.raises(Transient):
        patient.schema(2)


def test_what_it_does_not_answer_for_itself_goes_to_the_registry() -> None:
    registry, _, patient = made()
    assert patient.register("s", LONG) == 1
    assert (patient.newest("s"), patient.newest("t")) == (1, None)
    assert patient.subjects(1) == ("s",)
    assert registry.newest("s") == 1
