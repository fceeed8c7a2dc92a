"""A run that uses a secret of every kind, with everything logged: a process of its own, started by `test_secrets.py`.

Prints what a person would see. Leaves what Spark's UI showed and what processes were called with in files.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import traceback
import urllib.error
import urllib.request
from pathlib import Path

import tidegate
from tidegate.alerts.send import send
from tidegate.alerts.state import Message
from tidegate.errors import TidegateError
from tidegate.jvm.java import java_class
from tidegate.live.http import read_token
from tidegate.masking import masked_traceback
from tidegate.session.session import Session
from tidegate.sql.catalog.objects import Relation
from tidegate.tasks.decode.binary.registry import registry_of


def main() -> None:
    """Where each line comes from is told before it."""
    logging.basicConfig(level=logging.DEBUG, filename="python.log")
    session = tidegate.connect(project=".", env="lake")
    Path("processes.txt").write_bytes(
        subprocess.run(["ps", "axww", "-o", "args"], capture_output=True).stdout
    )
    option = java_class(session.spark._jvm, "java.lang.System").getProperty("planted")
    print("OPTION", option == os.environ["OPTION_SECRET"])
    session.run(["readings", "per_minute", "to_files"])
    # A table that is compacted is read in a session that Spark makes itself.
    print(
        "COMPACTED",
        session.tables.upkeep(session.identifier("readings")).compact(least_files=2),
    )
    print("ROWS", session.table("per_minute").count())
    for statement in ("SHOW CREATE SOURCE orders", "DESCRIBE orders", "EXPLAIN orders"):
        print("SAID", session.execute(statement).rows())
    told("kafka", lambda: session.run(["orders"]))
    orders = session.catalog.get("orders")
    assert isinstance(orders, Relation)
    told("registry", lambda: registry_of(orders, session.project, None)[0].versions("orders"))  # type: ignore[index]
    told("rest", lambda: Session.open(".", "rest"))
    alerts = session.project.jobs().alerts
    assert alerts is not None
    print("TOLD alert", send(alerts.targets[0], Message("team", "title", "body", "failure", 0.0)))
    token = read_token(Path("token"))
    logging.getLogger("somebody").warning("a client sent %s", token)
    read_ui(session)
    session.spark.stop()


def told(what: str, action: object) -> None:
    """What is said of the error that `action` ends with."""
    try:
        action()  # type: ignore[operator]
    except TidegateError as error:
        print("TOLD", what, str(error), json.dumps(error.to_dict()))
        print(masked_traceback(error))
        logging.getLogger("somebody").exception("it failed")
        return
    print("NOT TOLD", what)


def read_ui(session: Session) -> None:
    """All pages that hold settings, plans and jobs."""
    base = session.spark.sparkContext.uiWebUrl
    assert base is not None
    application = session.spark.sparkContext.applicationId
    pages = ["environment/", "SQL/", "jobs/", "stages/"]
    pages += [
        f"api/v1/applications/{application}/{name}" for name in ("environment", "jobs", "sql?length=1000")
    ]
    refused = 0
    for page in pages:
        try:
            urllib.request.urlopen(f"{base}/{page}")
        except urllib.error.HTTPError as error:
            refused += error.code == 403
    print("REFUSED", refused, "of", len(pages))
    token = (session.project.state_dir / "logs" / "spark.ui-token").read_text().strip()
    header = {"Authorization": f"Bearer {token}"}

    def page_of(path: str) -> bytes:
        with urllib.request.urlopen(urllib.request.Request(f"{base}/{path}", headers=header)) as answer:
            return bytes(answer.read())

    found = [page_of(page) for page in pages]
    for execution in range(200):
        try:
            found.append(page_of(f"SQL/execution/?id={execution}"))
        except OSError:
            break
    Path("ui.txt").write_bytes(b"\n".join(found))


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
