"""A source with rows of several people, and how one of them is erased."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.searching import places
from tidegate.audit.source import SourceAudit, audit_source
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erasure import Erasure
from tidegate.session.session import Session

#: Whose rows go: no other text has this name in it.
WHO = "zoe.zimmermann@example.com"
WHERE = f"customer = '{WHO}'"

ORDERS = """
CREATE SOURCE orders (customer VARCHAR, id INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5 minutes')
WITH (connector = 'filesystem', path = 'input', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON;
"""


def order(customer: str, number: int, at: str | None) -> dict[str, Any]:
    return {"customer": customer, "id": number, "at": at}


def day(number: int) -> list[dict[str, Any] | str]:
    """The rows of one file: of the person two on time, one late, one without a time, and one
    that is no JSON; of others two on time, one late, and one without a time."""
    start = 10 * number
    return [
        order("ann", start, f"2026-01-{number:02} 09:00:00"),
        order(WHO, start + 1, f"2026-01-{number:02} 09:10:00"),
        order("bob", start + 2, f"2026-01-{number:02} 10:00:00"),
        order(WHO, start + 3, f"2026-01-{number:02} 11:00:00"),
        order(WHO, start + 4, "2026-01-01 00:00:00"),
        order("ann", start + 5, "2026-01-01 00:00:00"),
        order(WHO, start + 6, None),
        order("bob", start + 7, None),
        f'{{"customer": "{WHO}", "id": ',
    ]


def arrive(root: Path, *numbers: int) -> None:
    """Files of these days."""
    (root / "input").mkdir(exist_ok=True)
    for number in numbers:
        lines = [line if isinstance(line, str) else json.dumps(line) for line in day(number)]
        (root / "input" / f"{number:02}.json").write_text("".join(f"{line}\n" for line in lines))


def define(root: Path, *more: str) -> None:
    """The project's definitions: the source, and more."""
    (root / "assets").mkdir(parents=True, exist_ok=True)
    (root / "assets" / "all.sql").write_text(ORDERS + "".join(more))


def erased(session: Session, raw: bool = True, **options: Any) -> Erasure:
    """The person's rows, and (`raw`) those that nobody could decode."""
    session.confirm = lambda text: True
    return erase(session, "orders", WHERE, (WHO,) if raw else (), **options)


def stored(session: Session, name: str = "orders") -> list[tuple[str, ...]]:
    """Every row of a table, with all that is stored of it."""
    found = session.tables.rows(session.identifier(name)).toArrow().to_pylist()
    return sorted(tuple(map(str, row.values())) for row in found)


def there(root: Path, value: str = WHO) -> set[str]:
    """Where the person is in what tidegate has stored."""
    return places(root / ".tidegate", value)


def audit(session: Session) -> SourceAudit:
    found = audit_source(session, "orders", recount=True)
    assert found.ok, found
    return found
