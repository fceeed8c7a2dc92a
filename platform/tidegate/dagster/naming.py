"""Names that Dagster wants: of ops, jobs and pools.

A file of its own: assets, jobs, sensors and checks name things alike, and import no more of each other than they need.
"""

from __future__ import annotations

import hashlib
import re


def identifier(text: str) -> str:
    """`text` as letters, digits and _; different texts stay different."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return plain if plain == text else f"{plain}_{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def pool_of(prefix: str, source: str) -> str:
    """The pool of a source: everything that writes its log, or the views over it, holds its one slot."""
    return identifier(f"{prefix}_{source}")
