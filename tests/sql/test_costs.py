"""What it costs to read definitions: counted, so that a busy machine makes no difference. `tidegate check`, `explain`,
`plan` and `status` read all definitions of a project before they can answer."""

from __future__ import annotations

import cProfile

from tidegate.sql import load_catalog

_GROUP = """
CREATE SOURCE s{n} (ts TIMESTAMP, key BIGINT, amount BIGINT, WATERMARK FOR ts AS ts - INTERVAL '1 second')
WITH (connector = 'filesystem', path = 'in/{n}') FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW v{n} AS
SELECT window_start, window_end, key, count(*) AS cnt, sum(amount) AS total FROM TUMBLE(s{n}, ts, INTERVAL '1 minute')
GROUP BY window_start, window_end, key EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW w{n} AS
SELECT window_start, window_end, key, count(*) AS cnt, sum(amount) AS total FROM TUMBLE(s{n}, ts, INTERVAL '2 minutes')
GROUP BY window_start, window_end, key EMIT ON WINDOW CLOSE;
"""


def test_a_definition_is_read_by_a_bounded_number_of_calls_however_many_there_are() -> None:
    load_catalog(_groups(1))  # what is kept for all of them
    few, many = _calls(10), _calls(30)
    assert many < 3.1 * few
    assert many / (3 * 30) < 7_000


def _groups(count: int) -> list[tuple[str, str]]:
    return [("all.sql", "".join(_GROUP.format(n=n) for n in range(count)))]


def _calls(count: int) -> int:
    """Calls of Python functions."""
    files, profile = _groups(count), cProfile.Profile(builtins=False)
    profile.runcall(load_catalog, files)
    return sum(entry.callcount for entry in profile.getstats())
