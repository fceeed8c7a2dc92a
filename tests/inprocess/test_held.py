"""What the runner without a JVM makes of answers of its server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.client.core import SparkConnectClient

from tests.inprocess.session import open_session, without_a_jvm


@pytest.mark.medium
@pytest.mark.parametrize("lost", [1, 2])
def test_an_answer_that_cannot_be_read_is_asked_for_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.sql").write_text("CREATE TABLE t (k INT, ts TIMESTAMP) APPEND ONLY;")
    real, asked = SparkConnectClient.to_table, []

    def to_table(client: SparkConnectClient, *given: Any) -> Any:
        asked.append(given)
        if len(asked) <= lost:
            raise AssertionError
        return real(client, *given)

    with without_a_jvm():
        session = open_session(tmp_path)
        monkeypatch.setattr(SparkConnectClient, "to_table", to_table)
        frame = session.spark.sql("SELECT upper('x') AS x")
        if lost == 1:
            assert frame.collect() == [("X",)]
        else:
            with pytest.raises(AssertionError):
                frame.collect()
    assert len(asked) == 2
