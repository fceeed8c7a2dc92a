"""Error codes of test files, with what each means (the docs list them).

A file of its own: every room with codes has one, and the page of errors is made without the test runner.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "TG801": "test file that does not exist, or can't be read",
    "TG802": "line of a test file that is not understood",
    "TG803": "record of a test file that only other programs support",
    "TG804": "invalid regular expression, duration or number in a test file",
    "TG805": "variable of a test file that has no value",
}
