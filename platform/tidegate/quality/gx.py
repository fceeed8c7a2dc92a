"""Great Expectations: the only file that imports it. Its import takes seconds, so it is imported when it is needed.

The context is ephemeral: nothing is written. No usage statistics are sent.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.masking import masked
from tidegate.project.expectations import Expectation, require_great_expectations
from tidegate.quality.model import ExpectationOutcome, FactTable
from tidegate.sql.statements.expectation_sql import as_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Failing lines and rows that are kept of each expectation.
SHOWN = 20


class Validator:
    """Validates frames against expectations."""

    def __init__(self, spark: SparkSession | None = None) -> None:
        self._spark = spark
        self._gx = _library()
        self._context = self._gx.get_context(mode="ephemeral")
        from great_expectations.data_context.types.base import ProgressBarsConfig

        # It makes a temporary folder for a site that nobody asked for.
        for name, site in list(self._context.variables.data_docs_sites.items()):
            shutil.rmtree(site["store_backend"]["base_directory"], ignore_errors=True)
            self._context.delete_data_docs_site(name)
        self._context.enable_analytics(False)
        self._context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)

    def table(self, suite: str, table: FactTable) -> list[ExpectationOutcome]:
        """Validate facts on the driver, all lines of them."""
        import pandas

        frame = pandas.DataFrame(list(table.rows), columns=list(table.columns))
        source = self._context.data_sources.add_pandas(table.name)
        keep = {"result_format": "COMPLETE", "unexpected_index_column_names": list(table.key)}
        found = self._validate(source, suite, frame, table.expectations, keep)
        lines = {tuple(row[table.columns.index(k)] for k in table.key): row for row in table.rows}
        return [
            _outcome(expectation, result, list(table.columns), lambda index: _line(lines, table, index))
            for expectation, result in zip(table.expectations, found, strict=True)
        ]

    def rows(
        self, suite: str, frame: DataFrame, expectations: Sequence[Expectation], shown: Sequence[str]
    ) -> list[ExpectationOutcome]:
        """Validate rows in Spark; of what fails only the first come back, with the columns `shown`."""
        source = self._context.data_sources.add_spark(suite, persist=False)
        # It would take any session of this process: its temporary views would not be where the rows are.
        source._spark = self._spark
        keep = {
            "result_format": "SUMMARY",
            "partial_unexpected_count": SHOWN,
            "unexpected_index_column_names": list(shown),
        }
        found = self._validate(source, suite, frame, expectations, keep)
        return [
            _outcome(expectation, result, None, lambda index: [_text(v) for v in index.values()])
            for expectation, result in zip(expectations, found, strict=True)
        ]

    def _validate(
        self, source: Any, suite: str, frame: Any, expectations: Sequence[Expectation], keep: dict[str, Any]
    ) -> list[dict[str, Any] | str]:
        """For each expectation its result as JSON, or why it could not even be made."""
        made: dict[int, Any] = {}
        found: list[dict[str, Any] | str] = []
        for number, expectation in enumerate(expectations):
            try:
                made[number] = _make(expectation, number)
                found.append("no result")
            except ValueError as error:
                found.append(_sentence(error))
        if not made:
            return found
        gx, context = self._gx, self._context
        definition = source.add_dataframe_asset(suite).add_batch_definition_whole_dataframe("all")
        kept = context.suites.add(gx.ExpectationSuite(name=suite, expectations=list(made.values())))
        validation = gx.ValidationDefinition(name=suite, data=definition, suite=kept)
        validation = context.validation_definitions.add(validation)
        result = validation.run(batch_parameters={"dataframe": frame}, result_format=keep)
        for one in result.to_json_dict()["results"]:
            found[one["expectation_config"]["meta"]["number"]] = one
        return found


def _library() -> Any:
    # Read when it is imported; people of other projects may have switched it on.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    require_great_expectations()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations
    # It tells each step of a validation; what matters is in the results.
    logging.getLogger("great_expectations").setLevel(logging.CRITICAL)
    return great_expectations


def _make(expectation: Expectation, number: int) -> Any:
    from great_expectations.expectations.registry import get_expectation_impl

    arguments: dict[str, Any] = {
        **as_spark(expectation.arguments),
        "severity": expectation.severity,
        "description": expectation.description,
        "meta": {"number": number},
    }
    if "row_condition" in arguments:
        arguments["condition_parser"] = "spark"
    return get_expectation_impl(expectation.type)(**arguments)


def _outcome(
    expectation: Expectation, found: dict[str, Any] | str, columns: list[str] | None, line: Any
) -> ExpectationOutcome:
    """`columns`: of failing lines; None: those that the result names."""
    if isinstance(found, str):
        return ExpectationOutcome(
            expectation.type, expectation.text, expectation.severity, False, error=found
        )
    error = _error(found["exception_info"])
    result = found["result"]
    indices = result.get("unexpected_index_list") or result.get("partial_unexpected_index_list") or []
    unexpected = result.get("details", {}).get("unexpected_rows")
    indices = (indices or (unexpected if isinstance(unexpected, list) else []))[:SHOWN]
    if columns is None:
        columns = list(indices[0]) if indices else []
    observed = result.get("observed_value")
    return ExpectationOutcome(
        expectation.type,
        expectation.text,
        expectation.severity,
        bool(found["success"]) and error is None,
        checked=result.get("element_count"),
        unexpected=result.get("unexpected_count"),
        observed=None if observed is None else _text(observed),
        columns=columns if indices else [],
        failing=[line(index) for index in indices],
        error=error,
    )


def _line(lines: Mapping[Any, Any], table: FactTable, index: Mapping[str, Any]) -> list[str | None]:
    return [_text(value) for value in lines[tuple(index[k] for k in table.key)]]


def _error(info: dict[str, Any]) -> str | None:
    """The first of the exceptions of its metrics: all have the same cause."""
    if "raised_exception" in info:
        return info["exception_message"] if info["raised_exception"] else None
    return next((_sentence(i["exception_message"]) for i in info.values() if i["raised_exception"]), None)


def _sentence(error: object) -> str:
    """The first line that says something; Spark's without its code."""
    lines = [line.strip() for line in masked(str(error)).splitlines() if line.strip()]
    lines = [line for line in lines if not re.match(r"\d+ validation error", line)]
    return re.sub(r"^\[[A-Z_.]+\]\s*|\s*SQLSTATE:.*$", "", ": ".join(lines[:2])) if lines else "unknown error"


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
