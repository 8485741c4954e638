"""Hands windows to the job that runs expectations after a search audit, and judges its result."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from include.audit.expectations.report import results_of
from include.errors import NothingToJudge, SettingsError, Terminal

__all__ = ["ExpectationVerdict", "arguments", "verdict_of", "windows_in", "windows_of"]

_FIX: Final = "Let `spark_apps/audit_search.py --audit NAME --report FILE` write it."


@dataclass(frozen=True)
class ExpectationVerdict:
    """The verdict on one expectation: `text` names it, `next_command` is empty when it is as expected."""

    failed: bool
    text: str
    next_command: str


def arguments(audit: str, report: Path, result: Path) -> list[str]:
    """Of `spark_apps/audit_expectations.py`: it cuts where `report` says, and writes `result`."""
    return ["--audit", audit, "--report", str(report), "--result", str(result)]


def windows_of(report: Mapping[str, Any], audit: str) -> dict[str, dict[int, int]]:
    """Topic -> partition -> the offset that the search audit was cut at; no partition where it had nothing to judge.

    Args:
        report: {"audits": {name: {"topic": …, "window": {partition: offset}, …}}}; an audit of several topics has an
            entry `<audit>/<topic>` for each.
        audit: name in the deployment files.
    """
    return {
        each["topic"]: {int(partition): offset for partition, offset in each.get("window", {}).items()}
        for name, each in report["audits"].items()
        if name == audit or name.startswith(f"{audit}/")
    }


def windows_in(file: Path, audit: str) -> dict[str, dict[int, int]]:
    """`windows_of` the report in a file; raises `SettingsError` when it is no report of this audit."""
    try:
        windows = windows_of(json.loads(file.read_text(encoding="utf-8")), audit)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise SettingsError("no report of a search audit", file=str(file), reason=reason, fix=_FIX) from error
    if not windows:
        raise SettingsError("the report is not of this audit", file=str(file), audit=audit, fix=_FIX)
    return windows


def verdict_of(result: Mapping[str, Any], topic: str, name: str, *, assembled: bool) -> ExpectationVerdict:
    """Judge one expectation of an audit's result (`ExpectationsReport.to_json`).

    Args:
        result: the report.
        topic: whose expectation it is.
        name: the expectation's, in the deployment files.
        assembled: the topic's documents are ours, so that one can be assembled anew and looked at.

    Raises:
        NothingToJudge: nothing is indexed yet of the topic.
        Terminal: the result does not have it.
    """
    if topic in result.get("nothing", ()):
        raise NothingToJudge("nothing is indexed yet, so that no document can be as expected", topic=topic)
    expectation = next((each for each in results_of(result) if (each.topic, each.name) == (topic, name)), None)
    if expectation is None:
        raise Terminal(
            "the result does not have this expectation: the deployment files have changed meanwhile",
            topic=topic,
            expectation=name,
            fix="Run the audit again.",
        )
    if expectation.success:
        return ExpectationVerdict(False, f"{name} of {topic}: {expectation.said}", "")
    command = f"lyrebird audit history --audit {shlex.quote(result['audit'])}"
    if assembled and expectation.examples and expectation.examples[0].key:
        key = shlex.quote(expectation.examples[0].key)
        command = f"lyrebird documents assemble --topic {shlex.quote(topic)} --key {key}"
    return ExpectationVerdict(
        True, f"expectation {name} of {topic} failed ({expectation.kind}): {expectation.said}", command
    )
