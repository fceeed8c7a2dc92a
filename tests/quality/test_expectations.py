"""quality/*.yaml: what is wrong is told with file, line and caret, and without Great Expectations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.expectation_list import TARGET, read_expectations, render
from tests.conftest import ROOT
from tidegate.errors import TidegateError
from tidegate.project.expectations import (
    Expectation,
    Quality,
    Reconciliation,
    known_expectations,
    load_quality,
)
from tidegate.sql import load_catalog
from tidegate.sql.statements.expectation_sql import row_condition, rows_query

SQL = """
CREATE TABLE orders (id BIGINT, "Shop" VARCHAR, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
CREATE MATERIALIZED VIEW hourly AS SELECT window_end, "Shop", count(*) AS n FROM TUMBLE(orders, at, INTERVAL '1 hour')
GROUP BY window_end, "Shop" EMIT ON WINDOW CLOSE;
"""
GOOD = """\
asset: Hourly
reconciliation:
  late_rate: 5 %
  late_rate_growth: 0.01
  longest_gap: 8 hours
  lookback: 30 days
expectations:
  - expect_column_values_to_be_between: {column: N, min_value: 1, mostly: 0.9, row_condition: "Shop = 'b'"}
  - expect_compound_columns_to_be_unique:
      column_list: [_window_end, shop]
      severity: warning
      description: one row for each shop
"""


def load(root: Path, **files: str) -> Quality:
    (root / "quality").mkdir(exist_ok=True)
    for name, text in files.items():
        (root / "quality" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return load_quality(root, load_catalog([("assets/orders.sql", SQL)]))


def test_columns_have_the_case_of_the_definition(tmp_path: Path) -> None:
    quality = load(tmp_path, hourly=GOOD)
    between, unique = quality.suite("hourly")
    assert between.arguments["column"] == "n"
    assert unique == Expectation(
        "expect_compound_columns_to_be_unique",
        {"column_list": ["_window_end", "Shop"]},
        "warning",
        "one row for each shop",
    )
    assert quality.reconciliation("HOURLY") == Reconciliation(
        late_rate="5 %", late_rate_growth="1 %", longest_gap="8 hours", lookback="30 days"
    )
    assert quality.reconciliation("hourly").late_rate == 0.05
    assert quality.reconciliation("orders") == Reconciliation()
    assert quality.names == ["hourly"]


def entry(text: str) -> str:
    return f"asset: hourly\nexpectations:\n  - {text}\n"


WRONG = [
    (
        "asset: hourli\n",
        'there is no source, table or view "hourli"',
        "hourli",
        'did you mean "hourly"?',
    ),
    (
        entry("expect_column_values_to_be_nul: {column: n}"),
        'expectation "expect_column_values_to_be_nul" does not exist on Spark',
        "expect_column_values_to_be_nul",
        'did you mean "expect_column_values_to_be_null"?',
    ),
    (
        entry("column_values_to_be_unique: {column: n}"),
        'expectation "column_values_to_be_unique" does not exist on Spark',
        "column_values_to_be_unique",
        'did you mean "expect_column_values_to_be_unique"?',
    ),
    (
        entry("expect_column_values_to_be_null: {column: m}"),
        '"hourly" has no column "m"',
        "m",
        "its columns are window_end, Shop, n, _window_start, _window_end",
    ),
    (
        entry("expect_compound_columns_to_be_unique: {column_list: [n, shopp]}"),
        'has no column "shopp"',
        "shopp",
        'did you mean "Shop"?',
    ),
    (
        entry("expect_column_values_to_be_null: {column: n, rowcondition: n > 1}"),
        "expect_column_values_to_be_null has no parameter rowcondition",
        "rowcondition",
        'did you mean "row_condition"?',
    ),
    (
        entry("expect_column_max_to_be_between: {column: n, max_value: lots}"),
        "max_value is a number or time",
        "lots",
        None,
    ),
    (
        entry("expect_column_values_to_not_be_outliers: {column: n, method: mad}"),
        "method must be one of iqr, std",
        "mad",
        None,
    ),
    (
        entry("expect_column_values_to_be_in_set: {column: n}"),
        "needs value_set",
        "expect_column_values_to_be_in_set",
        None,
    ),
    (
        entry("expect_column_values_to_be_null: {column: n, severity: fatal}"),
        "severity must be one of critical, warning, info",
        "fatal",
        None,
    ),
    (entry("{a: 1, b: 2}"), "write one expectation here, not 2 keys", "{", "- expect_column"),
    (
        entry("expect_column_values_to_be_null: n"),
        "parameters must be given here",
        "n",
        "write for example {column: NAME}",
    ),
    (
        "asset: orders\nreconciliation: {}\n",
        '"orders" is not a view',
        "reconciliation",
        "the rows of a log are always checked",
    ),
    ("asset: hourly\nreconciliation: {late_rate: 7}\n", "this must be a share", "7", "for example 5 %"),
    (
        "asset: hourly\nreconcilation: {}\n",
        'unknown key "reconcilation"',
        "reconcilation",
        '"reconciliation"',
    ),
]


@pytest.mark.parametrize(("text", "message", "marked", "hint"), WRONG, ids=[w[1][:40] for w in WRONG])
def test_what_is_wrong_has_its_place(
    tmp_path: Path, text: str, message: str, marked: str, hint: str | None
) -> None:
    with pytest.raises(TidegateError) as caught:
        load(tmp_path, q=text)
    error = caught.value
    assert error.code in ("TG617", "TG604", "TG605")
    assert message in error.message
    where = error.location
    assert where is not None
    assert f" --> quality/q.yaml:{where.line}:{where.column}\n" in str(error)
    assert where.text[where.column - 1 :][: max(where.length, 1)].startswith(marked)
    assert (hint or "") in (error.hint or "")


MACHINE = [
    ("row_condition", "reflect('java.lang.System', 'getenv', 'PATH') = 'x' OR n > 1", "TG221"),
    ("row_condition", "n > 1 AND input_file_name() LIKE '%x'", "TG221"),
    ("row_condition", "n IN (SELECT 1 FROM text.`/etc/passwd`)", "TG106"),
    ("row_condition", "EXISTS (SELECT 1 FROM text.`/etc/passwd`)", "TG106"),
    ("row_condition", "no_such_function(n)", "TG209"),
    ("unexpected_rows_query", "SELECT java_method('java.lang.System', 'exit', 0) FROM {batch}", "TG221"),
    ("unexpected_rows_query", "SELECT current_user FROM {batch}", "TG221"),
    ("unexpected_rows_query", "SELECT TRANSFORM(n) USING 'cat' FROM {batch}", "TG221"),
    ("unexpected_rows_query", "SELECT * FROM {batch}, text.`/etc/passwd`", "TG201"),
    ("unexpected_rows_query", "SELECT * FROM {batch}, (csv.`/etc/passwd`)", "TG201"),
    ("unexpected_rows_query", "SELECT n IN (SELECT * FROM tidegate.main.orders) FROM {batch}", "TG201"),
    ("unexpected_rows_query", "SELECT * FROM spark_catalog.default.x", "TG201"),
    ("unexpected_rows_query", "SELECT * FROM tidegate_batch JOIN {batch}", "TG201"),
    ("unexpected_rows_query", "DROP TABLE {batch}", "TG102"),
    ("unexpected_rows_query", "SELECT '{batch.__class__}' FROM {batch}", "TG102"),
    ("unexpected_rows_query", "SELECT '{", "TG102"),
]


@pytest.mark.parametrize(("key", "sql", "code"), MACHINE)
def test_X1_sql_of_an_expectation_reaches_the_rows_and_nothing_else(
    key: str, sql: str, code: str, tmp_path: Path
) -> None:
    kind, column = (
        ("unexpected_rows_expectation", "") if "query" in key else ("expect_column_mean_to_be_between", "n")
    )
    text = f"{kind}: {{{f'column: {column}, max_value: 1, ' if column else ''}{key}: {json.dumps(sql)}}}"
    with pytest.raises(TidegateError) as refused:
        load(tmp_path, hourly=entry(text))
    assert refused.value.code == code
    assert refused.value.message.startswith(f"{kind}: {key}: ")
    assert refused.value.location is not None
    assert sql[:8] in refused.value.location.text


@pytest.mark.parametrize(
    ("sql", "spark"),
    [
        ("\"Shop\" = 'b' -- a text, and not a name", "'Shop' = 'b'"),
        ("`Shop` rlike '^a\\\\d' AND day < current_date", "`Shop` RLIKE '^a\\\\d' AND `day` < CURRENT_DATE"),
        ("x['a'].b = 1e3", "`x`['a'].`b` = 1e3"),
    ],
)
def test_spark_gets_the_condition_that_was_looked_at(sql: str, spark: str) -> None:
    assert row_condition(sql) == spark


def test_spark_gets_the_query_that_was_looked_at() -> None:
    query = "WITH a AS (SELECT * FROM {batch}) SELECT '{{x}}' AS b FROM a JOIN {batch} c ON a.n = c.n;"
    assert rows_query(query) == (
        "WITH `a` AS (SELECT * FROM {batch}) "
        "SELECT '{{x}}' AS `b` FROM `a` JOIN {batch} AS `c` ON `a`.`n` = `c`.`n`"
    )


@pytest.mark.parametrize(
    ("sql", "spark"),
    [
        ("SELECT n AS tidegate_batch FROM {batch}", "SELECT `n` AS `tidegate_batch` FROM {batch}"),
        (
            "SELECT {batch}.n, '{batch}' AS s FROM {batch}",
            "SELECT {batch}.`n`, '{batch}' AS `s` FROM {batch}",
        ),
    ],
)
def test_batch_stands_for_itself_and_no_name_of_a_query_is_taken_for_it(sql: str, spark: str) -> None:
    assert rows_query(sql) == spark


def test_one_file_for_each_asset(tmp_path: Path) -> None:
    with pytest.raises(TidegateError, match='"hourly" already has a file: quality/a'):
        load(tmp_path, a=GOOD, b=GOOD)


@pytest.mark.medium
def test_the_list_of_expectations_is_that_of_the_installed_version() -> None:
    assert render(read_expectations()) == TARGET.read_text(encoding="utf-8")


def test_the_documentation_lists_them_all() -> None:
    page = (ROOT / "docs" / "quality.md").read_text(encoding="utf-8")
    for name, facts in known_expectations().items():
        takes = [f"**{key}**" if key in facts["requires"] else key for key in facts["parameters"]]
        assert f"| `{name}` | {', '.join(takes)} |\n" in page


@pytest.mark.medium
def test_checking_them_does_not_import_great_expectations(tmp_path: Path) -> None:
    load(tmp_path, hourly=GOOD)
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from tidegate.project.expectations import load_quality\nfrom tidegate.sql import load_catalog\n"
        "import tidegate.quality.model\n"
        f"load_quality(Path({str(tmp_path)!r}), load_catalog([('a.sql', {SQL!r})]))\n"
        "print([m for m in ('great_expectations', 'pandas', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
