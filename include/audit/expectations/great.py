"""The one place that loads Great Expectations: what it knows, and a suite of it run on a Spark DataFrame.

Loading takes seconds and 180 MB, so only who runs a suite does it; `catalogue` is what the rest goes by. Nothing
is written to files, and nothing is sent anywhere.

Source: https://docs.greatexpectations.io/docs/core/introduction/, GX Core 1.24, which runs on Spark 4.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from include.audit.expectations.definition import Expectation
from include.audit.expectations.report import ExpectationResult, UnexpectedDocument

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["installed", "loaded", "validated"]

_EXAMPLES: Final = 20
# Of every expectation, and for us to set: what is declared has a name, results have one form. Conditions on rows are
# declared as computed columns: as texts they are on their way out.
_OWN: Final = frozenset(
    {
        "batch_id", "catch_exceptions", "condition_parser", "description", "id", "library_metadata", "meta", "notes",
        "rendered_content", "result_format", "row_condition", "severity", "windows",
    }
)  # fmt: skip
_ENGINE: Final = "Spark"


def loaded() -> ModuleType:
    """Great Expectations; Python 3.11 has renamed a module that it imports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import great_expectations as gx
        import great_expectations.expectations
    return gx


def installed() -> dict[str, dict[str, list[str]]]:
    """What of the installed version runs on Spark, in the form of `catalogue.json`."""
    module = loaded().expectations
    catalogue: dict[str, dict[str, list[str]]] = {}
    for name in sorted(vars(module)):
        kind = getattr(module, name)
        if not name.endswith("Expectation") and not name.startswith("Expect"):
            continue
        schema = kind.schema()
        about = schema["properties"].get("metadata", {}).get("properties", {})
        if _ENGINE not in about.get("supported_data_sources", {}).get("const", ()):
            continue
        arguments = {field: each for field, each in kind.__fields__.items() if field not in _OWN}
        catalogue[name] = {
            f"{field}{'!' if each.required else ''}": _kinds(schema["properties"][field], schema)
            for field, each in sorted(arguments.items())
        }
    return catalogue


def validated(frame: Any, expectations: Sequence[Expectation], key: str) -> list[ExpectationResult]:
    """Each expectation's result on `frame`, in the order given; Spark jobs run meanwhile.

    An expectation that Great Expectations cannot judge (a column that is not there, a condition that is no SQL) fails
    with its `problem`. Examples name their rows by the column `key`.

    Args:
        frame: a DataFrame of Spark, read once for each expectation or more often: persisted where that is dear.
        expectations: as declared.
        key: column that names a row.
    """
    gx = loaded()
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    # A site of its own would leave a folder behind.
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    source = context.data_sources.add_spark("topic", persist=False)
    asset = source.add_dataframe_asset("documents")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    suite = gx.ExpectationSuite(
        name="declared", expectations=[_expectation(gx, expectation) for expectation in expectations]
    )
    outcome = batch.validate(
        suite,
        result_format={
            "result_format": "SUMMARY",
            "unexpected_index_column_names": [key],
            "partial_unexpected_count": _EXAMPLES,
        },
    )
    by_name = {result.expectation_config.meta["name"]: result for result in outcome.results}
    return [_result(expectation, by_name[expectation.name], key) for expectation in expectations]


def _expectation(gx: ModuleType, declared: Expectation) -> Any:
    return getattr(gx.expectations, declared.kind)(**declared.arguments, meta={"name": declared.name})


def _result(declared: Expectation, found: Any, key: str) -> ExpectationResult:
    result: Mapping[str, Any] = found.result or {}
    rows = result.get("partial_unexpected_index_list") or ()
    return ExpectationResult(
        topic=declared.topic,
        name=declared.name,
        kind=declared.kind,
        arguments=declared.arguments,
        success=bool(found.success),
        checked=result.get("element_count"),
        unexpected=result.get("unexpected_count"),
        observed=result.get("observed_value"),
        examples=tuple(_example(row, key) for row in list(rows)[:_EXAMPLES]),
        problem=_problem(found.exception_info or {}),
    )


def _example(row: Mapping[str, Any], key: str) -> UnexpectedDocument:
    return UnexpectedDocument(str(row.get(key, "")), {name: value for name, value in row.items() if name != key})


def _problem(told: Mapping[str, Any]) -> str:
    """The first line of what was raised: Great Expectations tells it once, or for each of its metrics."""
    each = [told] if "raised_exception" in told else list(told.values())
    for one in each:
        if one.get("raised_exception"):
            lines = str(one.get("exception_message") or "").strip().splitlines()
            return lines[0].removeprefix("Error: ") if lines else "it raised an error without words"
    return ""


def _kinds(of: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """JSON types of a value, or `=` and a choice. An object beside others is a parameter of a suite: left out."""
    found = _types(of, schema)
    return sorted(found - {"object"} or found)


def _types(of: Mapping[str, Any], schema: Mapping[str, Any]) -> set[str]:
    if "$ref" in of:
        return _types(schema["definitions"][of["$ref"].rpartition("/")[2]], schema)
    if "enum" in of or "const" in of:
        return {f"={choice}" for choice in of.get("enum") or [of["const"]]}
    if "type" in of:
        return {of["type"]}
    branches = [*of.get("anyOf", ()), *of.get("allOf", ()), *of.get("oneOf", ())]
    return {kind for branch in branches for kind in _types(branch, schema)}
