"""The DAG audit_documents: what is asked, what its mail says, when it runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.audit.documents.report import DocumentFinding, DocumentsReport
from include.audit.nothing import NothingJudged
from include.errors import Terminal
from include.settings.environment import state_folder
from supervision.document_audit import check_document_audit, judge_document_audit
from supervision.pages.audits import audit_page
from supervision.refusing import refusing
from tests.support.paths import ROOT

ERASED = DocumentFinding("stale", "77", ("address.street",), ("addresses",))


@pytest.fixture(autouse=True)
def _no_history() -> Iterator[None]:
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)
    yield
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)


def written(checked: dict[str, Any], *reports: DocumentsReport | NothingJudged) -> str:
    path = Path(checked["report"])
    path.write_text(json.dumps({"documents": {each.topic: each.to_json() for each in reports}}))
    return str(path)


def report(topic: str, **said: Any) -> DocumentsReport:
    return DocumentsReport(topic, "2026-11-25T05:00:07Z", "0-1-7", 900, 16, **said)


def test_one_job_looks_at_all_topics_or_at_those_that_a_person_chooses() -> None:
    checked = check_document_audit(["orders", "parcels"], {}, "scheduled__r1")
    expected = ["--topic", "orders", "--topic", "parcels", "--sample", "16", "--report", checked["report"]]
    assert checked["arguments"] == expected
    by_hand = check_document_audit(["orders", "parcels"], {}, "manual__r1")
    assert by_hand["arguments"][4:5] == ["--report"]
    asked = {"topics": ["parcels"], "share": 3, "repair": True}
    chosen = check_document_audit(["orders", "parcels"], asked, "r2")
    assert chosen["arguments"][:6] == ["--topic", "parcels", "--sample", "3", "--repair", "r2"]


def test_a_wrong_choice_fails_the_first_task_at_once() -> None:
    with pytest.raises(AirflowFailException, match="no entry of documents of this name"):
        refusing(check_document_audit)(["orders"], {"topics": ["ordres"]}, "r1")
    with pytest.raises(AirflowFailException, match="no entry of documents is declared"):
        refusing(check_document_audit)([], {}, "r1")


def test_clean_topics_pass_and_what_is_wrong_is_named_with_field_table_and_command() -> None:
    checked = check_document_audit(["orders", "parcels"], {}, "r1")
    path = written(checked, report("orders"), report("parcels"))
    assert judge_document_audit(path) == 2
    assert "900 documents" in audit_page("document", "r1")
    written(checked, report("orders", found=[ERASED], looked_again=3, unheard=["addresses"]), report("parcels"))
    with pytest.raises(Terminal) as told:
        judge_document_audit(path)
    assert "stale: 77 in address.street of addresses" in told.value.message
    assert told.value.fix == "Run `lyrebird audit documents orders --repair`."
    page = audit_page("document", "r1")
    assert "stale: 77 in address.street of addresses" in page
    # Once in the run's own rows, once among the runs.
    assert (page.count('<tr class="found">'), page.count('<tr class="clean">')) == (2, 2)


def test_documents_that_changed_whenever_they_were_looked_at_are_not_red() -> None:
    checked = check_document_audit(["orders"], {}, "r1")
    assert judge_document_audit(written(checked, report("orders", unsure=2))) == 0


def nothing(topic: str) -> NothingJudged:
    why = f"there is no such topic yet (topic='{topic}'). Start the application assemble."
    return NothingJudged(topic, "2026-11-25T05:00:07Z", why, topic)


def test_topics_whose_assembler_has_not_begun_are_skipped_and_named_beside_others() -> None:
    checked = check_document_audit(["orders", "parcels"], {}, "r1")
    with pytest.raises(AirflowSkipException, match=r"orders: .*Start the application assemble"):
        refusing(judge_document_audit)(written(checked, nothing("orders"), nothing("parcels")))
    page = audit_page("document", "r1")
    assert "Start the application assemble" in page
    assert (page.count('<tr class="found">'), page.count('<tr class="clean">')) == (0, 0)
    assert judge_document_audit(written(checked, report("orders"), nothing("parcels"))) == 1
    with pytest.raises(AirflowFailException, match="stale: 77"):
        refusing(judge_document_audit)(written(checked, report("orders", found=[ERASED]), nothing("parcels")))


def test_a_topic_that_an_earlier_run_has_judged_is_lost_and_red() -> None:
    judge_document_audit(written(check_document_audit(["orders", "parcels"], {}, "r1"), report("orders")))
    checked = check_document_audit(["orders", "parcels"], {}, "r2")
    with pytest.raises(AirflowFailException, match=r"not there any more: orders \(run r1\)"):
        refusing(judge_document_audit)(written(checked, nothing("orders"), report("parcels")))
    assert "lost: an earlier run has judged it" in audit_page("document", "r2")


def test_what_is_lost_hides_no_finding() -> None:
    first = written(check_document_audit(["orders", "parcels"], {}, "r1"), report("orders"), report("parcels"))
    judge_document_audit(first)
    checked = check_document_audit(["orders", "parcels"], {}, "r2")
    with pytest.raises(
        AirflowFailException, match=r"orders: lost: .*parcels \(one of 16\): 1 stale \(stale: 77"
    ) as told:
        refusing(judge_document_audit)(written(checked, nothing("orders"), report("parcels", found=[ERASED])))
    assert "Run `lyrebird status` and `lyrebird audit documents parcels --repair`." in str(told.value)
    assert "lost: an earlier run has judged it" in audit_page("document", "r2")


def test_it_runs_nightly_where_documents_are_declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def loaded() -> Any:
        bag = DagBag(dag_folder=str(ROOT / "dags" / "audit_documents.py"))
        assert bag.import_errors == {}
        return bag.dags["audit_documents"]

    said = "alerts: {from: a@localhost, to: [b@localhost]}\ndocuments: {assembled_order: {}}\n"
    (tmp_path / "all.yaml").write_text(said)
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    dag = loaded()
    assert dag.schedule.expression == "0 5 * * *"
    assert dag.params.get_param("topics").schema["items"]["enum"] == ["assembled_order"]
    assert dag.get_task("verdict").upstream_task_ids == {"audit", "check"}
    dag.params.validate()
