"""Error codes of projects, their files and stored tables, with what each means (the docs list them)."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TG601": "folder that is not a project",
    "TG602": "unknown environment",
    "TG603": "text that is not the expected YAML",
    "TG604": "unknown key in a YAML file",
    "TG605": "missing or invalid value in a YAML file",
    "TG606": "environment variable that is not set",
    "TG607": "storage that is not supported, or does not work with this catalog",
    "TG608": "Java is missing, or too old for Spark",
    "TG609": "name in jobs/ that does not exist in the project, or is given twice",
    "TG610": "asset file that is not text",
    "TG611": "schema file of messages that does not exist, can't be read, or does not match the columns",
    "TG612": "front matter that does not match the statement below it",
    "TG613": "selection that is misspelt, or matches nothing",
    "TG614": "variable, folder, address or code that SQL may not use in this environment (X1)",
    "TG617": "expectation in quality/ that does not exist, or does not match its asset",
    "TG618": "Great Expectations is not installed",
    "TG620": "stored table, or its catalog, that can't be read",
    "TG621": "Kafka broker that can't be reached or refuses the login, or a topic that does not exist",
    "TG623": "disk that is full, or location that can't be written",
    "TG624": "object storage that does not answer, or refuses the credentials",
    "TG625": "compiled build of sqlglot",
    "TG622": "stored table that a later release of tidegate has written",
}
