"""Write platform/tidegate/project/expectations.json from the Great Expectations that is installed: every expectation
that runs on Spark, with its parameters. `python infra/expectation_list.py`; tests/quality checks that it is true.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "platform" / "tidegate" / "project" / "expectations.json"
#: Of every expectation, and set by tidegate or in its own way.
COMMON = {
    "id", "meta", "notes", "result_format", "description", "catch_exceptions", "rendered_content", "severity",
    "windows", "batch_id", "condition_parser", "metadata", "library_metadata",
}  # fmt: skip
TYPES = {"string": "text", "array": "list"}
SPARK = "Spark"
#: What is about the columns of a table: here the definition in assets/ says which there are.
LEFT_OUT = ("expect_table_column", "expect_column_to_exist")


def read_expectations() -> dict[str, Any]:
    """The file's content as data: for each expectation what it is `about`, which parameters it `requires`, and what
    each may be: words (`number`, `text`, `list`, …), or the texts of `one_of`."""
    # Before the import: nothing is sent from here.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations
    import great_expectations.expectations as core

    found = {}
    for name in sorted(dir(core)):
        kind = getattr(core, name)
        type_ = getattr(kind, "expectation_type", None)
        if not isinstance(type_, str) or name == "Expectation" or type_.startswith(LEFT_OUT):
            continue
        schema = kind.schema()
        facts = schema["properties"].get("metadata", {}).get("properties", {})
        if SPARK not in facts.get("supported_data_sources", {}).get("const", ()):
            continue
        parameters = {
            key: _allowed(value, schema.get("definitions", {}))
            for key, value in schema["properties"].items()
            if key not in COMMON
        }
        found[type_] = {
            "about": facts["short_description"]["const"],
            "requires": [key for key, field in kind.__fields__.items() if field.required],
            "parameters": parameters,
        }
    return {"great_expectations": great_expectations.__version__, "expectations": found}


def _allowed(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """What a parameter may be. Alternatives that only Python can write (conditions as objects, parameters that are
    filled in later) are left out where there is another."""
    words, texts = set(), []
    parts = schema.get("anyOf", [schema])
    for part in parts:
        if "$ref" in part or "oneOf" in part:
            target = definitions.get(part.get("$ref", "").rpartition("/")[2], {})
            if "Condition" not in part.get("$ref", ""):
                words.add("list" if "oneOf" in part else TYPES.get(target.get("type"), "mapping"))
            continue
        if "enum" in part:
            texts = list(part["enum"])
        elif part.get("type") == "object":
            if len(parts) == 1:
                words.add("mapping")
        elif part.get("format") in ("date", "date-time"):
            words.add("time")
        elif "type" in part:
            words.add(TYPES.get(part["type"], part["type"]))
    return {"one_of": texts} if texts else {"is": sorted(words)}


def render(content: dict[str, Any]) -> str:
    """As the file has it: one expectation to a line, so that another version is a readable diff."""
    lines = [f"  {json.dumps(name)}: {json.dumps(facts)}" for name, facts in content["expectations"].items()]
    version = json.dumps(content["great_expectations"])
    body = ",\n".join(lines)
    return f'{{"great_expectations": {version},\n "expectations": {{\n{body}\n }}}}\n'


if __name__ == "__main__":
    TARGET.write_text(render(read_expectations()), encoding="utf-8")
