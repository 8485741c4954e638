"""The report of a topic's expectations, in words and as JSON: each failed one with documents by key."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from include.audit.expectations.definition import Expectation

__all__ = ["ExpectationResult", "ExpectationsReport", "TopicFigures", "UnexpectedDocument", "results_of"]

_NAMED = 3
_HIDDEN = "(hidden)"


@dataclass(frozen=True)
class UnexpectedDocument:
    """One document that is not as expected: its id, and the values that were looked at."""

    key: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        told = ", ".join(f"{name} {_plain(value)}" for name, value in self.values.items())
        return f"{self.key} ({told})" if told else self.key


@dataclass(frozen=True)
class ExpectationResult:
    """One expectation on one topic.

    `checked` documents had a value to look at, `unexpected` of them are not as expected; both None for an expectation
    of the whole topic, which has `observed`. With a `problem` it could not be judged, and counts as failed.
    """

    topic: str
    name: str
    kind: str
    arguments: Mapping[str, Any]
    success: bool
    checked: int | None = None
    unexpected: int | None = None
    observed: Any = None
    examples: tuple[UnexpectedDocument, ...] = ()
    problem: str = ""

    @classmethod
    def of_nothing(cls, declared: Expectation) -> ExpectationResult:
        """The result where there is no document to look at."""
        return cls(declared.topic, declared.name, declared.kind, declared.arguments, success=True, checked=0)

    def doubted(self, unreadable: int) -> ExpectationResult:
        """The same, failed if it was met: of so many records nobody knows what they say."""
        if not self.success or not unreadable:
            return self
        problem = f"{unreadable:,} records cannot be read, so nobody knows whether they are as expected"
        return replace(self, success=False, problem=problem)

    def without(self, hidden: Collection[str]) -> ExpectationResult:
        """The same without a value of the columns `hidden`."""
        named = {name for value in self.arguments.values() for name in (value if isinstance(value, list) else [value])}
        examples = [
            UnexpectedDocument(
                example.key, {n: _HIDDEN if n in hidden else value for n, value in example.values.items()}
            )
            for example in self.examples
        ]
        if not any(name in hidden for name in named if isinstance(name, str)):
            return replace(self, examples=tuple(examples))
        # What was observed of the column, and errors, may quote a value of it.
        return replace(
            self,
            examples=tuple(examples),
            observed=None if self.observed is None else _HIDDEN,
            problem="an error that may quote a hidden value" if self.problem else "",
        )

    @property
    def said(self) -> str:
        """The result in words: `1 of 500 documents, e.g. 17 (total_price 4.00, lines_total 3.00)`."""
        if self.problem:
            return f"cannot be judged: {self.problem}"
        if self.success:
            return "as expected" if self.checked is None else f"{self.checked:,} documents as expected"
        named = list(dict.fromkeys(map(str, self.examples)))[:_NAMED]
        examples = f", e.g. {', '.join(named)}" if named else ""
        if self.checked is None:
            return f"observed {_plain(self.observed)}{examples}"
        return f"{self.unexpected:,} of {self.checked or 0:,} documents{examples}"

    def line(self) -> str:
        """For a person."""
        state = "as expected" if self.success else "FAILED"
        said = f": {self.said}" if not self.success else ""
        return f"{state} {self.topic} {self.name} ({self.kind}){said}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "topic": self.topic,
            "name": self.name,
            "kind": self.kind,
            "arguments": dict(self.arguments),
            "success": self.success,
            "checked": self.checked,
            "unexpected": self.unexpected,
            "observed": _json(self.observed),
            "examples": [{"key": each.key, "values": _json(dict(each.values))} for each in self.examples],
            "problem": self.problem,
        }


@dataclass(frozen=True)
class TopicFigures:
    """The documents that were looked at: the living below the offsets of `window`.

    `unreadable` records have no key or version, or no body, that can be read; `left_out` fields have a type that Spark
    has none for.
    """

    topic: str
    window: Mapping[int, int]
    documents: int
    unreadable: int
    left_out: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "topic": self.topic,
            "window": {str(p): offset for p, offset in sorted(self.window.items())},
            "documents": self.documents,
            "unreadable": self.unreadable,
            "left_out": list(self.left_out),
        }


@dataclass(frozen=True)
class ExpectationsReport:
    """All expectations that one audit declares, over its topics; `nothing`: those of which nothing is indexed."""

    audit: str
    at: str
    topics: tuple[TopicFigures, ...]
    results: tuple[ExpectationResult, ...] = field(default=())
    nothing: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether something was there that could be as expected, or not."""
        return bool(self.topics)

    @property
    def failed(self) -> tuple[ExpectationResult, ...]:
        """Those that are not as expected."""
        return tuple(each for each in self.results if not each.success)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "audit": self.audit,
            "at": self.at,
            "failed": len(self.failed),
            "topics": [each.to_json() for each in self.topics],
            "results": [each.to_json() for each in self.results],
            "nothing": list(self.nothing),
        }

    def lines(self) -> list[str]:
        """The verdict, what was looked at, each expectation."""
        met = "all as expected" if self.judged else "nothing to judge"
        verdict = f"{len(self.failed)} failed" if self.failed else met
        out = [f"expectations of {self.audit}: {verdict} ({self.at})"]
        for figures in self.topics:
            ends = ", ".join(f"{p}:{offset}" for p, offset in sorted(figures.window.items()))
            out.append(f"  {figures.topic}: {figures.documents:,} documents below offsets {ends}")
            if figures.unreadable:
                out.append(f"  {figures.unreadable:,} records that cannot be read are not judged")
            if figures.left_out:
                out.append(f"  fields of types that Spark does not have: {', '.join(figures.left_out)}")
        out += [f"  {topic}: nothing is indexed yet" for topic in self.nothing]
        return [*out, *(result.line() for result in self.results)]


def results_of(report: Mapping[str, Any]) -> list[ExpectationResult]:
    """The results in a report's JSON: inverse of `ExpectationsReport.to_json`."""
    return [
        ExpectationResult(
            **{
                **each,
                "examples": tuple(UnexpectedDocument(one["key"], one["values"]) for one in each["examples"]),
            }
        )
        for each in report["results"]
    ]


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return f"{value:f}"
    return json.dumps(_json(value), ensure_ascii=False) if value is not None else "null"


def _json(value: Any) -> Any:
    """Values of Spark's rows as JSON has them: decimals and times as text, rows as objects."""
    if isinstance(value, Mapping):
        return {str(name): _json(each) for name, each in value.items()}
    if hasattr(value, "asDict"):
        return _json(value.asDict())
    if isinstance(value, list | tuple | set):
        return [_json(each) for each in value]
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
