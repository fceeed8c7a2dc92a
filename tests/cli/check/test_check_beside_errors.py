"""`tidegate check` where a file has an error: it hides none of the others, and nothing else that is to be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.check.checking import SINK, Call, deploy, errors, found, places, source, view


def test_warnings_are_shown_beside_errors(bare: Path, tidegate: Call) -> None:
    (bare / "assets" / "a.sql").write_text(
        source(path="nowhere")
        + view("v", what="sum(nope)")
        + view("w", what="sum(note)")
        + view("u", emit="\n-- EMIT ON WINDOW CLOSE\n")
        + SINK.format(name="k", of="u")
        + source("x")  # the view that can't be read may have been meant to read it: no TG906
    )
    (bare / "assets" / "b.sql").write_bytes(b"CREATE TABLE \xff")
    (bare / "jobs" / "a.yaml").write_text("schedules:\n  - {name: x, cron: '0 7 30 2 *'}\n")
    (bare / "jobs" / "b.yaml").write_text("schedules:\n  - {name: y, cron: '61 * * * *'}\n")
    code, data = found(tidegate)
    assert code == 2
    assert [e["code"] for e in data["errors"]] == ["TG610", "TG202", "TG605"]
    assert places(data["warnings"]) == [
        ("TG902", "assets/a.sql", 2, 40),
        ("TG903", "assets/a.sql", 5, 64),
        ("TG901", "assets/a.sql", 7, 26),
        ("TG904", "assets/a.sql", 11, 13),
        ("TG905", "jobs/a.yaml", 2, 21),
    ]
    assert "3 errors, 5 warnings" in tidegate("check").stderr


def test_what_the_stored_tables_say_and_what_is_not_read_is_shown_beside_errors_elsewhere(
    bare: Path, tidegate: Call
) -> None:
    file, jobs = bare / "assets" / "a.sql", bare / "jobs" / "a.yaml"
    file.write_text(source() + view("v"))
    deploy(bare)
    file.write_text(source() + view("v", what="max(id)") + source("lonely"))
    jobs.write_text("schedules: [{name: x, cron: '61 * * * *'}]\n")
    code, data = found(tidegate)
    assert (code, [w["code"] for w in data["warnings"]]) == (2, ["TG907", "TG906"])
    # Without its environment, nobody knows where the tables of the project are.
    (bare / "resources" / "local.yaml").write_text("warehouse: {pth: x}\n")
    code, data = found(tidegate)
    assert (code, [w["code"] for w in data["warnings"]]) == (2, ["TG906"])


def test_a_semicolon_that_is_missing_before_front_matter_is_named(shop: Path, tidegate: Call) -> None:
    file = shop / "assets" / "orders.sql"
    text = file.read_text()
    file.write_text(text.replace("FORMAT PLAIN ENCODE JSON;", "FORMAT PLAIN ENCODE JSON"))
    [one] = found(tidegate)[1]["errors"]
    assert (one["code"], one["message"]) == ("TG102", 'a ";" is missing after this')
    assert one["location"]["text"] == ") FORMAT PLAIN ENCODE JSON"
    assert one["hint"] == "end the statement before CREATE with ;"


def test_an_error_in_front_matter_hides_no_error_of_its_file(bare: Path, tidegate: Call) -> None:
    front = "-- ---\n-- owners: [team:a]\n-- ---\n"
    (bare / "assets" / "a.sql").write_text(
        front
        + "DROP TABLE x;\n"
        + source("s")
        + front
        + "CREATE TABLE t (id INTT);\n"
        + front.replace("team:", "")
        + view("v")
    )
    assert errors(tidegate) == [
        ("TG109", "assets/a.sql", 1, 1),
        ("TG107", "assets/a.sql", 4, 1),
        ("TG207", "assets/a.sql", 10, 20),
        ("TG605", "assets/a.sql", 12, 12),
    ]


@pytest.mark.parametrize(
    ("broken", "place", "line"),
    [
        ("CREATE SINK k FROM v WITH (connector = 'console);\n", (6, 40), None),
        ("CREATE SINK k FROM v WITH (connector = 'console,\n  a = 'b');\n", (7, 9), 6),
        ("/* never ends\n", (6, 1), None),
    ],
)
def test_an_open_quote_hides_no_error_of_the_statements_before_it(
    bare: Path, tidegate: Call, broken: str, place: tuple[int, int], line: int | None
) -> None:
    front = "-- ---\n-- owners: [a]\n-- ---\n"
    last = front + "CREATE TABLE z (id INT);\n"
    (bare / "assets" / "a.sql").write_text(
        source("s") + view("v", what="sum(nope)") + "CREATE TABLE t (id INTT);\n" + broken + last
    )
    (bare / "assets" / "b.sql").write_text(SINK.format(name="y", of="z"))
    assert errors(tidegate) == [
        ("TG202", "assets/a.sql", 3, 68),
        ("TG207", "assets/a.sql", 5, 20),
        ("TG101", "assets/a.sql", *place),
    ]
    hint = found(tidegate)[1]["errors"][-1]["hint"]
    assert ("the quote that begins in line" in hint) is (line is not None)
    assert line is None or f"begins in line {line} ends in a later line" in hint


def test_a_string_that_is_meant_to_have_several_lines_is_not_taken_for_an_open_quote(
    bare: Path, tidegate: Call
) -> None:
    (bare / "assets" / "a.sql").write_text(
        "CREATE TABLE t (id INT, note VARCHAR COMMENT 'two\nlines; one') -- ; none here\n;\n"
        "CREATE TABLE u (id INTT);\nCREATE TABLE x (note VARCHAR COMMENT 'open);\nCREATE TABLE y (id INT);\n"
    )
    assert errors(tidegate) == [
        ("TG207", "assets/a.sql", 4, 20),
        ("TG101", "assets/a.sql", 5, 38),
    ]
    assert "begins in line" not in found(tidegate)[1]["errors"][-1]["hint"]


@pytest.mark.parametrize("bad", ["CREATE TABLE a1 (id INTT);\n", "CREATE TABLE a1 (id INT;\n"])
def test_a_name_is_taken_by_a_definition_with_an_error_too(bare: Path, tidegate: Call, bad: str) -> None:
    (bare / "assets" / "a.sql").write_text(
        bad + "CREATE TABLE a1 (x INT);\nCREATE MATERIALIZED VIEW v AS SELECT id FROM a1;\n"
    )
    found_errors = errors(tidegate)
    assert [e[2] for e in found_errors] == [1, 2]
    assert found_errors[1] == ("TG204", "assets/a.sql", 2, 14)
    assert found(tidegate)[1]["errors"][1]["hint"] == "it is defined at assets/a.sql:1"


def test_a_name_that_is_there_twice_means_the_first_whatever_is_wrong_with_the_second(
    bare: Path, tidegate: Call
) -> None:
    (bare / "assets" / "a.sql").write_text(
        source()
        + view("v", "u", "window_end")
        + view("u")
        + view("u", what="max(nope)")
        + "CREATE TABLE v (id INT);\n"
        + SINK.format(name="k", of="v")
        + SINK.format(name="K", of="nobody")
    )
    assert errors(tidegate) == [
        ("TG204", "assets/a.sql", 7, 26),
        ("TG202", "assets/a.sql", 7, 68),
        ("TG204", "assets/a.sql", 9, 14),
        ("TG204", "assets/a.sql", 11, 13),
        ("TG201", "assets/a.sql", 11, 20),
    ]
