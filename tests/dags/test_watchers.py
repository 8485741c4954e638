"""Who watches an application, asked of Airflow's own database after each thing that ends a trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.models import DagBag
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom

from supervision.watchers import is_cleaned_away, keep_watcher

DAG = "stream_index_orders"
RUN = "r1"
LONG_AGO = datetime.now(UTC) - timedelta(days=40)


class Watched:
    """The task of a stream in Airflow's database, whose trigger watches."""

    def __init__(self, session: Any, run: Any) -> None:
        self.session = session
        self.run = run
        self.begin()
        self.trigger_task = self.seen()

    @property
    def task(self) -> Any:
        (found,) = self.run.get_task_instances(session=self.session)
        found.task = self.run.dag.get_task(found.task_id)
        return found

    def seen(self) -> SimpleNamespace:
        """As a worker or a trigger has it."""
        from airflow.models.xcom import XComModel

        task = self.task
        at: dict[str, Any] = {"dag_id": DAG, "run_id": RUN, "task_id": "run", "map_index": -1}

        def push(key: str, value: object) -> None:
            XComModel.set(key, value, session=self.session, **at)

        return SimpleNamespace(id=task.id, try_number=task.try_number, xcom_push=push, **at)

    def schedule(self) -> None:
        self.run.schedule_tis([self.task], session=self.session)
        self.flush()

    def start(self) -> None:
        """A worker has it: what the try before has left goes first."""
        from airflow.models.xcom import XComModel

        self.task.state, self.task.start_date = "running", LONG_AGO
        XComModel.clear(dag_id=DAG, task_id="run", run_id=RUN, session=self.session)
        self.flush()

    def defer(self) -> None:
        keep_watcher(self.seen())
        self.task.state = "deferred"
        self.flush()

    def begin(self) -> None:
        self.schedule()
        self.start()
        self.defer()

    def clear(self) -> None:
        from airflow.models.taskinstance import clear_task_instances

        clear_task_instances([self.task], self.session)
        self.flush()

    def clean_away(self) -> None:
        """`airflow db clean`, of runs that no person has started."""
        from airflow.utils.db_cleanup import run_cleanup

        self.session.commit()
        run_cleanup(
            clean_before_timestamp=pendulum.now("UTC").subtract(days=30),
            table_names=["dag_run", "task_instance", "trigger"],
            skip_archive=True,
            confirm=False,
        )
        self.session.expire_all()

    def make_anew(self) -> None:
        """The scheduler's next look at a run whose task is missing."""
        self.run.verify_integrity(session=self.session, dag_version_id=self.run.created_dag_version_id)
        self.flush()

    def flush(self) -> None:
        self.session.flush()
        self.session.expire_all()

    def is_cleaned_away(self) -> bool | None:
        return is_cleaned_away(self.trigger_task)

    def answers_of_a_new_try(self) -> list[bool | None]:
        """Before it is scheduled, before it begins, before it watches, and then."""
        answers = [self.is_cleaned_away()]
        for step in (self.schedule, self.start, self.defer):
            step()
            answers.append(self.is_cleaned_away())
        return answers


@pytest.fixture(scope="module")
def dag() -> Any:
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    lazy = LazyDeserializedDAG.from_dag(DagBag().dags[DAG])
    with create_session() as session:
        session.merge(DagBundleModel(name="watchers"))
        session.commit()
        SerializedDAG.bulk_write_to_db("watchers", None, [lazy], None, session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="watchers", session=session)
    return lazy._real_dag


@pytest.fixture
def watched(dag: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    from airflow.api_fastapi.execution_api.routes.task_instances import get_task_instance_states
    from airflow.models.dagrun import DagRun
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import delete

    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == DAG))
        run = dag.create_dagrun(
            run_id=RUN,
            logical_date=LONG_AGO,
            data_interval=(LONG_AGO, LONG_AGO),
            run_after=LONG_AGO,
            start_date=LONG_AGO,
            run_type=DagRunType.OPERATOR_TRIGGERED,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        run.dag = dag

        def states(dag_id: str, run_ids: list[str], task_ids: list[str]) -> dict[str, Any]:
            answer = get_task_instance_states(
                dag_id, session, dag_bag=None, map_index=None, task_ids=task_ids,  # type: ignore[arg-type]
                task_group_id=None,
                logical_dates=None, run_ids=run_ids,
            )  # fmt: skip
            return answer.task_states

        def kept(key: str, dag_id: str, run_id: str, task_id: str, map_index: int) -> Any:
            asked = XComModel.get_many(key=key, dag_ids=dag_id, run_id=run_id, task_ids=task_id, map_indexes=map_index)
            found = session.scalars(asked).first()
            return None if found is None else XComModel.deserialize_value(found)

        monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(states))
        monkeypatch.setattr(XCom, "get_one", kept)
        yield Watched(session, run)
        session.execute(delete(DagRun).where(DagRun.dag_id == DAG))


@pytest.mark.parametrize("state", ["failed", "success"])
def test_one_that_is_marked_was_not_cleaned_away(watched: Watched, state: str) -> None:
    watched.task.state = state
    watched.flush()
    assert watched.is_cleaned_away() is False


def test_one_that_is_cleared_was_not_cleaned_away_however_far_its_new_try_is(watched: Watched) -> None:
    watched.clear()
    assert watched.answers_of_a_new_try() == [False, False, None, False]


@pytest.mark.parametrize("tries", [1, 2])
def test_one_whose_run_a_clean_up_has_left_was_cleaned_away_however_far_the_scheduler_has_made_it_anew(
    watched: Watched, tries: int
) -> None:
    for _ in range(1, tries):
        watched.clear()
        watched.begin()
        watched.trigger_task = watched.seen()
    assert watched.trigger_task.try_number == tries
    watched.clean_away()
    assert watched.run.get_task_instances(session=watched.session) == []
    assert watched.is_cleaned_away() is True
    watched.make_anew()
    assert watched.answers_of_a_new_try() == [True, True, None, True]
    # Who watches then is known by its own trigger.
    watched.trigger_task = watched.seen()
    assert watched.is_cleaned_away() is False


@pytest.mark.parametrize("more", [{"dag_id": "stream_unknown"}, {"task_id": "check"}])
def test_of_what_the_keeper_starts_none_anew_nothing_is_asked(watched: Watched, more: dict[str, str]) -> None:
    watched.clean_away()
    watched.trigger_task = SimpleNamespace(**{**vars(watched.trigger_task), **more})
    assert watched.is_cleaned_away() is False


def test_an_airflow_that_does_not_answer_lets_none_run_on(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.clean_away()

    def away(**_: object) -> Callable[[], None]:
        raise RuntimeError("Airflow is away")

    monkeypatch.setattr(XCom, "get_one", away)
    assert watched.is_cleaned_away() is False
