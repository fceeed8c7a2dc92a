"""Error codes of projects, their files and stored tables, with what each means (the docs list them)."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TG601": "folder that is not a project",
    "TG602": "unknown environment",
    "TG603": "text that is not the YAML expected",
    "TG604": "unknown key in a YAML file",
    "TG605": "missing or bad value in a YAML file",
    "TG606": "environment variable that is not set",
    "TG607": "storage that is not supported, or not with this catalog",
    "TG608": "no Java, or one too old for Spark",
    "TG609": "name in jobs/ that the project does not have, or has twice",
    "TG610": "asset file that is not text",
    "TG611": "schema file of messages that is not there, can't be read, or does not fit the columns",
    "TG612": "front matter that does not fit the statement below it",
    "TG613": "selection that is misspelt, or that nothing fits",
    "TG614": "variable, folder, address or code that SQL may not reach in this environment (X1)",
    "TG617": "expectation in quality/ that is not there, or does not fit its asset",
    "TG618": "Great Expectations that is not installed",
    "TG620": "stored table, or its catalog, that can't be read",
    "TG621": "Kafka broker that can't be reached or lets nobody in, or a topic that it does not have",
    "TG623": "disk that is full, or place that can't be written",
    "TG622": "stored table that a later release of tidegate has written",
}
