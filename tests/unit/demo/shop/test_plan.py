"""The life of an order: drawn alone from seed and number, and always ending in a final state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from demo.shop.plan import OrderPlan, RowVersion, plan_order
from demo.shop.reference import reference_data

plans = st.builds(
    lambda seed, number: plan_order(seed, number, reference_data()),
    st.integers(-(2**40), 2**40),
    st.integers(0, 10**7),
)


def many(count: int = 600) -> list[OrderPlan]:
    return [plan_order(7, number, reference_data()) for number in range(count)]


@given(plans)
def test_every_order_begins_pending_and_ends_in_a_final_state(plan: OrderPlan) -> None:
    rows = list(plan.rows())
    assert plan.steps[0].kind == "place"
    assert rows[0].state == "pending"
    assert rows[-1].final


@given(plans)
def test_steps_stand_in_time_order_and_only_the_first_places(plan: OrderPlan) -> None:
    times = [step.after_s for step in plan.steps]
    assert times == sorted(times)
    assert [step.kind for step in plan.steps].count("place") == 1


@given(plans)
def test_a_rolled_back_row_repeats_the_newest_final_row_and_names_the_cause(plan: OrderPlan) -> None:
    newest: RowVersion | None = None
    for step in plan.steps:
        if step.kind == "rollback":
            assert newest is not None
            assert step.row is not None
            assert step.row.rollback_cause
            assert replace(step.row, rollback_cause=None) == replace(newest, rollback_cause=None)
        if step.row is not None and step.row.final:
            newest = step.row


@given(plans)
def test_every_attempt_that_begins_ends_exactly_once(plan: OrderPlan) -> None:
    begun = [step.attempt for step in plan.steps if step.kind in {"place", "change"}]
    ended = [step.attempt for step in plan.steps if step.kind in {"complete", "decline", "rollback"}]
    assert sorted(begun) == sorted(ended)
    assert len(set(begun)) == len(begun)


@given(plans)
def test_a_completed_row_holds_what_its_attempt_asked_for(plan: OrderPlan) -> None:
    asked: dict[int, RowVersion] = {}
    for step in plan.steps:
        if step.kind in {"place", "change"} and step.row is not None:
            asked[step.attempt] = step.row
        if step.kind == "complete":
            assert step.row == replace(asked[step.attempt], state="completed")


@given(plans)
def test_a_cancelled_order_stays_cancelled_and_begins_nothing_new(plan: OrderPlan) -> None:
    kinds = [step.kind for step in plan.steps]
    for end in ("cancel", "decline"):
        if end in kinds:
            rest = plan.steps[kinds.index(end) + 1 :]
            assert {step.kind for step in rest} <= {"rollback"}
            assert all(step.row is not None and step.row.state == "cancelled" for step in rest)


@given(plans)
def test_lines_are_numbered_from_one_and_their_sum_is_the_total(plan: OrderPlan) -> None:
    for row in plan.rows():
        assert [line.line_no for line in row.lines] == list(range(1, len(row.lines) + 1))
        assert row.total_price == sum(line.quantity * line.price for line in row.lines)
        assert row.total_price.as_tuple().exponent == -2
        assert row.total_price > Decimal(0)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_equal_seed_and_number_give_equal_lives(seed: int, number: int) -> None:
    assert plan_order(seed, number, reference_data()) == plan_order(seed, number, reference_data())


def test_another_seed_gives_another_run() -> None:
    assert [plan_order(8, n, reference_data()) for n in range(20)] != many(20)


def test_a_first_payment_that_fails_ends_cancelled_with_its_cause() -> None:
    declined = [plan for plan in many() if any(step.kind == "decline" for step in plan.steps)]
    assert declined
    for plan in declined:
        last = list(plan.rows())[-1]
        assert (last.state, last.rollback_cause) == ("cancelled", "payment_declined")


def test_every_kind_of_step_happens_in_a_few_hundred_orders() -> None:
    kinds = Counter(step.kind for plan in many() for step in plan.steps)
    assert set(kinds) == {"place", "complete", "decline", "change", "rollback", "cancel", "settle", "review"}


def test_some_orders_have_several_changes_in_flight_at_once() -> None:
    def most_at_once(plan: OrderPlan) -> int:
        open_attempts, most = set(), 0
        for step in plan.steps:
            if step.kind == "change":
                open_attempts.add(step.attempt)
            elif step.kind in {"complete", "rollback"}:
                open_attempts.discard(step.attempt)
            most = max(most, len(open_attempts))
        return most

    assert max(most_at_once(plan) for plan in many()) >= 2


def test_changes_in_flight_when_the_guest_cancels_are_rolled_back() -> None:
    causes = {row.rollback_cause for plan in many() for row in plan.rows()}
    assert "order_cancelled" in causes


def test_the_pace_stretches_time_and_changes_nothing_else() -> None:
    slow, fast = (plan_order(7, 3, reference_data(), pace_s) for pace_s in (2.0, 0.5))
    assert [step.kind for step in slow.steps] == [step.kind for step in fast.steps]
    assert list(slow.rows()) == list(fast.rows())
    assert slow.steps[-1].after_s > fast.steps[-1].after_s
