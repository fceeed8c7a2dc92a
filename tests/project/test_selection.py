"""`--select`: names, tags, owners, paths and kinds, with what they read and what reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.selection import covered, select
from tidegate.sql import Catalog

SHOP = """\
CREATE TABLE orders (at TIMESTAMP, n INT, WATERMARK FOR at AS at) APPEND ONLY;
-- ---
-- owners: [team:shops]
-- tags: [finance]
-- ---
CREATE MATERIALIZED VIEW hourly AS SELECT window_end, count(*) AS n FROM TUMBLE(orders, at, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
-- ---
-- tags: {finance: , domain: shops}
-- group: reports
-- ---
CREATE MATERIALIZED VIEW daily AS SELECT window_end, sum(n) AS n FROM TUMBLE(hourly, window_end, INTERVAL '1 day')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE SINK out FROM daily WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""
NOTES = """\
CREATE TABLE notes (at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
CREATE MATERIALIZED VIEW notes_daily AS SELECT window_end, count(*) AS n
FROM TUMBLE(notes, at, INTERVAL '1 day') GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    (tmp_path / "assets" / "shop").mkdir(parents=True)
    (tmp_path / "assets" / "shop" / "orders.sql").write_text(SHOP)
    (tmp_path / "assets" / "notes.sql").write_text(NOTES)
    return Project.load(tmp_path).catalog()


@pytest.mark.parametrize(
    ("wanted", "exclude", "found"),
    [
        ([], [], "notes orders notes_daily hourly daily out"),
        (["hourly"], [], "hourly"),
        (["HOURLY"], [], "hourly"),
        (["+daily"], [], "orders hourly daily"),
        (["1+daily"], [], "hourly daily"),
        (["hourly+"], [], "hourly daily out"),
        (["hourly+1"], [], "hourly daily"),
        (["+hourly+"], [], "orders hourly daily out"),
        (["*daily"], [], "notes_daily daily"),
        (["tag:finance"], [], "hourly daily"),
        (["tag:domain"], [], "daily"),
        (["tag:domain=shops+"], [], "daily out"),
        (["owner:team:shops"], [], "hourly"),
        (["owner:shops"], [], "hourly"),
        (["group:reports"], [], "daily"),
        (["kind:view"], [], "notes_daily hourly daily"),
        (["kind:view,path:assets/shop"], [], "hourly daily"),
        (["path:assets/shop/orders.sql"], ["kind:sink"], "orders hourly daily"),
        (["path:assets/shop/"], ["+hourly"], "daily out"),
        (["notes hourly"], [], "notes hourly"),
        (["notes", "hourly"], [], "notes hourly"),
        ([], ["tag:finance+"], "notes orders notes_daily"),
    ],
)
def test_what_is_meant(catalog: Catalog, wanted: list[str], exclude: list[str], found: str) -> None:
    assert sorted(select(catalog, wanted, exclude)) == sorted(found.split())


def test_the_order_is_that_of_computation(catalog: Catalog) -> None:
    assert select(catalog, ["out", "daily", "orders", "hourly"]) == ["orders", "hourly", "daily", "out"]


@pytest.mark.parametrize(
    ("wanted", "exclude", "message", "hint"),
    [
        (["hourli"], [], 'no asset "hourli"', 'did you mean "hourly"?'),
        (["+x*"], [], 'no asset "x*"', None),
        (["tags:finance"], [], '"tags:" is not a selector', 'did you mean "tag"?'),
        (["tag:finanz"], [], 'nothing matches tag "finanz"', 'did you mean "finance"?'),
        (["path:asset"], [], 'nothing matches path "asset"', 'did you mean "assets"?'),
        (["kind:model"], [], 'nothing matches kind "model"', "sink, table, view"),
        (
            ["hourly,notes"],
            [],
            'nothing matches all parts of "hourly,notes"',
            "a comma means that both parts must match",
        ),
        (["hourly"], ["+daily"], "--exclude leaves out everything", None),
        ([""], [], "the selection is empty", None),
        ([], ["hourli"], 'no asset "hourli"', None),
    ],
)
def test_what_is_refused(
    catalog: Catalog, wanted: list[str], exclude: list[str], message: str, hint: str | None
) -> None:
    with pytest.raises(TidegateError) as caught:
        select(catalog, wanted, exclude)
    assert caught.value.code == "TG613"
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


def test_a_schedule_s_bare_name_brings_along_what_reads_it_and_anything_else_does_not(
    catalog: Catalog,
) -> None:
    assert covered(catalog, ["hourly"]) == ["hourly", "daily", "out"]
    assert covered(catalog, ["+hourly"]) == ["orders", "hourly"]
    assert covered(catalog, ["tag:domain", "notes"]) == ["notes", "notes_daily", "daily"]
