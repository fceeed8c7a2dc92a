"""Error codes of test files, with what each means (the docs list them)."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TG801": "test file that can't be read, or is not there",
    "TG802": "line of a test file that is not understood",
    "TG803": "record of a test file that only others have",
    "TG804": "regular expression, duration or number of a test file that is none",
    "TG805": "variable of a test file that has no value",
}
