"""Error codes of the command line, with what each means (the docs list them)."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TG701": "question about late rows of something that can't have any",
    "TG702": "input of tidegate sql that can't be read",
    "TG703": "port that is in use, or a token or a certificate to serve with that can't be used",
    "TG704": "folder that tidegate init would have to overwrite, or can't write",
    "TG711": "advice that can't be given, or a share or sample that is none",
    "TG712": "plot or report that can't be written",
}
