"""Serves the pages in Airflow's API server to those who may read the logs of the DAGs that they are about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Annotated, Final, Protocol

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse

from include.audit.history import KINDS, dag_of
from supervision.pages.applications import application_folder, applications_page, held_by, log_page
from supervision.pages.audits import audit_page, audits_page
from supervision.pages.frame import HEADERS

__all__ = ["pages"]

pages: Final = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, default_response_class=HTMLResponse)


class _MayRead(Protocol):
    def __call__(self, dag: str | None) -> bool: ...


def _rights(user: GetUserDep) -> _MayRead:
    """What the user may read, by DAG; each DAG is asked for once a request.

    Logs and audits show what task logs show, so who may read those of a DAG may read these. What no DAG holds is for
    those who may read Airflow's configuration: a question about DAGs without naming one is answered with yes to
    whoever may read any of them.
    """
    manager = get_auth_manager()

    @cache
    def may_read(dag: str | None) -> bool:
        if dag is None:
            return manager.is_authorized_configuration(method="GET", user=user)
        details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
        return manager.is_authorized_dag(
            method="GET", access_entity=DagAccessEntity.TASK_LOGS, details=details, user=user
        )

    return may_read


MayRead = Annotated[_MayRead, Depends(_rights)]


def _require(may_read: _MayRead, dag: str | None) -> None:
    if not may_read(dag):
        right = f"the logs of the DAG {dag}" if dag else "Airflow's configuration: no DAG holds this application"
        raise HTTPException(403, f"You need the right to read {right}.")


@pages.middleware("http")
async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(HEADERS)
    return response


@pages.get("/applications")
def _applications(may_read: MayRead) -> str:
    return applications_page(may_read)


@pages.get("/applications/{name}/log")
def _log(name: str, may_read: MayRead) -> str:
    folder = application_folder(name)
    if folder is None:
        raise HTTPException(404, "No such application on this host.")
    _require(may_read, held_by(folder))
    return log_page(name)


@pages.get("/audits")
def _audits(may_read: MayRead) -> str:
    return audits_page(kind for kind in KINDS if may_read(dag_of(kind)))


@pages.get("/audits/{kind}/{run_id:path}")
def _audit(kind: str, run_id: str, may_read: MayRead) -> str:
    known = next((each for each in KINDS if each == kind), None)
    if known is None:
        raise HTTPException(404, "No such audit.")
    _require(may_read, dag_of(known))
    return audit_page(known, run_id)
