"""The mails, as a person reads them at 3 a.m."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jinja2
import pytest

from include.errors import Terminal
from include.incidents.kind import MEANINGS
from include.outbox.folder import Mail
from include.settings.applications import Alerts
from supervision import alerts as alerts_module
from supervision.alerts import default_args, incident_mail, mails
from supervision.refusing import NoRetry

ALERTS = Alerts.model_validate({"from": "lyrebird@localhost", "to": ["on-call@localhost"]})
LINK = "http://127.0.0.1:8080/dags/d/runs/r/tasks/t?try_number=2"


def rendered(which: str, exception: Any, **more: Any) -> tuple[str, str]:
    mail = mails(ALERTS, run_next="lyrebird audit search {{ params.topic }}")[which]
    ti = SimpleNamespace(dag_id="d", task_id="t", map_index=-1, try_number=2, max_tries=3, log_url=LINK)
    names = {"ti": ti, "run_id": "r", "params": {"topic": "orders"}, "exception": exception, **more}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
    return (
        environment.from_string(mail.subject).render(names),
        environment.from_string(mail.html).render(names),
    )


def test_a_failure_says_what_why_what_to_run_next_and_where_the_log_is() -> None:
    subject, body = rendered("on_failure_callback", Terminal("7 findings", fix="Look."))
    assert subject == "[lyrebird] FAILED d.t: 7 findings. Look."
    for part in ("not tried again", "7 findings", "lyrebird audit search orders", f'href="{LINK}"', "failed at try 2,"):
        assert part in body


def test_an_error_that_knows_the_next_command_says_that_one() -> None:
    error = NoRetry("capture of shop has stopped: <gone>", "lyrebird capture check --source shop > x")
    subject, body = rendered("on_failure_callback", error)
    assert subject == "[lyrebird] FAILED d.t: capture of shop has stopped: <gone>"
    assert "<pre>lyrebird capture check --source shop &gt; x</pre>" in body
    assert "audit search" not in body


def test_a_retry_is_told_apart_by_its_subject() -> None:
    subject, body = rendered("on_retry_callback", ValueError("away"))
    assert subject == "[lyrebird] retry d.t (try 2 of 4): away"
    assert "failed at try 2 of 4, and will be tried again by itself" in body


@pytest.mark.parametrize("exception", [None, "", ValueError()])
def test_a_mail_without_a_reason_still_goes_out(exception: Any) -> None:
    subject, body = rendered("on_failure_callback", exception)
    assert subject.startswith("[lyrebird] FAILED d.t:")
    assert "lyrebird audit search orders" in body


def test_a_reason_of_many_lines_and_signs_harms_neither_subject_nor_page() -> None:
    subject, body = rendered("on_failure_callback", ValueError("<b>first</b>\r\nBcc: x@localhost"))
    assert subject == "[lyrebird] FAILED d.t: <b>first</b>"
    assert "&lt;b&gt;first" in body


def test_a_long_reason_is_cut_between_words_in_the_subject_alone() -> None:
    subject, body = rendered("on_failure_callback", ValueError("word " * 40 + "end"))
    assert subject == f"[lyrebird] FAILED d.t: {'word ' * 20}word…"
    assert "word end" in body


def test_a_mapped_task_is_named_by_its_index() -> None:
    ti = SimpleNamespace(dag_id="d", task_id="t", map_index=4, try_number=1, max_tries=0, log_url=LINK)
    subject, _ = rendered("on_failure_callback", ValueError("x"), ti=ti)
    assert "d.t[4]" in subject


def test_every_task_gets_owner_retries_and_both_mails() -> None:
    given = default_args(ALERTS, run_next="lyrebird status")
    assert given["owner"] == "lyrebird"
    assert given["retries"] >= 1
    for which in ("on_failure_callback", "on_retry_callback"):
        assert given[which].alerts == ALERTS


def test_a_next_command_of_two_lines_is_refused() -> None:
    with pytest.raises(Terminal, match="one line"):
        mails(ALERTS, run_next="a\nb")


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[Mail]:
    """What went into the outbox."""
    mails: list[Mail] = []
    monkeypatch.setattr(alerts_module, "post", mails.append)
    return mails


def context(exception: Any = None, **of_ti: Any) -> dict[str, Any]:
    ti: dict[str, Any] = {"dag_id": "d", "task_id": "t", "map_index": -1, "try_number": 2, "max_tries": 3, "id": "u"}
    return {"ti": SimpleNamespace(**{**ti, "log_url": LINK, **of_ti}), "run_id": "r", "exception": exception}


def test_what_an_earlier_run_has_mailed_is_not_mailed_again(
    posted: list[Mail], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = mails(ALERTS, run_next="lyrebird lake status")["on_failure_callback"]
    noted: list[str] = []
    first = NoRetry("stands still", on_mailed=lambda: noted.append("told"))

    def full(_mail: Mail) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(alerts_module, "post", full)
        with pytest.raises(OSError, match="space"):
            failed(context(first))
    assert noted == []
    failed(context(first))
    failed(context(NoRetry("stands still", told=True)))
    failed(context(ValueError("away")))
    assert [mail.subject.rpartition(": ")[2] for mail in posted] == ["stands still", "away"]
    assert noted == ["told"]


def test_one_end_of_a_task_is_one_mail_and_another_is_another(posted: list[Mail]) -> None:
    made = mails(ALERTS, run_next="lyrebird lake status")
    for told in (context(), context(), context(try_number=3), context(map_index=1), context(id="v")):
        made["on_failure_callback"](told)
    made["on_retry_callback"](context())
    identities = [mail.identity for mail in posted]
    assert identities[0] == identities[1]
    assert len(set(identities)) == 5


def test_a_callback_that_is_called_for_two_tasks_says_each(posted: list[Mail]) -> None:
    """The DAG processor does so for tasks whose workers died: both have the callbacks of `default_args`."""
    failed = default_args(ALERTS, run_next="lyrebird {{ params.no.such }}status")["on_failure_callback"]
    failed(context(task_id="one"))
    failed(context(task_id="two"))
    assert [mail.subject.split()[2] for mail in posted] == ["d.one:", "d.two:"]
    assert "<pre>lyrebird status</pre>" in posted[0].html


def incident(**more: str) -> tuple[str, str]:
    told = {
        "id": "aside:s.t:9",
        "kind": "aside",
        "text": "table s.t is set aside",
        "fix": "lyrebird capture resume-table --source s s.t",
    }
    mail = incident_mail(ALERTS, "capture-s", "d|r+1|t|-1", told | more)
    return mail.subject, mail.html


def test_an_incident_says_what_happened_what_to_run_next_and_where_the_log_is() -> None:
    subject, body = incident()
    assert subject == "[lyrebird] INCIDENT aside: table s.t is set aside"
    for part in (
        "table s.t is set aside",
        "lyrebird capture resume-table --source s s.t",
        "/dags/d/runs/r%2B1/tasks/t",
        "capture-s, kept running by d.t, run r+1",
    ):
        assert part in body


def test_an_incident_says_how_soon_a_person_has_to_look_and_which_page_says_more() -> None:
    _, body = incident(severity="error", page="capture.md#a-table-is-set-aside")
    assert f"<b>error</b>: {MEANINGS['error']}." in body
    assert "docs/capture.md#a-table-is-set-aside" in body
    _, of_an_older_application = incident()
    assert "Manual" not in of_an_older_application


def test_an_incidents_text_harms_neither_subject_nor_page() -> None:
    subject, body = incident(text="<b>{{ 7 * 7 }}</b>\r\nBcc: x@localhost", fix="a <b>")
    assert subject == "[lyrebird] INCIDENT aside: <b>{{ 7 * 7 }}</b>"
    assert "&lt;b&gt;{{ 7 * 7 }}" in body
    assert "a &lt;b&gt;" in body
