"""Error codes of the command line, with what each means (the docs list them).

A file of its own: every room with codes has one, and the page of errors is made without the commands.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "TG701": "question about late rows of an object that has no late rows",
    "TG702": "input of tidegate sql that can't be read",
    "TG703": "port that is in use, or a token or certificate for serving that can't be used",
    "TG704": "folder that tidegate init would overwrite, or cannot write",
    "TG705": "rows that tidegate show can't choose or read without Spark",
    "TG706": "setting of tidegate live that is given twice for the same group",
    "TG707": "command that another process carried out, and that this process did not end",
    "TG708": "process that other commands cannot reach, because it has no socket",
    "TG709": "definitions that live mode does not take up while it runs (E7)",
    "TG710": "reload of definitions without live mode on this machine, or without an answer of it",
    "TG711": "no advice is possible, or the share or sample is invalid",
    "TG712": "plot or report that can't be written",
}
