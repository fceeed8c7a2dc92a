"""What the first release was given to store, and what every later one is given to go on with.

`PROJECT` are its definitions, `first` what it read and did before its tables were kept, `then` what comes after. Only
names that every release has are used: the release itself runs this to make the tables (`make.py`), today's code to go
on from them (`test_stored.py`). What is here must stay as it is as long as its tables are kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from infra.kafka.topics import Topics
from tests.support.kafka import Broker

if TYPE_CHECKING:
    from tidegate.session.session import Session

#: Where the broker listens: the project takes it from here.
BROKER = "TIDEGATE_STORED_BROKER"
START = datetime(2026, 1, 1, 10)
TOPIC = "messages"
#: A topic that a sink writes to.
OUT = "out"

PROJECT = {
    "a_tables": """
        CREATE TABLE orders (id INT, shop VARCHAR, price DECIMAL(10, 2), ts TIMESTAMP,
            WATERMARK FOR ts AS ts - INTERVAL '5 seconds') APPEND ONLY;
        CREATE TABLE payments (order_id INT, paid TIMESTAMP, WATERMARK FOR paid AS paid) APPEND ONLY;
        CREATE TABLE shops (shop VARCHAR PRIMARY KEY, title VARCHAR);
        CREATE TABLE devices (id INT, place VARCHAR, seen TIMESTAMPTZ, PRIMARY KEY (id),
            WATERMARK FOR seen AS seen - INTERVAL '10 seconds' WITH TTL);
        CREATE TABLE steady (id INT, ts TIMESTAMP, WATERMARK FOR ts AS
            max(ts) OVER (ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) - INTERVAL '1 second') APPEND ONLY;
        CREATE TABLE numbers (n INT, tick BIGINT, WATERMARK FOR tick AS tick - 5) APPEND ONLY;
    """,
    "b_sources": """
        CREATE SOURCE clicks (id INT, page VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '10 seconds')
        WITH (connector = 'filesystem', path = 'in/clicks', partition.columns = 'page')
        FORMAT PLAIN ENCODE JSON;
        CREATE SOURCE visits (id INT NOT NULL, day DATE, cost DOUBLE, WATERMARK FOR day AS day)
        WITH (connector = 'filesystem', path = 'in/visits') FORMAT PLAIN ENCODE CSV;
        CREATE SOURCE meters (id INT, volts DOUBLE, ts TIMESTAMPTZ, WATERMARK FOR ts AS ts - INTERVAL '1 minute')
        WITH (connector = 'filesystem', path = 'in/meters') FORMAT PLAIN ENCODE PARQUET;
        CREATE SOURCE trips (id INT, city VARCHAR, planned TIMESTAMP, actual TIMESTAMP,
            WATERMARK FOR planned AS planned - INTERVAL '30 seconds')
        WITH (connector = 'replay', path = 'in/trips', partition.columns = 'city', order.columns = 'actual',
            max_rows_per_batch = '25') FORMAT PLAIN ENCODE JSON;
        CREATE SOURCE adaptive (id INT, ts TIMESTAMP, WATERMARK FOR ts AS SOURCE_WATERMARK())
        WITH (connector = 'filesystem', path = 'in/adaptive') FORMAT PLAIN ENCODE JSON;
        CREATE SOURCE messages (id INT, ts TIMESTAMP, sender VARCHAR AS CAST($key AS VARCHAR),
            WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
        WITH (connector = 'kafka', topic = 'messages', idle_timeout = 'off', stall_timeout = '1000 days',
            properties.bootstrap.server = '${TIDEGATE_STORED_BROKER}') FORMAT PLAIN ENCODE JSON;
    """,
    "c_views": """
        -- Each of these is a way of its own through the engine.
        CREATE MATERIALIZED VIEW tumbled AS
        SELECT window_start, window_end, shop, count(*) AS orders, sum(price) AS revenue, min(id) AS least
        FROM TUMBLE(orders, ts, INTERVAL '1 minute') WHERE shop <> '-- no  shop' /* kept apart */
        GROUP BY window_start, window_end, shop EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW hopped AS
        SELECT window_end, count(*) AS n, avg(price) AS mean
        FROM HOP(orders, ts, INTERVAL '30 seconds', INTERVAL '2 minutes')
        GROUP BY window_end EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW cumulated AS
        SELECT window_start, window_end, count(DISTINCT page) AS pages
        FROM CUMULATE(clicks, ts, INTERVAL '1 minute', INTERVAL '5 minutes')
        GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW sessions AS
        SELECT shop, window_start, window_end, count(*) AS n FROM SESSION(orders, ts, shop, INTERVAL '20 seconds')
        GROUP BY shop, window_start, window_end EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW sorted AS SELECT ts, id, shop FROM orders WHERE price > 3 EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW lagged AS
        SELECT ts, id, lag(id) OVER w AS before, sum(id) OVER w AS total, count(*) OVER (w ROWS 2 PRECEDING) AS three
        FROM orders WINDOW w AS (PARTITION BY shop ORDER BY ts) EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW led AS
        SELECT ts, id, lead(id) OVER (PARTITION BY shop ORDER BY ts) AS later FROM orders EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW joined AS
        SELECT o.id, o.ts, p.paid FROM orders o LEFT JOIN payments p
        ON o.id = p.order_id AND p.paid BETWEEN o.ts AND o.ts + INTERVAL '1 minute' EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW united AS
        SELECT window_end, count(*) AS n FROM TUMBLE(
            (SELECT ts, id FROM orders UNION ALL SELECT paid, order_id FROM payments), ts, INTERVAL '1 minute')
        GROUP BY window_end EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW above AS
        SELECT window_start, sum(orders) AS orders FROM TUMBLE(tumbled, window_start, INTERVAL '3 minutes')
        GROUP BY window_start EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW opened AS
        SELECT window_start, shop, count(*) AS n FROM TUMBLE(orders, ts, INTERVAL '1 minute')
        GROUP BY window_start, shop;
        CREATE MATERIALIZED VIEW totals AS SELECT shop, count(*) AS n FROM orders GROUP BY shop;
        CREATE MATERIALIZED VIEW gated AS
        SELECT window_start, count(*) AS n
        FROM TUMBLE(WATERMARK(clicks, ts, INTERVAL '0 seconds'), ts, INTERVAL '1 minute')
        GROUP BY window_start EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW titled AS
        SELECT o.ts, o.id, s.title FROM orders o LEFT JOIN shops FOR SYSTEM_TIME AS OF PROCTIME() s ON o.shop = s.shop
        EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW placed AS
        SELECT window_start, place, count(*) AS n FROM TUMBLE(devices, seen, INTERVAL '1 minute')
        GROUP BY window_start, place EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW daily AS SELECT day, sum(cost) AS cost FROM visits GROUP BY day EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW metered AS
        SELECT window_end, max(volts) AS volts FROM TUMBLE(meters, ts, INTERVAL '5 minutes')
        GROUP BY window_end EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW tripped AS
        SELECT window_end, city, count(*) AS n FROM TUMBLE(trips, planned, INTERVAL '5 minutes')
        GROUP BY window_end, city EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW adapted AS
        SELECT window_end, count(*) AS n FROM TUMBLE(adaptive, ts, INTERVAL '10 minutes')
        GROUP BY window_end EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW numbered AS
        SELECT window_end, sum(n) AS total FROM TUMBLE(numbers, tick, 10) GROUP BY window_end EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW steadied AS SELECT ts, id FROM steady EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW sent AS
        SELECT window_end, sender, count(*) AS n FROM TUMBLE(messages, ts, INTERVAL '10 seconds')
        GROUP BY window_end, sender EMIT ON WINDOW CLOSE;
    """,
    "d_sinks": """
        CREATE SINK to_json FROM tumbled WITH (connector = 'filesystem', path = 'out/json') FORMAT PLAIN ENCODE JSON;
        CREATE SINK to_csv FROM sorted WITH (connector = 'filesystem', path = 'out/csv') FORMAT PLAIN ENCODE CSV;
        CREATE SINK to_parquet FROM hopped WITH (connector = 'filesystem', path = 'out/parquet')
        FORMAT PLAIN ENCODE PARQUET;
        CREATE SINK to_lake FROM tumbled WITH (connector = 'iceberg', table = 'lake', amendments = 'upsert');
        CREATE SINK to_topic FROM tumbled WITH (connector = 'kafka', topic = 'out', amendments = 'upsert',
            key.columns = 'window_end, shop', properties.bootstrap.server = '${TIDEGATE_STORED_BROKER}')
        FORMAT PLAIN ENCODE JSON;
    """,
}

#: Views whose late rows are taken in after the first and after the second round.
AMENDED = ["tumbled", "sessions"]
#: A source of each kind, and a view of each way through the engine; audits compute their rows anew.
AUDITED = [
    "orders",
    "clicks",
    "messages",
    "devices",
    "tumbled",
    "sessions",
    "lagged",
    "joined",
    "above",
    "placed",
]


def at(seconds: float) -> str:
    """An event time."""
    return (START + timedelta(seconds=seconds)).isoformat(sep=" ")


def define(root: Path) -> None:
    """Write the project's files."""
    (root / "assets").mkdir(parents=True)
    for name, sql in PROJECT.items():
        (root / "assets" / f"{name}.sql").write_text(sql, encoding="utf-8")


def first(session: Session, broker: Broker) -> None:
    """What the release reads and does before its tables are kept."""
    with Topics(broker.bootstrap) as topics:
        topics.create(TOPIC, 2)
        topics.create(OUT, 2)
    _read(session, broker, 0)
    _run_and_amend(session)


def then(session: Session, broker: Broker, names: Sequence[str] | None = None) -> None:
    """What comes after: rows on time and late for every source, closed windows, an amendment, deliveries. `names`: what
    is run of it; None: everything."""
    _read(session, broker, 1)
    _run_and_amend(session, names)


def _run_and_amend(session: Session, names: Sequence[str] | None = None) -> None:
    from tidegate.amend.run import amend

    session.run(names)
    amend(session, AMENDED)
    session.run(["above", "to_lake", "to_topic"])


def _read(session: Session, broker: Broker, turn: int) -> None:
    """New rows for every source and table; the second turn's begin six minutes later."""
    begin, first_id = 360 * turn, 100 * turn
    times = [begin + i * 9 for i in range(40)]
    values = [(first_id + i, "abc"[i % 3], f"{(i * 7) % 10}.5", at(times[i])) for i in range(40)]
    _insert(session, "orders", values)
    late = [(first_id + 90 + i, "d", "8.5", at(begin + 30 + i * 70)) for i in range(3)]
    _insert(session, "orders", [*late, (first_id + 99, "a", "1", None)])
    _insert(session, "payments", [(first_id + i, at(times[i] + 20)) for i in range(0, 40, 2)])
    _insert(session, "shops", [("a", f"Ada's {turn}"), ("b", "Berta"), ("c", None)])
    devices = [(i % 4, f"place {i % 2}", at(begin + i * 15) + "+00:00") for i in range(16)]
    _insert(session, "devices", devices)
    _insert(
        session,
        "devices",
        [(1, "too late", at(begin) + "+00:00"), (5 + turn, "x", at(begin + 235) + "+00:00")],
    )
    session.execute("DELETE FROM devices WHERE id = 2")
    # The outlier of the far future raises nothing while it is no preceding row.
    _insert(session, "steady", [(first_id + i, at(begin + i * 5 + (40 if i == 7 else 0))) for i in range(12)])
    _insert(session, "numbers", [(i, 100 * turn + i * 3 - (20 if i == 11 else 0)) for i in range(20)])

    inbox = session.project.root / "in"
    clicks = [{"id": first_id + i, "page": "xy"[i % 2], "ts": at(begin + i * 10)} for i in range(30)]
    clicks += [{"id": 1, "page": "x", "ts": at(begin)}, {"id": 2, "page": "x", "ts": None}]
    _lines(inbox / "clicks" / f"{turn}.json", [*map(json.dumps, clicks), '{"id": "broken'])
    days = [(datetime(2026, 1, 1) + timedelta(days=5 * turn + d)).date() for d in (0, 1, 1, 2, 0, 3)]
    _lines(
        inbox / "visits" / f"{turn}.csv",
        ["id,day,cost", *(f"{i},{d},{i}.25" for i, d in enumerate(days)), "x,,"],
    )
    _meters(inbox / "meters" / f"{turn}.parquet", begin)
    if turn == 0:  # A recording does not grow: the second turn is what the first had not come to.
        behind = [200 if i % 9 == 8 else 0 for i in range(60)]
        trips = [
            {"id": i, "city": "QR"[i % 2], "planned": at(i * 20 - behind[i]), "actual": at(i * 20)}
            for i in range(60)
        ]
        _lines(inbox / "trips" / "all.json", map(json.dumps, trips))
    behind = [{"id": i, "ts": at(6000 * turn + i * 5 - (i * i) % 13)} for i in range(1100)]
    _lines(inbox / "adaptive" / f"{turn}.json", map(json.dumps, behind))

    texts = [
        (i % 2, json.dumps({"id": first_id + i, "ts": at(begin + i * 2 - (60 if i == 33 else 0))}))
        for i in range(40)
    ]
    texts += [(0, '{"id": 1,'), (1, json.dumps({"id": 3}))]
    since = int(START.replace(tzinfo=UTC).timestamp() * 1000)
    broker.send(
        TOPIC, [(p, f"sender {p}", text, since + begin * 1000 + n) for n, (p, text) in enumerate(texts)]
    )


def _meters(file: Path, begin: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    times = [
        START.replace(tzinfo=UTC) + timedelta(seconds=begin + i * 20 - (300 if i == 17 else 0))
        for i in range(20)
    ]
    columns = {
        "id": pa.array(range(20), pa.int32()),
        "volts": pa.array([220 + i / 4 for i in range(20)], pa.float64()),
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), file)


def _lines(file: Path, lines: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _insert(session: Session, table: str, rows: list[tuple]) -> None:
    def text(value: Any) -> str:
        return (
            "NULL"
            if value is None
            else str(value)
            if isinstance(value, int)
            else "'" + value.replace("'", "''") + "'"
        )

    values = ", ".join("(" + ", ".join(map(text, row)) + ")" for row in rows)
    session.execute(f"INSERT INTO {table} VALUES {values}")
