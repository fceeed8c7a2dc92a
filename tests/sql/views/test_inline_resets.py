"""W9 for gates inline (W14): which resets a gate follows, to which time, and which statement resets one that follows
none."""

from __future__ import annotations

import pytest

from tests.sql.support import load, prelude
from tidegate import TidegateError
from tidegate.sql import analyse
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation

HOUR = 3_600_000_000
#: The first argument of WATERMARK, its time column, and where a reset to 10:30 takes the gate: hours of the day, or
#: ticks; None: it judges another time.
FOLLOWED = {
    "orders, ts": 10.5,
    "(SELECT ts AS at, id FROM orders), at": 10.5,
    "(SELECT o.at FROM (SELECT *, ts AS at FROM orders) AS o WHERE o.id > 1), at": 10.5,
    "(SELECT ts + INTERVAL '1 hour' AS ts FROM orders), ts": 11.5,
    "(SELECT date_trunc('hour', ts) AS h FROM orders), h": 10,
    "(SELECT tz AS ts FROM orders), ts": None,
    "(SELECT CAST(ts AS TIMESTAMPTZ) AS ts FROM orders), ts": None,
    "orders, tz": None,
}


def catalog_of(*calls: str) -> Catalog:
    catalog = prelude()
    for number, call in enumerate(calls):
        load(
            catalog,
            f"CREATE MATERIALIZED VIEW v{number} AS SELECT * FROM WATERMARK({call}, INTERVAL '1 minute') "
            "EMIT ON WINDOW CLOSE",
        )
    return catalog


def gates(catalog: Catalog) -> list[Relation]:
    return [o for o in catalog.order() if isinstance(o, Relation) and o.kind == "gate"]


@pytest.mark.parametrize("call", FOLLOWED)
def test_W9_D1_a_gate_follows_its_source_as_its_column_derives_from_the_source_s(call: str) -> None:
    (gate,) = gates(catalog_of(call))
    followed, expected = gate.follows, FOLLOWED[call]
    assert (None if followed is None else followed.at(int(10.5 * HOUR))) == (
        None if expected is None else int(expected * HOUR)
    )


def test_W9_D1_also_on_another_scale() -> None:
    catalog = catalog_of()
    load(
        catalog,
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM WATERMARK((SELECT EXTRACT(EPOCH FROM ts) AS e FROM "
        "(SELECT ts FROM orders)), e, e - 60) EMIT ON WINDOW CLOSE",
    )
    (gate,) = gates(catalog)
    assert gate.follows is not None
    assert gate.follows.at(int(10.5 * HOUR)) == int(10.5 * 3600)


def test_W9_W14_where_the_source_declares_no_watermark_its_gate_is_reset() -> None:
    catalog = catalog_of("plain, ts")
    (gate,) = gates(catalog)
    names = {
        next(iter(analyse(f"ALTER TABLE {name} RESET WATERMARK TO '1970-01-01 01:00'", catalog))).name
        for name in ("plain", f'"{gate.name}"')
    }
    assert names == {gate.name}
    # The statement of a strategy stays what it was: that of a gate stands in its view.
    for name in ("plain", f'"{gate.name}"'):
        with pytest.raises(TidegateError):
            list(analyse(f"ALTER TABLE {name} ALTER WATERMARK FOR ts AS ts", catalog))


def test_W9_W14_of_several_one_is_named() -> None:
    catalog = catalog_of("plain, ts", "(SELECT ts AS at FROM plain), at")
    with pytest.raises(TidegateError) as refused:
        list(analyse("ALTER TABLE plain RESET WATERMARK TO '2026-01-01'", catalog))
    assert refused.value.code == "TG321"
    assert refused.value.hint is not None
    assert all(f'"{gate.name}"' in refused.value.hint for gate in gates(catalog))
